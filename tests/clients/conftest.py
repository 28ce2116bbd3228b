"""A Realtime server made of a script, on a real socket, for clients to talk to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
import websockets

from clients.wav_audio import RATE_HZ, Clip

Body = dict[str, Any]
Serve = Callable[..., Any]

CREATED: Body = {"type": "session.created", "event_id": "event_0", "session": {"id": "sess_1"}}


class ScriptedRealtimeServer:
    """Greets, then gives each client event to `react`, which returns what to send (None: close)."""

    def __init__(self, react: Callable[[Body], Awaitable[list[Body] | None]], greeting: list[Body]) -> None:
        self.received: list[Body] = []
        self.headers: list[Any] = []
        self.url = ""
        self._react = react
        self._greeting = greeting

    async def serve(self, socket: websockets.ServerConnection) -> None:
        assert socket.request is not None
        self.headers.append(socket.request.headers)
        for event in self._greeting:
            await socket.send(json.dumps(event))
        async for frame in socket:
            event = json.loads(frame)
            self.received.append(event)
            answer = await self._react(event)
            if answer is None:
                await socket.close(4000, "scripted")
                return
            for reply in answer:
                await socket.send(json.dumps(reply))


@pytest.fixture
def realtime_server() -> Serve:
    @asynccontextmanager
    async def serving(
        react: Callable[[Body], Awaitable[list[Body] | None]], greeting: list[Body] | None = None
    ) -> AsyncIterator[ScriptedRealtimeServer]:
        server = ScriptedRealtimeServer(react, [CREATED] if greeting is None else greeting)
        async with websockets.serve(server.serve, "127.0.0.1", 0) as listening:
            port = next(iter(listening.sockets)).getsockname()[1]
            server.url = f"ws://127.0.0.1:{port}/v1/realtime"
            yield server

    return serving


@pytest.fixture
def tone() -> Callable[[int], Clip]:
    """Make clips of a loud tone, `ms` long."""

    def make(ms: int) -> Clip:
        samples = np.round(8_000 * np.sin(np.arange(RATE_HZ * ms // 1000) / 10)).astype("<i2")
        return Clip(f"tone of {ms} ms", samples.tobytes(), 0, len(samples))

    return make


@pytest.fixture
def unused_url() -> str:
    """A URL at which nothing listens."""

    async def closed_port() -> int:
        server = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
        port = int(server.sockets[0].getsockname()[1])
        server.close()
        await server.wait_closed()
        return port

    with asyncio.Runner() as runner:
        return f"ws://127.0.0.1:{runner.run(closed_port())}/v1/realtime"
