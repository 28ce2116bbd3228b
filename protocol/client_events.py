"""From a frame to a typed client event (Realtime GA: the eleven client events).

Stateless: a frame may be parsed in any thread. What needs the session's state (does the item exist, may the voice
change) is decided later, in `protocol.session`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from protocol import errors, gateway_extension, shapes
from protocol.errors import ProtocolError
from protocol.input_pcm import decoded_base64
from protocol.shapes import Rules
from protocol.wire_rules import (
    MAX_EVENT_BYTES,
    MAX_EVENT_ID,
    MAX_ITEM_ID,
    MAX_METADATA_KEY,
    MAX_METADATA_PAIRS,
    MAX_METADATA_VALUE,
    MAX_NESTING,
)


@dataclass(frozen=True, slots=True)
class SessionUpdate:
    """`session.update`; `session` is checked by itself, but not yet against the session that it changes.

    It is that of a conversation or of a transcription session, as its `type` says.
    """

    session: dict[str, Any]
    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class AppendInput:
    """`input_audio_buffer.append`, decoded."""

    audio: bytes
    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class CommitInputBuffer:
    """`input_audio_buffer.commit`."""

    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class ClearInputBuffer:
    """`input_audio_buffer.clear`."""

    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class ClearOutputBuffer:
    """`output_audio_buffer.clear`."""

    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class CreateItem:
    """`conversation.item.create`; `previous_item_id` None appends, `root` goes first."""

    item: dict[str, Any]
    previous_item_id: str | None = None
    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class RetrieveItem:
    """`conversation.item.retrieve`."""

    item_id: str
    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class TruncateItem:
    """`conversation.item.truncate`."""

    item_id: str
    content_index: int
    audio_end_ms: int
    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteItem:
    """`conversation.item.delete`."""

    item_id: str
    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class AskForResponse:
    """`response.create`; `response` holds the overrides, checked by themselves."""

    response: dict[str, Any]
    event_id: str | None = None


@dataclass(frozen=True, slots=True)
class StopResponse:
    """`response.cancel`; `response_id` None means whichever runs."""

    response_id: str | None = None
    event_id: str | None = None


ClientEvent = (
    SessionUpdate
    | AppendInput
    | CommitInputBuffer
    | ClearInputBuffer
    | ClearOutputBuffer
    | CreateItem
    | RetrieveItem
    | TruncateItem
    | DeleteItem
    | AskForResponse
    | StopResponse
)

APPEND = "input_audio_buffer.append"
_EVENT_ID_RULES = Rules(lengths={"event_id": MAX_EVENT_ID})
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


Reading = Callable[[dict[str, Any]], tuple[dict[str, Any], Rules]]
"""What puts an event of another dialect into GA's shape, and says which rules hold for the result."""


def as_ga(raw: dict[str, Any]) -> tuple[dict[str, Any], Rules]:
    """Return a GA event as it is, with GA's rules."""
    from protocol.client_shapes import CLIENT_RULES

    return raw, CLIENT_RULES


def parse_client_event(frame: str | bytes, reading: Reading = as_ga) -> ClientEvent:
    """Return the client event in `frame`. Raises ProtocolError, with the event's own id where it can be read."""
    return checked_event(event_object(frame), len(frame), reading)


def event_object(frame: str | bytes) -> dict[str, Any]:
    """Return the JSON object in `frame`, whatever it holds. Raises ProtocolError."""
    if isinstance(frame, bytes):
        raise errors.not_text()
    return json_object(frame)


def checked_event(raw: dict[str, Any], size: int, reading: Reading = as_ga) -> ClientEvent:
    """Return the client event that `raw`, from a frame of `size` characters, is. Raises as `parse_client_event` does.

    Of all but an append this is what takes time: each of its fields is looked at.
    """
    event_id = raw.get("event_id")
    readable = isinstance(event_id, str) and len(event_id) <= MAX_EVENT_ID
    try:
        return _read(raw, reading, size)
    except ProtocolError as error:
        error.event_id = event_id if readable else None
        raise


def checked_session(session: object, update: str = "session.update", reading: Reading = as_ga) -> dict[str, Any]:
    """Return `session`, in GA's shape, if an `update` could carry it. Raises ProtocolError as for that event."""
    event = _read({"type": update, "session": session}, reading, size=0)
    assert isinstance(event, SessionUpdate)
    return event.session


def _read(raw: dict[str, Any], reading: Reading, size: int) -> ClientEvent:
    """Return the event; our own object in a session stands beside both dialects and is checked by itself."""
    if raw.get("type") == APPEND:  # the same in both dialects, and fifty of them arrive a second
        return _append(raw, size)
    known, ours = gateway_extension.split(raw)
    event = _parsed(*reading(known), size)
    return replace(event, session={**event.session, **ours}) if ours and isinstance(event, SessionUpdate) else event


def json_object(frame: str) -> dict[str, Any]:
    """Return the JSON object that is written in `frame`. Raises ProtocolError."""
    try:
        raw = _DECODER.decode(frame)
        if "\\u" in frame and _SURROGATE.search(frame):
            json.dumps(raw, ensure_ascii=False).encode()  # a lone surrogate could never be sent back
    except RecursionError:
        raise errors.nested_too_deeply(MAX_NESTING) from None
    except UnicodeEncodeError:
        raise errors.malformed_json("a \\u escape holds half of a surrogate pair") from None
    except ValueError as failure:  # includes JSONDecodeError and integers beyond Python's digit limit
        raise errors.malformed_json(str(failure)) from None
    if not isinstance(raw, dict):
        raise errors.not_an_object(raw)
    return raw


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError("a number is out of range")
    return number


_DECODER = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)


def _check_size(size: int) -> None:
    if size > MAX_EVENT_BYTES:
        raise errors.event_too_large(MAX_EVENT_BYTES)


def _parsed(raw: dict[str, Any], rules: Rules, size: int) -> ClientEvent:
    from protocol.client_shapes import SHAPES

    _check_size(size)
    kind = raw.get("type")
    if kind is None:
        raise errors.missing_event_type()
    if not isinstance(kind, str):
        raise errors.invalid_type("type", "a string", kind)
    if kind not in SHAPES:
        raise errors.invalid_value("type", kind, (*SHAPES, APPEND))
    _check_nesting(raw)
    if kind == "session.update":
        _check_formats(raw.get("session"))
    shapes.check(raw, SHAPES[kind], rules=rules)
    return _typed(kind, raw)


def _append(raw: dict[str, Any], size: int) -> AppendInput:
    """Return an append, looked at by hand."""
    _check_size(size)
    event_id, audio = raw.get("event_id"), raw.get("audio")
    if event_id is not None:
        shapes.check(event_id, str, "event_id", _EVENT_ID_RULES)
    if "audio" not in raw:
        raise errors.missing_parameter("audio")
    if not isinstance(audio, str):
        raise errors.invalid_type("audio", "a string", audio)
    for key in raw.keys() - {"type", "audio", "event_id"}:
        raise errors.unknown_parameter(key)
    return AppendInput(decoded_base64(audio, "audio"), event_id)


def _check_nesting(raw: dict[str, Any]) -> None:
    level: list[Any] = [raw]
    for _ in range(MAX_NESTING):
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return
    raise errors.nested_too_deeply(MAX_NESTING)


def _check_formats(session: object) -> None:
    """Meet the mistake for which OpenAI was seen to answer otherwise than for the like elsewhere."""
    if not isinstance(session, dict):
        return
    audio = session.get("audio")
    for side in ("input", "output"):
        part = audio.get(side) if isinstance(audio, dict) else None
        if isinstance(part, dict) and isinstance(part.get("format"), str):  # beta's "pcm16"
            raise errors.invalid_value(f"session.audio.{side}.format", part["format"], ["audio/pcm"])


def _typed(kind: str, raw: dict[str, Any]) -> ClientEvent:
    event_id: str | None = raw.get("event_id")
    match kind:
        case "session.update":
            _check_modalities(raw["session"], "session")
            return SessionUpdate(raw["session"], event_id)
        case "input_audio_buffer.commit":
            return CommitInputBuffer(event_id)
        case "input_audio_buffer.clear":
            return ClearInputBuffer(event_id)
        case "output_audio_buffer.clear":
            return ClearOutputBuffer(event_id)
        case "conversation.item.create":
            _check_item_id(raw["item"])
            return CreateItem(raw["item"], raw.get("previous_item_id"), event_id)
        case "conversation.item.retrieve":
            return RetrieveItem(raw["item_id"], event_id)
        case "conversation.item.truncate":
            return TruncateItem(raw["item_id"], raw["content_index"], raw["audio_end_ms"], event_id)
        case "conversation.item.delete":
            return DeleteItem(raw["item_id"], event_id)
        case "response.create":
            overrides = raw.get("response") or {}
            _check_modalities(overrides, "response")
            _check_metadata(overrides.get("metadata") or {})
            return AskForResponse(overrides, event_id)
        case _:
            return StopResponse(raw.get("response_id"), event_id)


def _check_item_id(item: dict[str, Any]) -> None:
    length = len(item.get("id") or "")
    if length > MAX_ITEM_ID and not item["type"].startswith("mcp_"):
        raise errors.string_too_long("item.id", length, MAX_ITEM_ID)


def _check_modalities(settings: dict[str, Any], path: str) -> None:
    modalities = settings.get("output_modalities") or []
    if len(modalities) > 1:
        raise errors.refused_value(
            f"{path}.output_modalities",
            f"Invalid modalities: {modalities[:3]}. Supported combinations are: ['text'] and ['audio'].",
        )


def _check_metadata(metadata: dict[str, str]) -> None:
    """Realtime GA, response.metadata: at most 16 pairs, keys of 64 and values of 512 characters."""
    if len(metadata) > MAX_METADATA_PAIRS:
        raise errors.refused_value(
            "response.metadata",
            f"Invalid 'response.metadata': too many properties. Expected at most {MAX_METADATA_PAIRS}, "
            f"but got {len(metadata)} instead.",
        )
    for key, value in metadata.items():
        if len(key) > MAX_METADATA_KEY:
            raise errors.string_too_long("response.metadata", len(key), MAX_METADATA_KEY)
        if len(value) > MAX_METADATA_VALUE:
            raise errors.string_too_long(f"response.metadata.{key}", len(value), MAX_METADATA_VALUE)
