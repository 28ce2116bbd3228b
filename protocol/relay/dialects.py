"""Two sides that may speak two dialects: the client's and the server's, with GA between them.

Where both speak the same, what one says reaches the other as it is, unknown words included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from protocol.beta.upstream import GA_NAMES, UpstreamEvents, to_server
from protocol.client_events import checked_event
from protocol.errors import ProtocolError
from protocol.outputs import ServerEvent
from protocol.relay.kept_settings import OURS
from protocol.wire import Dialect, Wire

Payload = dict[str, Any]

_UPDATES = ("session.update", "transcription_session.update")


@dataclass(frozen=True, slots=True)
class Passed:
    """A client event on its way: `sent` in the server's dialect; `ga` is what it means ({}: the server will tell)."""

    sent: Payload
    ga: Payload


class Dialects:
    """The translation of one session."""

    def __init__(self, client: Dialect, server: Dialect) -> None:
        self._wire = Wire(client)
        self._server = server
        self._events = UpstreamEvents()

    @property
    def same(self) -> bool:
        """Say whether both sides speak the same dialect, as far as the client has shown."""
        return self._wire.dialect is self._server

    def restart(self) -> None:
        """Begin anew on the server's side, with another of its sessions."""
        self._events = UpstreamEvents()

    def to_server(self, raw: Payload, size: int) -> Passed:
        """Return the client event `raw`, without our own object, for the server.

        Raises ProtocolError where it must be translated and is not what its dialect knows.
        """
        raw = _without_ours(raw)
        try:
            ga = self._wire.reading(raw)
        except ProtocolError:
            if self.same:
                return Passed(raw, {})
            raise
        if self.same:
            return Passed(raw, ga)
        if self._server is Dialect.GA:
            ga = _as_ga_servers_know(ga)
            return Passed(ga, ga)
        checked_event(ga, size)
        return Passed(to_server(ga), ga)

    def ours_to_server(self, ga: Payload) -> Payload:
        """Return a GA client event of the gateway's own as the server takes it."""
        return ga if self._server is Dialect.GA else to_server(ga)

    def from_server(self, raw: Payload) -> list[Payload]:
        """Return the GA events that the server's event stands for."""
        return [raw] if self._server is Dialect.GA else self._events.to_ga(raw)

    def begins(self, ga: Payload, raw: Payload) -> bool:
        """Say whether `ga` is the first of the events that the server's event `raw` stands for."""
        return ga is raw or ga.get("event_id") == raw.get("event_id")

    def to_client(self, ga: Payload) -> tuple[Payload, ...]:
        """Return what the client is sent for a GA event; what is not shaped as GA's are stays as it is."""
        if self._server is Dialect.BETA and self._wire.dialect is Dialect.GA:
            return (_as_ga_servers_know(ga),)
        try:
            return self._wire.write(ServerEvent(ga))
        except (KeyError, TypeError, AttributeError, ValueError):
            return (ga,)


def by_ga_name(event: Payload) -> Payload:
    """Return an event under GA's name for it: some servers speak GA with names of beta's, which pass as they are."""
    kind = event.get("type")
    return {**event, "type": GA_NAMES[kind]} if isinstance(kind, str) and kind in GA_NAMES else event


def _as_ga_servers_know(ga: Payload) -> Payload:
    """Return a translated event without the temperature, the one setting of beta's that GA refuses and never shows."""
    for key in ("session", "response"):
        inner = ga.get(key)
        if isinstance(inner, dict) and "temperature" in inner:
            return {**ga, key: {name: value for name, value in inner.items() if name != "temperature"}}
    return ga


def _without_ours(raw: Payload) -> Payload:
    session = raw.get("session")
    if raw.get("type") in _UPDATES and isinstance(session, dict) and OURS & session.keys():
        return {**raw, "session": {key: value for key, value in session.items() if key not in OURS}}
    return raw
