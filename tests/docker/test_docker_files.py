"""The images' files, linted, and what they promise: no engine is needed to read them."""

from __future__ import annotations

import fnmatch
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from gateway.settings import table
from tests.docker.dockerfile import DOCKER, ROOT, Stage, stages

DOCKERFILES = sorted(DOCKER.glob("Dockerfile.*"))
COMPOSE_FILES = sorted(DOCKER.glob("compose*.yaml"))
ENVIRONMENT = {entry.env: entry for entry in table()}
PINNED = re.compile(r"[\w./-]+:[\w.-]*\d[\w.-]*")


def tool(name: str) -> str:
    """Return the path of a linter that its package brings, or skip where that has no wheel (pyproject.toml)."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None and platform.machine() == "aarch64":
        pytest.skip(f"{name} has no wheel for this machine")
    assert found is not None, f"{name} is missing: install the extra `test` again"
    return found


def lint(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def compose(name: str = "compose.yaml") -> dict[str, Any]:
    found: dict[str, Any] = YAML(typ="safe").load(DOCKER / name)
    return found


# --- linters -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.name)
def test_hadolint_finds_nothing_in_a_dockerfile(dockerfile: Path) -> None:
    lint(tool("hadolint"), "--failure-threshold", "info", dockerfile)


def test_shellcheck_finds_nothing_in_the_scripts() -> None:
    scripts = sorted([*DOCKER.glob("*.sh"), *Path(__file__).parent.glob("*.sh")])
    assert len(scripts) == 3
    lint(tool("shellcheck"), "--norc", *scripts)


def test_the_compose_files_meet_the_specifications_schema() -> None:
    assert len(COMPOSE_FILES) == 2
    lint(tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", *COMPOSE_FILES)


# --- Dockerfiles ---------------------------------------------------------------------------------------------------


def final(dockerfile: Path) -> Stage:
    return stages(dockerfile)[1][-1]


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.name)
def test_base_images_are_pinned(dockerfile: Path) -> None:
    before, found = stages(dockerfile)
    bases = [instruction.rest.split("=", 1)[1] for instruction in before]
    assert all(PINNED.fullmatch(base) for base in bases), bases
    named = {stage.base.split(" AS ")[-1] for stage in found}
    for stage in found:
        base = stage.base.split()[0]
        assert base.startswith("${") or base in named, base


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.name)
def test_the_user_is_a_number_without_rights(dockerfile: Path) -> None:
    # A number, since Kubernetes' runAsNonRoot cannot look a name up.
    assert final(dockerfile).last("USER").rest == "10001:10001"


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.name)
def test_what_runs_gets_the_signals(dockerfile: Path) -> None:
    stage = final(dockerfile)
    assert stage.last("ENTRYPOINT").command == ["/opt/docker/start.sh"]
    assert stage.last("CMD").command == ["serve"]
    assert (DOCKER / "start.sh").read_text(encoding="utf-8").rstrip().splitlines()[-1].startswith("exec ")


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.name)
def test_health_is_asked_from_inside_on_the_port_that_is_exposed(dockerfile: Path) -> None:
    stage = final(dockerfile)
    assert stage.last("HEALTHCHECK").command == ["python", "/opt/docker/healthcheck.py"]
    (port,) = (entry.default for entry in table() if entry.name == "port")
    assert stage.last("EXPOSE").rest == str(port)


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.name)
def test_settings_in_an_image_exist(dockerfile: Path) -> None:
    ours = {name for name in final(dockerfile).environment("quality") if name.startswith("DUPLEX_GATEWAY_")}
    assert ours <= set(ENVIRONMENT), ours


def let_through(path: str) -> bool:
    """Say whether .dockerignore lets a file or folder into the build context: its last matching line decides."""
    kept = True
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        pattern = line.removeprefix("!").removeprefix("**/")
        if line.startswith("#") or not line:
            continue
        parents = ["/".join(path.split("/")[:depth]) for depth in range(1, path.count("/") + 2)]
        names = path.split("/") if line.startswith("**/") else parents
        if any(fnmatch.fnmatch(name, pattern) for name in names):
            kept = line.startswith("!")
    return kept


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.name)
def test_what_is_copied_exists_and_is_let_through(dockerfile: Path) -> None:
    sources = [source for stage in stages(dockerfile)[1] for copied, _ in stage.copied() for source in copied]
    assert sources
    for source in sources:
        assert (ROOT / source).exists(), source
        assert let_through(source), source


def test_nothing_else_gets_into_the_build_context() -> None:
    copied = {
        source.split("/")[0]
        for path in DOCKERFILES
        for stage in stages(path)[1]
        for c, _ in stage.copied()
        for source in c
    }
    kept = {path.name for path in ROOT.iterdir() if let_through(path.name)}
    assert kept == copied
    for path in (".env", ".git/config", "tests/data/speech/something.wav", "gateway/__pycache__/app.pyc"):
        assert not let_through(path), path
    assert let_through("gateway/endpoints/paths.py")


def test_the_two_images_say_the_same_of_all_that_is_not_their_base() -> None:
    cpu, cuda = final(DOCKER / "Dockerfile.cpu"), final(DOCKER / "Dockerfile.cuda")
    for word in ("COPY", "USER", "WORKDIR", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"):
        assert cpu.all(word) == cuda.all(word)
    assert cuda.environment("quality") == cpu.environment("quality") | {"DUPLEX_GATEWAY_DEVICE": "cuda"}


def started(tmp_path: Path, **environment: str) -> dict[str, str]:
    """Start what the image starts, with a program in the gateway's place that tells its environment; return that."""
    program = tmp_path / "bin" / "duplex-gateway"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\nexec env\n", encoding="utf-8")
    program.chmod(0o755)
    done = subprocess.run(
        ["sh", str(DOCKER / "start.sh"), "serve"],
        env={"PATH": os.environ["PATH"], "PREFIX": str(tmp_path), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return {"refused": done.stderr}
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)


def test_every_secret_may_come_as_a_file(tmp_path: Path) -> None:
    names = [entry.env for entry in table() if entry.secret] + ["REMOTE_OPENAI_API_KEY", "REMOTE_MY_MAC_2_API_KEY"]
    for name in names:
        (tmp_path / name).write_text(f"secret of {name}\n", encoding="utf-8")
    told = started(tmp_path, **{f"{name}_FILE": str(tmp_path / name) for name in names})
    assert {name: told.get(name) for name in names} == {name: f"secret of {name}" for name in names}


def test_no_other_file_is_read_and_one_that_is_not_there_is_told(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret\n", encoding="utf-8")
    file = str(tmp_path / "secret")
    others = {"REMOTE_OPENAI_MODEL_FILE": file, "MY_REMOTE_X_API_KEY_FILE": file}
    told = started(tmp_path / "one", **others, NOTE=f"two lines\nREMOTE_Y_API_KEY_FILE={file}")
    assert "secret" not in told.values()
    missing = started(tmp_path / "two", REMOTE_OPENAI_API_KEY_FILE="/run/secrets/none")
    assert missing["refused"].startswith("start.sh: REMOTE_OPENAI_API_KEY_FILE names no file that user")


# --- compose -------------------------------------------------------------------------------------------------------


def test_ports_are_bound_to_loopback_and_the_language_models_to_none() -> None:
    services = compose()["services"]
    assert services["gateway"]["ports"] == ["127.0.0.1:8765:8765"]
    assert "ports" not in services["llm"]


def test_the_gateway_waits_for_the_language_model_and_reaches_it_by_name() -> None:
    services = compose()["services"]
    gateway, llm = services["gateway"], services["llm"]
    assert gateway["depends_on"] == {"llm": {"condition": "service_healthy"}}
    assert llm["healthcheck"]["test"][0] == "CMD"
    settings = gateway["environment"]
    assert settings["FOREGROUND_BASE_URL"] == f"http://llm:{llm['environment']['LLAMA_ARG_PORT']}/v1"
    assert settings["FOREGROUND_MODEL"] == llm["environment"]["LLAMA_ARG_ALIAS"]
    assert set(settings) <= set(ENVIRONMENT)


def test_a_key_must_be_chosen() -> None:
    key = compose()["services"]["gateway"]["environment"]["DUPLEX_GATEWAY_API_KEY"]
    assert key.startswith("${DUPLEX_GATEWAY_API_KEY:?")


@pytest.mark.parametrize("service", ["gateway", "llm"])
def test_a_service_can_write_nothing_but_its_volume_and_tmp(service: str) -> None:
    body = compose()["services"][service]
    assert body["read_only"] is True
    assert body["cap_drop"] == ["ALL"]
    assert body["security_opt"] == ["no-new-privileges:true"]
    (volume,) = body["volumes"]
    assert volume.split(":")[0] in compose()["volumes"]
    assert [mount.split(":")[0] for mount in body["tmpfs"]] == ["/tmp"]


def test_volumes_lie_where_models_are_kept() -> None:
    services = compose()["services"]
    home = final(DOCKER / "Dockerfile.cpu").environment("quality")["DUPLEX_GATEWAY_HOME"]
    assert services["gateway"]["volumes"] == [f"models:{home}"]
    assert services["llm"]["volumes"] == [f"llm-models:{services['llm']['environment']['LLAMA_CACHE']}"]


def test_foreign_images_are_pinned_and_the_gpu_file_changes_services_that_exist() -> None:
    base, cuda = compose()["services"], compose("compose.cuda.yaml")["services"]
    assert set(cuda) == set(base)
    for services in (base, cuda):
        assert PINNED.fullmatch(services["llm"]["image"])
    build = cuda["gateway"]["build"]["dockerfile"]
    assert (ROOT / build).is_file()
    assert base["llm"]["image"].split("-")[-1] == cuda["llm"]["image"].split("-")[-1]  # the same release
