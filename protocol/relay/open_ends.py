"""All that a client waits for from another server, and what it is told instead when that server is gone."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from protocol.audio_time import Samples, ms_from_samples
from protocol.errors import ProtocolError
from protocol.ids import IdSource
from protocol.relay.due_answer import DueAnswer
from protocol.relay.open_responses import OpenResponses, Payload
from protocol.relay.refusals import may_refuse, refused_kind

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

_BY_ITSELF = frozenset({"input_audio_buffer.committed", "response.created"})
"""Answers that come without a command, too, where the VAD ends turns."""

_TRANSCRIPTION = "conversation.item.input_audio_transcription"


@dataclass(frozen=True, slots=True)
class Asked:
    """A client event that waits for its answer. `event_id` is the one it is sent on with, `shown` the client's own.

    Of response.create: `metadata` and whether it is `beside` the conversation. `alone` answers it without the server.
    """

    kind: str
    event_id: str
    shown: str | None
    at: Samples
    item_id: str | None = None
    metadata: int = 0
    beside: bool = False
    alone: Payload | None = None


def metadata_mark(metadata: object) -> int:
    """Return what tells one response's `metadata` from another's; 0 where it has none."""
    return hash(json.dumps(metadata, sort_keys=True)) if metadata else 0


class OpenEnds:
    """Follows one session: the client's events by `asked`, the server's (GA) by `saw`."""

    def __init__(self) -> None:
        self.responses = OpenResponses()
        self._due = DueAnswer()
        self._echoes_metadata = False
        self._asked: deque[Asked] = deque(maxlen=KEPT_COMMANDS)
        self._doubted: deque[Asked] = deque(maxlen=KEPT_COMMANDS)  # perhaps refused by an `error` that doesn't say so
        self._others: deque[Asked] = deque(maxlen=KEPT_OTHERS)
        self._speaking: str | None = None
        self._transcribes = False
        self._transcripts: deque[str] = deque(maxlen=KEPT_TRANSCRIPTS)
        self._committed: deque[str] = deque(maxlen=KEPT_TRANSCRIPTS)

    def asked(self, command: Asked) -> None:
        """Note a client event that the server is sent."""
        (self._asked if command.kind in ANSWERS else self._others).append(command)

    def refused(self, error: Mapping[str, object]) -> Asked | None:
        """Return the client event that an `error` object answers, as far as that can be told.

        Where it names none (some servers never do) it is the oldest of the kind that it speaks of, since servers take
        commands in order. Where it doesn't speak of any, it may be the only one that waits: that is believed only as
        long as no answer to it comes.
        """
        self._due.saw({"type": "error", "error": error})
        if isinstance(event_id := error.get("event_id"), str):
            return self._named(lambda command: command.event_id == event_id)
        kind = refused_kind(error)
        if kind is None and may_refuse(error) and len(self._asked) == 1:
            self._doubted.append(self._asked.popleft())
        return self._named(lambda command: command.kind == kind) if kind else None

    def _named(self, wanted: Callable[[Asked], bool]) -> Asked | None:
        return _taken(self._asked, wanted) or _taken(self._doubted, wanted) or _taken(self._others, wanted)

    def saw(self, event: Payload) -> Asked | None:
        """Note an event; return the client event that it answers, as far as that can be told."""
        self.responses.saw(event)
        answered = self._answered(event)
        self._due.saw(event, by_hand=answered is not None)
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
        return answered

    def _answered(self, event: Payload) -> Asked | None:
        kind = event.get("type")
        if kind == "conversation.item.added":
            item = event.get("item")
            item_id = item.get("id") if isinstance(item, dict) else None
            if item_id in self._committed or (isinstance(item_id, str) and self.responses.owns(item_id)):
                return None  # nobody asked for it
            named = self._settle(lambda command: ANSWERS[command.kind] == kind and command.item_id == item_id)
            return named or self._settle(lambda command: ANSWERS[command.kind] == kind and command.item_id is None)
        if kind == "response.created" and isinstance(response := event.get("response"), dict):
            self._echoes_metadata = self._echoes_metadata or bool(response.get("metadata"))
            return self._settle(lambda command: ANSWERS[command.kind] == kind and self._may_be(command, response))
        return self._settle(lambda command: ANSWERS[command.kind] == kind)

    def _settle(self, wanted: Callable[[Asked], bool]) -> Asked | None:
        """Return the command that an answer is for, one that may have been refused only where no other waits for it.

        Servers take commands of a kind in order: with an answer to a later one the doubt about the earlier is over.
        """
        found = _taken(self._asked, wanted)
        if found is None:
            return _taken(self._doubted, lambda command: wanted(command) and not self._is_due_anyway(command))
        for doubted in [command for command in self._doubted if command.kind == found.kind]:
            self._doubted.remove(doubted)
        return found

    def _is_due_anyway(self, command: Asked) -> bool:
        return self._due.is_due and ANSWERS[command.kind] in _BY_ITSELF

    def _may_be(self, asked: Asked, response: Payload) -> bool:
        """Say whether a response may be the one that was asked for, not one of the server's own (its VAD's)."""
        if asked.beside and response.get("conversation_id") is not None:
            return False
        if not self._echoes_metadata or "metadata" not in response:
            return True
        return asked.metadata == metadata_mark(response["metadata"])

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
        asks = any(command.kind == "response.create" and not command.beside for command in self._asked)
        told = self.responses.speak or asks
        events += self.responses.fail(code, message, new_id)
        if not told:
            events += self._due.fail(fault, new_id)
        self._due.forget()
        events += [
            command.alone
            or error_event(ProtocolError(code, message, error_type="server_error", event_id=command.shown), new_id)
            for command in (*self._doubted, *self._asked)
        ]
        self._asked.clear()
        self._doubted.clear()
        self._others.clear()
        self._transcripts.clear()
        self._speaking = None
        return events


def _taken(commands: deque[Asked], wanted: Callable[[Asked], bool]) -> Asked | None:
    found = next((command for command in commands if wanted(command)), None)
    if found is not None:
        commands.remove(found)
    return found


def error_event(error: ProtocolError, new_id: IdSource) -> Payload:
    """Return the `error` event for `error`."""
    return {"type": "error", "event_id": new_id("event"), "error": error.to_wire()}
