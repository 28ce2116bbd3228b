"""Reads a Dockerfile: its stages and what each says."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
DOCKER = ROOT / "docker"


@dataclass(frozen=True)
class Instruction:
    """One instruction: its keyword, and the rest of its lines joined."""

    word: str
    rest: str

    @property
    def command(self) -> list[str]:
        """Return the words of one in exec form. Raises ValueError for the shell's form."""
        found: list[str] = json.loads(self.rest[self.rest.index("[") :])
        return found


@dataclass(frozen=True)
class Stage:
    """From one FROM to the next."""

    base: str
    instructions: tuple[Instruction, ...]

    def all(self, word: str) -> list[Instruction]:
        return [instruction for instruction in self.instructions if instruction.word == word]

    def last(self, word: str) -> Instruction:
        return self.all(word)[-1]

    def runs(self, variant: str) -> list[str]:
        """Return the shell commands that it runs."""
        return [_with(variant, run.rest) for run in self.all("RUN")]

    def environment(self, variant: str) -> dict[str, str]:
        """Return what its ENV lines set."""
        words = [word for env in self.all("ENV") for word in shlex.split(_with(variant, env.rest))]
        return dict(word.split("=", 1) for word in words)

    def copied(self) -> list[tuple[list[str], str]]:
        """Return what it takes from the build context: sources and destination."""
        found = []
        for copy in self.all("COPY"):
            *sources, destination = [word for word in shlex.split(copy.rest) if not word.startswith("--")]
            if "--from=" not in copy.rest:
                found.append((sources, destination))
        return found


def _with(variant: str, text: str) -> str:
    return text.replace("${VARIANT}", variant)


def stages(path: Path) -> tuple[list[Instruction], list[Stage]]:
    """Return what stands before the first FROM, and the stages."""
    text = "".join(line for line in path.read_text(encoding="utf-8").splitlines(True) if not line.startswith("#"))
    words = [line.strip().split(None, 1) for line in re.sub(r"\\\n\s*", " ", text).splitlines() if line.strip()]
    instructions = [Instruction(word, rest) for word, rest in words]
    starts = [at for at, instruction in enumerate(instructions) if instruction.word == "FROM"]
    ends = [*starts[1:], len(instructions)]
    found = [
        Stage(instructions[start].rest, tuple(instructions[start + 1 : end]))
        for start, end in zip(starts, ends, strict=True)
    ]
    return instructions[: starts[0]], found
