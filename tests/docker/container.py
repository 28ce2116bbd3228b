"""Carries out on this machine what a Dockerfile says, where there is no container engine to do it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.docker.dockerfile import ROOT, Stage, stages

CONTAINED = Path(__file__).with_name("contained.sh")
IMAGE_PREFIX = "/opt/duplex-gateway"
IMAGE_HOME = "/var/lib/duplex-gateway"
IMAGE_SCRIPTS = "/opt/docker"
USER = 10001
START_DEADLINE_S = 60.0
STOP_DEADLINE_S = 3.0
"""`docker stop` kills after 10 s; the gateway promises 3."""


def containable() -> bool:
    """Say whether this machine lets us make namespaces: Linux, as root."""
    needed = ("unshare", "nsenter", "setpriv", "ip")
    return sys.platform == "linux" and os.geteuid() == 0 and all(shutil.which(name) for name in needed)


@dataclass(frozen=True)
class Image:
    """What an image would hold, in folders of this machine: its environment, its scripts, its data folder."""

    folder: Path
    variant: str
    final: Stage

    @property
    def prefix(self) -> Path:
        return self.folder / "prefix"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def context(self) -> Path:
        return self.folder / "context"

    def here(self, text: str) -> str:
        """Return `text` with the image's paths replaced by those on this machine."""
        places = {IMAGE_PREFIX: self.prefix, IMAGE_HOME: self.home, IMAGE_SCRIPTS: self.context / "docker"}
        for inside, outside in places.items():
            text = text.replace(inside, str(outside))
        return text

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run `duplex-gateway arguments` with this machine's rights and network: what fills a volume."""
        return subprocess.run(
            [str(self.prefix / "bin" / "duplex-gateway"), *arguments],
            env={**os.environ, **self.environment(**variables)},
            cwd=self.home,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def give_volume_away(self) -> None:
        """Make the data folder the user's, as the volume of a container is."""
        for path in (self.home, *self.home.rglob("*")):
            os.chown(path, USER, USER, follow_symlinks=False)

    def environment(self, **variables: str) -> dict[str, str]:
        """Return the environment of a container: the image's ENV lines and `variables`, nothing of ours."""
        told = {name: self.here(value) for name, value in self.final.environment(self.variant).items()}
        told["PATH"] = told["PATH"].replace("$PATH", os.defpath)
        return {**told, "PREFIX": str(self.prefix), "HOME": str(self.home), **variables}


@contextmanager
def built(dockerfile: Path, variant: str, *, weights: Path | None = None) -> Iterator[Image]:
    """Do what the build stages of `dockerfile` do with the gateway's own scripts. Raises CalledProcessError.

    Not in /tmp, which a container has for itself. `weights`: a store whose files needn't be fetched again.
    """
    _, found = stages(dockerfile)
    with tempfile.TemporaryDirectory(prefix="duplex-image-", dir="/var/tmp") as name:
        image = Image(Path(name), variant, found[-1])
        image.folder.chmod(0o755)
        image.context.mkdir()
        image.home.mkdir()
        if weights is not None and weights.is_dir():
            shutil.copytree(weights, image.home / "weights", copy_function=_link)
        (build,) = (stage for stage in found if stage.base.endswith("AS build"))
        for sources, destination in [*build.copied(), *image.final.copied()]:
            _copy(sources, image.context / "docker" if destination.rstrip("/").endswith("docker") else image.context)
        variables = {**os.environ, "PREFIX": str(image.prefix), "DUPLEX_GATEWAY_HOME": str(image.home)}
        variables["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{variables['PATH']}"  # uv, as pip put it there
        for command in build.runs(variant):
            if "docker/install.sh" in command:  # the others prepare the base image
                subprocess.run(["sh", "-c", command], cwd=image.context, env=variables, check=True, timeout=300)
        yield image


def _copy(sources: Sequence[str], destination: Path) -> None:
    for source in sources:
        target = destination / Path(source).name
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, target, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / source, target)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy(source, target)


class Container:
    """A container of `image`: `docker run --read-only --tmpfs /tmp:exec --network none … arguments`."""

    def __init__(
        self, image: Image, *arguments: str, volume: bool = False, tmp_options: str = "exec", **variables: str
    ) -> None:
        self._image = image
        self._environment = image.environment(**variables)
        self._command = [*self._contained(volume), *map(image.here, image.final.last("ENTRYPOINT").command), *arguments]
        self._tmp_options = tmp_options
        self._log = image.folder / "log"
        self._process: subprocess.Popen[bytes] | None = None

    def _contained(self, volume: bool) -> list[str]:
        home = Path(sys.base_prefix).resolve()
        locked = [folder for folder in home.parents if not folder.stat().st_mode & 0o001]
        return [
            str(CONTAINED),
            str(self._image.home) if volume else "",
            str(home),
            str(locked[-1]) if locked else "",
        ]

    def __enter__(self) -> Self:
        """Start it; whether it lives is for the caller to ask."""
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command,
                env={**self._environment, "TMP_OPTIONS": self._tmp_options},
                cwd=self._image.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Kill it if it is still there."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    @property
    def output(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def healthy(self) -> bool:
        """Say what the image's HEALTHCHECK says."""
        check = [*map(self._image.here, self._image.final.last("HEALTHCHECK").command)]
        check[0] = str(self._image.prefix / "bin" / check[0])
        return self.run(check, self._environment).returncode == 0

    def wait_healthy(self) -> None:
        """Ask as the engine does until it is. Raises AssertionError with what it said."""
        assert self._process is not None
        deadline = time.monotonic() + START_DEADLINE_S
        while not self.healthy():
            assert self._process.poll() is None, self.output
            assert time.monotonic() < deadline, self.output
            time.sleep(1.0)  # it costs a start of Python

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """Run `command` beside it: on its network, with the files of this machine."""
        assert self._process is not None
        network = ["nsenter", f"--net=/proc/{self._process.pid}/ns/net", "--"]
        return subprocess.run(
            [*network, *command],
            env=dict(environment),
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def turn(self, turn: str, key: str) -> tuple[int, str]:
        """Take a turn beside it (`stock_turn.py`): return the bytes of audio, and what was heard or else said."""
        client = [sys.executable, "-m", "tests.docker.stock_turn", "http://127.0.0.1:8765/v1", key, turn]
        done = self.run(client, os.environ)
        assert done.returncode == 0, done.stderr + self.output
        audio_bytes, _, words = done.stdout.strip().partition(" ")
        return int(audio_bytes), words

    def wait(self, deadline_s: float) -> int:
        """Return its exit status."""
        assert self._process is not None
        return self._process.wait(deadline_s)

    def stop(self) -> int:
        """Do what `docker stop` does and return its exit status. Raises TimeoutExpired if it doesn't want to."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(STOP_DEADLINE_S)
