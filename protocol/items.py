"""The items of a conversation and their shape on the wire (Realtime GA: ConversationItem).

Content arrays are what the strictest clients want: a user's `input_audio` always has the key `transcript` (agents-js
dies without it), no other key is ever null.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from protocol import errors
from protocol.audio_time import Samples
from protocol.ids import IdSource
from protocol.mcp_items import McpItem, mcp_item_from_wire
from protocol.speech import SpeechPart

Status = Literal["in_progress", "completed", "incomplete"]
Role = Literal["user", "assistant", "system"]

ROOT = "root"
"""`previous_item_id` of an item that goes first; no item's own id."""

ITEM_ID = "^[a-zA-Z0-9_-]+$"
"""The ids that clients may give (OpenAI's pattern)."""

_MAX_IMAGE_IN_EVENT = 256 * 1024
"""Images larger than this are left out of server events, which stay below 1 MiB (chosen)."""


@dataclass(slots=True)
class TextPart:
    """`input_text` of a user or the system, `output_text` of the assistant."""

    kind: Literal["input_text", "output_text"]
    text: str = ""

    def to_wire(self) -> dict[str, Any]:
        """Return the content part."""
        return {"type": self.kind, "text": self.text}


@dataclass(frozen=True, slots=True)
class ImagePart:
    """`input_image`: a data URI."""

    image_url: str
    detail: str | None = None

    def to_wire(self) -> dict[str, Any]:
        """Return the content part."""
        wire = {"type": "input_image"}
        if len(self.image_url) <= _MAX_IMAGE_IN_EVENT:
            wire["image_url"] = self.image_url
        if self.detail is not None:
            wire["detail"] = self.detail
        return wire


@dataclass(slots=True)
class HeardPart:
    """`input_audio`: what the user said. `transcript` None: not transcribed (yet). `duration` is that of the audio.

    `idle`: the user said nothing, for so long that the agent is to speak up.
    """

    transcript: str | None = None
    duration: Samples = 0
    idle: bool = False

    def to_wire(self) -> dict[str, Any]:
        """Return the content part."""
        return {"type": "input_audio", "transcript": self.transcript}


Part = TextPart | ImagePart | HeardPart | SpeechPart


@dataclass(slots=True)
class Message:
    """A message of the user, the assistant or the system."""

    id: str
    role: Role
    parts: list[Part] = field(default_factory=list)
    status: Status = "completed"

    @property
    def speech(self) -> SpeechPart | None:
        """The agent's speech in this message; None for any other message."""
        return next((part for part in self.parts if isinstance(part, SpeechPart)), None)

    def to_wire(self) -> dict[str, Any]:
        """Return the item without audio."""
        content = [part.to_wire() for part in self.parts]
        return {**_head(self.id, "message", self.status), "role": self.role, "content": content}


@dataclass(slots=True)
class FunctionCall:
    """The model's wish to call a function. `arguments` is JSON as the model wrote it, valid or not."""

    id: str
    call_id: str
    name: str
    arguments: str = ""
    status: Status = "completed"

    def to_wire(self) -> dict[str, Any]:
        """Return the item."""
        head = _head(self.id, "function_call", self.status)
        return {**head, "call_id": self.call_id, "name": self.name, "arguments": self.arguments}


@dataclass(frozen=True, slots=True)
class FunctionCallOutput:
    """What the client's function returned, verbatim (RB-32)."""

    id: str
    call_id: str
    output: str

    def to_wire(self) -> dict[str, Any]:
        """Return the item."""
        head = _head(self.id, "function_call_output", "completed")
        return {**head, "call_id": self.call_id, "output": self.output}


Item = Message | FunctionCall | FunctionCallOutput | McpItem


def _head(item_id: str, kind: str, status: Status) -> dict[str, Any]:
    return {"id": item_id, "object": "realtime.item", "type": kind, "status": status}


# --- items that clients create -------------------------------------------------------------------------------------


def item_from_wire(raw: dict[str, Any], ids: IdSource, path: str = "item") -> Item:
    """Return the item that a client wrote; `raw` has the right types. Raises ProtocolError for unusable content.

    A client's `id` is kept. Its `status` is not: an item that a client can write is complete.
    """
    item_id = raw.get("id")
    if item_id is None:
        item_id = ids("item")
    elif re.fullmatch(ITEM_ID, item_id) is None:
        raise errors.unlike_pattern(f"{path}.id", ITEM_ID)
    elif item_id == ROOT:
        raise errors.refused_value(f"{path}.id", f"Invalid '{path}.id': '{ROOT}' stands for the conversation's start.")
    match raw["type"]:
        case "function_call":
            return FunctionCall(item_id, raw.get("call_id") or ids("call"), raw["name"], raw["arguments"])
        case "function_call_output":
            return FunctionCallOutput(item_id, raw["call_id"], raw["output"])
        case kind if kind.startswith("mcp_"):
            return mcp_item_from_wire(raw, item_id, path)
        case _:
            parts = [_part(part, f"{path}.content[{index}]") for index, part in enumerate(raw["content"])]
            return Message(item_id, raw["role"], parts)


def _part(raw: dict[str, Any], path: str) -> Part:
    match raw["type"]:
        case "input_audio":
            return _heard(raw, path)
        case "input_image":
            return _image(raw, path)
        case "input_text":
            return TextPart("input_text", _text(raw, path))
        case _:  # assistant: `output_audio` cannot be created by a client, OpenAI asks for its text instead
            return TextPart("output_text", _text(raw, path))


def _text(raw: dict[str, Any], path: str) -> str:
    text: str | None = raw.get("text")
    if text is None:
        raise errors.missing_parameter(f"{path}.text")
    return text


def _heard(raw: dict[str, Any], path: str) -> HeardPart:
    transcript: str | None = raw.get("transcript")
    if transcript is None and raw.get("audio") is None:
        raise errors.missing_parameter(f"{path}.audio")
    return HeardPart(transcript)


def _image(raw: dict[str, Any], path: str) -> ImagePart:
    image_url: str | None = raw.get("image_url")
    if image_url is None:
        raise errors.missing_parameter(f"{path}.image_url")
    if not image_url.startswith(("data:image/png;base64,", "data:image/jpeg;base64,")):
        raise errors.refused_value(
            f"{path}.image_url", f"Invalid '{path}.image_url': expected a data URI of a PNG or JPEG image in base64."
        )
    return ImagePart(image_url, raw.get("detail"))
