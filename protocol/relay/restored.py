"""What the gateway itself has put into a server's new session: its answers, and the ids that items have there.

A server may give items ids of its own. The client goes on using those that it knows.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from protocol.relay.kept_history import KeptHistory
from protocol.relay.refusals import refused_kind

Payload = dict[str, Any]

OWN_COMMANDS = 512
"""Commands of ours that may wait for their answer (chosen: all that is kept, twice); the oldest are forgotten."""


@dataclass(frozen=True, slots=True)
class Own:
    """A command (GA) of the gateway's own; `sent` is it under the ids that the server knows."""

    event: Payload
    sent: Payload

    @property
    def kind(self) -> str:
        """Return its type."""
        return str(self.event["type"])


class Restored:
    """One session of the server's: commands of ours by `sends`, its events (GA) by `answers`."""

    def __init__(self) -> None:
        self._waiting: deque[Own] = deque(maxlen=OWN_COMMANDS)
        self._added: OrderedDict[str, Own] = OrderedDict()  # by the server's ids, while `done` is still to come
        self._spoken: deque[str] = deque(maxlen=OWN_COMMANDS)  # the user's items of this session
        self._told: dict[str, Payload] = {}
        self._theirs: dict[str, str] = {}
        self._ours: dict[str, str] = {}

    def sends(self, event: Payload) -> Payload:
        """Note a command of ours and return it under the ids that the server knows."""
        sent = self.to_server(event)
        if event["type"] == "conversation.item.create":
            self._told[event["item"]["id"]] = event["item"]
            sent = {**sent, "item": event["item"]}
        self._waiting.append(Own(event, sent))
        return sent

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
        return self._take(lambda own: own.event["event_id"] == event_id or kind is None or own.kind == kind)

    def _item(self, kind: str, item: Payload) -> Own | None:
        theirs = item["id"]
        if kind == "conversation.item.done" and theirs in self._added:
            return self._added.pop(theirs)
        own = self._take(lambda own: own.event.get("item", {}).get("id") == theirs)
        if own is None and theirs not in self._spoken:
            own = self._take(lambda own: _alike(own.event.get("item"), item))
        if own is None:
            return None
        ours = own.event["item"]["id"]
        if ours != theirs:
            self._theirs[ours], self._ours[theirs] = theirs, ours
        if kind == "conversation.item.added":
            self._added[theirs] = own
            if len(self._added) > OWN_COMMANDS:
                self._added.popitem(last=False)
        return own

    def _deleted(self, theirs: str) -> Own | None:
        """The server has an item no more; one that was deleted by us is told anew."""
        own = self._take(lambda own: own.sent.get("item_id") == theirs)
        if own is None:
            self._told.pop(self._ours.get(theirs, theirs), None)
        elif (ours := self._ours.pop(theirs, None)) is not None and self._theirs.get(ours) == theirs:
            del self._theirs[ours]
        return own

    def _take(self, wanted: Callable[[Own], bool]) -> Own | None:
        found = next((own for own in self._waiting if wanted(own)), None)
        if found is not None:
            self._waiting.remove(found)
        return found

    def to_tell_anew(self, history: KeptHistory) -> list[Payload]:
        """Return what makes the server's conversation agree with `history` (events without ids): the client has said
        since how much of an item was heard, and only an item's audio can be truncated.
        """
        events: list[Payload] = []
        for item_id, told in list(self._told.items()):
            item = history.item(item_id)
            if item == told or not history.is_earlier(item_id):
                continue
            events.append({"type": "conversation.item.delete", "item_id": item_id})
            del self._told[item_id]
            if item is not None:
                before = history.before(item_id)
                events.append({"type": "conversation.item.create", "previous_item_id": before, "item": item})
        return events

    # --- names -----------------------------------------------------------------------------------------------------

    def to_client(self, event: Payload) -> Payload:
        """Return an event of the server's (GA) under the ids that the client knows; as it is where none differs."""
        return _renamed(event, self._ours)

    def to_server(self, event: Payload) -> Payload:
        """Return a command, in either dialect, under the ids that the server knows; as it is where none differs."""
        return _renamed(event, self._theirs)


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


def _renamed(event: Payload, names: Mapping[str, str]) -> Payload:
    if not names:
        return event
    changed = {
        key: names[value]
        for key in ("item_id", "previous_item_id")
        if isinstance(value := event.get(key), str) and value in names
    }
    renamed: Payload = {**event, **changed} if changed else event
    item, response = event.get("item"), event.get("response")
    if isinstance(item, dict) and _named(item, names):
        renamed = {**renamed, "item": {**item, "id": names[item["id"]]}}
    if isinstance(response, dict) and isinstance(given := response.get("input"), list):
        if any(_named(one, names) for one in given):
            inputs = [{**one, "id": names[one["id"]]} if _named(one, names) else one for one in given]
            renamed = {**renamed, "response": {**response, "input": inputs}}
    return renamed


def _named(item: Any, names: Mapping[str, str]) -> bool:
    return isinstance(item, dict) and isinstance(item.get("id"), str) and item["id"] in names
