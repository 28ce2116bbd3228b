"""What a speech server says that it has: its models and its voices. Few servers tell both; none has to."""

from __future__ import annotations

import asyncio
import re
from typing import Any

LISTING_TIMEOUT_S = 2.0
"""How long a server may take to list something at the start (chosen); later the gateway does without."""

MAX_NAMES = 2_000
MAX_NAME_CHARACTERS = 200
"""What is taken of a list at most (chosen)."""

DEFAULT_MODEL = "tts-1"
"""What a server is asked for that lists none: OpenAI's first, which most servers take for their own."""

_SPEAKS = re.compile(r"tts|speech|speak|voice|kokoro|orpheus|chatterbox|piper|bark|parler|f5|csm|dia|voxcpm|vibe", re.I)
"""Found in names of models that speak, on servers that list others as well."""


async def offered_model(client: Any, headers: dict[str, Any]) -> str:
    """Return the first model that a server lists and that speaks by its name, else its only one, else DEFAULT_MODEL."""
    names = await _names(client, "/models", headers)
    speaking = [name for name in names if _SPEAKS.search(name)]
    if speaking:
        return speaking[0]
    return names[0] if len(names) == 1 else DEFAULT_MODEL


async def offered_voices(client: Any, headers: dict[str, Any]) -> tuple[str, ...]:
    """Return the voices that a server lists at `/audio/voices` (Kokoro-FastAPI's and vLLM's path); () if it doesn't."""
    return await _names(client, "/audio/voices", headers)


async def _names(client: Any, path: str, headers: dict[str, Any]) -> tuple[str, ...]:
    try:
        async with asyncio.timeout(LISTING_TIMEOUT_S):
            listing = await client.get(path, options={"headers": headers}, cast_to=object)
    except Exception:  # whatever it is: the server doesn't tell, and the first text will show whether it speaks
        return ()
    if isinstance(listing, dict):
        listing = next((listing[key] for key in ("voices", "data") if isinstance(listing.get(key), list)), [])
    entries = listing[:MAX_NAMES] if isinstance(listing, list) else []
    found = (_name(entry) for entry in entries)
    return tuple(dict.fromkeys(name for name in found if 0 < len(name) <= MAX_NAME_CHARACTERS))


def _name(entry: object) -> str:
    """Return the name of a list's entry: text, or an object with one."""
    if isinstance(entry, dict):
        entry = next((entry[key] for key in ("id", "voice_id", "name") if isinstance(entry.get(key), str)), "")
    return entry if isinstance(entry, str) else ""
