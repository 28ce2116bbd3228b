"""Drives the stock openai SDK, synchronous, and keeps every raw event, each checked against the wire law."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from openai import OpenAI
from openai.resources.realtime.realtime import RealtimeConnection

from protocol.wire_law import violations

Event = dict[str, Any]
DEADLINE_S = 30


class StockSession:
    """One connection of the SDK. `events` holds what it received, as JSON."""

    def __init__(self, connection: RealtimeConnection) -> None:
        self.connection = connection
        self.events: list[Event] = []

    def next(self) -> Event:
        # What `recv_bytes` does, but with a deadline: its own call waits for ever.
        raw = self.connection._connection.recv(timeout=DEADLINE_S, decode=False)
        event: Event = json.loads(raw)
        assert violations(event) == [], event
        assert self.connection.parse_event(raw).type == event["type"]
        self.events.append(event)
        return event

    def until(self, kind: str) -> list[Event]:
        """Receive up to an event of that type; return what came."""
        begin = len(self.events)
        try:
            while (event := self.next())["type"] != kind:
                assert event["type"] != "error", event
        except TimeoutError as error:
            raise AssertionError(f"no {kind}, but {types(self.events[begin:])}") from error
        return self.events[begin:]

    def say(self, text: str, **item: Any) -> str:
        content = [{"type": "input_text", "text": text}]
        message: Any = {"type": "message", "role": "user", "content": content, **item}
        self.connection.conversation.item.create(item=message)
        return str(self.until("conversation.item.done")[-1]["item"]["id"])

    def append(self, pcm: bytes) -> None:
        for start in range(0, len(pcm), 960):
            self.connection.input_audio_buffer.append(audio=base64.b64encode(pcm[start : start + 960]).decode())


@contextmanager
def stock_session(base_url: str) -> Iterator[StockSession]:
    client = OpenAI(api_key="k", base_url=base_url)
    with client, client.realtime.connect(model="gpt-realtime") as connection:
        session = StockSession(connection)
        assert session.next()["type"] == "session.created"
        yield session


def types(events: list[Event]) -> list[str]:
    return [event["type"] for event in events]


def squeezed(events: list[Event]) -> list[str]:
    """Return the types with repeated deltas, of one or two interleaved kinds, written once each."""
    found: list[str] = []
    for kind in types(events):
        if not (kind.endswith(".delta") and kind in found[-2:]):
            found.append(kind)
    return found
