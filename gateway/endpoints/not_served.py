"""Parts of OpenAI's Realtime API that this gateway does not serve: one clear sentence instead of a riddle."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from gateway.endpoints.access import Refusal
from gateway.endpoints.errors import deny, error_response

CALLS = Refusal(
    404,
    "This gateway serves Realtime sessions over WebSocket only: it takes no WebRTC or SIP calls, so there is no call "
    "to create, accept, reject, refer, hang up or listen to.",
)
TRANSLATIONS = Refusal(404, "This gateway does not serve translation sessions: connect to /v1/realtime instead.")

ALL_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def not_served_routes(path: str, refusal: Refusal) -> list[BaseRoute]:
    """Return routes that answer `path` and everything below it with `refusal`, over HTTP and at an upgrade."""

    async def http(_request: Request) -> JSONResponse:
        return error_response(refusal)

    async def socket(websocket: WebSocket) -> None:
        await deny(websocket, refusal)

    return [
        route
        for pattern in (path, path + "/{rest:path}")
        for route in (Route(pattern, http, methods=ALL_METHODS), WebSocketRoute(pattern, socket))
    ]


async def webrtc_not_served(_request: Request) -> JSONResponse:
    """Answer an SDP offer at the socket's path (beta WebRTC)."""
    return error_response(CALLS)
