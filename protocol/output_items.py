"""The events of one output item: how it opens, grows and ends (Realtime GA: response.output_item.* and what is inside).

An item opens with its first text or audio. `added` events carry an empty item, `done` events the whole one; every
`*.done` is sent however the response ends (protocol §2.1, 2.6, 2.8, 2.9). An out-of-band response's items enter no
conversation, and no conversation.item.* event speaks of them (protocol §2.10).
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from protocol.audio_deltas import AudioDeltas
from protocol.audio_time import Samples
from protocol.conversation import Conversation
from protocol.items import FunctionCall, Message, TextPart
from protocol.mcp_items import McpApprovalRequest, McpCall
from protocol.outputs import ServerEvent
from protocol.server_events import ServerEvents
from protocol.speech import SpeechPart


class OutputItem:
    """What all output items share: the frame of output_item.* and conversation.item.* events."""

    def __init__(
        self,
        item: Message | FunctionCall | McpCall | McpApprovalRequest,
        response_id: str,
        index: int,
        events: ServerEvents,
        conversation: Conversation | None,
    ) -> None:
        self.item = item
        self.open = True
        self._response_id = response_id
        self._index = index
        self._make = events
        self._conversation = conversation
        self._previous: str | None = None

    def _event(self, kind: str, **fields: Any) -> ServerEvent:
        place: dict[str, Any] = {"response_id": self._response_id, "item_id": self.item.id, "output_index": self._index}
        return self._make(kind, **place, **fields)

    def _begun(self) -> Iterator[ServerEvent]:
        wire = self.item.to_wire()
        place: dict[str, Any] = {"response_id": self._response_id, "output_index": self._index}
        yield self._make("response.output_item.added", **place, item=wire)
        if self._conversation is not None:
            self._previous = self._conversation.add(self.item)
            yield self._make("conversation.item.added", previous_item_id=self._previous, item=wire)

    def _ended(self) -> Iterator[ServerEvent]:
        wire = self.item.to_wire()
        place: dict[str, Any] = {"response_id": self._response_id, "output_index": self._index}
        if self._conversation is not None:
            yield self._make("conversation.item.done", previous_item_id=self._previous, item=wire)
        yield self._make("response.output_item.done", **place, item=wire)


class OutputMessage(OutputItem):
    """An assistant message: speech with its transcript, or text (`deltas` None)."""

    def __init__(
        self,
        item_id: str,
        deltas: AudioDeltas | None,
        response_id: str,
        index: int,
        events: ServerEvents,
        conversation: Conversation | None,
    ) -> None:
        self._message = Message(item_id, "assistant", status="in_progress")
        super().__init__(self._message, response_id, index, events, conversation)
        self._deltas = deltas
        self.part: SpeechPart | TextPart = TextPart("output_text") if deltas is None else SpeechPart()

    def begin(self) -> list[ServerEvent]:
        """Return output_item.added, conversation.item.added, content_part.added."""
        events = list(self._begun())
        self._message.parts.append(self.part)
        return [*events, self._event("response.content_part.added", content_index=0, part=self._wire_part())]

    def text(self, delta: str) -> list[ServerEvent]:
        """Return more transcript or text."""
        self.part.text += delta
        kind = "output_audio_transcript" if isinstance(self.part, SpeechPart) else "output_text"
        return [self._event(f"response.{kind}.delta", content_index=0, delta=delta)]

    def audio(self, pcm: bytes) -> list[ServerEvent]:
        """Return more audio; none for a message of text (its response was to be text only)."""
        if self._deltas is None:
            return []
        if self._conversation is not None and self._conversation.get(self.item.id) is self.item:  # else it was deleted
            self._conversation.audio.append(self.item.id, pcm)
        return self._sent(self._deltas.feed(pcm))

    def _sent(self, deltas: list[tuple[bytes, Samples]]) -> list[ServerEvent]:
        if isinstance(self.part, SpeechPart):
            self.part.audio_sent += sum(samples for _, samples in deltas)
        return [
            self._event(
                "response.output_audio.delta",
                audio_of=self._response_id,
                samples=samples,
                content_index=0,
                delta=base64.b64encode(audio).decode("ascii"),
            )
            for audio, samples in deltas
        ]

    def spoken(self, text_end: int, audio_end: int) -> None:
        """Note how far the audio says the text."""
        if isinstance(self.part, SpeechPart):
            self.part.mark(text_end, audio_end)

    def end(self, *, whole: bool, cut: bool = False, flush: bool = True) -> list[ServerEvent]:
        """Return the *.done chain.

        `whole`: all of its text has been said. `cut`: more would have followed. `flush`: the rest of its audio goes out
        first.
        """
        self.open = False
        rest = self._sent(self._deltas.flush()) if self._deltas is not None and flush else []
        self._message.status = "completed" if whole and not cut else "incomplete"
        text = self.part.text
        if isinstance(self.part, SpeechPart):
            self.part.whole = whole
            events = [
                self._event("response.output_audio.done", content_index=0),
                self._event("response.output_audio_transcript.done", content_index=0, transcript=text),
            ]
        else:
            events = [self._event("response.output_text.done", content_index=0, text=text)]
        part_done = self._event("response.content_part.done", content_index=0, part=self._wire_part())
        return [*rest, *events, part_done, *self._ended()]

    def _wire_part(self) -> dict[str, str]:
        """Return the part of content_part events, whose types are `audio` and `text`, unlike the item's."""
        if isinstance(self.part, SpeechPart):
            return {"type": "audio", "transcript": self.part.text}
        return {"type": "text", "text": self.part.text}


class OutputCall(OutputItem):
    """A function call."""

    def __init__(
        self,
        item_id: str,
        call_id: str,
        name: str,
        response_id: str,
        index: int,
        events: ServerEvents,
        conversation: Conversation | None,
    ) -> None:
        self._call = FunctionCall(item_id, call_id, name, status="in_progress")
        super().__init__(self._call, response_id, index, events, conversation)

    def begin(self) -> list[ServerEvent]:
        """Return output_item.added and conversation.item.added, which Pipecat needs before arguments.done."""
        return list(self._begun())

    def arguments(self, delta: str) -> list[ServerEvent]:
        """Return more arguments."""
        self._call.arguments += delta
        return [self._event("response.function_call_arguments.delta", call_id=self._call.call_id, delta=delta)]

    def end(self, *, whole: bool, cut: bool = False, flush: bool = True) -> list[ServerEvent]:
        """Return the *.done chain; agents SDKs run the tool at output_item.done with status completed."""
        self.open = False
        call = self._call
        call.status = "completed" if whole and not cut else "incomplete"
        done = self._event(
            "response.function_call_arguments.done", call_id=call.call_id, name=call.name, arguments=call.arguments
        )
        return [done, *self._ended()]
