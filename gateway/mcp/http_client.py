"""The HTTP client of one MCP server: the client's keys for that server only, bounded answers, and what HTTP said."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import httpx2

from gateway.loopback import is_loopback
from protocol.mcp_servers import McpServer

CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 300.0
"""Longest silence of a stream (the MCP library's own); calls have deadlines of their own."""

MAX_ANSWER_BYTES = 8 * 2**20
"""Longest answer that is read (chosen). Of an event stream that is the limit of one event, 1 MiB in the library."""


@dataclass(slots=True)
class HttpTrace:
    """The HTTP status of the last refused request of one call; None if the last one was not refused.

    The library tells that a server refused, not with which status.
    """

    status: int | None = None


TRACE: ContextVar[HttpTrace | None] = ContextVar("mcp_http_trace", default=None)
"""The trace of the call that is being made; the library sends in the context of its caller."""


class AnswerTooLarge(httpx2.StreamError):
    """The server's answer is longer than the gateway reads; the library makes an answer of it that failed."""

    def __init__(self) -> None:
        super().__init__(f"it is larger than {MAX_ANSWER_BYTES // 2**20} MiB or compressed")


def open_http_client(server: McpServer) -> httpx2.AsyncClient:
    """Return a client that sends the server's keys with each request, to wherever the caller sends it.

    The MCP library sends to the server's own origin only and follows no redirect to another. The proxies and
    certificates of the user's environment serve other hosts, never this machine.
    """
    return _BoundedClient(
        headers={**server.http_headers(), "Accept-Encoding": "identity", "User-Agent": "duplex-gateway"},
        timeout=httpx2.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
        trust_env=not is_loopback(httpx2.URL(server.url).host),
        follow_redirects=False,
    )


class _BoundedClient(httpx2.AsyncClient):
    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send as httpx2 does; note a refusal and bound the answer."""
        trace = TRACE.get()
        response = await super().send(request, **options)
        if trace is not None and request.method == "POST":
            trace.status = response.status_code if response.status_code >= 400 else None
        is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        compressed = response.headers.get("content-encoding", "identity").lower() != "identity"
        if isinstance(response.stream, httpx2.AsyncByteStream) and (compressed or not is_stream):
            response.stream = _Bounded(response.stream, 0 if compressed else MAX_ANSWER_BYTES)
        return response


class _Bounded(httpx2.AsyncByteStream):
    """A response's body that ends in AnswerTooLarge after `most` bytes."""

    def __init__(self, body: httpx2.AsyncByteStream, most: int) -> None:
        self._body = body
        self._left = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._body:
            self._left -= len(chunk)
            if self._left < 0:
                raise AnswerTooLarge
            yield chunk

    async def aclose(self) -> None:
        await self._body.aclose()
