"""What the gateway itself has put into a server's new session: the answers to it, and what became of it since."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from protocol.relay.kept_history import KeptHistory
from protocol.relay.known_ids import KnownIds
from protocol.relay.refusals import may_refuse, refused_kind

Payload = dict[str, Any]

OWN_COMMANDS = 512
"""Commands of ours that may wait for their answer (chosen: all that is kept, twice); the oldest are forgotten."""


@dataclass(frozen=True, slots=True)
class Own:
    """A command of the gateway's own. `item`: what it creates, as the client knows it; `item_id`: the server's id."""

    kind: str
    event_id: str
    item: Payload | None = None
    item_id: str = ""


class Restored:
    """One session of the server's: what we tell it, and its events (GA) by `answers`."""

    def __init__(self, ids: KnownIds, event_id: Callable[[], str]) -> None:
        """`event_id` makes the ids of our commands."""
        self._ids = ids
        self._event_id = event_id
        self._waiting: deque[Own] = deque(maxlen=OWN_COMMANDS)
        self._added: OrderedDict[str, Own] = OrderedDict()  # by the server's ids, while `done` is still to come
        self._spoken: deque[str] = deque(maxlen=OWN_COMMANDS)  # the user's items of this session
        self._told: dict[str, Payload] = {}

    def updates(self, session: Payload) -> Payload:
        """Note settings that the server is told, and return the command (GA)."""
        return self._sends(Own("session.update", self._event_id()), session=session)

    def creates(self, item: Payload) -> Payload:
        """Note an item that the server is told under the id that the client knows, and return the command (GA)."""
        self._ids.told(item["id"])
        return self._creates(item, item["id"])

    def _creates(self, item: Payload, theirs: str, **fields: Any) -> Payload:
        self._told[item["id"]] = item
        own = Own("conversation.item.create", self._event_id(), item, theirs)
        return self._sends(own, **fields, item={**item, "id": theirs})

    def _sends(self, own: Own, **fields: Any) -> Payload:
        self._waiting.append(own)
        return {"type": own.kind, "event_id": own.event_id, **fields}

    def answers(self, event: Payload) -> Own | None:
        """Return the command of ours that an event answers; None: it is for the client."""
        match event:
            case {"type": "session.updated"}:
                return self._take(lambda own: own.kind == "session.update")
            case {"type": "input_audio_buffer.committed", "item_id": str(item_id)}:
                self._spoken.append(item_id)
                return None
            case {"type": "conversation.item.deleted", "item_id": str(item_id)}:
                return self._deleted(item_id)
            case {"type": "error", "error": dict(error)}:
                return self._refused(error)
            case {"type": "conversation.item.added" | "conversation.item.done" as kind, "item": {"id": str()} as item}:
                return self._item(kind, item)
            case _:
                return None

    def _refused(self, error: Payload) -> Own | None:
        """Servers take commands in order: what names none is about the oldest, unless it speaks of something else."""
        event_id, kind = error.get("event_id"), refused_kind(error)
        any_of_ours = kind is None and may_refuse(error)
        own = self._take(lambda own: own.event_id == event_id or any_of_ours or own.kind == kind)
        if own is not None and own.item is not None and self._told.get(ours := own.item["id"]) is own.item:
            del self._told[ours]
            self._ids.refused(ours)
        return own

    def _item(self, kind: str, item: Payload) -> Own | None:
        theirs = item["id"]
        if kind == "conversation.item.done" and theirs in self._added:
            return self._added.pop(theirs)
        own = self._take(lambda own: own.item is not None and own.item_id == theirs)
        if own is None and theirs not in self._spoken:
            own = self._take(lambda own: _alike(own.item, item))
        if own is None or own.item is None:
            return None
        if self._told.get(ours := own.item["id"]) is own.item:
            self._ids.given(ours, theirs)
        if kind == "conversation.item.added":
            self._added[theirs] = own
            if len(self._added) > OWN_COMMANDS:
                self._added.popitem(last=False)
        return own

    def _deleted(self, theirs: str) -> Own | None:
        """The server has an item no more; one that was deleted by us is told anew."""
        own = self._take(lambda own: own.kind == "conversation.item.delete" and own.item_id == theirs)
        if own is None:
            self._told.pop(self._ids.of_client(theirs), None)
        return own

    def _take(self, wanted: Callable[[Own], bool]) -> Own | None:
        found = next((own for own in self._waiting if wanted(own)), None)
        if found is not None:
            self._waiting.remove(found)
        return found

    def tells_anew(self, history: KeptHistory) -> list[Payload]:
        """Note and return the commands (GA) that make the server's conversation agree with `history`.

        The client has said since how much of an item was heard, and only an item's audio can be truncated. So it is
        replaced: by another behind it, since that place is known to be there, and under an id that the server has never
        had, since it may refuse one that was deleted.
        """
        commands: list[Payload] = []
        for item_id, told in list(self._told.items()):
            item = history.item(item_id)
            if item == told or not history.is_earlier(item_id):
                continue
            before = self._ids.of_server(item_id)
            del self._told[item_id]
            if item is not None:
                commands.append(self._creates(item, self._ids.renewed(item_id), previous_item_id=before))
            deletes = Own("conversation.item.delete", self._event_id(), item_id=before)
            commands.append(self._sends(deletes, item_id=before))
        return commands


def _alike(ours: Any, theirs: Payload) -> bool:
    """Say whether an item under another id is one of ours: of its kind, and with its words where they are shown."""
    if not isinstance(ours, dict) or theirs.get("status") == "in_progress":
        return False
    if any(ours.get(key) != theirs.get(key) for key in ("type", "role", "call_id")):
        return False
    return _words(theirs) in ("", _words(ours))


def _words(item: Mapping[str, Any]) -> str:
    """Return an item's words; those of speech are like no others, since nothing is restored as speech."""
    content = item.get("content")
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    if any("audio" in str(part.get("type")) for part in parts):
        return "\0"
    return " ".join(word for part in parts for word in str(part.get("text") or "").split())
