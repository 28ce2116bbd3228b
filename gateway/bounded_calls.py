"""Runs blocking calls side by side for a bounded time: what isn't answered by then is left behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class _Call(Generic[T]):
    """One call in a thread of its own, which keeps no process from ending: a name server may think for a minute."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self.result: T | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        self.result = self._call()


def within(limit_s: float, calls: Sequence[Callable[[], T]]) -> list[T | None]:
    """Return what `calls` return, None for those that take longer than `limit_s` from now. They must not raise."""
    running = [_Call(call) for call in calls]
    until_s = time.monotonic() + limit_s
    for call in running:
        call.thread.join(max(0.0, until_s - time.monotonic()))
    return [call.result for call in running]
