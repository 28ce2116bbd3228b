"""What the doctor finds: one line a check, and one line of advice for whatever is not as it should be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    """How a check went. WARN: a conversation works, but worse than it could."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check of one role. `figures` are what was measured, units in their names."""

    role: str
    check: str
    verdict: Verdict
    detail: str
    advice: str = ""
    figures: dict[str, float] = field(default_factory=dict)

    def lines(self) -> Iterable[str]:
        """Return what the console shows."""
        yield f"{self.verdict:<4}  {self.role + ': ' + self.check:<24}  {self.detail}"
        if self.advice:
            yield f"      {'':<24}  -> {self.advice}"

    def as_json(self) -> dict[str, Any]:
        """Return it for machines."""
        return {
            "role": self.role,
            "check": self.check,
            "verdict": self.verdict,
            "detail": self.detail,
            "advice": self.advice,
            "figures": {name: round(value, 3) for name, value in self.figures.items()},
        }


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is wrong, and the one thing to do about it."""

    detail: str
    advice: str
    verdict: Verdict = Verdict.FAIL

    def of(self, role: str, check: str, **figures: float) -> Finding:
        """Return it as what a check found."""
        return Finding(role, check, self.verdict, self.detail, self.advice, figures)


def sound(role: str, check: str, detail: str, **figures: float) -> Finding:
    """Return the finding that all is as it should be."""
    return Finding(role, check, Verdict.OK, detail, figures=figures)
