"""The limits that the API documents beyond its types (Realtime GA: session, turn_detection, items, response.create).

Where no public limit exists for a number that we must compute with, an absurd one is chosen, untested at OpenAI.
"""

from __future__ import annotations

import json
from typing import Any

from openai.types.realtime import (
    RealtimeConversationItemAssistantMessage,
    RealtimeConversationItemFunctionCall,
    RealtimeConversationItemFunctionCallOutput,
    RealtimeConversationItemSystemMessage,
    RealtimeConversationItemUserMessage,
    RealtimeMcpApprovalRequest,
    RealtimeMcpApprovalResponse,
    RealtimeMcpListTools,
    RealtimeMcpToolCall,
)
from openai.types.realtime.response_item_reference import ResponseItemReference

from protocol.shapes import Rules

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

_TEN_MINUTES_MS = 600_000

CreatableItem = (
    RealtimeConversationItemSystemMessage
    | RealtimeConversationItemUserMessage
    | RealtimeConversationItemAssistantMessage
    | RealtimeConversationItemFunctionCall
    | RealtimeConversationItemFunctionCallOutput
    | RealtimeMcpListTools
    | RealtimeMcpToolCall
    | RealtimeMcpApprovalRequest
    | RealtimeMcpApprovalResponse
)
"""The items that a client may create."""

_TURN_DETECTION = "session.audio.input.turn_detection"

CLIENT_RULES = Rules(
    bounds={
        f"{_TURN_DETECTION}.threshold": (0.0, 1.0),
        f"{_TURN_DETECTION}.prefix_padding_ms": (0, _TEN_MINUTES_MS),
        f"{_TURN_DETECTION}.silence_duration_ms": (0, _TEN_MINUTES_MS),
        f"{_TURN_DETECTION}.idle_timeout_ms": (5_000, 30_000),
        "session.audio.output.speed": (0.25, 1.5),
        "session.max_output_tokens": (1, 4096),
        "session.truncation.retention_ratio": (0.0, 1.0),
        "session.truncation.token_limits.post_instructions": (0, None),
        "response.max_output_tokens": (1, 4096),
        "audio_end_ms": (0, None),
        "content_index": (0, None),
    },
    lengths={
        "event_id": MAX_EVENT_ID,
        "item.id": MAX_MCP_ITEM_ID,  # other items' are looked at where their type is known
        "item.call_id": MAX_ITEM_ID,
        "response.input[].id": MAX_ITEM_ID,
        "response.input[].call_id": MAX_ITEM_ID,
        **{
            f"{item}.{text}": MAX_TEXT
            for item in ("item", "response.input[]")
            for text in ("content[].text", "content[].transcript", "output", "arguments", "error.message", "reason")
        },
        **{
            f"{settings}.audio.output.{voice}": MAX_VOICE
            for settings in ("session", "response")
            for voice in ("voice", "voice.id")
        },
        "session.instructions": MAX_TEXT,
        "response.instructions": MAX_TEXT,
        **{f"{tools}.server_label": MAX_SERVER_LABEL for tools in ("session.tools[]", "response.tools[]")},
        **{f"{tools}.server_url": MAX_SERVER_URL for tools in ("session.tools[]", "response.tools[]")},
    },
    required=frozenset(
        {
            "session.tools[].type",
            "session.tools[].name",
            "response.tools[].type",
            "response.tools[].name",
            "item.content[].type",
            "response.input[].content[].type",
            "item.tools[].input_schema",
            "response.input[].tools[].input_schema",
        }
    ),
    optional=frozenset({"item.id"}),  # the types want it in MCP items; agents-js answers approvals without
    narrowed={
        "response.input[]": CreatableItem | ResponseItemReference,
        "item": CreatableItem,
    },
    # Both agents SDKs pass `model_version` through; OpenAI's types do not know it.
    tolerated=frozenset({f"{_TURN_DETECTION}.model_version"}),
)


def encoded_bytes(wire: dict[str, Any]) -> int:
    """Return how many bytes `wire` takes as JSON."""
    return len(json.dumps(wire, ensure_ascii=False, separators=(",", ":")).encode())
