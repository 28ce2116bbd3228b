"""What a client has set in a session of another server, so that it can be set again in a new one."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from protocol import errors
from protocol.gateway_extension import KEY as GATEWAY
from protocol.wire_rules import MAX_FRAME_BYTES, encoded_bytes

OURS = frozenset({GATEWAY, "model"})
"""Keys of an update that are not sent on: our own object, and the model, which the URL chose here by a name of ours."""


class KeptSettings:
    """The updates (GA) that the server accepted, merged by presence. Those that wait for its word are kept apart.

    Bound: what could not be shown in one event (`MAX_FRAME_BYTES`) is refused, and so never sent on.
    """

    def __init__(self, initial: Mapping[str, Any] | None = None) -> None:
        """Begin with `initial`, which the first session is given like any later one."""
        self.accepted: dict[str, Any] = dict(initial or {})
        self._pending: deque[tuple[str, dict[str, Any]]] = deque()

    def asked(self, event_id: str, session: Mapping[str, Any]) -> None:
        """Note an update that is about to be sent on. Raises ProtocolError if it is too large to be kept."""
        update = {key: value for key, value in session.items() if key not in OURS}
        whole = self.accepted
        for _, waiting in (*self._pending, ("", update)):
            whole = merged(whole, waiting)
        if encoded_bytes(whole) > MAX_FRAME_BYTES:
            raise errors.answer_too_large("session", MAX_FRAME_BYTES)
        self._pending.append((event_id, update))

    def answered(self, event_id: str, *, accepted: bool) -> None:
        """Note the server's word on an update: on it alone, since errors name what they refuse."""
        for entry in self._pending:
            if entry[0] == event_id:
                self._pending.remove(entry)
                if accepted:
                    self.accepted = merged(self.accepted, entry[1])
                return

    def lost(self) -> None:
        """Forget the updates without a word: their client is told that they failed."""
        self._pending.clear()


def merged(settings: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
    """Return `settings` with `update` over it, objects key by key (Realtime GA: session.update).

    An object of another `type` replaces the whole: two kinds of turn detection have no keys in common.
    """
    result = dict(settings)
    for key, value in update.items():
        before = result.get(key)
        if isinstance(before, dict) and isinstance(value, dict) and _alike(before, value):
            result[key] = merged(before, value)
        else:
            result[key] = value
    return result


def _alike(before: Mapping[str, Any], value: Mapping[str, Any]) -> bool:
    return "type" not in value or value["type"] == before.get("type")
