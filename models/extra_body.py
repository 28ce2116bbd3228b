"""A JSON object from the settings that goes into each request to a server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

OURS = frozenset({"messages", "stream", "n"})
"""Fields that can't be set: what is said, and that one reply comes as a stream, is the gateway's business."""


def parse_extra_body(text: str) -> dict[str, Any]:
    """Return the object that `text` holds, {} for an empty text.

    Raises ValueError; its text says what is wrong and what to give instead, for a sentence about the setting.
    """
    if not text.strip():
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        place = f" at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else ""
        raise ValueError(f'is not JSON{place}: give an object such as {{"top_k": 20}}') from error
    if not isinstance(found, dict):
        raise ValueError('is no JSON object: give one such as {"top_k": 20}')
    if taken := sorted(OURS & found.keys()):
        raise ValueError(f"sets `{taken[0]}`, which the gateway sets itself: leave it out")
    return found


def merged(body: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return `body` with `extra` in it; objects in both are merged in turn, of all else `extra` wins."""
    result = dict(body)
    for name, value in extra.items():
        old = result.get(name)
        result[name] = merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return result
