"""One reply of a chat server: its chunks become text, tool calls and signs of life."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from models.engines.call_syntax import Call, Tools
from models.engines.chat_text import ReplyText
from models.engines.tool_call_stream import ToolCallStream
from models.engines.written_calls import WrittenCalls
from models.interfaces import ChatAlive, ChatEnd, ChatEvent, ChatText

_FINISH_REASONS = frozenset({"stop", "length", "tool_calls", "content_filter"})


class ChatReply:
    """Reads one reply. `tools`: the functions that calls in its text may be of, {} for none.

    `written`: the calls that stood in the text. `thought`: whether the model thought before it spoke.
    """

    def __init__(self, tools: Tools) -> None:
        self.written: list[Call] = []
        self.thought = False
        self._text = ReplyText()
        self._in_text = WrittenCalls(tools) if tools else None
        self._calls = ToolCallStream()
        self._anything = False
        self._pieces = 0
        self._left = False
        self._finish_reason = ""
        self._usage: dict[str, Any] = {}

    async def events(self, chunks: AsyncIterator[dict[str, Any]]) -> AsyncGenerator[ChatEvent, None]:
        """Yield the reply's events, closed by a ChatEnd as soon as nothing more can matter.

        Raises ValueError, AttributeError, KeyError, TypeError for chunks of another shape, or none.
        """
        async for chunk in chunks:
            for event in self._read(chunk):
                yield event
            if self._in_text is not None and self._in_text.over and self._in_text.called:
                self._left = True  # the model only rambles on: the result of its call is wanted first
                break
        for event in self._said(self._text.end(), final=True):
            yield event
        if self._in_text is not None and self._in_text.broken and not self._calls and not self._cut:
            raise ValueError("a call that can't be read")
        if not self._calls.all_named or not (self._anything or self._calls or self._finish_reason):
            raise ValueError("no reply")
        yield self._end()

    @property
    def _cut(self) -> bool:
        return self._finish_reason in ("length", "content_filter")

    def _read(self, chunk: dict[str, Any]) -> list[ChatEvent]:
        usage = chunk.get("usage")
        self._usage = usage if isinstance(usage, dict) else self._usage
        choices = chunk.get("choices") or [{}]  # the chunk with the usage has none
        delta = choices[0].get("delta") or {}
        self._finish_reason = choices[0].get("finish_reason") or self._finish_reason
        content = delta.get("content") or delta.get("refusal")
        thoughts = delta.get("reasoning_content") or delta.get("reasoning")
        events = self._said(self._text.feed(content))
        pieces = delta.get("tool_calls") or ()
        events += [event for event in map(self._calls.feed, pieces) if event is not None]
        self._pieces += bool(content)
        self.thought = self.thought or bool(thoughts) or self._text.thought
        if not events and (content or thoughts or pieces):
            events.append(ChatAlive(_length(thoughts) + (_length(content) if self._text.thinking else 0)))
        return events

    def _said(self, text: str, *, final: bool = False) -> list[ChatEvent]:
        self._anything = self._anything or bool(text)
        if self._in_text is None:
            return [ChatText(text)] if text else []
        parts = self._in_text.feed(text) + (self._in_text.end() if final else [])
        return [ChatText(part) if isinstance(part, str) else self._called(part) for part in parts]

    def _called(self, call: Call) -> ChatEvent:
        self.written.append(call)
        function = {"name": call.name, "arguments": call.arguments}
        event = self._calls.feed({"id": f"call_{uuid.uuid4().hex[:24]}", "function": function})
        assert event is not None
        return event

    def _end(self) -> ChatEnd:
        reason = self._finish_reason
        if self._calls and not self._cut:
            reason = "tool_calls"  # some servers say "stop" or "function_call"
        elif reason not in _FINISH_REASONS:
            reason = "stop"
        usage = self._usage
        details = usage.get("prompt_tokens_details")
        details = details if isinstance(details, dict) else {}
        return ChatEnd(
            reason,
            input_tokens=int(usage.get("prompt_tokens") or 0),
            cached_tokens=int(details.get("cached_tokens") or 0),
            output_tokens=int(usage.get("completion_tokens") or (self._pieces if self._left else 0)),
        )


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str) else 0
