"""What every server event must obey: OpenAI's own types, strictly, and the rules of the strictest clients.

For tests and graders: `violations(payload)` is empty for a lawful event; `SessionLaw` follows a whole session. The
client rules were measured against openai-agents-js 0.20 (zod: null is no absent key), pipecat 1.14 and openai-agents
0.24 (pydantic).
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from typing import Any, get_args

from openai.types.realtime import RealtimeServerEvent

from protocol import shapes
from protocol.audio_format import AudioFormat, merged_format
from protocol.shapes import Rules

_KEYS_BEYOND_THE_TYPES = Rules(tolerated=frozenset({"session.id", "session.object", "session.expires_at"}))
"""Keys that OpenAI sends although its types do not know them."""

_MODELS: dict[str, Any] = {
    kind: model
    for model in get_args(get_args(RealtimeServerEvent)[0])
    for kind in get_args(model.model_fields["type"].annotation)
}
_KEYS_OF_A_SESSION = {
    "realtime": ("id", "object", "model", "expires_at", "output_modalities", "audio", "tools", "tool_choice"),
    "transcription": ("id", "object", "expires_at", "audio"),
}
_SIDES_OF_A_SESSION = {"realtime": ("input", "output"), "transcription": ("input",)}
_NOT_ON_A_WEBSOCKET = ("output_audio_buffer.", "conversation.item.created")
_STATUS_REASONS_NEED = {"cancelled": "reason", "incomplete": "reason", "failed": "error"}


class SessionLaw:
    """The law for the events of one session in their order: it knows in which format each response speaks."""

    def __init__(self) -> None:
        self._formats: dict[str, AudioFormat] = {}

    def violations(self, payload: dict[str, Any]) -> list[str]:
        """Return what is wrong with the session's next server event, in words; nothing if it is lawful."""
        audio_format = self._formats.get(payload.get("response_id", ""), AudioFormat.PCM)
        found = violations(payload, audio_format=audio_format)
        if payload.get("type") == "response.created" and not found:
            response = payload["response"]
            output = (response.get("audio") or {}).get("output") or {}
            self._formats[response["id"]] = merged_format(AudioFormat.PCM, output.get("format"))
        return found


def violations(payload: dict[str, Any], *, audio_format: AudioFormat = AudioFormat.PCM) -> list[str]:
    """Return what is wrong with a server event, in words; nothing if it is lawful. Its audio is in `audio_format`."""
    kind = payload.get("type")
    model = _MODELS.get(kind) if isinstance(kind, str) else None
    if model is None:
        return [f"unknown type of server event: {kind!r}"]
    typed = [problem.message for problem in shapes.problems(payload, model, rules=_KEYS_BEYOND_THE_TYPES)]
    return typed or list(_client_problems(payload, audio_format))


def _client_problems(payload: dict[str, Any], audio_format: AudioFormat) -> Iterator[str]:
    if payload["type"].startswith(_NOT_ON_A_WEBSOCKET):
        yield f"{payload['type']} is never sent on a WebSocket"
    if not payload["event_id"]:
        yield "event_id is empty"
    if payload["type"] == "response.output_audio.delta":
        yield from audio_problems(payload["delta"], audio_format.bytes_per_sample)
    if payload["type"].endswith(".failed") and "error" in payload:
        yield from _nulls(payload["error"], "error")
    if payload["type"] == "response.mcp_call_arguments.delta" and payload.get("obfuscation") is None:
        yield "delta needs obfuscation"
    if payload["type"].endswith("input_audio_transcription.delta"):
        yield from (
            f"{key} is null; leave the key out" for key in ("content_index", "delta") if payload.get(key, 0) is None
        )
    yield from _nulls(payload.get("part"), "part")
    yield from _nulls(payload.get("usage"), "usage")
    if "item" in payload:
        yield from _item_problems(payload["item"], "item")
    if "session" in payload:
        yield from _session_problems(payload["session"])
    if "response" in payload:
        yield from _response_problems(payload["response"])
    usage = payload.get("usage")
    if usage and usage["type"] == "tokens" and len(usage.get("input_token_details") or {}) < 2:
        yield "usage.input_token_details needs text_tokens and audio_tokens"


def _nulls(value: object, path: str, *, top: bool = True) -> Iterator[str]:
    """Yield every null inside `value`: agents-js wants absent keys left out. At the `top` null is the whole's."""
    if value is None and not top:
        yield f"{path} is null; leave the key out"
    elif isinstance(value, dict):
        for key, element in value.items():
            yield from _nulls(element, f"{path}.{key}", top=False)
    elif isinstance(value, list):
        for index, element in enumerate(value):
            yield from _nulls(element, f"{path}[{index}]", top=False)


def audio_problems(delta: str, bytes_per_sample: int) -> Iterator[str]:
    """Yield what is wrong with the audio of a delta, in either dialect."""
    try:
        audio = binascii.a2b_base64(delta, strict_mode=True)
    except ValueError:
        yield "delta is not standard base64"
        return
    if base64.b64encode(audio).decode() != delta or not audio or len(audio) % bytes_per_sample:
        yield "delta does not hold whole samples"


def _item_problems(item: dict[str, Any], path: str) -> Iterator[str]:
    content = item.get("content", [])
    if item["type"].startswith("mcp_"):
        yield from _mcp_item_problems(item, path)
        return
    yield from _nulls({key: value for key, value in item.items() if key != "content"}, path)
    for index, part in enumerate(content):
        part_path, kind = f"{path}.content[{index}]", part.get("type")
        if kind is None:
            yield f"{part_path} needs type"
        yield from _nulls({key: value for key, value in part.items() if key != "transcript"}, part_path)
        needed = {
            "input_text": "text",
            "output_text": "text",
            "input_audio": "transcript",
            "output_audio": "transcript",
        }
        if kind in needed and needed[kind] not in part:
            yield f"{part_path} needs {needed[kind]}"
        if kind == "output_audio" and part.get("transcript") is None:
            yield f"{part_path}.transcript is null; leave the key out"
    for key in ("id", "object", "status"):
        if key not in item:
            yield f"{path} needs {key}"
    if item["type"] == "function_call" and "call_id" not in item:
        yield f"{path} needs call_id"


def _mcp_item_problems(item: dict[str, Any], path: str) -> Iterator[str]:
    """Yield what agents-js cannot take: its parsing of these items is unguarded, so that the process dies."""
    if not item.get("id"):
        yield f"{path} needs id"
    if item["type"] == "mcp_call" and "output" not in item:
        yield f"{path} needs output, null where there is none"
    may_be_null = ("output", "error", "approval_request_id") if item["type"] == "mcp_call" else ()
    checked = {key: value for key, value in item.items() if key not in (*may_be_null, "tools")}
    yield from _nulls(checked, path)
    for index, tool in enumerate(item.get("tools") or ()):
        if not isinstance(tool.get("description"), str):
            yield f"{path}.tools[{index}] needs description"
        yield from (f"{path}.tools[{index}].{key} is null; leave the key out" for key in tool if tool[key] is None)
    if item["type"] == "mcp_approval_request" and not _is_json_object(item["arguments"]):
        yield f"{path}.arguments is no JSON object"


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _session_problems(session: dict[str, Any]) -> Iterator[str]:
    sides = _SIDES_OF_A_SESSION[session["type"]]
    for key in _KEYS_OF_A_SESSION[session["type"]]:
        if session.get(key) is None:
            yield f"session needs {key}"
    audio = session.get("audio") or {}
    for side in sides:
        if not (audio.get(side) or {}).get("format"):
            yield f"session.audio.{side} needs format"
    audio_input = audio.get("input") or {}
    for key in ("transcription", "noise_reduction", "turn_detection"):
        if key not in audio_input:
            yield f"session.audio.input needs {key}, null where it is off"
        elif audio_input[key] == {}:
            yield f"session.audio.input.{key} is empty; send null"
        yield from _nulls(audio_input.get(key), f"session.audio.input.{key}")
    if isinstance((audio.get("output") or {}).get("voice"), dict):
        yield "session.audio.output.voice is an object"


def _response_problems(response: dict[str, Any]) -> Iterator[str]:
    for key in ("id", "object", "status", "output"):
        if response.get(key) is None:
            yield f"response needs {key}"
    for key in ("status_details", "usage", "metadata", "conversation_id"):
        if key not in response:
            yield f"response needs {key}, null where there is none"
    for index, item in enumerate(response.get("output") or []):
        yield from _item_problems(item, f"response.output[{index}]")
    yield from _nulls(response.get("usage"), "usage")
    final = response.get("status") != "in_progress"
    if final and response.get("usage") is None:
        yield "response.usage is needed for every final status"
    needed = _STATUS_REASONS_NEED.get(response.get("status") or "")
    if needed and not (response.get("status_details") or {}).get(needed):
        yield f"response.status_details needs {needed}"
