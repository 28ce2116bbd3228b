"""A small HTTP server that answers chat requests as a test says, and notes what it was asked."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from models.engines.openai_chat import OpenAIChat
from models.interfaces import ChatEvent, ChatRequest, ChatText, ChatToolCall

HELLO = ChatRequest(({"role": "user", "content": "Hello."},))

Respond = Callable[["Exchange"], Awaitable[None]]


@dataclass
class Exchange:
    """One request, and the way to answer it."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    writer: asyncio.StreamWriter
    client_gone: asyncio.Event = field(default_factory=asyncio.Event)
    data: bytes = b""  # the body as it came; `body` is {} if it is no JSON

    async def refuse(self, status: int, body: str, content_type: str = "application/json") -> None:
        data = body.encode()
        self.writer.write(
            f"HTTP/1.1 {status} No\r\nContent-Type: {content_type}\r\nContent-Length: {len(data)}\r\n\r\n".encode()
            + data
        )
        await self.writer.drain()

    async def begin(self) -> None:
        self.writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        await self.writer.drain()

    async def raw(self, data: bytes) -> None:
        self.writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await self.writer.drain()

    async def event(self, payload: Any) -> None:
        await self.raw(b"data: " + json.dumps(payload).encode() + b"\n\n")

    async def delta(self, finish_reason: str | None = None, **delta: Any) -> None:
        await self.event({"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})

    async def end(self) -> None:
        await self.raw(b"data: [DONE]\n\n")
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()


@dataclass
class ChatServer:
    base_url: str
    exchanges: list[Exchange] = field(default_factory=list)


@asynccontextmanager
async def chat_server(respond: Respond, tls: ssl.SSLContext | None = None) -> AsyncIterator[ChatServer]:
    """Serve on a free port, one request a connection. `respond` answers it, cancelled when the client hangs up."""
    server = ChatServer("")
    connections: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            begin = await reader.readexactly(1)
            if begin == b"\x16" and tls is None:  # a client that speaks TLS gets what real servers answer
                writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
                await writer.drain()
                writer.close()
                return
            head = begin + await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:  # hung up before it asked
            writer.close()
            return
        request_line, *lines = head.decode().strip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        said = json.loads(body or b"{}") if "multipart" not in headers.get("content-type", "") else {}
        exchange = Exchange(request_line.split()[1], headers, said, writer, data=body)
        server.exchanges.append(exchange)
        answer, hangup = asyncio.create_task(respond(exchange)), asyncio.create_task(reader.read(1))
        await asyncio.wait({answer, hangup}, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            exchange.client_gone.set()
            answer.cancel()
        hangup.cancel()
        await asyncio.gather(answer, hangup, return_exceptions=True)
        writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.create_task(serve(reader, writer))
        connections.add(connection)

    listener = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    server.base_url = f"http{'s' if tls else ''}://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1"
    try:
        yield server
    finally:
        listener.close()
        await asyncio.gather(*connections)


async def ask(respond: Respond, request: ChatRequest = HELLO, **options: Any) -> list[ChatEvent]:
    async with chat_server(respond) as server:
        chat = OpenAIChat(server.base_url, "some-model", **options)
        try:
            return [event async for event in chat.stream(request)]
        finally:
            await chat.aclose()


def reply(*deltas: dict[str, Any], finish_reason: str | None = "stop", usage: Any = None) -> Respond:
    async def respond(exchange: Exchange) -> None:
        await exchange.begin()
        for delta in deltas:
            await exchange.delta(**delta)
        if finish_reason:
            await exchange.delta(finish_reason)
        if usage:
            await exchange.event({"choices": [], "usage": usage})
        await exchange.end()

    return respond


def text_of(events: list[ChatEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, ChatText))


def calls_of(events: list[ChatEvent]) -> dict[int, tuple[str | None, str | None, str]]:
    result: dict[int, tuple[str | None, str | None, str]] = {}
    for event in events:
        if isinstance(event, ChatToolCall):
            call_id, name, arguments = result.get(event.index, (None, None, ""))
            assert (call_id is None) == (event.index not in result)
            result[event.index] = (call_id or event.call_id, name or event.name, arguments + event.arguments)
    return result
