"""The limits that the API documents beyond its types, as numbers (Realtime GA: session, items, response.create).

Where no public limit exists for a number that we must compute with, an absurd one is chosen, untested at OpenAI.
`protocol.client_shapes` says where they hold.
"""

from __future__ import annotations

import json
from typing import Any

MAX_EVENT_BYTES = 15 * 1024 * 1024
"""Most characters of one client event (Realtime GA: 15 MiB per `input_audio_buffer.append`)."""

MAX_FRAME_BYTES = 2**20 - 1024
"""Largest server event, in bytes of UTF-8 (Pipecat's WebSocket takes 1 MiB; the rest is for what surrounds an item)."""

MAX_CLIENT_ITEMS = 10_000
MAX_CLIENT_ITEM_BYTES = 64 * 2**20
"""Most items, and most bytes of them, that clients may put into one conversation (chosen: a history to replay has a few
hundred items; images are what takes room). Beyond, `conversation.item.create` is refused until items are deleted."""

MAX_NESTING = 64
"""Deepest nesting of a client event (chosen): JSON schemas of tools stay far below."""

MAX_EVENT_ID = 512
MAX_ITEM_ID = 32
MAX_MCP_ITEM_ID = 64
"""Ids of MCP items: OpenAI's guide answers an approval request with the id `mcp_approval_` + the request's."""

MAX_TEXT = 256 * 1024
"""Most characters of one text (chosen): more than any context holds, and its echo fits into a frame."""

MAX_SERVER_LABEL, MAX_SERVER_URL = 128, 4096
"""Most characters of an MCP server's label and URL (chosen)."""

MAX_VOICE = 256
"""Most characters of a voice's name or id (chosen): each response shows it."""

MAX_METADATA_PAIRS, MAX_METADATA_KEY, MAX_METADATA_VALUE = 16, 64, 512


def encoded_bytes(wire: dict[str, Any]) -> int:
    """Return how many bytes `wire` takes as JSON; half a surrogate pair counts as what is sent for it."""
    return len(json.dumps(wire, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"))
