"""What a client has set in a session of another server, so that it can be set again in a new one."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from protocol import errors
from protocol.gateway_extension import KEY as GATEWAY
from protocol.wire_rules import MAX_FRAME_BYTES, encoded_bytes

OURS = frozenset({GATEWAY, "model"})
"""Keys of an update that are not sent on: our own object, and the model, which the URL chose here by a name of ours."""

WAITING_UPDATES = 32
WAITING_BYTES = 4 * MAX_FRAME_BYTES
"""Most updates, and most bytes of them, that may wait for the server's word (chosen: stock clients send three in one
breath). Overflow rule: the oldest count as accepted. Some servers never say so, and what they refuse they do say."""


class _Waiting(NamedTuple):
    event_id: str
    update: dict[str, Any]
    size_bytes: int


class KeptSettings:
    """The updates (GA) that the server accepted, merged by presence. Those that wait for its word are kept apart.

    Bound: what could not be shown in one event (`MAX_FRAME_BYTES`) is refused, and so never sent on.
    """

    def __init__(self, initial: Mapping[str, Any] | None = None) -> None:
        """Begin with `initial`, which the first session is given like any later one."""
        self.accepted: dict[str, Any] = dict(initial or {})
        self._pending: deque[_Waiting] = deque()

    def asked(self, event_id: str, session: Mapping[str, Any]) -> None:
        """Note an update that is about to be sent on. Raises ProtocolError if it is too much to be kept."""
        update = {key: value for key, value in session.items() if key not in OURS}
        size_bytes = encoded_bytes(update)
        if size_bytes > MAX_FRAME_BYTES:
            raise errors.answer_too_large("session", MAX_FRAME_BYTES)
        whole = self.accepted
        for waiting in self._pending:
            whole = merged(whole, waiting.update)
        if encoded_bytes(merged(whole, update)) > MAX_FRAME_BYTES:
            raise errors.answer_too_large("session", MAX_FRAME_BYTES)
        self._pending.append(_Waiting(event_id, update, size_bytes))
        waiting_bytes = sum(waiting.size_bytes for waiting in self._pending)
        while len(self._pending) > WAITING_UPDATES or waiting_bytes > WAITING_BYTES:
            oldest = self._pending.popleft()
            waiting_bytes -= oldest.size_bytes
            self.accepted = merged(self.accepted, oldest.update)

    def answered(self, event_id: str, *, accepted: bool) -> None:
        """Note the server's word on an update. Servers take them in order: none before one that is accepted was."""
        answered = next((waiting for waiting in self._pending if waiting.event_id == event_id), None)
        if answered is None:
            return
        if accepted:
            while self._pending[0] is not answered:
                self._pending.popleft()
            self.accepted = merged(self.accepted, answered.update)
        self._pending.remove(answered)

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
