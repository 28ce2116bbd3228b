"""A gateway on a real loopback port with a scripted session behind each socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from socket import SO_SNDBUF, SOL_SOCKET
from typing import Any

import pytest
import uvicorn

from gateway.app import create_app, service_of
from gateway.outbox import Outbox
from gateway.service import Service
from gateway.serving import open_sockets, server_config
from gateway.session_request import SessionRequest
from gateway.settings import Settings
from models.interfaces import EngineInfo, Engines
from protocol.errors import ProtocolError
from tests.gateway.fed_time import FedTime


class ScriptedSession:
    """Greets, echoes each frame, and does what the test's words say."""

    def __init__(self, request: SessionRequest, number: int) -> None:
        self.request = request
        self.session_id = f"sess_{number}"
        self.outbox = Outbox()
        self.ended = asyncio.Event()
        self.busy = asyncio.Event()
        self._fail = asyncio.Event()
        self._end = asyncio.Event()

    async def run(self) -> None:
        self.outbox.put(json.dumps({"type": "session.created", "session": {"id": self.session_id}}))
        try:
            async with asyncio.timeout(30):
                tasks = [asyncio.ensure_future(event.wait()) for event in (self._fail, self._end)]
                try:
                    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for task in tasks:
                        task.cancel()
            if self._fail.is_set():
                raise RuntimeError("scripted bug")
        finally:
            self.ended.set()

    async def receive_text(self, frame: str) -> None:
        match frame:
            case "bug in run":
                self._fail.set()
            case "bug in receive":
                raise RuntimeError("scripted bug")
            case "end":
                self.outbox.put(json.dumps({"type": "last words"}))
                self._end.set()
            case "flood":
                while True:  # stops by OutboxOverflow
                    self.outbox.put("x" * 2**16)
            case "speak on and on":
                self.busy.set()
                while True:
                    self.outbox.put("x" * 1000)
                    await asyncio.sleep(0.001)
            case _:
                self.outbox.put(json.dumps({"type": "echo", "text": frame}))

    async def receive_binary(self, frame: bytes) -> None:
        self.outbox.put(json.dumps({"type": "binary", "bytes": len(frame)}))

    def expire(self, error: ProtocolError) -> None:
        self.outbox.put(json.dumps({"type": "error", "error": error.to_wire()}))


class Gateway:
    """A served gateway and the sessions that it opened."""

    def __init__(self, port: int, service: Service, sessions: list[ScriptedSession]) -> None:
        self.port = port
        self.service = service
        self.sessions = sessions

    def url(self, query: str = "?model=gpt-realtime") -> str:
        return f"ws://127.0.0.1:{self.port}/v1/realtime{query}"

    def http(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    async def idle(self) -> None:
        """Wait until no session is counted as active any more."""
        async with asyncio.timeout(5):
            while self.service.sessions_active:  # noqa: ASYNC110 - the app has no event for it
                await asyncio.sleep(0.01)


def no_engines() -> Engines:
    """Engines that a scripted session never touches."""
    nothing: Any = object()
    infos = (EngineInfo("asr", "scripted", "nowhere", "MIT"),)
    return Engines(vad=nothing, asr=nothing, chat=nothing, tts=nothing, infos=infos)


Serve = Callable[..., AbstractAsyncContextManager[Gateway]]


@pytest.fixture
async def time(monkeypatch: pytest.MonkeyPatch) -> FedTime:
    """Fed time, which the loop's timers obey as well."""
    time = FedTime()
    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", time.call_later)
    return time


@pytest.fixture
def serve() -> Serve:
    """Serve a gateway with the given settings inside `async with`; `whole`: with sessions of its own, on `engines`."""

    @asynccontextmanager
    async def serving(
        *, whole: bool = False, engines: Engines | None = None, send_buffer: int = 0, **settings: Any
    ) -> AsyncIterator[Gateway]:
        sessions: list[ScriptedSession] = []

        def open_session(request: SessionRequest) -> ScriptedSession:
            session = ScriptedSession(request, len(sessions) + 1)
            sessions.append(session)
            return session

        chosen = Settings(**{"host": ("127.0.0.1",), "port": 0, **settings})
        app = create_app(chosen, engines) if whole else create_app(chosen, no_engines(), open_session=open_session)
        sockets = open_sockets(chosen.host, chosen.port)
        for listening in sockets if send_buffer else ():  # accepted connections inherit it
            listening.setsockopt(SOL_SOCKET, SO_SNDBUF, send_buffer)
        server = uvicorn.Server(server_config(app, chosen))
        async with asyncio.TaskGroup() as group:
            group.create_task(server._serve(sockets))  # without uvicorn's signal handlers
            while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
                await asyncio.sleep(0.005)
            try:
                await service_of(app).settled.wait()
                yield Gateway(sockets[0].getsockname()[1], service_of(app), sessions)
            finally:
                server.should_exit = True

    return serving
