"""Time that a test feeds: the gateway clock, the engines' sleep and the loop's timers, none of which waits."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from typing import Any

from protocol.audio_time import SESSION_RATE_HZ, Samples, samples_from_ms

LOOP_TURNS = 40
"""Turns of the event loop after which scripted engines, a backend and a session have nothing more to do at once."""


async def settle() -> None:
    """Let everything run that can run without time passing: until nobody else is ready, or LOOP_TURNS are over."""
    ready: deque[Any] = asyncio.get_running_loop()._ready  # the loop's private queue: an hour has 800,000 idle turns
    for _ in range(LOOP_TURNS):
        await asyncio.sleep(0)
        if not ready:
            return


class FedTimer:
    """What the loop's `call_later` returns here."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call = call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FedTime:
    """`now` in samples. `sleep` and the loop's timers end when `advance` has come to their time, in order of time."""

    def __init__(self) -> None:
        self.samples: Samples = 0
        self._due: list[tuple[Samples, int, FedTimer]] = []
        self._count = 0

    def now(self) -> Samples:
        return self.samples

    def call_later(self, delay_s: float, callback: Callable[..., Any], *args: Any, **_context: Any) -> FedTimer:
        timer = FedTimer(lambda: callback(*args))
        self._count += 1
        heapq.heappush(self._due, (self.samples + round(delay_s * SESSION_RATE_HZ), self._count, timer))
        return timer

    async def sleep(self, delay_s: float) -> None:
        over = asyncio.Event()
        timer = self.call_later(delay_s, over.set)
        try:
            await over.wait()
        finally:
            timer.cancel()

    @property
    def waiting(self) -> int:
        """How many timers are armed."""
        return sum(not timer.cancelled for _, _, timer in self._due)

    async def advance(self, duration_ms: int) -> None:
        """Move time on, stopping wherever something is due."""
        await settle()
        until = self.samples + samples_from_ms(duration_ms)
        while self._due and self._due[0][0] <= until:
            at, _, timer = heapq.heappop(self._due)
            if timer.cancelled:
                continue
            self.samples = max(self.samples, at)
            timer.call()
            await settle()
        self.samples = until
