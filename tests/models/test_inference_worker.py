import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from models.batching_worker import BatchingWorker
from models.inference_worker import InferenceWorker, Priority, WorkerClosedError, WorkerOverloadedError


class Gate:
    """A job that holds its worker thread until it is opened or terminated."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.opened = threading.Event()
        self.terminated = False

    def run(self) -> str:
        self.entered.set()
        self.opened.wait(5)
        return "terminated" if self.terminated else "opened"

    def terminate(self) -> None:
        self.terminated = True
        self.opened.set()


async def hold(worker: InferenceWorker) -> tuple[Gate, asyncio.Task[str]]:
    """Occupy the worker's only thread."""
    gate = Gate()
    task = asyncio.create_task(worker.run(gate.run, priority=Priority.VAD, terminate=gate.terminate))
    await asyncio.to_thread(gate.entered.wait, 5)
    return gate, task


async def until_queued() -> None:
    """Let tasks that were just made run up to their first wait."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


@pytest.fixture
async def worker() -> AsyncIterator[InferenceWorker]:
    worker = InferenceWorker("test", 1, max_waiting=5)
    yield worker
    await worker.aclose()


async def test_results_and_errors_come_back(worker: InferenceWorker) -> None:
    assert await worker.run(lambda: 6 * 7, priority=Priority.TTS_REST) == 42
    with pytest.raises(ZeroDivisionError):
        await worker.run(lambda: 1 / 0, priority=Priority.TTS_REST)
    assert await worker.run(lambda: "still alive", priority=Priority.TTS_REST) == "still alive"


async def test_urgent_work_goes_first_and_equals_in_order_of_arrival(worker: InferenceWorker) -> None:
    gate, held = await hold(worker)
    order: list[str] = []
    arrivals = [
        ("partial", Priority.ASR_PARTIAL),
        ("rest", Priority.TTS_REST),
        ("first 1", Priority.TTS_FIRST),
        ("final", Priority.ASR_FINAL),
        ("first 2", Priority.TTS_FIRST),
    ]
    tasks = []
    for name, priority in arrivals:
        tasks.append(asyncio.create_task(worker.run(lambda name=name: order.append(name), priority=priority)))
        await until_queued()
    gate.opened.set()
    await asyncio.gather(held, *tasks)
    assert order == ["final", "first 1", "first 2", "rest", "partial"]


async def test_a_newer_job_supersedes_a_waiting_one_with_its_key(worker: InferenceWorker) -> None:
    gate, held = await hold(worker)
    ran: list[str] = []

    def ask(name: str, key: str) -> asyncio.Task[str | None]:
        def job() -> str:
            ran.append(name)
            return name

        return asyncio.create_task(worker.run_latest(job, key=key, priority=Priority.ASR_PARTIAL))

    old = ask("old", "user 1")
    await until_queued()
    other = ask("other", "user 2")
    await until_queued()
    new = ask("new", "user 1")
    assert await old is None
    gate.opened.set()
    assert await asyncio.gather(held, new, other) == ["opened", "new", "other"]
    assert sorted(ran) == ["new", "other"]


async def test_a_running_job_is_not_superseded(worker: InferenceWorker) -> None:
    gate = Gate()
    running = asyncio.create_task(worker.run_latest(gate.run, key="k", priority=Priority.ASR_PARTIAL))
    await asyncio.to_thread(gate.entered.wait, 5)
    newer = asyncio.create_task(worker.run_latest(lambda: "newer", key="k", priority=Priority.ASR_PARTIAL))
    await until_queued()
    gate.opened.set()
    assert await running == "opened"
    assert await newer == "newer"


async def test_cancelling_drops_a_waiting_job(worker: InferenceWorker) -> None:
    gate, held = await hold(worker)
    ran: list[str] = []
    waiting = asyncio.create_task(worker.run(lambda: ran.append("dropped"), priority=Priority.ASR_FINAL))
    await until_queued()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    gate.opened.set()
    await held
    await worker.run(lambda: None, priority=Priority.ASR_PARTIAL)
    assert ran == []


async def test_cancelling_terminates_a_running_job_without_waiting_for_it(worker: InferenceWorker) -> None:
    gate, held = await hold(worker)
    held.cancel()
    with pytest.raises(asyncio.CancelledError):
        await held
    assert gate.terminated
    assert await worker.run(lambda: "free again", priority=Priority.ASR_FINAL) == "free again"


async def test_a_full_queue_refuses_its_least_urgent_newest_job(worker: InferenceWorker) -> None:
    gate, held = await hold(worker)
    partial = asyncio.create_task(worker.run_latest(lambda: "", key="p", priority=Priority.ASR_PARTIAL))
    await until_queued()
    finals = []
    for _ in range(5):
        finals.append(asyncio.create_task(worker.run(lambda: "final", priority=Priority.ASR_FINAL)))
        await until_queued()
    assert await partial is None
    with pytest.raises(WorkerOverloadedError):
        await worker.run(lambda: "one too many", priority=Priority.TTS_REST)
    gate.opened.set()
    await held
    assert await asyncio.gather(*finals) == ["final"] * 5


async def test_closing_fails_waiting_jobs_stops_running_ones_and_refuses_new_ones() -> None:
    worker = InferenceWorker("test", 1)
    gate, held = await hold(worker)
    waiting = asyncio.create_task(worker.run(lambda: "never", priority=Priority.ASR_FINAL))
    await until_queued()
    await worker.aclose()
    assert await held == "terminated"
    with pytest.raises(WorkerClosedError):
        await waiting
    with pytest.raises(WorkerClosedError):
        await worker.run(lambda: "never", priority=Priority.ASR_FINAL)
    await worker.aclose()  # closing twice is fine


async def test_each_thread_does_one_last_thing_after_its_jobs() -> None:
    ended: list[str] = []
    worker = InferenceWorker("w", 2, at_thread_end=lambda: ended.append(threading.current_thread().name))
    await worker.run(lambda: None, priority=Priority.VAD)
    assert ended == []
    await worker.aclose()
    assert sorted(ended) == ["w-0", "w-1"]


def test_one_worker_serves_event_loops_that_come_and_go() -> None:
    worker = InferenceWorker("test", 1)

    async def ask() -> int:
        return await worker.run(lambda: 1, priority=Priority.ASR_FINAL)

    assert [asyncio.run(ask()) for _ in range(3)] == [1, 1, 1]
    asyncio.run(worker.aclose())


async def test_items_that_wait_together_run_as_one_batch() -> None:
    batches: list[list[int]] = []
    entered, opened = threading.Event(), threading.Event()

    def run_batch(items: list[int]) -> list[int]:
        batches.append(items)
        entered.set()
        opened.wait(5)
        return [item * 10 for item in items]

    worker = BatchingWorker("test", run_batch)
    first = asyncio.create_task(worker.run(1))
    await asyncio.to_thread(entered.wait, 5)
    rest = [asyncio.create_task(worker.run(item)) for item in (2, 3, 4)]
    await until_queued()
    opened.set()
    assert await asyncio.gather(first, *rest) == [10, 20, 30, 40]
    assert batches == [[1], [2, 3, 4]]
    await worker.aclose()


async def test_a_failed_batch_fails_each_of_its_items_and_no_later_one() -> None:
    def run_batch(items: list[int]) -> list[float]:
        return [1 / item for item in items]

    worker = BatchingWorker("test", run_batch)
    with pytest.raises(ZeroDivisionError):
        await worker.run(0)
    assert await worker.run(2) == 0.5
    await worker.aclose()
    with pytest.raises(WorkerClosedError):
        await worker.run(2)


async def test_a_full_batching_worker_refuses_the_newest_item() -> None:
    entered, opened = threading.Event(), threading.Event()

    def run_batch(items: list[int]) -> list[int]:
        entered.set()
        opened.wait(5)
        return items

    worker = BatchingWorker("test", run_batch, max_waiting=1)
    first = asyncio.create_task(worker.run(1))
    await asyncio.to_thread(entered.wait, 5)
    second = asyncio.create_task(worker.run(2))
    await until_queued()
    with pytest.raises(WorkerOverloadedError):
        await worker.run(3)
    opened.set()
    assert await asyncio.gather(first, second) == [1, 2]
    await worker.aclose()
