"""A gateway before another one, a line between them that can be cut, and a client on either."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from protocol.wire_law import SessionLaw
from tests.gateway.scripted_cascade import quiet, voice

DEADLINE_S = 20.0


class Line:
    """A TCP line to `port`: what is killed when a server is to vanish without a word, and back on the same port."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._reading = asyncio.Event()
        self._reading.set()
        self.port = 0
        self.opened = 0

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", self.port, limit=2**16)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    def stall(self) -> None:
        """Take nothing more from either side, and say nothing."""
        self._reading.clear()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        try:
            other_reader, other = await asyncio.open_connection("127.0.0.1", self._to, limit=2**16)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, other}
        with suppress(OSError):
            await asyncio.gather(self._pump(reader, other), self._pump(other_reader, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                data = await reader.read(2**14)
                await self._reading.wait()
                if not data:
                    break
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def line_to(port: int) -> AsyncIterator[Line]:
    line = Line(port)
    await line.open()
    try:
        yield line
    finally:
        line.cut()
        await asyncio.sleep(0)


class Talker:
    """A raw client that keeps what it reads; everything must be lawful unless `lawful` is False."""

    def __init__(self, socket: ClientConnection, *, lawful: bool = True) -> None:
        self.socket = socket
        self.events: list[dict[str, Any]] = []
        self._law = SessionLaw() if lawful else None

    async def send(self, kind: str, **fields: Any) -> None:
        await self.socket.send(json.dumps({"type": kind, **fields}))

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(DEADLINE_S):
            event: dict[str, Any] = json.loads(await self.socket.recv())
        if self._law is not None:
            assert self._law.violations(event) == [], event
        self.events.append(event)
        return event

    async def until(self, *kinds: str) -> dict[str, Any]:
        while True:
            event = await self.next()
            if event.get("type") in kinds:
                return event

    async def types(self, text: str, item_id: str | None = None, **fields: Any) -> None:
        content = [{"type": "input_text", "text": text}]
        named = {} if item_id is None else {"id": item_id}
        item = {"type": "message", "role": "user", "content": content, **named}
        await self.send("conversation.item.create", item=item, **fields)

    async def says(self, *sounds: bytes, pace: float = 0.0) -> None:
        """Append sounds in pieces of 100 ms; `pace`: seconds between two."""
        pcm = b"".join(sounds)
        for at in range(0, len(pcm), 4_800):
            await self.send("input_audio_buffer.append", audio=base64.b64encode(pcm[at : at + 4_800]).decode())
            await asyncio.sleep(pace)

    async def turn(self) -> dict[str, Any]:
        """Say something and read on until it is answered; return the response.done."""
        await self.says(quiet(200), voice(800), quiet(1_500))
        return await self.until("response.done")


@asynccontextmanager
async def talking(url: str, *, lawful: bool = True, greeted: bool = True, **arguments: Any) -> AsyncIterator[Talker]:
    async with connect(url, max_size=None, proxy=None, **arguments) as socket:
        talker = Talker(socket, lawful=lawful)
        if greeted:
            assert (await talker.next())["type"] in ("session.created", "transcription_session.created")
        yield talker


def story(events: Iterable[dict[str, Any]]) -> list[Any]:
    """Return what a session said, without ids and without what a clock decides: how often a delta came, and when.

    Deltas of one kind are joined; audio is told by its length.
    """
    told: list[Any] = []
    for event in events:
        kind = event["type"]
        if kind.endswith(".delta"):
            delta: Any = event["delta"]
            if "audio.delta" in kind:
                delta = len(base64.b64decode(delta))
            if told and told[-1][0] == kind:
                told[-1][1] += delta
            else:
                told.append([kind, delta])
        else:
            told.append([kind, _without_ids(event)])
    return told


_IDS = {"id", "event_id", "item_id", "previous_item_id", "response_id", "conversation_id", "call_id", "expires_at"}


def _without_ids(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_ids(inner) for key, inner in value.items() if key not in _IDS}
    return [_without_ids(inner) for inner in value] if isinstance(value, list) else value
