"""All that a client waits for from another server, and what it is told instead when that server is gone."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from protocol.audio_time import Samples, ms_from_samples
from protocol.errors import ProtocolError
from protocol.ids import IdSource
from protocol.relay.open_responses import OpenResponses, Payload

KEPT_COMMANDS = 256
"""Commands that may wait for their answer (chosen); the oldest are forgotten, as answered ones are."""

KEPT_OTHERS = 64
"""Client events that only an `error` answers, kept for its sake (chosen)."""

KEPT_TRANSCRIPTS = 64
"""User items whose transcript may be awaited (chosen)."""

ANSWERS = {
    "session.update": "session.updated",
    "input_audio_buffer.commit": "input_audio_buffer.committed",
    "input_audio_buffer.clear": "input_audio_buffer.cleared",
    "conversation.item.create": "conversation.item.added",
    "conversation.item.retrieve": "conversation.item.retrieved",
    "conversation.item.truncate": "conversation.item.truncated",
    "conversation.item.delete": "conversation.item.deleted",
    "response.create": "response.created",
}
"""What answers a client event, where an `error` doesn't. A cancel is answered by the end of its response."""

_TRANSCRIPTION = "conversation.item.input_audio_transcription"


@dataclass(frozen=True, slots=True)
class Asked:
    """A client event that waits for its answer. `event_id` is the one it is sent on with, `shown` the client's own."""

    kind: str
    event_id: str
    shown: str | None
    at: Samples
    item_id: str | None = None


class OpenEnds:
    """Follows one session: the client's events by `asked`, the server's (GA) by `saw`."""

    def __init__(self) -> None:
        self.responses = OpenResponses()
        self._asked: deque[Asked] = deque(maxlen=KEPT_COMMANDS)
        self._others: deque[Asked] = deque(maxlen=KEPT_OTHERS)
        self._speaking: str | None = None
        self._transcribes = False
        self._transcripts: deque[str] = deque(maxlen=KEPT_TRANSCRIPTS)
        self._committed: deque[str] = deque(maxlen=KEPT_TRANSCRIPTS)

    def asked(self, command: Asked) -> None:
        """Note a client event that the server is sent."""
        (self._asked if command.kind in ANSWERS else self._others).append(command)

    def refused(self, event_id: str) -> Asked | None:
        """Return the client event of which an `error` speaks, which is its answer."""
        for commands in (self._asked, self._others):
            for command in commands:
                if command.event_id == event_id:
                    commands.remove(command)
                    return command
        return None

    def saw(self, event: Payload) -> Asked | None:
        """Note an event; return the client event that it answers, as far as that can be told."""
        self.responses.saw(event)
        match event:
            case {"type": "session.created" | "session.updated", "session": {"audio": {"input": dict(heard)}}}:
                self._transcribes = heard.get("transcription") is not None
            case {"type": "input_audio_buffer.speech_started", "item_id": str(item_id)}:
                self._speaking = item_id
            case {"type": "input_audio_buffer.speech_stopped"}:
                self._speaking = None
            case {"type": "input_audio_buffer.committed", "item_id": str(item_id)}:
                self._committed.append(item_id)
                if self._transcribes:
                    self._transcripts.append(item_id)
            case {"type": str(kind), "item_id": str(item_id)} if kind in (
                f"{_TRANSCRIPTION}.completed",
                f"{_TRANSCRIPTION}.failed",
            ):
                if item_id in self._transcripts:
                    self._transcripts.remove(item_id)
            case _:
                pass
        return self._answered(event)

    def _answered(self, event: Payload) -> Asked | None:
        kind = event.get("type")
        if kind == "conversation.item.added":
            item = event.get("item")
            item_id = item.get("id") if isinstance(item, dict) else None
            if item_id in self._committed or (isinstance(item_id, str) and self.responses.owns(item_id)):
                return None  # nobody asked for it
            named = self._take(lambda command: ANSWERS[command.kind] == kind and command.item_id == item_id)
            return named or self._take(lambda command: ANSWERS[command.kind] == kind and command.item_id is None)
        return self._take(lambda command: ANSWERS[command.kind] == kind)

    def _take(self, wanted: Callable[[Asked], bool]) -> Asked | None:
        found = next((command for command in self._asked if wanted(command)), None)
        if found is not None:
            self._asked.remove(found)
        return found

    def close(self, fault: tuple[str, str], received: Samples, new_id: IdSource) -> list[Payload]:
        """Return what ends all of it, and forget it. `fault`: code and message; `received`: the input so far."""
        code, message = fault
        events: list[Payload] = []
        if self._speaking is not None:
            end_ms = ms_from_samples(received)
            events.append(
                {
                    "type": "input_audio_buffer.speech_stopped",
                    "event_id": new_id("event"),
                    "audio_end_ms": end_ms,
                    "item_id": self._speaking,
                }
            )
        error = {"type": "server_error", "code": code, "message": message}
        events += [
            {
                "type": f"{_TRANSCRIPTION}.failed",
                "event_id": new_id("event"),
                "item_id": item_id,
                "content_index": 0,
                "error": error,
            }
            for item_id in self._transcripts
        ]
        events += self.responses.fail(code, message, new_id)
        events += [
            error_event(ProtocolError(code, message, error_type="server_error", event_id=command.shown), new_id)
            for command in self._asked
        ]
        self._asked.clear()
        self._others.clear()
        self._transcripts.clear()
        self._speaking = None
        return events


def error_event(error: ProtocolError, new_id: IdSource) -> Payload:
    """Return the `error` event for `error`."""
    return {"type": "error", "event_id": new_id("event"), "error": error.to_wire()}
