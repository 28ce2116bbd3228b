"""Reads the JSON body of a request, bounded in size and time, and answers what is none as OpenAI does."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import ClientDisconnect, Request

from gateway.endpoints.access import Refusal
from gateway.endpoints.errors import Refused
from protocol.client_events import json_object
from protocol.errors import ProtocolError

MAX_BODY_BYTES = 2**20
"""Largest body (chosen): instructions of 256 Ki characters and a shelf of tools fit."""

BODY_DEADLINE_S = 20.0
"""How long a body may take to arrive (chosen)."""

_NOT_JSON = "We could not parse the JSON body of your request."


async def json_body(request: Request) -> dict[str, Any]:
    """Return the request's JSON object, {} if it has no body. Raises Refused."""
    try:
        async with asyncio.timeout(BODY_DEADLINE_S):
            content = await _bounded(request)
    except TimeoutError:
        raise Refused(Refusal(408, "The body of your request took too long to arrive.")) from None
    except ClientDisconnect:
        raise Refused(Refusal(400, "The body of your request ended too early.")) from None
    if not content.strip():
        return {}
    kind = request.headers.get("content-type", "application/json")
    if kind.partition(";")[0].strip().lower() != "application/json":
        message = f"Unsupported content type: '{kind[:80]}'. This API method only accepts 'application/json' requests."
        raise Refused(Refusal(400, message, code="unsupported_content_type"))
    try:
        return json_object(content.decode())
    except (UnicodeDecodeError, ProtocolError):
        raise Refused(Refusal(400, _NOT_JSON)) from None


async def _bounded(request: Request) -> bytes:
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > MAX_BODY_BYTES:
            message = f"The body of your request is too large. It may hold at most {MAX_BODY_BYTES} bytes."
            raise Refused(Refusal(413, message, code="request_too_large"))
    return bytes(content)
