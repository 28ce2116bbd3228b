"""What GA clients may send: OpenAI's types, and what holds beyond them (Realtime GA: session, turn_detection, items).

Apart from what reads events, since OpenAI's types take most of a second to import and a session without a client that
speaks JSON (a rehearsal) has no use for them.
"""

from __future__ import annotations

from typing import Any

from openai.types.realtime import (
    ConversationItemCreateEvent,
    ConversationItemDeleteEvent,
    ConversationItemRetrieveEvent,
    ConversationItemTruncateEvent,
    InputAudioBufferClearEvent,
    InputAudioBufferCommitEvent,
    OutputAudioBufferClearEvent,
    RealtimeConversationItemAssistantMessage,
    RealtimeConversationItemFunctionCall,
    RealtimeConversationItemFunctionCallOutput,
    RealtimeConversationItemSystemMessage,
    RealtimeConversationItemUserMessage,
    RealtimeMcpApprovalRequest,
    RealtimeMcpApprovalResponse,
    RealtimeMcpListTools,
    RealtimeMcpToolCall,
    ResponseCancelEvent,
    ResponseCreateEvent,
    SessionUpdateEvent,
)
from openai.types.realtime.response_item_reference import ResponseItemReference

from protocol.shapes import Rules
from protocol.wire_rules import (
    MAX_EVENT_ID,
    MAX_ITEM_ID,
    MAX_MCP_ITEM_ID,
    MAX_SERVER_LABEL,
    MAX_SERVER_URL,
    MAX_TEXT,
    MAX_VOICE,
)

SHAPES: dict[str, Any] = {
    "session.update": SessionUpdateEvent,
    "input_audio_buffer.commit": InputAudioBufferCommitEvent,
    "input_audio_buffer.clear": InputAudioBufferClearEvent,
    "output_audio_buffer.clear": OutputAudioBufferClearEvent,
    "conversation.item.create": ConversationItemCreateEvent,
    "conversation.item.retrieve": ConversationItemRetrieveEvent,
    "conversation.item.truncate": ConversationItemTruncateEvent,
    "conversation.item.delete": ConversationItemDeleteEvent,
    "response.create": ResponseCreateEvent,
    "response.cancel": ResponseCancelEvent,
}
"""The client events but for `input_audio_buffer.append`, which is read by hand."""

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
