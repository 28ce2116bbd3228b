"""The responses of another server that have begun and not ended, and the events that end them when it is gone.

A client waits for every `*.done` and for `response.done`; if the server that owes them is lost, the relay sends them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from protocol.backend_events import TokenUsage
from protocol.ids import IdSource
from protocol.usage import response_usage
from protocol.wire_rules import MAX_TEXT

Payload = dict[str, Any]

KEPT_RESPONSES = 64
"""Responses open at a time (chosen: four times what our own sessions allow); the oldest is forgotten."""

KEPT_ITEMS = 256
"""Output items of one response (chosen); those beyond are not ended here."""

_TEXT_DELTAS = {
    "response.output_text.delta": "text",
    "response.output_audio_transcript.delta": "transcript",
}
_DONE = frozenset({"response.output_text.done", "response.output_audio.done", "response.output_audio_transcript.done"})


@dataclass(slots=True)
class _Part:
    """A content part as it grows. `told`: those of its `*.done` events that the server has sent."""

    kind: str
    text: str = ""
    told: set[str] = field(default_factory=set)
    open: bool = True

    @property
    def key(self) -> str:
        return "transcript" if self.kind == "audio" else "text"

    def to_wire(self) -> Payload:
        """Return the part of content_part events."""
        return {"type": self.kind, self.key: self.text}

    def content(self) -> Payload:
        """Return it as an item's content, where its type has a longer name."""
        return {"type": f"output_{self.kind}", self.key: self.text}


@dataclass(slots=True)
class _Item:
    index: int
    item: Payload
    parts: dict[int, _Part] = field(default_factory=dict)
    arguments: str = ""
    arguments_told: bool = False
    previous: str | None = None
    in_conversation: bool = False
    conversation_told: bool = False
    open: bool = True

    def as_it_ended(self) -> Payload:
        """Return the item with what came of it; one that was open is incomplete."""
        if self.conversation_told or not self.open:
            return self.item
        item = {**self.item, "status": "incomplete"}
        if item.get("type") == "function_call":
            item["arguments"] = self.arguments
        elif item.get("type") == "message":
            item["content"] = [part.content() for _, part in sorted(self.parts.items())]
        return item


@dataclass(slots=True)
class _Response:
    created: Payload
    items: dict[str, _Item] = field(default_factory=dict)


class OpenResponses:
    """Follows a server's events (GA). What isn't shaped as it should be is passed over."""

    def __init__(self) -> None:
        self._responses: dict[str, _Response] = {}

    @property
    def speak(self) -> bool:
        """Whether one of the conversation's is open: its end is told to who waits for an answer."""
        return any(response.created.get("conversation_id", "") is not None for response in self._responses.values())

    def owns(self, item_id: str) -> bool:
        """Say whether an open response made the item."""
        return any(item_id in response.items for response in self._responses.values())

    def saw(self, event: Payload) -> None:
        """Note an event."""
        match event:
            case {"type": "response.created", "response": {"id": str(response_id)} as created}:
                if len(self._responses) >= KEPT_RESPONSES:
                    del self._responses[next(iter(self._responses))]
                self._responses[response_id] = _Response(created)
            case {"type": "response.done", "response": {"id": str(response_id)}}:
                self._responses.pop(response_id, None)
            case {"type": "response.output_item.added", "response_id": str(of), "item": {"id": str(item_id)} as item}:
                response = self._responses.get(of)
                if response is not None and len(response.items) < KEPT_ITEMS:
                    index = event.get("output_index")
                    response.items[item_id] = _Item(index if isinstance(index, int) else len(response.items), item)
            case {"type": "response.output_item.done", "item": {"id": str(item_id)} as item}:
                if (known := self._item(item_id)) is not None:
                    known.item, known.open = item, False
            case {"type": "conversation.item.added", "item": {"id": str(item_id)}}:
                if (known := self._item(item_id)) is not None:
                    known.in_conversation, known.previous = True, event.get("previous_item_id")
            case {"type": "conversation.item.done", "item": {"id": str(item_id)} as item}:
                if (known := self._item(item_id)) is not None:
                    known.item, known.conversation_told = item, True
            case {"type": str(kind), "item_id": str(item_id)} if kind.startswith("response."):
                if (known := self._item(item_id)) is not None:
                    _grow(known, kind, event)
            case _:
                pass

    def _item(self, item_id: str) -> _Item | None:
        return next((r.items[item_id] for r in self._responses.values() if item_id in r.items), None)

    def fail(self, code: str, message: str, new_id: IdSource) -> list[Payload]:
        """Return what ends all of them as `failed`, and forget them."""
        responses, self._responses = self._responses, {}
        return [event for response in responses.values() for event in _failed(response, code, message, new_id)]


def _grow(item: _Item, kind: str, event: Payload) -> None:
    index = event.get("content_index", 0)
    part = item.parts.get(index) if isinstance(index, int) else None
    match event:
        case {"type": "response.content_part.added", "part": {"type": "audio" | "text" as what}} if isinstance(
            index, int
        ):
            item.parts[index] = _Part(what)
        case {"type": "response.content_part.done"} if part is not None:
            part.open = False
        case {"type": "response.function_call_arguments.delta", "delta": str(delta)}:
            item.arguments = (item.arguments + delta)[:MAX_TEXT]
        case {"type": "response.function_call_arguments.done", "arguments": str(arguments)}:
            item.arguments, item.arguments_told = arguments[:MAX_TEXT], True
        case {"delta": str(delta)} if part is not None and _TEXT_DELTAS.get(kind) == part.key:
            part.text = (part.text + delta)[:MAX_TEXT]
        case _ if part is not None and kind in _DONE:
            part.told.add(kind)
            whole = event.get(part.key)
            if isinstance(whole, str):
                part.text = whole[:MAX_TEXT]
        case _:
            pass


def _failed(response: _Response, code: str, message: str, new_id: IdSource) -> Iterator[Payload]:
    response_id = response.created["id"]
    for item_id, item in response.items.items():
        if item.open:
            yield from _item_ended(response_id, item_id, item, new_id)
    error = {"type": "server_error", "code": code, "message": message}
    yield {
        "type": "response.done",
        "event_id": new_id("event"),
        "response": {
            **response.created,
            "status": "failed",
            "status_details": {"type": "failed", "error": error},
            "output": [item.as_it_ended() for item in response.items.values()],
            "usage": response_usage(TokenUsage(), 0, 0),
        },
    }


def _item_ended(response_id: str, item_id: str, item: _Item, new_id: IdSource) -> Iterator[Payload]:
    """Yield the `*.done` events that an open item still owes, in OpenAI's order (protocol §2.8)."""
    place: Payload = {"response_id": response_id, "item_id": item_id, "output_index": item.index}

    def event(kind: str, **fields: Any) -> Payload:
        return {"type": kind, "event_id": new_id("event"), **fields}

    for index, part in sorted(item.parts.items()):
        kinds = ("output_audio", "output_audio_transcript") if part.kind == "audio" else ("output_text",)
        for kind in (f"response.{kind}.done" for kind in kinds):
            if part.open and kind not in part.told:
                said = {} if kind == "response.output_audio.done" else {part.key: part.text}
                yield event(kind, **place, content_index=index, **said)
        if part.open:
            yield event("response.content_part.done", **place, content_index=index, part=part.to_wire())
    ended = item.as_it_ended()
    if ended.get("type") == "function_call" and not item.arguments_told:
        call = {"call_id": ended.get("call_id"), "name": ended.get("name"), "arguments": item.arguments}
        yield event("response.function_call_arguments.done", **place, **call)
    if item.in_conversation and not item.conversation_told:
        yield event("conversation.item.done", previous_item_id=item.previous, item=ended)
    yield event("response.output_item.done", response_id=response_id, output_index=item.index, item=ended)
