"""Conversation items: the assistant's content is `text` and `audio` in beta, `output_text` and `output_audio` in GA.

All other kinds of content, and all of an item but its content, are the same in both dialects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_TO_GA = {"text": "output_text", "audio": "output_audio"}
_TO_BETA = {ga: beta for beta, ga in _TO_GA.items()}

BETA_ITEMS = frozenset({"message", "function_call", "function_call_output"})
"""The kinds of items that beta knows."""

_BETA_CONTENT = frozenset({"input_text", "input_audio", "text", "audio"})


def item_to_ga(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return a beta item in GA's shape."""
    return _with_content(item, [_renamed(part, _TO_GA) for part in item.get("content") or ()])


def item_to_beta(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return a GA item in beta's shape; content that beta doesn't know (images) is left out."""
    parts = [_renamed(part, _TO_BETA) for part in item.get("content") or ()]
    return _with_content(item, [part for part in parts if part["type"] in _BETA_CONTENT])


def items_to_ga(items: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return beta items, or references to items, in GA's shape."""
    return [item_to_ga(item) for item in items]


def items_to_beta(items: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return those GA items that beta knows, in beta's shape."""
    known = BETA_ITEMS | {"item_reference"}
    return [item_to_beta(item) for item in items if item["type"] in known]


def _with_content(item: Mapping[str, Any], content: list[dict[str, Any]]) -> dict[str, Any]:
    return {**item, "content": content} if item.get("content") is not None else dict(item)


def _renamed(part: Mapping[str, Any], kinds: Mapping[str, str]) -> dict[str, Any]:
    return {**part, "type": kinds.get(part["type"], part["type"])}
