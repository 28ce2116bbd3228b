"""`/v1/realtime`: the handshake, then one session between one reader and one writer of a WebSocket."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from starlette.websockets import WebSocket, WebSocketDisconnect

from gateway.endpoints.access import Refusal, key_refusal, subprotocol_choice
from gateway.endpoints.dialect import dialect_of
from gateway.endpoints.errors import deny, error_frame
from gateway.endpoints.socket_session import RealtimeSession, SocketSession
from gateway.service import Service, ServiceState
from protocol.session_settings import SessionKind
from protocol.wire import Dialect

logger = logging.getLogger(__name__)

CASCADE = "cascade"
NOT_SERVED_YET = {
    "duplex": "The model `duplex` is not available: this gateway has no native full-duplex model loaded.",
    "twin": "The model `twin` is not available: it compares two backends and this gateway has only one.",
}
"""Names that never fall back to another backend (design §1)."""


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """What a client asked for in its handshake. `model` is its own word for it, `backend` ours.

    In a transcription session `model` means the recogniser (LiveKit's STT plugin sends both parameters).
    """

    backend: str
    model: str | None
    beta: bool
    query: Mapping[str, str]
    kind: SessionKind = "realtime"


SessionFactory = Callable[[SessionRequest], RealtimeSession]


class ModelNotFound(Exception):
    """The client named a backend of ours that isn't available. The text says why."""


def choose_backend(model: str | None) -> str:
    """Return the backend for a client's `?model=`; any name that isn't ours gets the default. Raises ModelNotFound."""
    if model in NOT_SERVED_YET:
        raise ModelNotFound(NOT_SERVED_YET[model])
    return CASCADE


def session_kind(intent: str | None) -> SessionKind:
    """Return what the `?intent=` of a handshake asks for; anything but `transcription` is a conversation."""
    return "transcription" if intent == "transcription" else "realtime"


class RealtimeEndpoint:
    """Serves the sockets of one app. `open_session` may be called once the service is ready."""

    def __init__(self, service: Service, open_session: SessionFactory, *, api_key: str, session_limit_s: float) -> None:
        self._service = service
        self._open_session = open_session
        self._api_key = api_key
        self._session_limit_s = session_limit_s

    async def serve(self, websocket: WebSocket) -> None:
        """Serve one client from its handshake to its end. Raises nothing but cancellation."""
        try:
            await websocket.receive()  # websocket.connect
            refusal = self._refusal(websocket)
            if refusal is not None:
                await deny(websocket, refusal)
                return
            with self._service.session():
                await websocket.accept(subprotocol_choice(websocket.scope["subprotocols"]))
                await self._serve_accepted(websocket)
        except (WebSocketDisconnect, OSError):
            # Starlette wraps the server's OSError only after the accept; both say that the client is gone.
            logger.debug("a client left during its handshake")

    def _refusal(self, websocket: WebSocket) -> Refusal | None:
        refusal = key_refusal(
            self._api_key,
            authorization=websocket.headers.get("authorization", ""),
            api_key=websocket.headers.get("api-key", ""),
            subprotocols=websocket.scope["subprotocols"],
        )
        if refusal is not None:
            return refusal
        if self._service.state is not ServiceState.READY:
            return Refusal(503, "The gateway's engines are not loaded yet: try again.", "server_error", "not_ready")
        if self._service.full:
            return Refusal(503, "All sessions are taken: try again later.", "server_error", "sessions_exhausted")
        return None

    async def _serve_accepted(self, websocket: WebSocket) -> None:
        model = websocket.query_params.get("model")
        kind = session_kind(websocket.query_params.get("intent"))
        try:
            backend = CASCADE if kind == "transcription" else choose_backend(model)
        except ModelNotFound as error:
            await websocket.send_text(error_frame("model_not_found", str(error)))
            await websocket.close(4000, "invalid_request_error.model_not_found")
            return
        dialect = dialect_of(websocket.headers, websocket.scope["subprotocols"], websocket.query_params)
        request = SessionRequest(backend, model, dialect is Dialect.BETA, dict(websocket.query_params), kind)
        await SocketSession(websocket, lambda: self._open_session(request), self._session_limit_s).run()
