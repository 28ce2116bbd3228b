"""The bodies and answers of beta's REST: `POST /v1/realtime/sessions` and `/v1/realtime/transcription_sessions`.

The body is a beta session by itself, the answer the whole session with its ephemeral key in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from protocol.beta.client_events import to_ga
from protocol.beta.client_rules import TRANSLATED_RULES
from protocol.beta.server_events import session_to_beta, to_beta
from protocol.client_events import checked_session
from protocol.client_secrets import ClientSecretRequest
from protocol.errors import ProtocolError
from protocol.session_settings import SessionKind
from protocol.shapes import Rules

DEFAULT_LIFETIME_S = 60
"""How long a beta key opens sessions ("one minute": OpenAI's beta types)."""

_UPDATES: dict[SessionKind, str] = {"realtime": "session.update", "transcription": "transcription_session.update"}
_ROOT = "session."


def session_request(body: Mapping[str, Any], kind: SessionKind) -> ClientSecretRequest:
    """Return the request in a JSON body. Raises ProtocolError, whose `param` is the body's path."""
    try:
        session = checked_session(dict(body), _UPDATES[kind], _reading)
    except ProtocolError as error:
        raise _of_the_body(error) from None
    secret = body.get("client_secret") or {}
    expiry = secret.get("expires_after") or secret.get("expires_at") or {}  # the transcription type has the latter
    return ClientSecretRequest(session, expiry.get("seconds") or DEFAULT_LIFETIME_S)


def session_with_key(session: Mapping[str, Any], value: str, expires_at_s: int) -> dict[str, Any]:
    """Return the answer: `session` (GA shape) as beta shows it, with its key."""
    return {**session_to_beta(session), "client_secret": {"value": value, "expires_at": expires_at_s}}


def _reading(raw: dict[str, Any]) -> tuple[dict[str, Any], Rules]:
    return to_ga(raw), TRANSLATED_RULES


def _of_the_body(error: ProtocolError) -> ProtocolError:
    """Return the error of an update as one of a body that is the session itself."""
    event = to_beta({"type": "error", "error": error.to_wire()})
    assert event is not None
    wire = event["error"]
    param = None if wire["param"] is None else wire["param"].removeprefix(_ROOT)
    return ProtocolError(wire["code"], wire["message"].replace(f"'{_ROOT}", "'"), param, error_type=wire["type"])
