"""`/v1/realtime`: the handshake, then one session between one reader and one writer of a WebSocket."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from gateway.endpoints.access import KEY_SUBPROTOCOL, Refusal, subprotocol_choice
from gateway.endpoints.dialect import dialect_of
from gateway.endpoints.errors import deny, error_frame, refuse_in_words
from gateway.endpoints.keys import Admission, Keys
from gateway.endpoints.not_served import CALLS
from gateway.endpoints.socket_session import RealtimeSession, SocketSession
from gateway.endpoints.unknown_models import UnknownModels
from gateway.service import Service, ServiceState
from gateway.session_request import CASCADE, DUPLEX, SessionRequest
from protocol.errors import ProtocolError
from protocol.gateway_extension import from_query
from protocol.session_settings import SessionKind
from protocol.wire import Dialect

logger = logging.getLogger(__name__)

NAMES_OF_BACKENDS = (CASCADE, DUPLEX, "twin")
"""Names that never fall back to another backend (design §1)."""


SessionFactory = Callable[[SessionRequest], RealtimeSession]


NO_PLACE = (
    "The full-duplex model holds as many conversations as it can in real time: end another one, or set how many it may "
    "hold (DUPLEX_GATEWAY_DUPLEX_SESSIONS)."
)


class ModelNotFound(Exception):
    """The client named a backend of ours that isn't available. The text says why."""


def choose_backend(model: str | None, served: Sequence[str] = (CASCADE,)) -> str:
    """Return which of the backends `served` a client's `?model=` means; any name that isn't ours gets the first.

    Raises ModelNotFound.
    """
    if model in NAMES_OF_BACKENDS and model not in served:
        raise ModelNotFound(_not_there(model, served))
    return model if model is not None and model in served else served[0]


def choose_recogniser(model: str | None, served: Sequence[str]) -> str:
    """Return which of the backends `served` a transcription session gets: another server that `model` names, else ours.

    `model` is the recogniser's name there, so that no name of ours is looked for. Raises ModelNotFound.
    """
    if model is not None and model in served and model not in NAMES_OF_BACKENDS:
        return model
    if CASCADE in served:
        return CASCADE
    if served[0] in NAMES_OF_BACKENDS:
        raise ModelNotFound(_no_recogniser(served[1:]))
    return served[0]


def _not_there(model: str, served: Sequence[str]) -> str:
    """Return why a backend of ours isn't among those that are `served`."""
    match model:
        case "cascade":
            why = f"this gateway serves {_quoted(served)} only."
        case "duplex":
            why = (
                "this gateway has no native full-duplex model loaded, and DUPLEX_BASE_URL names no server that has one."
            )
        case _:
            why = "a session with two backends is not built yet."
    return f"The model `{model}` is not available: {why}"


def _no_recogniser(others: Sequence[str]) -> str:
    """Return why there is no dictation where a full-duplex model is the default. `others`: what else is served."""
    if others:
        return (
            "There are no transcription sessions with a full-duplex model, which answers what it hears. "
            f"Name another model of this gateway as ?model=: {_quoted(others)}."
        )
    return (
        "There are no transcription sessions here: this server has a full-duplex model only, which answers what it "
        "hears. Connect to a gateway that serves the cascade."
    )


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def session_kind(intent: str | None) -> SessionKind:
    """Return what the `?intent=` of a handshake asks for; anything but `transcription` is a conversation."""
    return "transcription" if intent == "transcription" else "realtime"


class RealtimeEndpoint:
    """Serves the sockets of one app. `open_session` may be called once the service is ready."""

    def __init__(self, service: Service, open_session: SessionFactory, *, keys: Keys, session_limit_s: float) -> None:
        self._service = service
        self._open_session = open_session
        self._keys = keys
        self._session_limit_s = session_limit_s
        self._unknown_models = UnknownModels()

    async def serve(self, websocket: WebSocket) -> None:
        """Serve one client from its handshake to its end. Raises nothing but cancellation."""
        try:
            await websocket.receive()  # websocket.connect
            admission = self._keys.admit(websocket)
            if isinstance(admission, Refusal):
                await (refuse_in_words if _reads_events_only(websocket) else deny)(websocket, admission)
                return
            refusal = self._refusal(websocket)
            if refusal is not None:
                await deny(websocket, refusal)
                return
            with self._service.session():
                await websocket.accept(subprotocol_choice(websocket.scope["subprotocols"]))
                await self._serve_accepted(websocket, admission)
        except (WebSocketDisconnect, OSError):
            # Starlette wraps the server's OSError only after the accept; both say that the client is gone.
            logger.debug("a client left during its handshake")

    def _refusal(self, websocket: WebSocket) -> Refusal | None:
        if "call_id" in websocket.query_params:
            return CALLS
        if self._service.state is not ServiceState.READY:
            return Refusal(503, "The gateway's engines are not loaded yet: try again.", "server_error", "not_ready")
        if self._service.full:
            return Refusal(503, "All sessions are taken: try again later.", "server_error", "sessions_exhausted")
        return None

    async def _serve_accepted(self, websocket: WebSocket, admission: Admission) -> None:
        try:
            ours = from_query(websocket.query_params)
        except ProtocolError as error:
            await websocket.send_text(error_frame(error.code, error.message, error.type, error.param))
            await websocket.close(4000, f"{error.type}.{error.code}")
            return
        configured = {**(admission.session or {}), **ours}
        model = _model(websocket.query_params, configured)
        kind: SessionKind = configured.get("type") or session_kind(websocket.query_params.get("intent"))
        try:
            served = self._service.backends
            backend = choose_recogniser(model, served) if kind == "transcription" else choose_backend(model, served)
        except ModelNotFound as error:
            await websocket.send_text(error_frame("model_not_found", str(error)))
            await websocket.close(4000, "invalid_request_error.model_not_found")
            return
        if kind != "transcription":
            self._unknown_models.opened(model, backend, served)
        # Upwards: the client gets its whole time, and the close comes in the second that it was told.
        now_s = time.time()
        expires_at_s = math.ceil(now_s + self._session_limit_s)
        request = SessionRequest(
            backend,
            model,
            _dialect(websocket),
            dict(websocket.query_params),
            kind,
            configured or None,
            expires_at_s,
        )
        limit_min = max(1, round(self._session_limit_s / 60))
        served_by = SocketSession(websocket, lambda: self._open_session(request), expires_at_s - now_s, limit_min)
        if backend != DUPLEX:
            await served_by.run()
            return
        async with self._service.full_duplex_session() as has_place:
            if has_place:
                await served_by.run()
                return
        await websocket.send_text(error_frame("sessions_exhausted", NO_PLACE, "server_error"))
        await websocket.close(1013, "server_error.sessions_exhausted")


def _model(query: Mapping[str, str], session: Mapping[str, Any]) -> str | None:
    """Return the client's word for the model: the URL's (Azure: its deployment's name), else its ephemeral key's."""
    return query.get("model") or query.get("deployment") or session.get("model")


def _dialect(websocket: WebSocket) -> Dialect:
    return dialect_of(websocket.headers, websocket.scope["subprotocols"], websocket.query_params)


def _reads_events_only(websocket: WebSocket) -> bool:
    """Say whether the client learns of a bad key by an event only, and not by the answer to its upgrade.

    Pages send an Origin and their key as a subprotocol; beta clients expect what OpenAI does.
    """
    offered = websocket.scope["subprotocols"]
    if any(entry.startswith(KEY_SUBPROTOCOL) for entry in offered) or _dialect(websocket) is Dialect.BETA:
        return True
    by_header = "authorization" in websocket.headers or "api-key" in websocket.headers
    return not by_header and (bool(offered) or "origin" in websocket.headers)
