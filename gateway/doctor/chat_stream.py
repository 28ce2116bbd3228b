"""A streamed chat reply as it comes over HTTP, below the adapter: what the server sends, and when."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway.doctor.endpoint import Endpoint, http_client
from models.engines.openai_endpoint import normal_base_url

_THINK = "<think"


@dataclass(slots=True)
class RawReply:
    """What was seen of one reply. Times are from the request on; `reasoning`: characters of thoughts.

    `broken`: a line that is no JSON; `error`: an error object in the stream; `page`: HTML.
    """

    status: int = 0
    content_type: str = ""
    events: int = 0
    broken: bool = False
    error: bool = False
    page: bool = False
    whole: bool = False
    text: int = 0
    reasoning: int = 0
    first_text_ms: float = 0.0


async def raw_reply(endpoint: Endpoint, body: Mapping[str, Any], limit_s: float) -> RawReply:
    """Return what the server sends on the chat request `body`, as far as it comes in `limit_s`. Raises nothing."""
    reply = RawReply()
    try:
        async with asyncio.timeout(limit_s):
            await _read(reply, endpoint, body, limit_s)
    except Exception:
        pass
    return reply


async def _read(reply: RawReply, endpoint: Endpoint, body: Mapping[str, Any], limit_s: float) -> None:
    began_s = time.perf_counter()
    url = normal_base_url(endpoint.base_url) + "/chat/completions"
    async with (
        http_client(endpoint, limit_s) as client,
        client.stream("POST", url, json={**body, "stream": True}) as response,
    ):
        reply.status = response.status_code
        reply.content_type = response.headers.get("content-type", "").lower()
        async for line in response.aiter_lines():
            if line.startswith("data:"):
                payload = line[5:].strip()
                if payload != "[DONE]":
                    _event(reply, payload, (time.perf_counter() - began_s) * 1000)
            elif line.strip()[:1] in ("{", "["):
                reply.whole = True
            elif line.lstrip()[:9].lower().startswith(("<!doctype", "<html")):
                reply.page = True


def _event(reply: RawReply, payload: str, at_ms: float) -> None:
    reply.events += 1
    try:
        event = json.loads(payload)
        if "error" in event:
            reply.error = True
        delta = ((event.get("choices") or [{}])[0].get("delta")) or {}
        text = delta.get("content") or ""
        thoughts = delta.get("reasoning_content") or delta.get("reasoning") or ""
    except (ValueError, AttributeError, IndexError, TypeError):
        reply.broken = True
        return
    if isinstance(thoughts, str):
        reply.reasoning += len(thoughts)
    if isinstance(text, str) and text:
        if reply.text == 0 and text.lstrip().startswith(_THINK):
            reply.reasoning += len(text)
        reply.first_text_ms = reply.first_text_ms or at_ms
        reply.text += len(text)
