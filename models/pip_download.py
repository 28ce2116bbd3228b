"""Runs `pip download` of this Python in a child process."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from models.child_process import ChildResult, run_child

PipRunner = Callable[[Sequence[str], Path, Callable[[], None]], ChildResult]
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


def run_pip(arguments: Sequence[str], temporary: Path, tick: Callable[[], None]) -> ChildResult:
    """Run pip, see PipRunner. The child is killed when this call is interrupted."""
    # Constraints would clash with required hashes; a user's "only inside a venv" rule is about installing.
    environment = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}
    environment |= {"PIP_REQUIRE_VIRTUALENV": "0", "PYTHONIOENCODING": "utf-8", "LC_ALL": "C.UTF-8"}
    return run_child([sys.executable, "-P", "-m", "pip", *arguments], environment, temporary, tick)
