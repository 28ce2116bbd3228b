"""The chunks of a chat reply, from servers that stream, servers that don't, and servers that die on the way."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import cache
from typing import Any

LONGEST_WHOLE_REPLY = 4 * 1024 * 1024
"""Bytes of a reply that comes in one piece (chosen: the longest reply of a response, escaped, with room to spare)."""


class CutShort(Exception):
    """The reply ended without saying that it was whole."""


@cache
def chunk_stream() -> Any:
    """Return the SDK's stream, which notes as `said_done` whether the server closed the reply itself."""
    from openai import AsyncStream

    class ChunkStream(AsyncStream[object]):
        said_done = False

        async def _iter_events(self) -> Any:
            async for event in super()._iter_events():
                self.said_done = self.said_done or event.data.startswith("[DONE]")
                yield event

    return ChunkStream


async def chunks_of(stream: Any) -> AsyncGenerator[dict[str, Any], None]:
    """Yield a reply's chunks. One that comes whole, since the server doesn't stream, is a single chunk.

    Raises CutShort, ValueError for JSON of another shape, and the SDK's and JSON's errors.
    """
    if "html" in str(stream.response.headers.get("content-type", "")):
        raise ValueError("a web page")
    finished = False
    async with aclosing(_whole(stream) if _is_whole(stream) else _streamed(stream)) as chunks:
        async for chunk in chunks:
            if not isinstance(chunk, dict):
                raise ValueError("a chunk is no object")
            choices = chunk.get("choices") or [{}]
            finished = finished or bool(choices[0].get("finish_reason"))
            yield chunk
    if not (finished or getattr(stream, "said_done", False)):
        raise CutShort


def _is_whole(stream: Any) -> bool:
    return str(stream.response.headers.get("content-type", "")).startswith("application/json")


async def _streamed(stream: Any) -> AsyncGenerator[Any, None]:
    async for chunk in stream:
        yield chunk


async def _whole(stream: Any) -> AsyncGenerator[Any, None]:
    import openai

    data = bytearray()
    async for piece in stream.response.aiter_bytes():
        data += piece
        if len(data) > LONGEST_WHOLE_REPLY:
            raise ValueError("too long")
    reply = json.loads(data)
    if not isinstance(reply, dict):
        raise ValueError("no object")
    if error := reply.get("error"):
        raise openai.APIError("an error for a reply", request=stream.response.request, body=error)
    choices = [
        {"delta": choice.get("message") or {}, "finish_reason": choice.get("finish_reason") or "stop"}
        for choice in reply.get("choices") or ()
    ]
    yield {"choices": choices, "usage": reply.get("usage")}
