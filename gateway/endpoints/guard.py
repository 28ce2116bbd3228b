"""The door of all paths: checks Host and Origin before anything is served."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from gateway.endpoints.access import Refusal, host_refusal, origin_refusal
from gateway.endpoints.errors import deny, error_response


class Guard:
    """ASGI middleware, so that no path added later can be forgotten."""

    def __init__(
        self, app: ASGIApp, *, bound: Sequence[str], allow_host: Sequence[str], allow_origin: Sequence[str]
    ) -> None:
        self._app = app
        self._bound = bound
        self._allow_host = allow_host
        self._allow_origin = allow_origin

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the connection on or refuse it."""
        refusal = self._refusal(scope) if scope["type"] in {"http", "websocket"} else None
        if refusal is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await error_response(refusal)(scope, receive, send)
        else:
            websocket = WebSocket(scope, receive, send)
            await websocket.receive()  # websocket.connect
            await deny(websocket, refusal)

    def _refusal(self, scope: Scope) -> Refusal | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        local_address = scope["server"][0] if scope.get("server") else ""
        return host_refusal(
            host, bound=self._bound, allowed=self._allow_host, local_address=local_address
        ) or origin_refusal(headers.get("origin"), host=host, allowed=self._allow_origin)
