"""The latest events of one session, and readers that follow them at their own pace.

A reader is a place in the ring and holds nothing. Whoever reads too slowly, or not at all, is overtaken: the session
never waits and never keeps more for it.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Mapping
from typing import Any

from gateway.observing.kinds import VERSION, Kind
from protocol.audio_time import Samples, ms_from_samples

LIMIT_EVENTS = 1_024
"""Events that are kept (chosen: one to two minutes of talk at 10–15 a second); the oldest leave first."""

LIMIT_BYTES = 2**20
"""About as many bytes are kept at most, whatever a model or a client writes (chosen)."""

LONGEST_TEXT = 8_192
"""Characters of one text in an event (chosen); a longer one ends in `…`."""

TAKEN_BYTES = 32 * 2**10
"""A reader takes about this much at a time (chosen: half of what the server's transport buffers)."""

_EVENT_BYTES = 200
"""What an event, or an object in one, takes beside its texts, by estimate."""


class Event:
    """One event. Its JSON is written when somebody reads it for the first time, and kept instead of the fields."""

    __slots__ = ("_json", "at", "audio", "fields", "kind", "seq", "size_bytes")

    def __init__(self, seq: int, kind: Kind, at: Samples, audio: Samples, fields: dict[str, Any]) -> None:
        self.seq = seq
        self.kind = kind
        self.at = at
        self.audio = audio
        self.fields = fields
        self.size_bytes = _EVENT_BYTES
        self._shorten(fields)
        self._json = ""

    def _shorten(self, fields: dict[str, Any]) -> None:
        """Cut long texts, also those of objects in a list, and count what is left."""
        for name, value in fields.items():
            if type(value) is str:
                if len(value) > LONGEST_TEXT:
                    fields[name] = value = value[: LONGEST_TEXT - 1] + "…"
                self.size_bytes += len(value)
            elif type(value) is list:
                for entry in value:
                    if type(entry) is dict:
                        self.size_bytes += _EVENT_BYTES
                        self._shorten(entry)

    def json(self, dropped: int = 0) -> str:
        """Return the event as JSON in one line; `dropped` events before it were lost to this reader."""
        if not self._json:
            head = {
                "v": VERSION,
                "seq": self.seq,
                "at_ms": ms_from_samples(self.at),
                "audio_ms": ms_from_samples(self.audio),
                "type": self.kind,
            }
            # ASCII: a lone surrogate, which a client's JSON can smuggle in, must not break the stream's UTF-8.
            self._json = json.dumps(head | self.fields, separators=(",", ":"))
            self.fields = {}
        return f'{self._json[:-1]},"dropped":{dropped}}}' if dropped else self._json


class Ring:
    """A session's events in order, numbered from 1. Overflow rule: the oldest are forgotten."""

    def __init__(self, limit_events: int = LIMIT_EVENTS, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit_events = limit_events
        self._limit_bytes = limit_bytes
        self._events: deque[Event] = deque()
        self._bytes = 0
        self._last = 0
        self._readers: set[Reader] = set()
        self.ended = asyncio.Event()
        """Set once no event follows any more."""

    @property
    def last(self) -> int:
        """The number of the newest event; 0 before the first."""
        return self._last

    @property
    def readers(self) -> int:
        """How many follow."""
        return len(self._readers)

    def append(self, kind: Kind, at: Samples, audio: Samples, fields: Mapping[str, Any]) -> None:
        """Add an event at `at` (gateway clock), with `audio` samples of input received. Never waits."""
        self._last += 1
        event = Event(self._last, kind, at, audio, dict(fields))
        self._events.append(event)
        self._bytes += event.size_bytes
        while len(self._events) > self._limit_events or (self._bytes > self._limit_bytes and len(self._events) > 1):
            self._bytes -= self._events.popleft().size_bytes
        for reader in self._readers:
            reader.more.set()

    def end(self) -> None:
        """Say that no event follows."""
        self.ended.set()
        for reader in self._readers:
            reader.more.set()

    def follow(self, after: int = 0) -> Reader:
        """Return a reader that begins behind event `after`, or with the oldest. It must be closed."""
        reader = Reader(self, after if after <= self._last else 0)
        self._readers.add(reader)
        return reader

    def forget(self, reader: Reader) -> None:
        """Let a reader go."""
        self._readers.discard(reader)

    def since(self, after: int, limit_bytes: int) -> tuple[list[Event], int]:
        """Return the oldest events behind `after`, about `limit_bytes` of them, and how many were forgotten before."""
        if after >= self._last:
            return [], 0
        first = self._events[0].seq
        dropped = max(0, first - 1 - after)
        taken: list[Event] = []
        size_bytes = 0
        for index in range(after + dropped + 1 - first, len(self._events)):
            if size_bytes >= limit_bytes:
                break
            event = self._events[index]
            taken.append(event)
            size_bytes += event.size_bytes
        return taken, dropped


class Reader:
    """A place in a ring. One consumer."""

    def __init__(self, ring: Ring, after: int) -> None:
        self.more = asyncio.Event()
        self._ring = ring
        self._after = after

    def take(self, limit_bytes: int = TAKEN_BYTES) -> list[tuple[int, str]]:
        """Return the numbers and the JSON of events that wait, none if there are none. The first tells of a gap."""
        self.more.clear()
        events, dropped = self._ring.since(self._after, limit_bytes)
        if not events:
            return []
        self._after = events[-1].seq
        if self._after < self._ring.last:
            self.more.set()
        return [(event.seq, event.json(0 if place else dropped)) for place, event in enumerate(events)]

    def close(self) -> None:
        """Follow no more."""
        self._ring.forget(self)
