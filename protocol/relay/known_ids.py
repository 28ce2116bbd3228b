"""What either side calls an item or a response, where the two differ.

A server may give restored items ids of its own, and one that counts anew in each of its sessions gives new items ids
under which the client knows others. The client goes on using the ids that it knows; what is new to it gets a new one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from protocol.ids import IdSource

Payload = dict[str, Any]

KNOWN_IDS, LONGEST_ID = 4_096, 512
"""Ids that the client is remembered to know (chosen: hours of talk), and the most characters of one (as of event ids).
The oldest are forgotten; longer ones are no counter's."""

_ABOUT_KNOWN_ITEMS = frozenset(
    {"conversation.item.deleted", "conversation.item.truncated", "conversation.item.retrieved"}
)
"""Events that answer what the client said of an item: the id in them is new to nobody."""


class KnownIds:
    """One client's session, and the server's present one, which `restart` begins."""

    def __init__(self, new_id: IdSource) -> None:
        self._new_id = new_id
        self._nothing = new_id("item")  # what no server has
        self._known: OrderedDict[str, None] = OrderedDict()
        self._earlier: frozenset[str] = frozenset()
        self._shared: set[str] = set()
        self._theirs: dict[str, str] = {}
        self._ours: dict[str, str] = {}

    def restart(self) -> None:
        """Begin another session of the server's, which has nothing yet of what the client knows."""
        self._earlier = frozenset(self._known)
        self._shared.clear()
        self._theirs.clear()
        self._ours.clear()

    def told(self, item_id: str) -> None:
        """Note that the server was told an item under the id that the client knows."""
        self._shared.add(item_id)

    def given(self, ours: str, theirs: str) -> None:
        """Note under which id the server has an item."""
        if ours == theirs:
            self._theirs.pop(ours, None)
            self._shared.add(ours)
        else:
            self._shared.discard(ours)
            self._theirs[ours], self._ours[theirs] = theirs, ours

    def renewed(self, ours: str) -> str:
        """Return a new id for the server's side of an item. Servers may go on naming the old one as a predecessor."""
        theirs = self._new_id("item")
        self._theirs[ours], self._ours[theirs] = theirs, ours
        return theirs

    def refused(self, ours: str) -> None:
        """Note that the server didn't take an item."""
        self._shared.discard(ours)
        self._ours.pop(self._theirs.pop(ours, ""), None)

    def of_server(self, ours: str) -> str:
        """Return the id that the server knows; where it has given the client's to something else, one of nothing."""
        return self._theirs.get(ours) or (self._nothing if ours in self._ours else ours)

    def of_client(self, theirs: str) -> str:
        """Return the id that the client knows."""
        return self._ours.get(theirs, theirs)

    def to_client(self, event: Payload) -> Payload:
        """Return an event of the server's (GA) under the ids that the client knows; as it is where none differs."""
        about_known = event.get("type") in _ABOUT_KNOWN_ITEMS
        return _renamed(event, lambda key, theirs: self._shown(key, theirs, about_known=about_known))

    def _shown(self, key: str, theirs: str, *, about_known: bool) -> str:
        if key == "previous_item_id" or about_known:
            return self.of_client(theirs)
        if theirs in self._earlier and theirs not in self._ours and theirs not in self._shared:
            self.given(self._new_id("resp" if key == "response_id" else "item"), theirs)
        ours = self.of_client(theirs)
        self._know(ours)
        return ours

    def to_server(self, event: Payload) -> Payload:
        """Return a command, in either dialect, under the ids that the server knows; as it is where none differs."""
        item = event.get("item")
        if isinstance(item, dict) and isinstance(new := item.get("id"), str):
            self._created(new)
        return _renamed(event, lambda _key, ours: self.of_server(ours))

    def _created(self, item_id: str) -> None:
        """The client makes an item and names it."""
        self._know(item_id)
        if item_id in self._theirs:
            return  # it has it already
        if item_id in self._ours:
            self.renewed(item_id)
        elif item_id in self._earlier:
            self._shared.add(item_id)

    def _know(self, ours: str) -> None:
        if len(ours) > LONGEST_ID:
            return
        self._known[ours] = None
        if len(self._known) > KNOWN_IDS:
            self._known.popitem(last=False)


def _renamed(event: Payload, name: Callable[[str, str], str]) -> Payload:
    """Return an event with `name` of each key and id in it; the very same where that changes nothing."""
    changed: Payload = {}
    for key in ("item_id", "previous_item_id", "response_id"):
        if isinstance(value := event.get(key), str) and (named := name(key, value)) != value:
            changed[key] = named
    for key, inner in (("item", "item_id"), ("response", "response_id")):
        if isinstance(value := event.get(key), dict) and (renamed := _named(value, inner, name)) is not value:
            changed[key] = renamed
    response = changed.get("response", event.get("response"))
    if isinstance(response, dict):
        for key in ("input", "output"):
            if isinstance(items := response.get(key), list):
                named_items = [_named(item, "item_id", name) for item in items]
                if any(one is not other for one, other in zip(named_items, items, strict=True)):
                    response = changed["response"] = {**response, key: named_items}
    return {**event, **changed} if changed else event


def _named(thing: Any, key: str, name: Callable[[str, str], str]) -> Any:
    if isinstance(thing, dict) and isinstance(value := thing.get("id"), str) and (named := name(key, value)) != value:
        return {**thing, "id": named}
    return thing
