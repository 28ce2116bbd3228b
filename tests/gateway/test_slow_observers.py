"""Observers who read slowly or never slow no session down: measured beside each other, in one run."""

from __future__ import annotations

import asyncio
import json
import socket as sockets
import time
from contextlib import ExitStack
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect

from gateway import serving
from gateway.endpoints import observer as endpoint
from models.engines.scripted import ScriptedChat, ScriptedRecognizer, ScriptedSynthesizer, ScriptedVad
from models.interfaces import Engines
from tests.gateway.conftest import Gateway, Serve
from tests.gateway.test_observer_endpoint import following, opened, say

REPLY = "word " * 400
"""Long enough that the events of a few replies fill every buffer on the way to a reader that takes nothing."""

SEND_BUFFER_BYTES = 64 * 2**10
"""The kernel holds no more for a reader that takes nothing."""

ROUNDS = 4
REPLIES = 6

MOST_TIMES_SLOWER = 1.5
"""In the best round, with observers over without (chosen: what two busy cores' noise needs); a session that waited for
one of them would not end at all."""


def engines() -> Engines:
    """A language model that writes as fast as it is read."""
    chat = ScriptedChat([REPLY], ttft_ms=0, token_ms=0)
    return Engines(vad=ScriptedVad(), asr=ScriptedRecognizer(), chat=chat, tts=ScriptedSynthesizer())


class RawObserver:
    """An observer's connection whose window is tiny: what it does not take stays with the server."""

    def __init__(self, gateway: Gateway, session_id: str) -> None:
        self.socket = sockets.socket()
        self.socket.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 1_024)
        self.socket.connect(("127.0.0.1", gateway.port))
        request = f"GET /v1/realtime/sessions/{session_id}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        self.socket.sendall(request.encode())
        self.socket.setblocking(False)
        self.taken = 0

    def __enter__(self) -> RawObserver:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    async def read_slowly(self) -> None:
        """Take a byte now and then: far fewer than are written."""
        loop = asyncio.get_running_loop()
        while True:
            self.taken += len(await loop.sock_recv(self.socket, 1))
            await asyncio.sleep(0.02)


async def replies(socket: ClientConnection) -> float:
    """Have the session write a few long replies as text; return how long that took in s."""
    began = time.perf_counter()
    for _ in range(REPLIES):
        await say(socket)
        while json.loads(await socket.recv())["type"] != "response.done":
            pass
    return time.perf_counter() - began


async def text_session(socket: ClientConnection) -> str:
    session_id = await opened(socket)
    await socket.send(
        json.dumps({"type": "session.update", "session": {"type": "realtime", "output_modalities": ["text"]}})
    )
    return session_id


async def test_observers_that_read_slowly_or_never_slow_no_session(serve: Serve) -> None:
    async with serve(whole=True, engines=engines(), send_buffer=SEND_BUFFER_BYTES) as gateway:
        async with (
            connect(gateway.url(), max_queue=None) as alone,
            connect(gateway.url(), max_queue=None) as watched,
            asyncio.TaskGroup() as group,
        ):
            await text_session(alone)
            session_id = await text_session(watched)
            with ExitStack() as stack:
                never = [stack.enter_context(RawObserver(gateway, session_id)) for _ in range(3)]
                slow = stack.enter_context(RawObserver(gateway, session_id))
                reading = group.create_task(slow.read_slowly())
                ratios = []
                for _ in range(ROUNDS):  # in turn, so that another load on the machine meets both
                    alone_s = await replies(alone)
                    ratios.append(await replies(watched) / alone_s)
                assert min(ratios) < MOST_TIMES_SLOWER, ratios
                assert 0 < slow.taken < 10_000
                assert [observer.taken for observer in never] == [0, 0, 0]
                reading.cancel()


async def test_an_observer_that_was_overtaken_is_told_of_the_gap_and_goes_on(serve: Serve) -> None:
    async with serve(whole=True, engines=engines(), send_buffer=SEND_BUFFER_BYTES) as gateway:
        async with connect(gateway.url(), max_queue=None) as socket:
            session_id = await text_session(socket)
            async with following(gateway, session_id, tiny=True) as stream:
                first = await stream.until("session.started")
                for _ in range(2):
                    await replies(socket)  # meanwhile nothing is read
                await socket.close()
                rest = await stream.to_its_end()
            seen = [*first, *rest]
            gaps = [
                (before["seq"], after) for before, after in zip(seen, seen[1:], strict=False)
                if after["seq"] != before["seq"] + 1
            ]  # fmt: skip
            assert gaps, "the buffers on the way held all of it: write more"
            for before, after in gaps:
                assert after["dropped"] == after["seq"] - before - 1
            assert {event["seq"] for event in seen if "dropped" in event} == {after["seq"] for _, after in gaps}
            assert seen[-1]["type"] == "session.ended"


async def test_a_reader_that_takes_nothing_is_left_behind_once_its_session_has_ended(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(endpoint, "LAST_WORDS_S", 0.05)
    ended: list[Any] = []
    original = endpoint.EventStream.__call__

    async def noted(self: Any, *arguments: Any) -> None:
        await original(self, *arguments)
        ended.append(self)

    monkeypatch.setattr(endpoint.EventStream, "__call__", noted)
    async with serve(whole=True, engines=engines(), send_buffer=SEND_BUFFER_BYTES) as gateway:
        async with connect(gateway.url(), max_queue=None) as socket:
            session_id = await text_session(socket)
            with RawObserver(gateway, session_id):
                for _ in range(ROUNDS):
                    await replies(socket)
                assert not ended
                await socket.close()
                async with asyncio.timeout(5):
                    while not ended:  # noqa: ASYNC110 - the app has no event for it
                        await asyncio.sleep(0.01)
    # uvicorn complains, which the served gateway's log leaves out, and so does this one if it was configured before.
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [record.getMessage() for record in errors if serving._is_no_false_alarm(record)] == []
