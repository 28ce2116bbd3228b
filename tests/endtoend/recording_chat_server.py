"""An OpenAI-compatible chat server that streams what a test says and records what it was asked.

It runs in a thread of its own, so that a gateway started once for many tests can keep its URL.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from aiohttp import web

Body = dict[str, Any]


@dataclass(frozen=True)
class Say:
    """Stream this piece of content."""

    text: str


@dataclass(frozen=True)
class Delta:
    """Stream this `delta` object: tool calls, reasoning, null content."""

    delta: Body


@dataclass(frozen=True)
class Wait:
    """Say nothing for a while, as a slow model does."""

    seconds: float


@dataclass(frozen=True)
class Raw:
    """Write these bytes to the stream."""

    data: bytes


@dataclass(frozen=True)
class Refuse:
    """Answer with this status and body instead of a stream."""

    status: int
    body: str
    content_type: str = "application/json"


@dataclass(frozen=True)
class Reset:
    """Break the TCP connection."""


@dataclass(frozen=True)
class Stop:
    """End the stream with this finish_reason; added to scripts that don't end otherwise."""

    reason: str = "stop"
    usage: Body = field(default_factory=lambda: {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15})


Step = Say | Delta | Wait | Raw | Refuse | Reset | Stop
Script = Sequence[Step]
Answer = str | Script | Callable[[Body], "str | Script"]


def words(text: str, *, every_s: float = 0.0) -> list[Step]:
    """Return the steps that stream `text` word by word."""
    return pieces(re.findall(r"\S+\s*", text), every_s=every_s)


def pieces(texts: Sequence[str], *, every_s: float = 0.0) -> list[Step]:
    """Return the steps that stream `texts`."""
    steps: list[Step] = []
    for text in texts:
        if every_s:
            steps.append(Wait(every_s))
        steps.append(Say(text))
    return steps


@dataclass
class Recorded:
    """One request. `closed`: its client hung up before the end; `finished`: all was sent; `ended`: either."""

    body: Body
    at_s: float
    closed: threading.Event = field(default_factory=threading.Event)
    closed_at_s: float = 0.0
    finished: threading.Event = field(default_factory=threading.Event)
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def messages(self) -> list[Body]:
        return list(self.body["messages"])

    def said_by(self, role: str) -> list[str]:
        """Return the texts of one role's messages."""
        return [text_of(message) for message in self.messages if message["role"] == role]


def text_of(message: Body) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)


class RecordingChatServer:
    """Use as a context manager; it listens at `base_url`."""

    def __init__(self) -> None:
        self.requests: list[Recorded] = []
        self.base_url = ""
        self._answers: list[Answer] = []
        self._default: Answer = "Fine."
        self._lock = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._runner: web.AppRunner | None = None
        self._site: web.SockSite | None = None
        self._port = 0

    def answer(self, *answers: Answer) -> None:
        """Forget all requests; give these answers to the next ones, the last one repeated."""
        with self._lock:
            self.requests = []
            self._answers = list(answers)

    async def request(self, number: int, *, within_s: float = 30.0) -> Recorded:
        """Return request `number` (from 0) since `answer`, once it is there."""

        def wait() -> bool:
            with self._lock:
                return self._lock.wait_for(lambda: len(self.requests) > number, within_s)

        assert await asyncio.to_thread(wait), f"request {number} did not come within {within_s} s"
        return self.requests[number]

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._runner is not None
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _start(self) -> None:
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_post("/v1/chat/completions", self._chat)
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        await self._listen()
        self.base_url = f"http://127.0.0.1:{self._port}/v1"

    async def _listen(self) -> None:
        assert self._runner is not None
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self._port))
        self._port = listener.getsockname()[1]
        self._site = web.SockSite(self._runner, listener)
        await self._site.start()

    @contextmanager
    def down(self) -> Iterator[None]:
        """Refuse all connections for as long as the block runs."""
        assert self._site is not None
        asyncio.run_coroutine_threadsafe(self._site.stop(), self._loop).result(10)
        try:
            yield
        finally:
            asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        recorded = Recorded(body, time.monotonic())
        with self._lock:
            number = len(self.requests)
            self.requests.append(recorded)
            answer = self._answers[min(number, len(self._answers) - 1)] if self._answers else self._default
            self._lock.notify_all()
        try:
            script = answer(body) if callable(answer) else answer
            return await self._play(request, words(script) if isinstance(script, str) else script, recorded)
        except (asyncio.CancelledError, ConnectionError):
            recorded.closed_at_s = time.monotonic()
            recorded.closed.set()
            raise
        finally:
            recorded.ended.set()

    async def _play(self, request: web.Request, script: Script, recorded: Recorded) -> web.StreamResponse:
        if script and isinstance(script[0], Refuse):
            recorded.finished.set()
            return web.Response(status=script[0].status, text=script[0].body, content_type=script[0].content_type)
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(request)
        ends = bool(script) and isinstance(script[-1], Stop | Reset | Raw)
        for step in script if ends else [*script, Stop()]:
            match step:
                case Say(text):
                    await _put(stream, {"content": text})
                case Delta(delta):
                    await _put(stream, delta)
                case Wait(seconds):
                    await asyncio.sleep(seconds)
                case Raw(data):
                    await stream.write(data)
                case Reset():
                    assert request.transport is not None
                    raw = request.transport.get_extra_info("socket")
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    request.transport.abort()
                    return stream
                case Stop(reason, usage):
                    await _put(stream, {}, reason)
                    await stream.write(b"data: " + json.dumps(_chunk([], usage)).encode() + b"\n\ndata: [DONE]\n\n")
        await stream.write_eof()
        recorded.finished.set()
        return stream


def _chunk(choices: list[Body], usage: Body | None = None) -> Body:
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "stub", "choices": choices}
    return base if usage is None else {**base, "usage": usage}


async def _put(stream: web.StreamResponse, delta: Body, reason: str | None = None) -> None:
    chunk = _chunk([{"index": 0, "delta": delta, "finish_reason": reason}])
    await stream.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
