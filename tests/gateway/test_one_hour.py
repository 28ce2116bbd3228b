"""One hour on one socket, in compressed time: the longest session that there is, from its handshake to its expiry."""

from __future__ import annotations

import array
import asyncio
import base64
import gc
import json
import logging
import tracemalloc
from collections import deque
from itertools import pairwise
from statistics import median
from typing import Any

import pytest
from starlette.websockets import WebSocket

from gateway.backends.cascade import CascadeBackend
from gateway.endpoints.socket_session import SocketSession
from gateway.event_log import EventLog
from gateway.g711 import G711Codec
from gateway.hearing import Hearing
from gateway.observing.observer import SessionObserver
from gateway.session import Session
from protocol.audio_time import bytes_from_samples, s_from_samples, samples_from_ms
from protocol.ids import random_id
from protocol.session import SessionProtocol
from protocol.session_settings import SessionDefaults
from tests.gateway.fed_time import FedTime, settle
from tests.gateway.scripted_cascade import quiet, scripted_engines, voice

LIMIT_S = 3_600
APPEND_MS = 1_000
TRACED_FROM_S = 2_500
MEASURED_AT_S = (3_000, 3_190, 3_380, 3_570)
"""Tracing begins once all bounded buffers are full, measuring once all that they hold is traced."""

GROWTH_PER_MINUTE_BYTES = 48 * 2**10
"""What a minute may leave behind: the items of its turns (29 to 35 kB measured for 7 turns; audio would be 3 MB)."""


class Client:
    """The other end of the socket. It keeps of the events only what the test asks for, so that memory shows ours."""

    def __init__(self, time: FedTime) -> None:
        self.time = time
        self.incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.ids = array.array("q")
        self.kinds: dict[str, int] = {}
        self.last: list[dict[str, Any]] = []
        self.closed: tuple[float, int, str] | None = None
        self.incoming.put_nowait({"type": "websocket.connect"})

    async def send(self, message: Any) -> None:
        if message["type"] == "websocket.close":
            self.closed = (s_from_samples(self.time.now()), message["code"], message["reason"])
        if message["type"] != "websocket.send":
            return
        event = json.loads(message["text"])
        self.ids.append(hash(event["event_id"]))
        self.kinds[event["type"]] = self.kinds.get(event["type"], 0) + 1
        self.last = [*self.last[-3:], event]

    def say(self, pcm: bytes) -> None:
        text = json.dumps({"type": "input_audio_buffer.append", "audio": base64.b64encode(pcm).decode()})
        self.incoming.put_nowait({"type": "websocket.receive", "text": text})


def turn(number: int) -> bytes:
    """Eight seconds: speech, the reply's time, and every third time a barge-in into it."""
    if number % 3 == 0:
        return voice(1_600) + quiet(1_400) + voice(1_000) + quiet(4_000)
    return voice(2_000) + quiet(6_000)


async def test_its_ids_are_unique_its_memory_flat_and_its_end_exact(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "gateway")  # pytest keeps every line that is logged
    time = FedTime()
    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", time.call_later)
    engines = scripted_engines(time, texts=("What a long conversation this is.",))
    engines.chat.requests = deque(maxlen=1)  # the script's memory is not the session's
    client = Client(time)

    def open_session() -> Session:
        observer = SessionObserver("sess_1", time.now)
        backend = CascadeBackend(engines, new_id=random_id, now=time.now, taps=(observer.told,))
        observer.follow(backend.machine)
        return Session(
            session_id="sess_1",
            protocol=SessionProtocol(
                ids=random_id,
                session_id="sess_1",
                model="cascade",
                expires_at_s=LIMIT_S,
                defaults=SessionDefaults(),
                g711=G711Codec(),
            ),
            backend=backend,
            observer=observer,
            hearing=Hearing(engines.vad),
            now=time.now,
            log=EventLog.off(),
        )

    websocket = WebSocket({"type": "websocket"}, client.incoming.get, client.send)
    await websocket.accept()
    served = asyncio.ensure_future(SocketSession(websocket, open_session, LIMIT_S).run())
    await settle()
    assert client.last[-1]["session"]["expires_at"] == LIMIT_S

    step = bytes_from_samples(samples_from_ms(APPEND_MS))
    number, sound, traced_bytes = 0, b"", dict[int, int]()
    while not served.done():
        if not sound:
            number += 1
            sound = turn(number)
        client.say(sound[:step])
        sound = sound[step:]
        await time.advance(APPEND_MS)
        now_s = s_from_samples(time.now())
        assert now_s < LIMIT_S + 5
        for moment_s in (TRACED_FROM_S, *MEASURED_AT_S):
            # Between two turns, so that no audio on its way is taken for growth.
            if now_s >= moment_s and moment_s not in traced_bytes and not sound:
                gc.collect()
                if moment_s == TRACED_FROM_S:
                    tracemalloc.start()
                traced_bytes[moment_s] = tracemalloc.get_traced_memory()[0]
                if moment_s == MEASURED_AT_S[-1]:
                    tracemalloc.stop()

    # What leaks grows in every part. A table of the interpreter's own, which the whole test run fills, doubles in one:
    # once 3.84 MB came at a time, the size of its interned strings after that step.
    growth_per_minute = [
        60 * (traced_bytes[until_s] - traced_bytes[from_s]) / (until_s - from_s)
        for from_s, until_s in pairwise(MEASURED_AT_S)
    ]
    assert median(growth_per_minute) < GROWTH_PER_MINUTE_BYTES
    assert client.kinds["response.done"] == client.kinds["response.created"] > 500
    assert client.kinds["input_audio_buffer.speech_started"] > 500
    assert len(client.ids) == len(set(client.ids)) > 10_000

    assert client.closed == (LIMIT_S, 1001, "Your session hit the maximum duration of 60 minutes.")
    assert client.last[-1]["error"]["code"] == "session_expired"
    assert client.last[-1]["error"]["message"] == "Your session hit the maximum duration of 60 minutes."
