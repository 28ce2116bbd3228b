"""An event loop whose clock jumps: it stands still while something computes, and skips all waiting.

Whatever asks the loop for time (`call_later`, `asyncio.sleep`, `asyncio.timeout`, the gateway's session clock) lives in
its time. A test or a bench of an hour's conversation then takes as long as its computation, and comes out the same on a
slow machine and a busy one.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualLoop(asyncio.SelectorEventLoop):
    """Time moves to the next timer once nothing can run and no work is under way.

    Work is what is inside `working()` and what `run_in_executor` runs. Work in other threads that is not told about
    finds that time has moved on meanwhile.
    """

    def __init__(self) -> None:
        self._now_s = 0.0
        self._work = 0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        """Return the seconds of virtual time since the loop was made."""
        return self._now_s

    @contextmanager
    def working(self) -> Iterator[None]:
        """Hold the clock: what happens inside computes for real."""
        self._work += 1
        try:
            yield
        finally:
            self._work -= 1

    def run_in_executor(  # type: ignore[override]  # typeshed's has TypeVarTuples that a subclass can't repeat
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Do as every loop does, and hold the clock until it is done."""
        future: asyncio.Future[T] = super().run_in_executor(executor, func, *args)
        self._work += 1
        future.add_done_callback(self._done)
        return future

    def _done(self, _future: asyncio.Future[Any]) -> None:
        self._work -= 1

    @property
    def busy(self) -> bool:
        """Say whether something computes, so that time stands still."""
        return self._work > 0

    def jump(self, duration_s: float) -> None:
        """Move the clock on."""
        self._now_s += duration_s


class _JumpingSelector(selectors.BaseSelector):
    """Waits for files and wake-ups only as long as something computes, and moves the loop's clock instead."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._files = selectors.DefaultSelector()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return self._files.select(0)
        if self._loop.busy or timeout is None:  # None: nothing is due ever, so only a file or a signal goes on
            return self._files.select(None)
        ready = self._files.select(0)
        if not ready:
            self._loop.jump(timeout)
        return ready

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._files.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._files.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._files.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._files.get_map()

    def close(self) -> None:
        self._files.close()
