"""Runs `pip download` of this Python in a child process."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

TICK_S = 0.25
"""How often `tick` is called while pip works."""


@dataclass(frozen=True, slots=True)
class PipResult:
    """How pip ended: its exit status and all it printed."""

    returncode: int
    output: str


PipRunner = Callable[[Sequence[str], Path, Callable[[], None]], PipResult]
"""Runs pip with arguments, with a folder for its temporary files, calling `tick` now and then."""


def download_arguments(requirements: Path, destination: Path, platform: str) -> list[str]:
    """Return pip's arguments to put the one wheel for `platform` that `requirements` pins into `destination`.

    No index is named: the user's own configuration decides. The interpreter tags are fixed, so that any Python on any
    operating system gets the same file.
    """
    return [
        "download",
        "--disable-pip-version-check",
        "--no-input",
        "--no-cache-dir",  # the store is the cache
        "--progress-bar=off",
        "--no-deps",
        "--only-binary=:all:",
        f"--platform={platform}",
        "--python-version=3.11",
        "--implementation=py",
        "--abi=none",
        "--require-hashes",
        f"--requirement={requirements}",
        f"--dest={destination}",
    ]


def run_pip(arguments: Sequence[str], temporary: Path, tick: Callable[[], None]) -> PipResult:
    """Run pip, see PipRunner. The child is killed when this call is interrupted."""
    # Constraints would clash with required hashes; a user's "only inside a venv" rule is about installing.
    environment = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}
    environment |= {"TMPDIR": str(temporary), "TEMP": str(temporary), "TMP": str(temporary)}
    environment |= {"PIP_REQUIRE_VIRTUALENV": "0", "PYTHONIOENCODING": "utf-8", "LC_ALL": "C.UTF-8"}
    with tempfile.TemporaryFile(dir=temporary) as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "pip", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
        )
        try:
            while True:
                try:
                    process.wait(TICK_S)
                    break
                except subprocess.TimeoutExpired:
                    tick()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        output.seek(0)
        return PipResult(process.returncode, output.read().decode("utf-8", "replace"))
