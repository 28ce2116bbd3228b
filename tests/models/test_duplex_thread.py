"""The one thread of a full-duplex model: what goes first, what its failures are called, how it ends."""

from __future__ import annotations

import asyncio
import threading

import pytest

from models import inference_worker
from models.engines import duplex_thread
from models.engines.duplex_thread import FRAME, OPENING, DuplexThread
from models.interfaces import EngineError


async def test_frames_go_before_what_takes_long() -> None:
    thread, gate, order = DuplexThread(), threading.Event(), []
    first = asyncio.create_task(thread.run(gate.wait, OPENING))
    await asyncio.sleep(0)
    jobs = [
        asyncio.create_task(thread.run(lambda name=name: order.append(name), priority))
        for name, priority in (("prompt", OPENING), ("frame", FRAME), ("another prompt", OPENING), ("another", FRAME))
    ]
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(first, *jobs)
    assert order == ["frame", "another", "prompt", "another prompt"]
    await thread.aclose(lambda: None)


async def test_whatever_a_job_raises_is_an_engines_error() -> None:
    thread = DuplexThread()

    def out_of_memory() -> None:
        raise RuntimeError("[metal::malloc] too much, says /private/secret")

    def refuse() -> None:
        raise EngineError("duplex_too_long", "As it is.")

    with pytest.raises(EngineError) as caught:
        await thread.run(out_of_memory)
    assert (caught.value.code, caught.value.message) == (
        "duplex_failed",
        "The full-duplex model failed (RuntimeError).",
    )
    with pytest.raises(EngineError, match="As it is"):
        await thread.run(refuse)
    await thread.aclose(lambda: None)


async def test_a_job_that_nobody_waits_for_any_more_is_dropped() -> None:
    thread, gate, ran = DuplexThread(), threading.Event(), []
    running = asyncio.create_task(thread.run(gate.wait))
    await asyncio.sleep(0)
    waiting = asyncio.create_task(thread.run(lambda: ran.append(1)))
    await asyncio.sleep(0)
    waiting.cancel()
    gate.set()
    await running
    assert await thread.run(lambda: 2) == 2
    assert ran == []
    await thread.aclose(lambda: None)


async def test_closing_frees_in_the_models_thread_and_may_be_done_twice() -> None:
    thread, freed = DuplexThread(), []
    home = await thread.run(threading.current_thread)
    for _ in range(2):
        await thread.aclose(lambda: freed.append(threading.current_thread()))
    assert freed == [home]
    assert not home.is_alive()
    with pytest.raises(EngineError, match="is closed"):
        await thread.run(lambda: None)


async def test_closing_does_not_wait_for_a_download(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplex_thread, "FREE_DEADLINE_S", 0.01)
    monkeypatch.setattr(inference_worker, "JOIN_DEADLINE_S", 0.01)
    thread, gate = DuplexThread(), threading.Event()
    download = asyncio.create_task(thread.run(gate.wait, OPENING))
    await asyncio.sleep(0)
    await thread.aclose(lambda: None)
    assert not download.done()
    gate.set()
    await download
