import asyncio
import threading
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from gateway.virtual_loop import VirtualLoop

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


def loop_time() -> float:
    return asyncio.get_running_loop().time()


def virtual_loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop


def test_an_hour_passes_at_once_and_in_order() -> None:
    async def hour() -> list[float]:
        order: list[float] = []

        async def wait(s: float) -> None:
            await asyncio.sleep(s)
            order.append(loop_time())

        await asyncio.gather(wait(3600), wait(0.02), wait(60))
        return order

    before_s = time.monotonic()
    assert run(hour()) == pytest.approx([0.02, 60, 3600])
    assert time.monotonic() - before_s < 60


def test_time_stands_still_while_a_thread_computes() -> None:
    async def both() -> float:
        go_on = threading.Event()
        late = asyncio.get_running_loop().call_later(0.001, pytest.fail, "time went on")
        computing = asyncio.ensure_future(asyncio.to_thread(go_on.wait))
        await asyncio.sleep(0)
        threading.Timer(0.05, go_on.set).start()
        await computing
        late.cancel()
        return loop_time()

    assert run(both()) == 0.0


def test_time_stands_still_inside_working() -> None:
    async def both() -> tuple[float, float]:
        loop = virtual_loop()
        answered = loop.create_future()
        with loop.working():
            late = loop.call_later(0.001, pytest.fail, "time went on")
            threading.Timer(0.05, lambda: loop.call_soon_threadsafe(answered.set_result, None)).start()
            await answered
            late.cancel()
            computed_at = loop_time()
        await asyncio.sleep(0.25)
        return computed_at, loop_time()

    assert run(both()) == (0.0, 0.25)


def test_a_deadline_is_met_in_virtual_time() -> None:
    async def stuck() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.Event().wait()
        return loop_time()

    assert run(stuck()) == 30.0


def test_work_that_fails_lets_time_go_on() -> None:
    async def failing() -> bool:
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 // 0)
        await asyncio.sleep(0)
        return virtual_loop().busy

    assert run(failing()) is False
