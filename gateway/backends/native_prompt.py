"""What a conversation with a full-duplex model begins with, out of what the client has set and what was said before."""

from __future__ import annotations

from collections import deque
from typing import Any

from models.duplex_interface import DuplexPrompt
from protocol.commands import ResponseContext

HISTORY_CHARACTERS = 2_000
"""Of what was said before a new conversation reads the newest so many characters, one token a step: some 500 steps
(chosen: at 60 ms a step half a minute)."""


def prompt_from(context: ResponseContext) -> DuplexPrompt:
    """Return what a conversation begins with: instructions, tools, and the newest of what was said and returned before.

    A user's words stand as they were heard, the agent's as far as they were. Of the oldest message only its end is kept
    where there is no room for all of it.
    """
    system = [_text(message) for message in context.messages if message.get("role") in ("system", "developer")]
    history: deque[tuple[str, str]] = deque()
    left = HISTORY_CHARACTERS
    for message in reversed(context.messages):
        text = _text(message)
        if message.get("role") not in ("user", "assistant", "tool") or not text:
            continue
        if len(text) > left:
            text = _last_words(text, left)
        if not text:
            break
        left -= len(text)
        history.appendleft((str(message["role"]), text))
    return DuplexPrompt("\n\n".join(filter(None, system)), context.tools, tuple(history))


def _last_words(text: str, characters: int) -> str:
    """Return as many whole words of the end of `text` as there is room for, "" if there is none."""
    mark = "… "
    end = text[max(0, len(text) - characters + len(mark)) :] if characters > len(mark) else ""
    _, _, words = end.partition(" ")
    return mark + words if words else ""


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    return " ".join(str(part.get("text", "")) for part in content or () if isinstance(part, dict)).strip()
