"""What `POST /v1/realtime/client_secrets` takes and shows: the settings that an ephemeral key carries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pydantic
from openai.types.realtime import RealtimeTranscriptionSessionTurnDetection

from protocol import shapes
from protocol.client_events import checked_session
from protocol.mcp_servers import ServerDefinitions
from protocol.session import check_size
from protocol.session_settings import SessionDefaults, SessionSettings
from protocol.shapes import Rules

MIN_LIFETIME_S, MAX_LIFETIME_S, DEFAULT_LIFETIME_S = 10, 7_200, 600
"""Limits of `expires_after.seconds` (Realtime GA: client_secrets)."""

NO_SESSION_YET = 0
"""`session.expires_at` of the answer, as OpenAI's example shows it: the session's own hour begins when it is opened."""


class _ExpiresAfter(pydantic.BaseModel):
    anchor: Literal["created_at"] | None = None
    seconds: int | None = None


class _Request(pydantic.BaseModel):
    expires_after: _ExpiresAfter | None = None
    session: object = None  # checked by itself, as an update's


_RULES = Rules(bounds={"expires_after.seconds": (MIN_LIFETIME_S, MAX_LIFETIME_S)})


@dataclass(frozen=True, slots=True)
class ClientSecretRequest:
    """What the key is to carry (GA shape, checked by itself) and how long it is to open sessions."""

    session: dict[str, Any]
    lifetime_s: int


def client_secret_request(body: Mapping[str, Any]) -> ClientSecretRequest:
    """Return the request in a JSON body; without `session` the key opens default sessions. Raises ProtocolError."""
    shapes.check(dict(body), _Request, rules=_RULES)
    lifetime_s = (body.get("expires_after") or {}).get("seconds")
    given = body.get("session")
    session: dict[str, Any] = {"type": "realtime"} if given is None else checked_session(given)
    ServerDefinitions().completed(session.get("tools") or (), "session.tools")  # nobody could tell the page later
    return ClientSecretRequest(
        session=session,
        lifetime_s=DEFAULT_LIFETIME_S if lifetime_s is None else lifetime_s,
    )


def configured_session(
    session: Mapping[str, Any], defaults: SessionDefaults, *, session_id: str, model: str
) -> dict[str, Any]:
    """Return the full session that a key for `session` opens, as the answer shows it.

    Raises ProtocolError for one whose `session.created` would be larger than clients can read.
    """
    settings = SessionSettings.initial(defaults, session["type"]).merged(session)
    wire = settings.to_wire(session_id=session_id, model=model, expires_at_s=NO_SESSION_YET)
    check_size(wire, "session")
    detection = wire["audio"]["input"]["turn_detection"]
    if settings.kind == "transcription" and detection is not None:
        # The answer's type knows fewer keys than the update's: nothing can be answered or interrupted here.
        known = RealtimeTranscriptionSessionTurnDetection.model_fields
        wire["audio"]["input"]["turn_detection"] = {key: value for key, value in detection.items() if key in known}
    return wire
