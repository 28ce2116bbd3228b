"""What a client asked for when it opened its session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from protocol.session_settings import SessionKind
from protocol.wire import Dialect

CASCADE = "cascade"
DUPLEX = "duplex"

DEFAULT_MODEL = "gpt-realtime"
"""What a session calls its model when nobody named one."""


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """What a client asked for in its handshake. `model` is its own word for it, `backend` ours.

    In a transcription session `model` means the recogniser (LiveKit's STT plugin sends both parameters). `session`: the
    settings of its ephemeral key, and ours of the URL (GA shape, checked), None without. `expires_at_s`: the session's
    latest end, in seconds since the epoch.
    """

    backend: str
    model: str | None
    dialect: Dialect
    query: Mapping[str, str]
    kind: SessionKind
    session: Mapping[str, Any] | None
    expires_at_s: int
