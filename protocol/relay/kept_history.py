"""The conversation that another server holds, as far as a new one of its sessions can be told it again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from protocol import errors
from protocol.audio_time import Samples, ms_from_samples, samples_from_ms
from protocol.conversation import TRUNCATE_TOLERANCE_MS
from protocol.speech import SpeechPart, spoken_length
from protocol.wire_rules import encoded_bytes

Payload = dict[str, Any]

KEPT_ITEMS = 256
KEPT_BYTES = 512 * 2**10
"""Most items, and most bytes of them as JSON, that are kept (chosen: a conversation of an hour has fewer). Overflow
rule: the oldest leave first, and an item that is larger by itself is never kept."""

_TRANSCRIPT = "conversation.item.input_audio_transcription.completed"
_ROLES = {"user": "input_text", "system": "input_text", "assistant": "output_text"}


@dataclass(slots=True)
class _Kept:
    """An item as its server showed it last. `transcript`: of its audio; `sent` of it, `cut` where its client said.

    `earlier`: it was said in a session that was lost, so that the present one has no audio of it.
    """

    item: Payload
    transcript: str | None = None
    sent: Samples = 0
    cut: Samples | None = None
    earlier: bool = False
    size_bytes: int = field(default=0)


class KeptHistory:
    """Follows a server's events (GA). `items` is what `conversation.item.create` brings into a new session.

    Audio becomes its transcript, and of what the client truncated the words that were heard (by their share of the
    audio: the server alone knew better), of a reply that broke off those whose audio was sent. What had no words, and
    what only the server could make, is left out.
    """

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}
        self._first: set[str] = set()

    def goes_first(self, item_id: str) -> None:
        """Note that the client puts an item before all others: the server's event can't say so."""
        if len(self._first) < KEPT_ITEMS:
            self._first.add(item_id)

    def saw(self, event: Payload) -> None:
        """Note an event. What isn't shaped as it should be is passed over."""
        match event:
            case {"type": "conversation.item.added", "item": {"id": str(item_id), "type": str()} as item}:
                self._add(item_id, item, event.get("previous_item_id"))
            case {
                "type": "conversation.item.done" | "response.output_item.done",
                "item": {"id": str(item_id), "type": str()} as item,
            }:
                if item_id in self._kept:
                    self._show(item_id, item)
            case {"type": "conversation.item.deleted", "item_id": str(item_id)}:
                self._kept.pop(item_id, None)
            case {"type": "conversation.item.truncated", "item_id": str(item_id), "audio_end_ms": int(end_ms)}:
                if item_id in self._kept:
                    self._kept[item_id].cut = samples_from_ms(max(0, end_ms))
            case {"type": kind, "item_id": str(item_id), "transcript": str(words)} if kind == _TRANSCRIPT:
                if item_id in self._kept:
                    self._kept[item_id].transcript = words
                    self._measure(item_id)
            case _:
                pass

    def audio_sent(self, item_id: str, samples: Samples) -> None:
        """Note more audio of an item of the agent's."""
        if item_id in self._kept:
            self._kept[item_id].sent += samples

    def lost(self) -> None:
        """Note that the server's session is gone: a new one is told all that is kept, as text."""
        for kept in self._kept.values():
            kept.earlier = True

    def is_earlier(self, item_id: str) -> bool:
        """Say whether an item was said in a session that was lost: only here is it known as audio."""
        return item_id in self._kept and self._kept[item_id].earlier

    def truncate(self, item_id: str, audio_end_ms: int) -> None:
        """Note how much of an item of the agent's was heard, by its client's word: the latest counts.

        Raises ProtocolError where our own sessions would: there is no such item, or it is shorter.
        """
        kept = self._kept.get(item_id)
        if kept is None:
            raise errors.unknown_item_to_truncate(item_id)
        if kept.item.get("role") != "assistant":
            raise errors.not_assistant_audio(item_id)
        if audio_end_ms > ms_from_samples(kept.sent) + TRUNCATE_TOLERANCE_MS:
            raise errors.truncated_past_the_end(ms_from_samples(kept.sent), audio_end_ms)
        kept.cut = samples_from_ms(max(0, audio_end_ms))

    def item(self, item_id: str) -> Payload | None:
        """Return an item as `items` does; None where nothing of it is worth telling, or it isn't kept."""
        kept = self._kept.get(item_id)
        return None if kept is None else _to_create(kept)

    def items(self) -> list[Payload]:
        """Return the items, in order, as `item` of conversation.item.create, under the ids that the client knows."""
        items = [item for kept in self._kept.values() if (item := _to_create(kept)) is not None]
        calls = {item["call_id"] for item in items if item["type"] == "function_call"}
        return [item for item in items if item["type"] != "function_call_output" or item["call_id"] in calls]

    def _add(self, item_id: str, item: Payload, previous: object) -> None:
        kept = self._kept
        if item_id in kept:
            self._show(item_id, item)
            return
        ids = list(kept)
        if item_id in self._first:
            self._first.discard(item_id)
            behind = ids
        else:
            behind = ids[ids.index(previous) + 1 :] if isinstance(previous, str) and previous in kept else []
        moved = {key: kept.pop(key) for key in behind}
        kept[item_id] = _Kept(item)
        kept.update(moved)
        self._measure(item_id)

    def _show(self, item_id: str, item: Payload) -> None:
        self._kept[item_id].item = item
        self._measure(item_id)

    def _measure(self, item_id: str) -> None:
        kept = self._kept[item_id]
        known = _to_create(kept)
        kept.size_bytes = 0 if known is None else encoded_bytes(known)
        if kept.size_bytes > KEPT_BYTES:
            del self._kept[item_id]
        total = sum(other.size_bytes for other in self._kept.values())
        while self._kept and (total > KEPT_BYTES or len(self._kept) > KEPT_ITEMS):
            total -= self._kept.pop(next(iter(self._kept))).size_bytes


def _to_create(kept: _Kept) -> Payload | None:
    match kept.item:
        case {
            "type": "message",
            "id": item_id,
            "role": "user" | "system" | "assistant" as role,
            "content": list(parts),
        }:
            content = [content for part in parts for content in _content(part, role, kept)]
            return {"type": "message", "id": item_id, "role": role, "content": content} if content else None
        case {"type": "function_call", "status": "incomplete" | "in_progress"}:
            return None  # nobody can answer it
        case {"type": "function_call", "id": item_id, "call_id": call_id, "name": name, "arguments": arguments}:
            return {
                "type": "function_call",
                "id": item_id,
                "call_id": call_id,
                "name": name,
                "arguments": arguments,
            }
        case {"type": "function_call_output", "id": item_id, "call_id": call_id, "output": output}:
            return {"type": "function_call_output", "id": item_id, "call_id": call_id, "output": output}
        case _:
            return None


def _content(part: Any, role: str, kept: _Kept) -> Iterator[Payload]:
    """Yield the part as text; pictures stay what they are."""
    match part:
        case {"type": "input_text" | "output_text" | "text", "text": str(text)} if text:
            yield {"type": _ROLES[role], "text": text}
        case {"type": "input_image", "image_url": str()}:
            yield part
        case {"type": "input_audio" | "output_audio" | "audio"}:
            words = part.get("transcript") or kept.transcript
            text = _heard(words, role, kept) if isinstance(words, str) else ""
            if text:
                yield {"type": _ROLES[role], "text": text}
        case _:
            pass


def _heard(words: str, role: str, kept: _Kept) -> str:
    if role != "assistant":
        return words
    whole = kept.item.get("status") not in ("incomplete", "in_progress")
    if whole and kept.cut is None:
        return words
    part = SpeechPart(words, audio_sent=kept.sent, client_cut=kept.cut, whole=whole)
    if not whole:  # words come before their sound
        part.mark(len(words), max(kept.sent, spoken_length(words)))
    return part.heard_text()
