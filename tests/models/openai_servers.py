"""Working OpenAI-compatible servers: chat, transcription, speech, and one that does it all. Tests spoil them."""

from __future__ import annotations

import asyncio
import json
import math
import struct
from collections.abc import Sequence
from typing import Any

from tests.models.chat_server import Exchange, Respond

MODEL = "some-model"
WORDS = "One, two, three, four, five, six, seven, eight, nine, ten, eleven, twelve.".split(" ")
RATE_HZ = 24_000
CHUNK_BYTES = 4_800


def server(
    *,
    chat: Respond | None = None,
    transcription: Respond | None = None,
    speech: Respond | None = None,
    models: Sequence[dict[str, Any]] = ({"id": MODEL, "object": "model", "owned_by": "somebody"},),
    key: str = "",
    others: dict[str, Respond] | None = None,
) -> Respond:
    """Return a server of these roles, which lists `models` and wants `key` if there is one."""
    handlers: dict[str, Respond | None] = {
        "/v1/models": answer({"object": "list", "data": list(models)}),
        "/v1/chat/completions": chat,
        "/v1/audio/transcriptions": transcription,
        "/v1/audio/speech": speech,
        **(others or {}),
    }

    async def respond(exchange: Exchange) -> None:
        handler = handlers.get(exchange.path) or refusing(404, "not_found")
        if key and exchange.headers.get("authorization") != f"Bearer {key}":
            handler = refusing(401, "invalid_api_key")
        await handler(exchange)

    return respond


def answer(body: Any, status: int = 200) -> Respond:
    """Return what answers with JSON."""

    async def respond(exchange: Exchange) -> None:
        await exchange.refuse(status, json.dumps(body))

    return respond


def refusing(status: int, code: str = "some_error", message: str = "No.") -> Respond:
    """Return what answers with OpenAI's error object."""
    return answer({"error": {"message": message, "type": code, "code": code}}, status)


async def chatting(exchange: Exchange) -> None:
    """Count in words, or look the stock up if there is a function for it."""
    await exchange.begin()
    if exchange.body.get("tools"):
        call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "get_stock", "arguments": ""}}
        await exchange.delta(tool_calls=[call])
        await exchange.delta(tool_calls=[{"index": 0, "function": {"arguments": '{"sku": "A17"}'}}])
        await exchange.delta("tool_calls")
    else:
        for word in WORDS:
            await exchange.delta(content=f"{word} ")
        await exchange.delta("stop")
    await exchange.end()


def hearing(text: str) -> Respond:
    """Return what hears `text` in any audio."""
    return answer({"text": text, "language": "english"})


def tone(seconds: float, rate_hz: int = RATE_HZ) -> bytes:
    """Return PCM16 that is audible and no language."""
    samples = (int(6_000 * math.sin(2 * math.pi * 220 * at / rate_hz)) for at in range(int(seconds * rate_hz)))
    return b"".join(struct.pack("<h", sample) for sample in samples)


def wav(pcm: bytes, rate_hz: int = RATE_HZ) -> bytes:
    """Return a WAV file of `pcm`."""
    form = struct.pack("<HHIIHH", 1, 1, rate_hz, rate_hz * 2, 2, 16)
    head = b"RIFF" + struct.pack("<I", 36 + len(pcm)) + b"WAVEfmt " + struct.pack("<I", len(form)) + form
    return head + b"data" + struct.pack("<I", len(pcm)) + pcm


def speaking(pcm: bytes | None = None, rate_hz: int = RATE_HZ, *, as_wav: bytes | None = None) -> Respond:
    """Return what says everything in `pcm`, streamed in pieces."""
    pcm = tone(3.2, rate_hz) if pcm is None else pcm

    async def respond(exchange: Exchange) -> None:
        wanted = exchange.body.get("response_format", "mp3")
        data = (wav(pcm, rate_hz) if as_wav is None else as_wav) if wanted == "wav" else pcm
        await begin_audio(exchange, "audio/wav" if wanted == "wav" else "audio/pcm")
        for start in range(0, len(data), CHUNK_BYTES):
            await exchange.raw(data[start : start + CHUNK_BYTES])
        await finish(exchange)

    return respond


async def begin_audio(exchange: Exchange, content_type: str = "audio/pcm") -> None:
    exchange.writer.write(
        f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    )
    await exchange.writer.drain()


async def finish(exchange: Exchange) -> None:
    exchange.writer.write(b"0\r\n\r\n")
    await exchange.writer.drain()


async def hang(exchange: Exchange) -> None:
    """Answer nothing until the client hangs up."""
    await asyncio.Event().wait()
