"""Ids of client events that the gateway gives them, so that an `error` names what it refuses; no client sees one."""

from __future__ import annotations

from protocol.ids import IdSource


class HiddenIds:
    """Makes one session's, which are known again by how they begin, however late they come back."""

    def __init__(self, new_id: IdSource) -> None:
        self._mark = f"{new_id('event')}."
        self._count = 0

    def __call__(self) -> str:
        """Return a new one."""
        self._count += 1
        return f"{self._mark}{self._count}"

    def made(self, event_id: object) -> bool:
        """Say whether an id is one of these."""
        return isinstance(event_id, str) and event_id.startswith(self._mark)
