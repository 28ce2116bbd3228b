"""The engine calls of one session: started at once, cancelled by key, reaped off the critical path."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from typing import TypeVar

from models.interfaces import EngineError

logger = logging.getLogger(__name__)

REAP_DEADLINE_S = 2.0
"""How long a closing session waits for cancelled calls; an engine deaf to cancellation is left behind (chosen)."""

T = TypeVar("T")


async def answer_of(call: Awaitable[T]) -> T:
    """Return an engine's answer. Raises EngineError, whatever the engine threw."""
    try:
        return await call
    except EngineError:
        raise
    except Exception as error:
        raise _unforeseen(error) from error


async def pieces_of(stream: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    """Yield an engine's pieces and close its stream. Raises EngineError, whatever the engine threw."""
    try:
        async with aclosing(stream) as pieces:
            async for piece in pieces:
                yield piece
    except EngineError:
        raise
    except Exception as error:
        raise _unforeseen(error) from error


def _unforeseen(error: Exception) -> EngineError:
    """Log what an adapter did not foresee. It ends a response like any failure of an engine, never the session."""
    logger.error("an engine failed unexpectedly", exc_info=error)
    return EngineError("engine_error", "An engine failed unexpectedly; the gateway's log says more.")


class EngineWork:
    """Tasks by key. Not a TaskGroup, since that waits for its last task however deaf to cancellation it is."""

    def __init__(self, on_bug: Callable[[BaseException], None]) -> None:
        self._on_bug = on_bug
        self._tasks: dict[str, set[asyncio.Task[None]]] = {}

    @property
    def running(self) -> int:
        """How many calls run, cancelled ones that have not ended included."""
        return sum(len(group) for group in self._tasks.values())

    def start(self, key: str, work: Coroutine[None, None, None]) -> None:
        """Run `work`; an exception that it lets out goes to `on_bug`."""
        task = asyncio.create_task(work)
        self._tasks.setdefault(key, set()).add(task)
        task.add_done_callback(lambda done: self._ended(key, done))

    def _ended(self, key: str, task: asyncio.Task[None]) -> None:
        group = self._tasks[key]
        group.discard(task)
        if not group:
            del self._tasks[key]
        if not task.cancelled() and (bug := task.exception()) is not None:
            self._on_bug(bug)

    def cancel(self, key: str) -> None:
        """Cancel what runs under `key`. Nobody waits for it."""
        for task in self._tasks.get(key, ()):
            task.cancel()

    async def close(self) -> None:
        """Cancel everything and wait for it, but no longer than the deadline."""
        tasks = {task for group in self._tasks.values() for task in group}
        for task in tasks:
            task.cancel()
        if not tasks:
            return
        _, deaf = await asyncio.wait(tasks, timeout=REAP_DEADLINE_S)
        if deaf:
            logger.warning("%d engine calls ignored their cancellation and were left behind", len(deaf))
