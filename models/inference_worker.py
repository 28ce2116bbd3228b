"""Worker threads for inference: one queue in order of urgency, and results brought back to the event loop in bundles.

Inference holds the CPU for milliseconds to seconds and releases the interpreter lock, so it runs in a few threads of
its own. What is urgent to the ear goes first; what nobody waits for any more is dropped or stopped.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, TypeVar

from models.loop_delivery import LoopDelivery

logger = logging.getLogger(__name__)

T = TypeVar("T")

JOIN_DEADLINE_S = 5.0
"""How long `aclose` waits for a running job to end; beyond it the daemon thread is left behind (chosen)."""


class Priority(IntEnum):
    """Order of the queue: the smaller, the sooner. Equal ones go first come, first served."""

    VAD = 0
    ASR_FINAL = 1
    END_OF_TURN = 2
    TTS_FIRST = 3
    TTS_REST = 4
    ASR_PARTIAL = 5


class WorkerOverloadedError(Exception):
    """The queue is full of work that is as urgent or more."""


class WorkerClosedError(Exception):
    """The worker was closed before the job was done."""


@dataclass(order=True, slots=True)
class _Job:
    priority: Priority
    number: int
    run: Callable[[], Any] = field(compare=False)
    future: asyncio.Future[Any] = field(compare=False)
    terminate: Callable[[], None] | None = field(compare=False)
    key: Hashable | None = field(compare=False)


class InferenceWorker:
    """A priority queue of blocking jobs, served by `threads` daemon threads.

    At most `max_waiting` jobs wait. When one more comes, the least urgent and newest of all of them, the new one
    included, is refused: `run` raises WorkerOverloadedError, `run_latest` returns None. `at_thread_end` is the last
    thing that each thread calls. Call it from event loops only; no method blocks one.
    """

    def __init__(
        self,
        name: str,
        threads: int,
        *,
        max_waiting: int = 256,
        at_thread_end: Callable[[], None] = lambda: None,
    ) -> None:
        self._name = name
        self._max_waiting = max_waiting
        self._at_thread_end = at_thread_end
        self._numbers = itertools.count()
        self._delivery = LoopDelivery()
        self._changed = threading.Condition()
        # Guarded by `_changed`:
        self._waiting: list[_Job] = []
        self._running: list[_Job] = []
        self._closed = False
        self._threads = [
            threading.Thread(target=self._serve, name=f"{name}-{index}", daemon=True) for index in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    async def run(self, job: Callable[[], T], *, priority: Priority, terminate: Callable[[], None] | None = None) -> T:
        """Run `job` in a worker thread and return its result or raise its exception.

        When the await is cancelled, a waiting job is dropped, and for a running one `terminate` is called, which makes
        it end soon (for onnxruntime: sets `RunOptions.terminate`); the cancelled caller doesn't wait for that.
        """
        result: T = await self._submit(job, priority, terminate, None)
        return result

    async def run_latest(
        self, job: Callable[[], T], *, key: Hashable, priority: Priority, terminate: Callable[[], None] | None = None
    ) -> T | None:
        """Run `job` as `run` does, unless a newer one with the same `key` comes while it waits: then return None."""
        try:
            result: T | None = await self._submit(job, priority, terminate, key)
        except WorkerOverloadedError:
            return None
        return result

    async def aclose(self) -> None:
        """Refuse new jobs, fail waiting ones with WorkerClosedError, stop running ones and end the threads."""
        with self._changed:
            self._closed = True
            dropped, self._waiting = self._waiting, []
            running = list(self._running)
            self._changed.notify_all()
        for job in dropped:
            self._delivery.deliver(job.future, error=WorkerClosedError(self._name))
        for job in running:
            if job.terminate is not None:
                job.terminate()
        await asyncio.to_thread(self._join)

    def _join(self) -> None:
        for thread in self._threads:
            thread.join(JOIN_DEADLINE_S / len(self._threads))
            if thread.is_alive():
                logger.warning("worker thread %s still runs a job; it is left to the end of the process", thread.name)

    async def _submit(
        self,
        run: Callable[[], Any],
        priority: Priority,
        terminate: Callable[[], None] | None,
        key: Hashable | None,
    ) -> Any:
        future = asyncio.get_running_loop().create_future()
        job = _Job(priority, next(self._numbers), run, future, terminate, key)
        self._enqueue(job)
        try:
            return await future
        except asyncio.CancelledError:
            self._abandon(job)
            raise

    def _enqueue(self, job: _Job) -> None:
        superseded = refused = None
        with self._changed:
            if self._closed:
                raise WorkerClosedError(self._name)
            if job.key is not None:
                superseded = next((other for other in self._waiting if other.key == job.key), None)
                if superseded is not None:
                    self._remove(superseded)
            heapq.heappush(self._waiting, job)
            if len(self._waiting) > self._max_waiting:
                refused = max(self._waiting)
                self._remove(refused)
            self._changed.notify()
        if superseded is not None:
            self._delivery.deliver(superseded.future, result=None)
        if refused is not None:
            self._delivery.deliver(refused.future, error=WorkerOverloadedError(self._name))

    def _abandon(self, job: _Job) -> None:
        with self._changed:
            if job in self._waiting:
                self._remove(job)
                return
            running = job in self._running
        if running and job.terminate is not None:
            job.terminate()

    def _remove(self, job: _Job) -> None:
        self._waiting.remove(job)
        heapq.heapify(self._waiting)  # O(n) of a short list; superseding and cancelling are rare beside running

    def _serve(self) -> None:
        try:
            self._serve_jobs()
        finally:
            self._at_thread_end()

    def _serve_jobs(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    if self._closed:
                        return
                    self._changed.wait()
                job = heapq.heappop(self._waiting)
                self._running.append(job)
            try:
                result = job.run()
            except BaseException as error:
                self._delivery.deliver(job.future, error=error)
            else:
                self._delivery.deliver(job.future, result=result)
            finally:
                with self._changed:
                    self._running.remove(job)
