"""What a beta client may send: OpenAI's beta types, narrowed where they say less than the API accepts.

The limits are GA's, at the beta paths (`protocol.client_shapes`, `protocol.beta.fields`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, TypeVar

from openai.types.beta.realtime import (
    ConversationItemCreateEvent,
    ResponseCreateEvent,
    SessionUpdateEvent,
    TranscriptionSessionUpdate,
)
from pydantic import BaseModel

from protocol.beta.fields import beta_path
from protocol.client_shapes import CLIENT_RULES
from protocol.shapes import Rules

SHAPES: dict[str, Any] = {
    "session.update": SessionUpdateEvent,
    "transcription_session.update": TranscriptionSessionUpdate,
    "conversation.item.create": ConversationItemCreateEvent,
    "response.create": ResponseCreateEvent,
}
"""The client events whose shape differs from GA's."""

SAME_AS_GA = (
    "input_audio_buffer.commit",
    "input_audio_buffer.clear",
    "output_audio_buffer.clear",
    "conversation.item.retrieve",
    "conversation.item.truncate",
    "conversation.item.delete",
    "response.cancel",
    "input_audio_buffer.append",
)
"""The client events that are alike in both dialects."""


class _Item(BaseModel):
    id: str | None = None
    object: Literal["realtime.item"] | None = None
    status: Literal["completed", "incomplete", "in_progress"] | None = None


class _SystemContent(BaseModel):
    type: Literal["input_text"]
    text: str | None = None


class _UserContent(BaseModel):
    type: Literal["input_text", "input_audio"]
    text: str | None = None
    audio: str | None = None
    transcript: str | None = None


class _AssistantContent(BaseModel):
    type: Literal["text"]
    text: str | None = None


class _SystemMessage(_Item):
    type: Literal["message"]
    role: Literal["system"]
    content: list[_SystemContent]


class _UserMessage(_Item):
    type: Literal["message"]
    role: Literal["user"]
    content: list[_UserContent]


class _AssistantMessage(_Item):
    type: Literal["message"]
    role: Literal["assistant"]
    content: list[_AssistantContent]


class _FunctionCall(_Item):
    type: Literal["function_call"]
    name: str
    arguments: str
    call_id: str | None = None


class _FunctionCallOutput(_Item):
    type: Literal["function_call_output"]
    call_id: str
    output: str


class _ItemReference(BaseModel):
    type: Literal["item_reference"]
    id: str


class _Function(BaseModel):
    name: str


class _FunctionChoice(BaseModel):
    type: Literal["function"]
    name: str | None = None
    function: _Function | None = None


# The beta types have one item with every field optional; which field belongs to which kind is told in their docstrings.
_CreatableItem = _SystemMessage | _UserMessage | _AssistantMessage | _FunctionCall | _FunctionCallOutput
# The types say `str`; the docstring names these words and "a function", which clients send as an object.
_ToolChoice = Literal["auto", "none", "required"] | _FunctionChoice | None
_TEMPERATURES = (0.6, 1.2)

V = TypeVar("V")


def _moved(limits: dict[str, V]) -> dict[str, V]:
    return {beta_path(path): limit for path, limit in limits.items()}


BETA_RULES = Rules(
    bounds={
        **_moved(dict(CLIENT_RULES.bounds)),
        "session.temperature": _TEMPERATURES,
        "response.temperature": _TEMPERATURES,
        "session.client_secret.expires_after.seconds": (10, 7200),
        "session.client_secret.expires_at.seconds": (10, 7200),
    },
    lengths=_moved(dict(CLIENT_RULES.lengths)),
    required=frozenset({*map(beta_path, CLIENT_RULES.required), "session.turn_detection.type"}),
    narrowed={
        "session.model": str | None,
        "session.input_audio_transcription.model": str | None,
        "session.tool_choice": _ToolChoice,
        "response.tool_choice": _ToolChoice,
        "response.input[]": _CreatableItem | _ItemReference,
        "item": _CreatableItem,
    },
    # The beta session object shows `include` (null), so clients send it back; its types forgot it.
    tolerated=frozenset({*map(beta_path, CLIENT_RULES.tolerated), "session.include"}),
)
"""What holds beyond the beta types."""

TRANSLATED_RULES = replace(
    CLIENT_RULES, tolerated=CLIENT_RULES.tolerated | {"session.temperature", "response.temperature"}
)
"""GA's rules for an event that was beta: it may bring a temperature, which GA doesn't know."""
