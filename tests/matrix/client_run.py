"""Runs a client's driver against a gateway and keeps what it reported."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.matrix.environments import Environment

DRIVERS = Path(__file__).parent / "drivers"

STEPS = ("connected", "spoken_turn", "tool", "barge_in", "cancel", "truncate", "left")
"""The dialogue, in its order (drivers/dialogue.py)."""

DRIVER_DEADLINE_S = 180.0
"""Longest dialogue. One takes about 15 s, of which 6 s are spoken."""

Facts = dict[str, Any]


class DriverError(Exception):
    """A driver failed. The text holds its steps so far and its last words."""


@dataclass(frozen=True)
class Dialogue:
    """What one driver reported, by step."""

    facts: Mapping[str, Facts]

    def __getitem__(self, step: str) -> Facts:
        return self.facts[step]

    @property
    def skipped(self) -> dict[str, str]:
        """Return the steps that the library has no API for, with the driver's reason."""
        return {step: facts["skipped"] for step, facts in self.facts.items() if "skipped" in facts}


def run_driver(
    environment: Environment, driver: str, variables: Mapping[str, str], steps: Sequence[str] = STEPS
) -> Dialogue:
    """Run `drivers/<driver>` to its end. Raises DriverError if it fails, hangs, or reports other steps than `steps`."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "PYTHON"))}
    program = DRIVERS / driver
    if program.suffix == ".mjs":
        # Node looks for packages above the program itself: it has to lie in its environment.
        program = environment.folder / "drivers" / driver
        shutil.copytree(
            DRIVERS, program.parent, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.py", "__pycache__")
        )
    with subprocess.Popen(
        [*environment.command, str(program)],
        env={**inherited, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as process:
        try:
            out, err = process.communicate(timeout=DRIVER_DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise DriverError(f"{driver} did not end within {DRIVER_DEADLINE_S:.0f} s:\n{out}{err[-4000:]}") from None
    if process.returncode:
        raise DriverError(f"{driver} ended with {process.returncode}:\n{out}{err[-4000:]}")
    reported = [json.loads(line) for line in out.splitlines() if line.startswith('{"step"')]
    told = [line["step"] for line in reported]
    if told != list(steps):
        raise DriverError(f"{driver} reported {told}:\n{out}{err[-4000:]}")
    return Dialogue({line.pop("step"): line for line in reported})
