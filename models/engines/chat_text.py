"""The text side of a chat stream: what of a server's `content` deltas is the reply, and in valid Unicode."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

_THINK_START = "<think>"
_THINK_END = "</think>"


class _Place(Enum):
    START = auto()
    THINKING = auto()
    AFTER_THINKING = auto()
    REPLY = auto()


class ReplyText:
    """Turns `content` deltas into reply text: no leading <think> block, no halves of surrogate pairs.

    Servers without a reasoning parser leave the thoughts of reasoning models in the content, between <think> tags at
    its start. Servers that escape JSON to ASCII may cut an emoji between two deltas.
    """

    def __init__(self) -> None:
        self._place = _Place.START
        self._held = ""
        self._high_surrogate = ""
        self.thought = False
        """Whether there was a block of thoughts."""

    @property
    def thinking(self) -> bool:
        """Whether a block of thoughts is open."""
        return self._place is _Place.THINKING

    def feed(self, content: Any) -> str:
        """Return the reply text that this delta's `content` (string, list of parts, null) brings, possibly ""."""
        text = self._join_surrogates(_plain_text(content))
        return text if self._place is _Place.REPLY else self._skip_thoughts(text)

    def end(self) -> str:
        """Return what was held back in case it was the start of a tag."""
        return self._held if self._place is _Place.START else ""

    def _skip_thoughts(self, text: str) -> str:
        self._held += text
        if self._place is _Place.START:
            begun = self._held.lstrip()
            if not begun.startswith(_THINK_START):
                if _THINK_START.startswith(begun):
                    return ""  # may still become the tag
                self._place = _Place.REPLY
                return self._held
            self._place, self.thought = _Place.THINKING, True
        if self._place is _Place.THINKING:
            _, tag, rest = self._held.partition(_THINK_END)
            if not tag:
                self._held = self._held[-len(_THINK_END) :]  # enough to find a tag cut between deltas
                return ""
            self._place, self._held = _Place.AFTER_THINKING, rest
        reply = self._held.lstrip()
        self._held = ""
        if reply:
            self._place = _Place.REPLY
        return reply

    def _join_surrogates(self, text: str) -> str:
        text, self._high_surrogate = self._high_surrogate + text, ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._high_surrogate = text[:-1], text[-1]
        if any("\ud800" <= character <= "\udfff" for character in text):
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return text


def _plain_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):  # parts, as some servers stream them; thoughts are parts of another type
        parts = (part for part in content if isinstance(part, dict) and part.get("type") == "text")
        return "".join(part["text"] for part in parts if isinstance(part.get("text"), str))
    return ""
