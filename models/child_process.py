"""Runs another program to its end, with its output kept and none of it left behind when we are interrupted."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

TICK_S = 0.25
"""How often `tick` is called while the program works."""


@dataclass(frozen=True, slots=True)
class ChildResult:
    """How a program ended: its exit status and all it printed."""

    returncode: int
    output: str


def run_child(
    command: Sequence[str], environment: Mapping[str, str], temporary: Path, tick: Callable[[], None]
) -> ChildResult:
    """Run `command` in the folder `temporary`, which is also where it puts temporary files, calling `tick` meanwhile.

    The child is killed when this call is interrupted.
    """
    folders = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary))
    with tempfile.TemporaryFile(dir=temporary) as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**environment, **folders},
            cwd=temporary,
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
        return ChildResult(process.returncode, output.read().decode("utf-8", "replace"))
