"""A streamed chat reply as it comes over HTTP, below the adapter: what the server sends."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass

from gateway.doctor.endpoint import Endpoint, http_client
from models.engines.openai_endpoint import normal_base_url

_MESSAGES = [{"role": "user", "content": "Please count from one to twelve in words."}]

_MOST_EVENTS = 4_096
"""Events of a stream that are looked at (chosen): the reply asked for has some fifty."""


@dataclass(slots=True)
class RawReply:
    """What was seen of one reply: a line that is no JSON, an error object, HTML, or JSON outside a stream (`whole`)."""

    status: int = 0
    content_type: str = ""
    events: int = 0
    broken: bool = False
    error: bool = False
    page: bool = False
    whole: bool = False


async def raw_reply(endpoint: Endpoint, limit_s: float) -> RawReply:
    """Return what the server sends on a plain chat request, as far as it comes in `limit_s`. Raises nothing."""
    reply = RawReply()
    try:
        async with asyncio.timeout(limit_s):
            await _read(reply, endpoint, limit_s)
    except Exception:  # the adapter's own failure is what is told; this look only says more about it
        pass
    return reply


async def _read(reply: RawReply, endpoint: Endpoint, limit_s: float) -> None:
    body = {"model": endpoint.model, "messages": _MESSAGES, "max_tokens": 64, "stream": True}
    url = normal_base_url(endpoint.base_url) + "/chat/completions"
    async with (
        http_client(endpoint, limit_s) as client,
        client.stream("POST", url, json=body) as response,
    ):
        reply.status = response.status_code
        reply.content_type = response.headers.get("content-type", "").lower()
        async for line in response.aiter_lines():
            if line.startswith("data:"):
                payload = line[5:].strip()
                if payload != "[DONE]":
                    _event(reply, payload)
            elif line.strip()[:1] in ("{", "["):
                reply.whole = True
            elif line.lstrip()[:9].lower().startswith(("<!doctype", "<html")):
                reply.page = True
            if reply.events > _MOST_EVENTS:
                return


def _event(reply: RawReply, payload: str) -> None:
    reply.events += 1
    try:
        event = json.loads(payload)
    except (ValueError, RecursionError):
        reply.broken = True
    else:
        reply.error = reply.error or (isinstance(event, dict) and "error" in event)
