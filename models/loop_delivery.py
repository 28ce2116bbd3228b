"""Brings results of worker threads to futures on event loops, with one wake-up of the loop for many results."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from typing import Any


class LoopDelivery:
    """Collects outcomes in any thread and sets them on their futures in the futures' own loops.

    Waking an event loop costs a system call; while a wake-up is on its way, further results ride along with it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._outbox: defaultdict[
            asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any, BaseException | None]]
        ] = defaultdict(list)

    def deliver(self, future: asyncio.Future[Any], *, result: Any = None, error: BaseException | None = None) -> None:
        """Resolve `future` soon; one that is done (cancelled) or whose loop is closed stays as it is."""
        loop = future.get_loop()
        with self._lock:
            outbox = self._outbox[loop]
            outbox.append((future, result, error))
            first = len(outbox) == 1
        if first:
            self._wake(loop)

    def deliver_all(self, outcomes: list[tuple[asyncio.Future[Any], Any, BaseException | None]]) -> None:
        """Resolve many futures with one wake-up for each loop."""
        woken = set()
        with self._lock:
            for outcome in outcomes:
                loop = outcome[0].get_loop()
                if not self._outbox[loop]:
                    woken.add(loop)
                self._outbox[loop].append(outcome)
        for loop in woken:
            self._wake(loop)

    def _wake(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            loop.call_soon_threadsafe(self._resolve, loop)
        except RuntimeError:  # the loop is closed: its futures have no reader left
            with self._lock:
                self._outbox.pop(loop, None)

    def _resolve(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            outcomes = self._outbox.pop(loop, [])
        for future, result, error in outcomes:
            if future.done():
                continue
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)
