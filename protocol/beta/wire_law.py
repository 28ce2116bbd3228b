"""What every server event must obey in the beta dialect: OpenAI's beta types, strictly, and what beta clients rely on.

For tests and graders: `beta_violations(payload)` is empty for a lawful event; `BetaSessionLaw` follows a whole session.
The client rules are those of openai-realtime-api-beta, whose process dies of what it does not expect (protocol §5.8);
the types themselves call nearly every field optional.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, get_args

from openai.types.beta.realtime import (
    RealtimeServerEvent,
    TranscriptionSession,
)
from openai.types.beta.realtime.transcription_session import ClientSecret
from pydantic import BaseModel

from protocol import shapes
from protocol.audio_time import BYTES_PER_SAMPLE
from protocol.shapes import Rules
from protocol.wire_law import audio_problems


class _TranscriptionSessionCreated(BaseModel):
    """OpenAI's types have no model for the event that opens a transcription session."""

    type: Literal["transcription_session.created"]
    event_id: str
    session: TranscriptionSession


class _FunctionChoice(BaseModel):
    type: Literal["function"]
    name: str


_BEYOND_THE_TYPES = Rules(
    tolerated=frozenset(
        {
            # The documented session objects of both kinds have these.
            "session.object",
            "session.expires_at",
            "session.client_secret",
            "session.include",
            # The documented transcription session has these besides.
            "session.id",
            "session.input_audio_noise_reduction",
            "session.turn_detection.eagerness",
            # The documented response.done has this.
            "response.usage.input_token_details.cached_tokens_details",
        }
    ),
    narrowed={
        # The client's own words are echoed, whatever models and functions they name.
        "session.model": str | None,
        "session.tool_choice": str | _FunctionChoice | None,
        "session.input_audio_transcription.model": str | None,
        # Null on a socket, though the type (which REST shares) demands it.
        "session.client_secret": ClientSecret | None,
    },
)
"""What is sent although the types say otherwise, each with its reason."""

_MODELS: dict[str, Any] = {
    kind: model
    for model in (*get_args(get_args(RealtimeServerEvent)[0]), _TranscriptionSessionCreated)
    for kind in get_args(model.model_fields["type"].annotation)
}

_SESSION_KEYS = (
    "id object model expires_at modalities instructions voice input_audio_format output_audio_format "
    "input_audio_transcription input_audio_noise_reduction turn_detection tools tool_choice temperature "
    "max_response_output_tokens speed tracing"
).split()
_TRANSCRIPTION_SESSION_KEYS = (
    "id object expires_at modalities input_audio_format input_audio_transcription turn_detection client_secret"
).split()
_RESPONSE_KEYS = (
    "id object status status_details output conversation_id usage metadata modalities voice output_audio_format "
    "temperature max_output_tokens"
).split()
_ITEM_KEYS = {
    "message": ("role", "content"),
    "function_call": ("call_id", "name", "arguments"),
    "function_call_output": ("call_id", "output"),
}
_TEXT_OF = {"input_text": "text", "text": "text", "audio": "transcript"}
_STATUS_REASONS_NEED = {"cancelled": "reason", "incomplete": "reason", "failed": "error"}
_MODALITIES = (["text"], ["text", "audio"])


def beta_violations(payload: dict[str, Any], *, audio_format: str = "pcm16") -> list[str]:
    """Return what is wrong with a beta server event, in words; nothing if it is lawful. Its audio is `audio_format`."""
    kind = payload.get("type")
    model = _MODELS.get(kind) if isinstance(kind, str) else None
    if model is None:
        return [f"unknown type of beta server event: {kind!r}"]
    typed = [problem.message for problem in shapes.problems(payload, model, rules=_BEYOND_THE_TYPES)]
    return typed or list(_client_problems(payload, audio_format))


def _client_problems(payload: dict[str, Any], audio_format: str) -> Iterator[str]:
    kind: str = payload["type"]
    if kind.startswith("output_audio_buffer."):
        yield f"{kind} is never sent on a WebSocket"
    if not payload["event_id"]:
        yield "event_id is empty"
    if kind == "response.audio.delta":
        yield from audio_problems(payload["delta"], BYTES_PER_SAMPLE if audio_format == "pcm16" else 1)
    if kind == "conversation.created":
        yield from _missing(payload["conversation"], ("id", "object"), "conversation")
    if "item" in payload:
        yield from _item_problems(payload["item"], "item")
    if "part" in payload:
        yield from _part_problems(payload["part"], "part")
    if "session" in payload:
        keys = _TRANSCRIPTION_SESSION_KEYS if kind.startswith("transcription_") else _SESSION_KEYS
        yield from _missing(payload["session"], keys, "session")
        yield from _modality_problems(payload["session"], "session")
    if "response" in payload:
        yield from _response_problems(payload["response"])
    if kind in ("conversation.item.created", "input_audio_buffer.committed") and "previous_item_id" not in payload:
        yield f"{kind} needs previous_item_id, null for the first item"


def _missing(value: Mapping[str, Any], keys: Iterable[str], path: str) -> Iterator[str]:
    yield from (f"{path} needs {key}" for key in keys if key not in value)


def _item_problems(item: dict[str, Any], path: str) -> Iterator[str]:
    kind = item.get("type") or ""
    yield from _missing(item, ("id", "object", "type", "status", *_ITEM_KEYS.get(kind, ())), path)
    for key in _ITEM_KEYS.get(kind, ()):
        if item.get(key, "") is None:
            yield f"{path}.{key} is null"
    for index, part in enumerate(item.get("content") or ()):
        yield from _part_problems(part, f"{path}.content[{index}]")


def _part_problems(part: dict[str, Any], path: str) -> Iterator[str]:
    """Clients add deltas to the text: where it is absent or null they show "undefined" or "null" before it."""
    kind = part.get("type") or ""
    key = _TEXT_OF.get(kind)
    if not kind:
        yield f"{path} needs type"
    elif kind == "input_audio" and "transcript" not in part:
        yield f"{path} needs transcript, null until it is known"
    elif key is not None and part.get(key) is None:
        yield f"{path} needs {key}"


def _modality_problems(value: dict[str, Any], path: str) -> Iterator[str]:
    if value.get("modalities") not in _MODALITIES:
        yield f"{path}.modalities is {value.get('modalities')}"


def _response_problems(response: dict[str, Any]) -> Iterator[str]:
    yield from _missing(response, _RESPONSE_KEYS, "response")
    yield from _modality_problems(response, "response")
    if not isinstance(response.get("output"), list):
        yield "response.output is no array"
    for index, item in enumerate(response.get("output") or ()):
        yield from _item_problems(item, f"response.output[{index}]")
    status = response.get("status") or ""
    if status != "in_progress" and response.get("usage") is None:
        yield "response.usage is needed for every final status"
    needed = _STATUS_REASONS_NEED.get(status)
    if needed and not (response.get("status_details") or {}).get(needed):
        yield f"response.status_details needs {needed}"


# --- a whole session -----------------------------------------------------------------------------------------------


class BetaSessionLaw:
    """The law for the events of one session in their order, from its first on."""

    def __init__(self) -> None:
        self._event_ids: set[str] = set()
        self._items: set[str] = set()
        self._deleted: set[str] = set()
        self._parts: set[tuple[str, int]] = set()
        self._running: dict[str, dict[str, Any]] = {}

    def violations(self, payload: dict[str, Any]) -> list[str]:
        """Return what is wrong with the session's next server event, in words; nothing if it is lawful."""
        response = self._running.get(payload.get("response_id", ""), {})
        found = beta_violations(payload, audio_format=response.get("output_audio_format", "pcm16"))
        return found or [*self._place_problems(payload), *self._response_place_problems(payload, response)]

    def _place_problems(self, payload: dict[str, Any]) -> Iterator[str]:
        kind, event_id = payload["type"], payload["event_id"]
        if kind.endswith("session.created") != (not self._event_ids):
            yield f"{kind} is not at its place: session.created is the first event, and only the first"
        if event_id in self._event_ids:
            yield f"event_id {event_id} comes twice"
        self._event_ids.add(event_id)
        if kind == "conversation.item.created":
            if payload["item"]["id"] in self._items - self._deleted:
                yield "conversation.item.created comes twice for one item"
            self._items.add(payload["item"]["id"])
            self._deleted.discard(payload["item"]["id"])
        elif kind in ("conversation.item.truncated", "conversation.item.deleted"):
            if payload["item_id"] not in self._items:
                yield f"{kind} for an unknown item"
            if kind == "conversation.item.deleted":
                self._deleted.add(payload["item_id"])

    def _response_place_problems(self, payload: dict[str, Any], response: dict[str, Any]) -> Iterator[str]:
        kind, item_id = payload["type"], payload.get("item_id") or payload.get("item", {}).get("id")
        if kind == "response.created":
            self._running[payload["response"]["id"]] = payload["response"]
        elif kind == "response.done":
            if self._running.pop(payload["response"]["id"], None) is None:
                yield "response.done without its response.created"
        elif "response_id" in payload:
            if not response:
                yield f"{kind} outside of its response"
            in_conversation = response.get("conversation_id") is not None  # an out-of-band response adds no items
            if in_conversation and kind != "response.output_item.added" and item_id not in self._items:
                yield f"{kind} before conversation.item.created"
            if kind == "response.content_part.added":
                self._parts.add((item_id, payload["content_index"]))
            elif "content_index" in payload and (item_id, payload["content_index"]) not in self._parts:
                yield f"{kind} before response.content_part.added"
