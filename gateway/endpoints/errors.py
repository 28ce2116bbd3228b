"""Answers that are not a session: OpenAI's error bodies over HTTP, `error` events over a socket."""

from __future__ import annotations

import json

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.websockets import WebSocket

from gateway.endpoints.access import Refusal, subprotocol_choice
from protocol.ids import random_id

KEY_REFUSED_CODE = 3000
"""Close code for a bad key ("unauthorized" in IANA's registry)."""


class Refused(Exception):
    """A request is answered with `refusal`."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def error_response(refusal: Refusal) -> JSONResponse:
    """Return `refusal` as an HTTP response."""
    headers = {"WWW-Authenticate": "Bearer"} if refusal.status == 401 else {}
    if refusal.status == 503:
        headers["Retry-After"] = "2"
    return JSONResponse(refusal.body(), refusal.status, headers)


def error_frame(code: str, message: str, error_type: str = "invalid_request_error", param: str | None = None) -> str:
    """Return an `error` event that no client event caused, as a text frame."""
    error = {"type": error_type, "code": code, "message": message, "param": param, "event_id": None}
    return json.dumps({"type": "error", "event_id": random_id("event"), "error": error})


async def refuse_in_words(websocket: WebSocket, refusal: Refusal) -> None:
    """Accept an upgrade, say why in an `error` event and close with 3000, as OpenAI does.

    For clients that cannot read the answer to a refused upgrade: no script in a page can.
    """
    await websocket.accept(subprotocol_choice(websocket.scope["subprotocols"]))
    await websocket.send_text(error_frame(refusal.code or "", refusal.message, refusal.type))
    await websocket.close(KEY_REFUSED_CODE, f"{refusal.type}.{refusal.code}")


async def deny(websocket: WebSocket, refusal: Refusal) -> None:
    """Answer an upgrade with `refusal` instead of a socket; where the server can't, it answers a bare 403."""
    if "websocket.http.response" in websocket.scope.get("extensions", {}):
        await websocket.send_denial_response(error_response(refusal))
    else:
        await websocket.close(1008, refusal.message)


async def http_error(request: Request, error: Exception) -> JSONResponse:
    """Answer Starlette's own refusals (no such path, wrong method) in OpenAI's shape."""
    if not isinstance(error, HTTPException):
        raise TypeError("http_error answers HTTPException only") from error
    messages = {
        404: f"Invalid URL ({request.method} {request.url.path})",
        405: f"Not allowed to {request.method} on {request.url.path}",
    }
    return error_response(Refusal(error.status_code, messages.get(error.status_code, error.detail)))


async def server_error(_request: Request, _error: Exception) -> JSONResponse:
    """Answer a bug in an HTTP endpoint; Starlette logs the stack."""
    return error_response(Refusal(500, "The server had an error while processing your request.", "server_error"))


async def unknown_socket(websocket: WebSocket) -> None:
    """Refuse a socket at a path where none is served."""
    await deny(websocket, Refusal(404, f"Invalid URL (GET {websocket.url.path})"))


async def upgrade_required(_request: Request) -> JSONResponse:
    """Answer plain HTTP where a socket is served."""
    response = error_response(Refusal(426, "This is a WebSocket: connect with ws:// and the Realtime API."))
    response.headers["Upgrade"] = "websocket"
    return response
