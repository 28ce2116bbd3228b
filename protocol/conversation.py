"""The conversation: its items in order, and what was heard of the agent's speech (Realtime GA: conversation.item.*).

Every method either does all of its work or raises ProtocolError and changes nothing.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from typing import Any

from protocol import errors
from protocol.audio_time import Samples, ms_from_samples, samples_from_bytes, samples_from_ms
from protocol.items import ROOT, FunctionCall, FunctionCallOutput, HeardPart, Item, Message, Role
from protocol.kept_audio import KeptAudio
from protocol.speech import SpeechPart
from protocol.wire_rules import MAX_CLIENT_ITEM_BYTES, MAX_CLIENT_ITEMS, MAX_FRAME_BYTES, encoded_bytes

TRUNCATE_TOLERANCE_MS = 32
"""A truncate may ask for this much more than was sent: clients round (one 32 ms frame; RB-23)."""

DELETED_REMEMBERED = 1_000
"""Of so many deleted items it is remembered where they stood; of more, the first are forgotten (chosen: a client that
replaces a history of some hundred items names none of an earlier one)."""


class Conversation:
    """The session's one conversation. Items are added by the client, by the user's speech and by responses."""

    def __init__(self, conversation_id: str) -> None:
        self.id = conversation_id
        self._items: list[Item] = []
        self._by_id: dict[str, Item] = {}
        self._call_ids: set[str] = set()
        self._client_bytes: dict[str, int] = {}
        self._client_total = 0
        self._announced: str | None = None
        self._forgotten: set[str] = set()
        self._stood_after: dict[str, str] = {}
        self.audio = KeptAudio()

    @property
    def items(self) -> tuple[Item, ...]:
        """The items in order."""
        return tuple(self._items)

    @property
    def remembered(self) -> tuple[Item, ...]:
        """The items that the language model is still told, in order."""
        return tuple(item for item in self._items if item.id not in self._forgotten)

    def forget(self, items: Iterable[Item]) -> None:
        """Tell the language model nothing of `items` any more; they stay in the conversation."""
        self._forgotten.update(item.id for item in items)

    @property
    def has_agent_audio(self) -> bool:
        """Whether an item holds speech of the agent."""
        return any(isinstance(item, Message) and item.speech and item.speech.audio_sent for item in self._items)

    @property
    def user_audio(self) -> Samples:
        """How much audio of the user the conversation holds."""
        messages = [item for item in self._items if isinstance(item, Message)]
        return sum(part.duration for item in messages for part in item.parts if isinstance(part, HeardPart))

    def get(self, item_id: str) -> Item | None:
        """Return an item, or None if there is none of that id."""
        return self._by_id.get(item_id)

    def has_call(self, call_id: str) -> bool:
        """Whether a function call of that `call_id` is in the conversation."""
        return call_id in self._call_ids

    def add(self, item: Item, after: str | None = None) -> str | None:
        """Insert `item` after the item `after` (None: at the end, `root`: first). Return the id before it.

        Raises ProtocolError for an unknown `after`, a duplicate id, or a tool result without its call (RB-25).
        """
        index = len(self._items) if after is None else self._index_after(after)
        if item.id == self._announced or item.id in self._by_id:
            raise errors.duplicate_item(item.id)
        if isinstance(item, FunctionCallOutput) and not self.has_call(item.call_id):
            raise errors.unknown_call(item.call_id)
        if isinstance(item, FunctionCall) and self.has_call(item.call_id):
            raise errors.duplicate_call(item.call_id)
        self._items.insert(index, item)
        self._by_id[item.id] = item
        if isinstance(item, FunctionCall):
            self._call_ids.add(item.call_id)
        self._stood_after.pop(item.id, None)
        return self._items[index - 1].id if index else None

    def _index_after(self, item_id: str) -> int:
        """Return the index behind an item, or behind what a deleted one stood after.

        A client learns of its deletion only later: LiveKit deletes a reply of which nothing was heard and has the next
        message follow it. OpenAI names deleted items, too (livekit/agents#6964). An item was there when another was
        found to stand after it, so that the chain is walked from older deletions to newer ones, and ends.
        """
        found = item_id
        while found != ROOT and found not in self._by_id:
            if found not in self._stood_after:
                raise errors.unknown_previous_item(item_id)
            found = self._stood_after[found]
        return 0 if found == ROOT else self._index(found) + 1

    def _index(self, item_id: str) -> int:
        """Return where an item of the conversation stands."""
        return next(index for index, item in enumerate(self._items) if item.id == item_id)

    def add_from_client(self, item: Item, after: str | None, size_bytes: int) -> str | None:
        """Do as `add` for an item of `size_bytes` that a client wrote. Raises ProtocolError for one too many."""
        if len(self._client_bytes) >= MAX_CLIENT_ITEMS or self._client_total + size_bytes > MAX_CLIENT_ITEM_BYTES:
            raise errors.conversation_full(MAX_CLIENT_ITEMS, MAX_CLIENT_ITEM_BYTES // 2**20)
        previous = self.add(item, after)
        self._client_bytes[item.id] = size_bytes
        self._client_total += size_bytes
        return previous

    def announce(self, item_id: str) -> None:
        """Reserve the id of speech that is still going on: the client knows it from speech_started.

        There is one stretch of speech at a time: that of an earlier id was dropped.
        """
        self._announced = item_id

    def add_announced(self, item: Item) -> str | None:
        """Append the item whose id was announced, if it was. Return the id before it."""
        if item.id == self._announced:
            self._announced = None
        return self.add(item)

    def delete(self, item_id: str) -> None:
        """Remove an item. A deleted function call leaves its output without meaning; history skips it."""
        item = self.get(item_id)
        if item is None:
            raise errors.unknown_item_to_delete(item_id)
        index = self._index(item_id)
        self._stood_after[item_id] = self._items[index - 1].id if index else ROOT
        if len(self._stood_after) > DELETED_REMEMBERED:
            del self._stood_after[next(iter(self._stood_after))]
        del self._items[index]
        del self._by_id[item_id]
        if isinstance(item, FunctionCall):
            self._call_ids.discard(item.call_id)
        self._forgotten.discard(item_id)
        self._client_total -= self._client_bytes.pop(item_id, 0)
        self.audio.forget(item_id)

    def retrieve(self, item_id: str, encode: Callable[[bytes, Role], bytes]) -> dict[str, Any]:
        """Return an item's wire object, with its audio where that is kept, as `encode` writes that of its role."""
        item = self.get(item_id)
        if item is None:
            raise errors.unknown_item_to_retrieve(item_id)
        wire = item.to_wire()
        if isinstance(item, Message):
            speech = item.speech
            audio = self.audio.get(item_id, speech.heard if speech and speech.client_cut is not None else None)
            if audio:
                _show_audio(wire, item, audio, encode)
        return wire

    def truncate(self, item_id: str, content_index: int, audio_end_ms: int) -> Samples:
        """Note the client's word on what its user heard of an item; return it in samples, at most what was sent.

        Checked against the audio sent, not against an earlier cut: the latest truncate wins, either way.
        """
        item = self.get(item_id)
        if item is None:
            raise errors.unknown_item_to_truncate(item_id)
        speech = item.speech if isinstance(item, Message) else None
        if speech is None:
            raise errors.not_assistant_audio(item_id)
        if content_index != 0:  # the agent's speech is the only part of its message
            raise errors.no_such_content(content_index)
        if audio_end_ms > ms_from_samples(speech.audio_sent) + TRUNCATE_TOLERANCE_MS:
            raise errors.truncated_past_the_end(ms_from_samples(speech.audio_sent), audio_end_ms)
        speech.client_cut = min(samples_from_ms(audio_end_ms), speech.audio_sent)
        return speech.client_cut

    def cut(self, item_id: str, heard: Samples) -> None:
        """Note how much of an item the gateway's virtual player had played when the user cut in."""
        item = self.get(item_id)
        if isinstance(item, Message) and item.speech is not None:
            item.speech.gateway_cut = heard

    def unsend(self, item_id: str, samples: Samples) -> None:
        """Note that the last `samples` of an item's audio were dropped before they were sent; nobody heard them."""
        item = self.get(item_id)
        if isinstance(item, Message) and item.speech is not None:
            item.speech.unsend(samples)
            self.audio.shorten(item_id, samples)

    def set_transcript(self, item_id: str, transcript: str) -> None:
        """Note what the user said in an item; nothing if the client has deleted it."""
        item = self.get(item_id)
        for part in item.parts if isinstance(item, Message) else ():
            if isinstance(part, HeardPart):
                part.transcript = transcript


def _show_audio(wire: dict[str, Any], message: Message, audio: bytes, encode: Callable[[bytes, Role], bytes]) -> None:
    """Put `audio` into the part of `wire` that it is of, unless the event would grow too large for clients."""
    for part, shown in zip(message.parts, wire["content"], strict=True):
        recorded = isinstance(part, HeardPart) and part.duration == samples_from_bytes(len(audio))
        if recorded or isinstance(part, SpeechPart):
            encoded = base64.b64encode(encode(audio, message.role)).decode("ascii")
            if len(encoded) + encoded_bytes(wire) <= MAX_FRAME_BYTES:
                shown["audio"] = encoded
            return
