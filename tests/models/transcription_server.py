"""A small transcription server that answers as a test says, and notes what it was asked."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass
class Asked:
    """One request: its form's fields, the file, and the headers."""

    fields: list[tuple[str, str]]
    file: bytes
    headers: dict[str, str]

    def __getitem__(self, name: str) -> str | None:
        return dict(self.fields).get(name)


@dataclass
class TranscriptionServer:
    base_url: str
    asked: list[Asked] = field(default_factory=list)
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)


Answer = Callable[[Asked, web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def transcription_server(answer: Answer) -> AsyncIterator[TranscriptionServer]:
    """Serve on a free port. `answer` is cancelled when the client hangs up."""
    server = TranscriptionServer("")

    async def transcribe(request: web.Request) -> web.StreamResponse:
        fields, file = [], b""
        async for part in await request.multipart():
            content = await part.read()
            if part.filename:
                file = bytes(content)
            else:
                fields.append((part.name or "", content.decode()))
        asked = Asked(fields, file, dict(request.headers))
        server.asked.append(asked)
        try:
            return await answer(asked, request)
        except asyncio.CancelledError:
            server.hung_up.set()
            raise

    app = web.Application()
    app.router.add_post("/v1/audio/transcriptions", transcribe)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.base_url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield server
    finally:
        await runner.cleanup()


async def plain(asked: Asked, request: web.Request) -> web.StreamResponse:
    """Answer as a server does that knows no streams."""
    return web.json_response({"text": " Hello there. "})


def streaming(*events: Any, done: bool = True) -> Answer:
    """Answer with server-sent events, `[DONE]` last."""

    async def answer(asked: Asked, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        for event in events:
            await response.write(f"data: {json.dumps(event)}\n\n".encode())
        if done:
            await response.write(b"data: [DONE]\n\n")
            return response
        assert request.transport is not None
        request.transport.close()  # dies in mid-stream
        return response

    return answer
