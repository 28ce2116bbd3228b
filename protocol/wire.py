"""The dialect of one session's wire: GA or beta, chosen at the handshake, chosen again by the client's first update.

The session behind it speaks GA only. A proxy may have dropped the header that tells beta, so that a client which looked
like GA still turns out to be beta by what it sends first (protocol §3).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from protocol.beta.fields import BETA_ONLY
from protocol.beta.server_events import to_beta
from protocol.client_events import ClientEvent, as_ga, checked_event, event_object
from protocol.errors import ProtocolError
from protocol.outputs import ServerEvent
from protocol.shapes import Rules
from protocol.wire_rules import MAX_EVENT_ID


class Dialect(StrEnum):
    """The two dialects of the Realtime protocol."""

    GA = "ga"
    BETA = "beta"


class Wire:
    """Reads a client's frames and writes server events, in the client's dialect.

    One frame is read at a time, in any thread; events are written meanwhile. All that they share is `dialect`, which
    changes once at most, from GA to beta, and of which each call takes one look.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self._undecided = dialect is Dialect.GA

    def read(self, frame: str | bytes) -> ClientEvent:
        """Return the client event in `frame`. Raises ProtocolError, with the event's own id where it can be read.

        Its `param` is the client's word, or GA's where only GA's checks find the mistake; `write` translates that.
        """
        return self.check(event_object(frame), len(frame))

    def check(self, raw: dict[str, Any], size: int) -> ClientEvent:
        """Return the client event that `raw`, from a frame of `size` characters, is: the second half of `read`."""
        return checked_event(raw, size, self._as_ga)

    def reading(self, raw: dict[str, Any]) -> dict[str, Any]:
        """Return `raw` in GA's shape, for whoever passes it on: a GA client's event as it is, a beta client's checked.

        Raises ProtocolError as `read` does.
        """
        try:
            return self._as_ga(raw)[0]
        except ProtocolError as error:
            event_id = raw.get("event_id")
            error.event_id = event_id if isinstance(event_id, str) and len(event_id) <= MAX_EVENT_ID else None
            raise

    def write(self, event: ServerEvent) -> tuple[dict[str, Any], ...]:
        """Return what the client is sent for `event`, `event_id` included: one payload, or none."""
        if self.dialect is Dialect.GA:
            return (event.payload,)
        beta = to_beta(event.payload)
        return () if beta is None else (beta,)

    def _as_ga(self, raw: dict[str, Any]) -> tuple[dict[str, Any], Rules]:
        if self._undecided:
            self._decide(raw)
        if self.dialect is Dialect.GA:
            return as_ga(raw)
        from protocol.beta.client_events import to_ga
        from protocol.beta.client_rules import TRANSLATED_RULES

        return to_ga(raw), TRANSLATED_RULES

    def _decide(self, raw: dict[str, Any]) -> None:
        """Look for what only one dialect says: a session's `type` is GA's, a transcription update of its own beta's."""
        session = raw.get("session")
        if raw.get("type") == "transcription_session.update":
            self.dialect = Dialect.BETA
        elif raw.get("type") == "session.update" and isinstance(session, dict):
            if "type" in session:
                self._undecided = False
            elif BETA_ONLY & session.keys():
                self.dialect = Dialect.BETA
        if self.dialect is Dialect.BETA:
            self._undecided = False
