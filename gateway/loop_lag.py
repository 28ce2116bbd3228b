"""How late the event loop runs: the one number that says whether every session is served in time."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from dataclasses import dataclass

PERIOD_S = 0.02
"""One look per 20 ms, the length of a usual audio append."""

WINDOW_LOOKS = int(60 / PERIOD_S)
"""The figures cover the last minute."""


@dataclass(frozen=True, slots=True)
class Lateness:
    """Percentiles of how late the loop woke the probe, in milliseconds."""

    p50_ms: float
    p99_ms: float
    max_ms: float


class LoopLag:
    """A probe that sleeps 20 ms at a time and notes by how much it overslept.

    Overflow rule: the oldest look is forgotten.
    """

    def __init__(self) -> None:
        self._late_ms: deque[float] = deque(maxlen=WINDOW_LOOKS)

    async def run(self) -> None:
        """Measure until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + PERIOD_S
            await asyncio.sleep(PERIOD_S)
            self.note((loop.time() - due) * 1000)

    def note(self, late_ms: float) -> None:
        """Add one look; timers may fire a hair early, which counts as in time."""
        self._late_ms.append(max(0.0, late_ms))

    def reset(self) -> None:
        """Forget all looks, so that a load test measures only itself."""
        self._late_ms.clear()

    def lateness(self) -> Lateness:
        """Return the figures of the last minute; zeros before the first look."""
        ordered = sorted(self._late_ms)
        if not ordered:
            return Lateness(0.0, 0.0, 0.0)
        return Lateness(_nearest_rank(ordered, 0.50), _nearest_rank(ordered, 0.99), round(ordered[-1], 3))


def _nearest_rank(ordered: list[float], share: float) -> float:
    return round(ordered[max(0, math.ceil(share * len(ordered)) - 1)], 3)
