"""The connection to one MCP server: opened when first needed, kept for the session, opened again if it broke."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar

import httpx2
from mcp import Client
from mcp.client import Transport
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import Implementation

from gateway.mcp.failures import first_leaf
from gateway.mcp.http_client import CONNECT_TIMEOUT_S, READ_TIMEOUT_S, TRACE, HttpTrace, open_http_client
from gateway.rooms import distribution_version
from protocol.mcp_servers import McpServer

T = TypeVar("T")

_SPEAKS_SSE_ONLY = frozenset({400, 404, 405})
"""With these an older server refuses a POST to its SSE address (MCP 2025-03-26: backwards compatibility)."""

_SESSION_GONE = 404
"""With this a server answers a call in a session that it has forgotten (MCP: session management)."""


class ServerConnection:
    """One server. The library's client must be left in the task that entered it, so a task holds it."""

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._holder: asyncio.Task[None] | None = None
        self._opened: asyncio.Future[Client] | None = None
        self._leave = asyncio.Event()
        self._users = 0
        self._broke: Exception | None = None

    @property
    def is_open(self) -> bool:
        """Whether the server has been reached and the connection stands."""
        return self._holder is not None and not self._holder.done() and self._opened is not None and self._opened.done()

    async def use(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Return what `work` makes of the connected client.

        Raises what the library or the network raised. A server that forgot the session is connected anew, once.
        """
        known = self._holder
        self._users += 1
        try:
            return await self._use(work)
        except MCPError:
            trace = TRACE.get()
            if known is None or trace is None or trace.status != _SESSION_GONE:
                raise
            if self._holder is known:  # else another user of the forgotten session has been here
                await self.close(0.0)
            return await self._use(work)
        finally:
            self._users -= 1
            if not self._users and not self.is_open:
                await self.close(0.0)  # what nobody waits for any more; the next user connects anew

    async def _use(self, work: Callable[[Client], Awaitable[T]]) -> T:
        client = await self._client()
        holder = self._holder
        try:
            return await work(client)
        except MCPError:
            if holder is not None and holder.done() and self._broke is not None:
                raise self._broke from None  # "connection closed" is what the library says of it
            raise

    async def _client(self) -> Client:
        if self._holder is None or self._holder.done():
            self._leave.clear()
            self._broke = None
            self._opened = asyncio.get_running_loop().create_future()
            self._holder = asyncio.create_task(self._hold(self._opened))
        assert self._opened is not None
        return await asyncio.shield(self._opened)  # others may wait for it too

    async def _hold(self, opened: asyncio.Future[Client]) -> None:
        """Keep the client open until told to leave."""
        try:
            async with _connected(self._server) as client:
                opened.set_result(client)
                await self._leave.wait()
        except Exception as error:  # whatever the library threw: those who wait for the connection are told of it
            self._broke = _as_exception(error)
        finally:
            if not opened.done():
                # Whoever waits for the connection gets it. Never a cancellation, which would end them without a word.
                opened.set_exception(self._broke or ConnectionAbortedError("the connection was given up"))
                opened.exception()  # asyncio complains about errors that nobody asked for; here that is nobody's

    async def close(self, patience_s: float) -> None:
        """Leave the server properly, or after `patience_s` at once."""
        holder, self._holder = self._holder, None
        if holder is None:
            return
        self._leave.set()
        _, late = await asyncio.wait({holder}, timeout=patience_s)
        for task in late:
            task.cancel()


def _as_exception(error: Exception) -> Exception:
    leaf = first_leaf(error)
    return leaf if isinstance(leaf, Exception) else error


@asynccontextmanager
async def _connected(server: McpServer) -> AsyncIterator[Client]:
    """Connect by streamable HTTP, or by SSE to a server that knows nothing newer."""
    trace = TRACE.get() or HttpTrace()
    TRACE.set(trace)
    async with AsyncExitStack() as opened:
        http_client = await opened.enter_async_context(open_http_client(server))
        try:
            client = await opened.enter_async_context(
                _client(streamable_http_client(server.url, http_client=http_client))
            )
        except Exception as error:  # the library's refusal may lie inside exception groups; all others are raised on
            if not isinstance(first_leaf(error), MCPError) or trace.status not in _SPEAKS_SSE_ONLY:
                raise
            client = await opened.enter_async_context(_client(_sse_transport(server)))
        yield client


def _client(transport: Transport) -> Client:
    name = Implementation(name="duplex-gateway", version=distribution_version())
    return Client(transport, client_info=name, cache=None)  # a list is asked for once, so there is nothing to keep


def _sse_transport(server: McpServer) -> Transport:
    def http_client(
        headers: dict[str, str] | None = None, timeout: httpx2.Timeout | None = None, auth: httpx2.Auth | None = None
    ) -> httpx2.AsyncClient:
        return open_http_client(server)

    return sse_client(
        server.url,
        timeout=CONNECT_TIMEOUT_S,
        sse_read_timeout=READ_TIMEOUT_S,
        httpx_client_factory=http_client,
    )
