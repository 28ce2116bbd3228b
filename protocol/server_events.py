"""Makes server events: a type, a fresh `event_id`, and the fields."""

from __future__ import annotations

from typing import Any

from protocol.audio_time import Samples
from protocol.errors import ProtocolError
from protocol.ids import IdSource
from protocol.outputs import ServerEvent


class ServerEvents:
    """Builds the server events of one session; every one gets its own `event_id` (RB-01)."""

    def __init__(self, ids: IdSource) -> None:
        self.new_id = ids

    def __call__(
        self, kind: str, /, *, audio_of: str | None = None, samples: Samples = 0, **fields: Any
    ) -> ServerEvent:
        """Return the server event of type `kind` with `fields`."""
        return ServerEvent({"type": kind, "event_id": self.new_id("event"), **fields}, audio_of, samples)

    def error(self, error: ProtocolError) -> ServerEvent:
        """Return the `error` event for `error`."""
        return self("error", error=error.to_wire())
