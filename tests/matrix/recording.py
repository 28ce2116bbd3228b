"""The gateway's record of a client's sessions as a golden stream: one line an event, `>` from the client, `<` to it.

All that is recorded of an event stands in its line: every key, every null, every word of the protocol. What only time,
chance or the engines decide is taken out by these rules and no others:

1. Ids are renamed in order of first appearance: `item_1`, `resp_1`, `call_1`. Of event ids only those that a client
   gave are told, as `event_1`.
2. Texts and audio are told by their kind: `text` or `""`, `audio`. So are numbers of milliseconds, tokens and seconds:
   `int` or `float`, and an object of nothing else by their count. In a session they are settings and stay as they are.
3. A session shows only what differs from the one shown before. So do a response's settings.
4. Deltas of one item are one line where the first of them stood, with all their kinds: which of text and audio is
   ahead, and into how many pieces they are cut, is the engines' matter. A delta after its `done` is a line of its own.
5. Appended audio is one line, in front of what came of it: speech that started, a commit, a clear.
6. `conversation.item.retrieve` and its answer stand behind the latest transcript or truncation: that is when the agents
   SDKs send it, and a response runs on meanwhile.
7. Of the content of an incomplete item only the types are told: the rest is what was said or heard when it was cut.
8. A cancel that found its response cancelled already is left out, with its answer: LiveKit sends one for what the
   server hears, what its own VAD hears and its own interruption, each only if it hasn't read of the end by then.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Event = dict[str, Any]

_KIND_OF_ID = {
    "item_id": "item",
    "previous_item_id": "item",
    "response_id": "resp",
    "call_id": "call",
    "conversation_id": "conv",
    "event_id": "event",
}
_KIND_OF_OWNER = {"item": "item", "output": "item", "response": "resp", "session": "sess", "conversation": "conv"}
"""What an `id` is that of, by the key of the object that it stands in."""

_MEASURED = ("_ms", "tokens", "seconds", "expires_at")
"""How the keys of numbers end that rule 2 is about."""

_RESPONSE_SETTINGS = frozenset(
    "object output_modalities max_output_tokens audio modalities voice output_audio_format temperature".split()
)
"""The keys of a response that most responses share, of both dialects."""

_MAKES_OF_AUDIO = ("input_audio_buffer.speech_started", "input_audio_buffer.commit", "input_audio_buffer.clear")
_RETRIEVED_AFTER = (
    "< conversation.item.truncated",
    "< conversation.item.input_audio_transcription.completed",
    "> conversation.item.retrieve",
    "< conversation.item.retrieve",
)
_ENDS_DELTAS = (".done", ".completed", ".failed")


@dataclass
class Line:
    """One line of the stream, or several of which all but the first are indented."""

    text: str
    deltas: set[str] = field(default_factory=set)

    def __str__(self) -> str:
        return f"{self.text}: {', '.join(sorted(self.deltas))}" if self.deltas else self.text


def dialogue_lines(records: Sequence[Path]) -> list[str]:
    """Return the golden stream of these sessions, in the order given."""
    lines: list[str] = []
    for number, path in enumerate(records, 1):
        if len(records) > 1:
            lines.append(f"session {number}")
        lines += stream_lines(_events(path))
    return lines


def stream_lines(events: Iterable[tuple[str, Event]]) -> list[str]:
    """Return the lines of one session's events, each with its direction: `client` or `server`."""
    stream = _Stream()
    for direction, event in events:
        stream.add(direction, event)
    return [text for line in stream.lines for text in str(line).splitlines()]


def _events(path: Path) -> Iterator[tuple[str, Event]]:
    for text in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(text)
        assert "dropped_before" not in record, "the disk was too slow for the event log"
        if record["direction"] != "backend":
            yield record["direction"], record["event"]


class _Stream:
    """The stream so far, and what the rules have to remember of it."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self._names: dict[tuple[str, str], str] = {}
        self._shown: dict[str, dict[str, str]] = {"session": {}, "response": {}}
        self._open_deltas: dict[str, Line] = {}
        self._audio_waits = False
        self._retrieving = False
        self._latest_response_was_cancelled = False

    def add(self, direction: str, event: Event) -> None:
        kind = event.get("type", "(no JSON)")
        if kind == "input_audio_buffer.append":
            self._audio_waits = True
            return
        if kind in _MAKES_OF_AUDIO and self._audio_waits:
            self._audio_waits = False
            self.lines.append(Line("> input_audio_buffer.append"))
        if direction == "client":
            self._retrieving = kind == "conversation.item.retrieve"
            self._insert(Line(f"> {kind}{self._facts(event)}"))
        elif kind.endswith(".delta"):
            self._add_delta(kind, event)
        else:
            self._add_answer(kind, event)

    def _add_answer(self, kind: str, event: Event) -> None:
        if kind.endswith(_ENDS_DELTAS) and "item_id" in event:
            self._open_deltas.pop(event["item_id"], None)
        match event:
            case {"type": "response.created" | "response.done", "response": response}:
                self._latest_response_was_cancelled = response.get("status") == "cancelled"
            case {"error": {"code": "response_cancel_not_active"}} if self._latest_response_was_cancelled:  # rule 8
                cancels = [at for at, line in enumerate(self.lines) if line.text.startswith("> response.cancel")]
                del self.lines[cancels[-1]]
                return
        facts = self._facts({**event, "event_id": None})
        self._insert(Line(f"< {kind}{facts}"))
        self._retrieving = False

    def _insert(self, line: Line) -> None:
        at = len(self.lines)
        if self._retrieving:  # rule 6
            behind = [number for number, known in enumerate(self.lines, 1) if known.text.startswith(_RETRIEVED_AFTER)]
            at = behind[-1] if behind else at
        self.lines.insert(at, line)

    def _add_delta(self, kind: str, event: Event) -> None:
        item_id = event["item_id"]
        if item_id not in self._open_deltas:
            self._open_deltas[item_id] = line = Line(f"< deltas of {self._name('item', item_id)}")
            self.lines.append(line)
        self._open_deltas[item_id].deltas.add(kind.removesuffix(".delta"))

    def _name(self, kind: str, value: str) -> str:
        count = sum(known == kind for known, _ in self._names)
        return self._names.setdefault((kind, value), f"{kind}_{count + 1}")

    # --- what stands in an event ---

    def _facts(self, event: Event) -> str:
        facts = ""
        for key, value in event.items():
            match value:
                case Mapping() if key == "session" and "id" in value:
                    facts += self._news(key, value)
                case Mapping() if key == "response" and "id" in value:
                    settings = {name: inner for name, inner in value.items() if name in _RESPONSE_SETTINGS}
                    rest = {name: inner for name, inner in value.items() if name not in _RESPONSE_SETTINGS}
                    facts += f" response={self._told(key, rest, '', False)}{self._news(key, settings)}"
                case None if key == "event_id":
                    pass
                case _ if key != "type":
                    facts += f" {key}={self._told(key, value, '', 'session' in event)}"
        return facts

    def _news(self, owner: str, settings: Mapping[str, Any]) -> str:
        """Return what differs from the settings shown before, a line each."""
        now = dict(self._flat(owner, settings)) if settings else {}
        before, self._shown[owner] = self._shown[owner], now
        changed = [f"{path}={value}" for path, value in now.items() if before.get(path) != value]
        gone = [f"no {path}" for path in before if not any(_one_holds_the_other(path, other) for other in now)]
        return "".join(f"\n    {fact}" for fact in changed + gone)

    def _flat(self, path: str, value: Any) -> Iterator[tuple[str, str]]:
        if isinstance(value, Mapping) and value and not _is_redacted(value):
            for key, inner in value.items():
                yield from self._flat(f"{path}.{key}", inner)
        else:
            owner, _, key = path.rpartition(".")
            yield path, self._told(key, value, owner, True)

    def _told(self, key: str, value: Any, owner: str, settings: bool) -> str:
        match value:
            case {"chars": 0}:
                return '""'
            case {"chars": _} | {"samples": _} | {"bytes": _}:
                return "text" if "chars" in value and key != "audio" else "audio"
            case {"status": "incomplete", "content": content} if any(len(part) > 1 for part in content):  # rule 7
                return self._told(
                    key, {**value, "content": [{"type": part["type"]} for part in content]}, owner, settings
                )
            case {"entries": count}:
                return f"({count} entries)"
            case {} if value and not settings and (count := _measured(value)):
                return f"({count} numbers)"
            case {}:
                inner = " ".join(f"{name}:{self._told(name, item, key, settings)}" for name, item in value.items())
                return f"{{{inner}}}"
            case list():
                return f"[{', '.join(self._told(key, item, owner, settings) for item in value)}]"
            case str() if key in _KIND_OF_ID:
                return self._name(_KIND_OF_ID[key], value)
            case str() if key == "id" and owner in _KIND_OF_OWNER:
                return self._name(_KIND_OF_OWNER[owner], value)
            case int() | float() if key.endswith(_MEASURED) and not isinstance(value, bool):
                kept = settings and key != "expires_at"
                return str(value) if kept else type(value).__name__
            case _:
                return str(value) if isinstance(value, str) and value else json.dumps(value)


def _measured(value: Mapping[str, Any]) -> int:
    """Return how many numbers a tree of measured ones holds; 0 if it holds anything else."""
    count = 0
    for key, inner in value.items():
        inside = _measured(inner) if isinstance(inner, Mapping) else int(type(inner) is int and key.endswith(_MEASURED))
        if not inside:
            return 0
        count += inside
    return count


def _one_holds_the_other(path: str, other: str) -> bool:
    shorter, longer = sorted((f"{path}.", f"{other}."), key=len)
    return longer.startswith(shorter)


def _is_redacted(value: Mapping[str, Any]) -> bool:
    return len(value) == 1 and not value.keys().isdisjoint({"chars", "samples", "bytes", "entries"})
