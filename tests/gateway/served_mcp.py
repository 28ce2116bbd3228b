"""MCP servers on real loopback ports, built with the library's own framework."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.serving import open_sockets


@dataclass
class ServedMcp:
    """A running server: what it was asked over HTTP, and the switches of its tools."""

    base_url: str
    requests: list[dict[str, str]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    release: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"{self.base_url}/mcp"

    @property
    def sse_url(self) -> str:
        return f"{self.base_url}/sse"


def tools(served: ServedMcp) -> MCPServer:
    """Return a server with a tool of each kind."""
    server = MCPServer("test server")

    @server.tool(description="Add two numbers.", annotations=ToolAnnotations(read_only_hint=True))
    def add(a: int, b: int) -> str:
        served.calls.append("add")
        return str(a + b)

    @server.tool(description="Delete everything.")
    def wipe() -> str:
        served.calls.append("wipe")
        return "wiped"

    @server.tool()
    def fail() -> str:
        served.calls.append("fail")
        raise ToolError("the database is down")

    @server.tool()
    def long(characters: int) -> str:
        return "x" * characters

    @server.tool()
    def structured() -> dict[str, int]:
        return {"degrees": 21}

    @server.tool()
    async def wait() -> str:
        served.calls.append("wait")
        try:
            await served.release.wait()
        except asyncio.CancelledError:
            served.cancelled.set()
            raise
        return "waited"

    return server


class Recorded:
    """Notes the headers of each HTTP request; refuses those without the key it wants."""

    def __init__(self, app: ASGIApp, served: ServedMcp, wanted: str | None, status: int) -> None:
        self._app = app
        self._served = served
        self._wanted = wanted
        self._status = status

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            self._served.requests.append({"method": scope["method"], "path": scope["path"], **headers})
            if self._wanted is not None and headers.get("authorization") != self._wanted:
                await send({"type": "http.response.start", "status": self._status, "headers": []})
                await send({"type": "http.response.body", "body": b"go away"})
                return
        await self._app(scope, receive, send)


@asynccontextmanager
async def served_app(make: Callable[[ServedMcp], ASGIApp], port: int = 0) -> AsyncIterator[ServedMcp]:
    """Serve an ASGI app inside `async with`."""
    sockets = open_sockets(("127.0.0.1",), port)
    served = ServedMcp(f"http://127.0.0.1:{sockets[0].getsockname()[1]}")
    config = uvicorn.Config(make(served), log_config=None, lifespan="on", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server._serve(sockets))  # without uvicorn's signal handlers
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.005)
    try:
        yield served
    finally:
        served.release.set()
        server.should_exit = True
        server.force_exit = True
        await serving
        for bound in sockets:
            bound.close()


@asynccontextmanager
async def serve_mcp(
    *, sse: bool = False, wanted: str | None = None, status: int = 401, port: int = 0, **options: Any
) -> AsyncIterator[ServedMcp]:
    """Serve the test server; `sse`: over the older transport only, `wanted`: the Authorization header that it wants."""

    def make(served: ServedMcp) -> ASGIApp:
        server = tools(served)
        app = server.sse_app(**options) if sse else server.streamable_http_app(**options)
        return Recorded(app, served, wanted, status)

    async with served_app(make, port) as served:
        yield served


def unused_port() -> int:
    """Return a port that nobody listens on."""
    (bound,) = open_sockets(("127.0.0.1",), 0)
    port: int = bound.getsockname()[1]
    bound.close()
    return port
