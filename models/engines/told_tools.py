"""Functions, calls and results told in plain words, for models and servers that take them in no other form."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

Message = dict[str, Any]

LONGEST_LIST = 1_200
"""Characters of functions told in words (chosen: some 300 tokens, which a demo brain reads in 2 s)."""


def answered_calls(messages: Sequence[Message]) -> frozenset[tuple[str, str]]:
    """Return name and arguments (`canonical`) of the calls since the user last spoke."""
    return frozenset(
        (str(function.get("name")), canonical(function.get("arguments")))
        for function in _functions(messages[_after_last_user(messages) :]).values()
    )


def canonical(arguments: Any) -> str:
    """Return a call's arguments in the one form in which equal ones are equal."""
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        return str(arguments)


def with_results_in_words(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return `messages` with the calls since the user last spoke left out and their results added to what they said."""
    start = _after_last_user(messages)
    before, calls = messages[:start], _functions(messages[start:])
    results = [
        f"Result of {calls.get(message.get('tool_call_id'), {}).get('name', 'a function')}: {message.get('content')}"
        for message in messages[start:]
        if message.get("role") == "tool"
    ]
    return _with_words(before, "\n".join(results)) if results else tuple(messages)


def with_tools_in_words(messages: Sequence[Message], tools: Iterable[Message]) -> tuple[Message, ...]:
    """Return `messages` with the functions, of which one is to be called, told at the end of the user's last words."""
    functions = [tool["function"] for tool in tools]
    lines = [f"{function['name']}: {function.get('description') or ''}".rstrip(": ") for function in functions]
    told = "\n".join(lines)[:LONGEST_LIST]
    return _with_words(messages, f"Answer by calling one of these functions, as JSON:\n{told}")


def _with_words(messages: Sequence[Message], words: str) -> tuple[Message, ...]:
    """Return `messages` with `words` added to the last one if it is the user's, else as a new one of the user's."""
    last = messages[-1] if messages else {}
    content = last.get("content")
    if last.get("role") != "user":
        return (*messages, {"role": "user", "content": words})
    if isinstance(content, list):
        return (*messages[:-1], {**last, "content": [*content, {"type": "text", "text": words}]})
    return (*messages[:-1], {**last, "content": f"{content}\n\n{words}"})


def _after_last_user(messages: Sequence[Message]) -> int:
    return max((at + 1 for at, message in enumerate(messages) if message.get("role") == "user"), default=0)


def _functions(messages: Iterable[Message]) -> dict[Any, dict[str, Any]]:
    return {
        call.get("id"): call.get("function") or {} for message in messages for call in message.get("tool_calls") or ()
    }
