"""One session's MCP servers: lists their tools and calls them, with deadlines, and reports each result once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, TypeVar

from gateway.mcp.allowed_hosts import AllowedHosts
from protocol.mcp_items import McpFailure, McpTool
from protocol.mcp_servers import McpServer
from protocol.outputs import CallMcpTool, ListMcpTools

T = TypeVar("T")

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import Tool

    from gateway.mcp.connection import ServerConnection

logger = logging.getLogger(__name__)

LIST_DEADLINE_S = 15.0
"""Longest time to connect to a server and list its tools (chosen)."""

CALL_DEADLINE_S = 60.0
"""Longest time of one call (chosen): a caller has hung up by then."""

CLOSE_DEADLINE_S = 1.0
"""How long a closing session waits for its servers to be left properly (chosen)."""

MAX_RUNNING = 64
"""Most listings and calls at a time in one session (chosen). Overflow rule: one more fails at once."""

MAX_PAGES = 50
"""Most pages of one list of tools (chosen): a server that always has another one must end somewhere."""

Listed = Callable[[str, tuple[McpTool, ...] | McpFailure], None]
Called = Callable[[str, str | McpFailure], None]


class McpHub:
    """The connections of one session. `listed` and `called` take each order's item id and its result, once."""

    def __init__(
        self, allowed: AllowedHosts, *, listed: Listed, called: Called, call_deadline_s: float = CALL_DEADLINE_S
    ) -> None:
        self._allowed = allowed
        self._listed = listed
        self._called = called
        self._call_deadline_s = call_deadline_s
        self._connections: dict[McpServer, ServerConnection] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._crashed: asyncio.Future[None] | None = None

    async def run(self) -> None:
        """Work until cancelled; what was ordered before waits for this. Raises what a bug raises."""
        self._crashed = asyncio.get_running_loop().create_future()
        try:
            await self._crashed
        finally:
            await self._close()

    def submit(self, order: ListMcpTools | CallMcpTool) -> None:
        """Begin to carry out an order."""
        work = self._list(order) if isinstance(order, ListMcpTools) else self._call(order)
        if len(self._tasks) >= MAX_RUNNING:
            work.close()
            work = self._refuse(order)
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (bug := task.exception()) is None:
            return
        if self._crashed is not None and not self._crashed.done():
            self._crashed.set_exception(bug)

    async def _refuse(self, order: ListMcpTools | CallMcpTool) -> None:
        report = self._listed if isinstance(order, ListMcpTools) else self._called
        report(order.item_id, McpFailure("http_error", "Too many calls of MCP servers are running.", 429))

    async def _list(self, order: ListMcpTools) -> None:
        async def tools(connection: ServerConnection) -> tuple[McpTool, ...]:
            from gateway.mcp.results import tool_of

            return tuple([tool_of(tool) for tool in await connection.use(_all_tools)])

        self._listed(order.item_id, await self._tried(order.server, tools, LIST_DEADLINE_S))

    async def _call(self, order: CallMcpTool) -> None:
        async def outcome(connection: ServerConnection) -> str | McpFailure:
            from gateway.mcp.results import outcome_of

            return outcome_of(await connection.use(lambda client: client.call_tool(order.tool, order.arguments)))

        self._called(order.item_id, await self._tried(order.server, outcome, self._call_deadline_s))

    async def _tried(
        self, server: McpServer, work: Callable[[ServerConnection], Coroutine[None, None, T]], deadline_s: float
    ) -> T | McpFailure:
        """Return the result of `work`, or why there is none: nothing that a server does is a bug of ours."""
        if not self._allowed.allow(server.url):
            return McpFailure(
                "http_error", "This host is not on the gateway's list of MCP hosts (--mcp-allow-host).", 403
            )
        # The library takes half a second to import and most sessions have no use for it.
        from gateway.mcp.connection import ServerConnection
        from gateway.mcp.failures import failure_of
        from gateway.mcp.http_client import TRACE, HttpTrace

        trace = HttpTrace()
        TRACE.set(trace)
        connection = self._connections.setdefault(server, ServerConnection(server))
        try:
            async with asyncio.timeout(deadline_s):
                return await work(connection)
        except Exception as error:  # a foreign server may fail in any way; it ends one call, never the session
            failure = failure_of(error, trace.status)
            logger.warning("an MCP server failed: %s %s (%s)", failure.kind, failure.code, type(error).__name__)
            return failure

    async def _close(self) -> None:
        """Stop all work and leave all servers, within the deadline."""
        for task in self._tasks:
            task.cancel()
        connections, self._connections = self._connections, {}
        closing = [asyncio.create_task(connection.close(CLOSE_DEADLINE_S)) for connection in connections.values()]
        if ending := {*closing, *self._tasks}:
            await asyncio.wait(ending, timeout=2 * CLOSE_DEADLINE_S)


async def _all_tools(client: Client) -> list[Tool]:
    tools: list[Tool] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None:
            break
    return tools
