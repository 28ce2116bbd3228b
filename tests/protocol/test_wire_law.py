"""The wire law finds what the strictest clients were seen to refuse (protocol reference, §5)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from protocol.session_settings import SessionDefaults, SessionSettings
from protocol.wire_law import violations

IDS = {"event_id": "e", "response_id": "r", "item_id": "i", "output_index": 0, "content_index": 0}
ITEM = {
    "id": "i",
    "object": "realtime.item",
    "type": "message",
    "role": "user",
    "status": "completed",
    "content": [{"type": "input_audio", "transcript": None}],
}
CALL = {
    "id": "i",
    "object": "realtime.item",
    "type": "function_call",
    "status": "completed",
    "call_id": "c",
    "name": "f",
    "arguments": "",
}
TOKENS = {
    "type": "tokens",
    "total_tokens": 1,
    "input_tokens": 1,
    "output_tokens": 0,
    "input_token_details": {"text_tokens": 0, "audio_tokens": 1},
}
USAGE = {"total_tokens": 0, "input_tokens": 0, "output_tokens": 0}
RESPONSE = {
    "id": "r",
    "object": "realtime.response",
    "status": "completed",
    "status_details": None,
    "output": [],
    "conversation_id": None,
    "metadata": None,
    "usage": USAGE,
}
LISTED = {"id": "i", "type": "mcp_list_tools", "server_label": "s"}
MCP_CALL = {"id": "i", "type": "mcp_call", "server_label": "s", "name": "t", "arguments": "{}"}
COMPLETED = {
    "type": "conversation.item.input_audio_transcription.completed",
    "event_id": "e",
    "item_id": "i",
    "content_index": 0,
    "transcript": "x",
}
FAILED = {
    "type": "conversation.item.input_audio_transcription.failed",
    "event_id": "e",
    "item_id": "i",
    "content_index": 0,
}


def added(**fields: Any) -> dict[str, Any]:
    return {"type": "conversation.item.added", "event_id": "e", "previous_item_id": None, "item": {**ITEM, **fields}}


def added_item(**item: Any) -> dict[str, Any]:
    return {"type": "conversation.item.added", "event_id": "e", "item": item}


def part(**fields: Any) -> dict[str, Any]:
    return {"type": "response.content_part.added", **IDS, "part": fields}


def done(**fields: Any) -> dict[str, Any]:
    return {"type": "response.done", "event_id": "e", "response": {**RESPONSE, **fields}}


def without(payload: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in payload.items() if name != key}


def without_content_index() -> dict[str, Any]:
    return without(IDS, "content_index")


LAWFUL = [
    added(),
    added(role="assistant", content=[{"type": "output_audio", "transcript": ""}]),
    {"type": "conversation.item.added", "event_id": "e", "item": CALL},
    added_item(**LISTED, tools=[]),
    added_item(**LISTED, tools=[{"name": "t", "description": "", "input_schema": {"default": None}}]),
    added_item(**MCP_CALL, output=None, error=None, approval_request_id=None),
    added_item(**MCP_CALL, output=None, error={"type": "http_error", "code": 401, "message": "m"}),
    added_item(**{**MCP_CALL, "type": "mcp_approval_request"}),
    added_item(id="i", type="mcp_approval_response", approval_request_id="r", approve=False),
    {"type": "mcp_list_tools.failed", "event_id": "e", "item_id": "i"},
    {"type": "response.mcp_call.failed", "event_id": "e", "item_id": "i", "output_index": 0},
    {**without_content_index(), "type": "response.mcp_call_arguments.delta", "delta": "{}", "obfuscation": ""},
    part(type="audio", transcript=""),
    part(type="text", text=""),
    done(),
    done(status="cancelled", status_details={"type": "cancelled", "reason": "turn_detected"}),
    {**COMPLETED, "usage": TOKENS},
    {**COMPLETED, "usage": {"type": "duration", "seconds": 1.5}},
    {**FAILED, "error": {"type": "t", "code": "c", "message": "m"}},
    {
        "type": "error",
        "event_id": "e",
        "error": {"type": "t", "code": None, "message": "m", "param": None, "event_id": None},
    },
    {"type": "response.output_audio.delta", **IDS, "delta": "AAA="},
    {
        "type": "response.function_call_arguments.done",
        **without(IDS, "content_index"),
        "call_id": "c",
        "name": "f",
        "arguments": "",
    },
]

UNLAWFUL = {
    "no type": {"event_id": "e"},
    "unknown type": {"type": "response.gateway.delta", "event_id": "e"},
    "beta name": {"type": "response.audio.delta", **IDS, "delta": "AAA="},
    "old item event": {"type": "conversation.item.created", "event_id": "e", "item": ITEM},
    "player event": {"type": "output_audio_buffer.started", "event_id": "e", "response_id": "r"},
    "no event_id": {"type": "input_audio_buffer.cleared"},
    "empty event_id": {"type": "input_audio_buffer.cleared", "event_id": ""},
    "unknown key": {"type": "input_audio_buffer.cleared", "event_id": "e", "at": 1},
    "float ms": {"type": "input_audio_buffer.speech_started", "event_id": "e", "item_id": "i", "audio_start_ms": 1.5},
    "no indices": {"type": "response.output_audio.done", **without(IDS, "output_index")},
    "item status null": added(status=None),
    "item without status": {"type": "conversation.item.added", "event_id": "e", "item": without(ITEM, "status")},
    "user audio without transcript": added(content=[{"type": "input_audio"}]),
    "user audio as null": added(content=[{"type": "input_audio", "transcript": None, "audio": None}]),
    "content without type": added(content=[{"text": "t"}]),
    "text without text": added(content=[{"type": "input_text"}]),
    "assistant transcript null": added(role="assistant", content=[{"type": "output_audio", "transcript": None}]),
    "assistant content audio": added(role="assistant", content=[{"type": "audio", "transcript": ""}]),
    "no content": {"type": "conversation.item.added", "event_id": "e", "item": without(ITEM, "content")},
    "call without call_id": {"type": "conversation.item.added", "event_id": "e", "item": without(CALL, "call_id")},
    "part output_audio": part(type="output_audio", transcript=""),
    "part audio null": part(type="audio", audio=None, transcript=""),
    "arguments.done without name": {
        "type": "response.function_call_arguments.done",
        **without(IDS, "content_index"),
        "call_id": "c",
        "arguments": "",
    },
    "tool without description": added_item(**LISTED, tools=[{"name": "t", "input_schema": {}}]),
    "tool whose description is null": added_item(
        **LISTED, tools=[{"name": "t", "input_schema": {}, "description": None}]
    ),
    "tool whose annotations are null": added_item(
        **LISTED, tools=[{"name": "t", "input_schema": {}, "description": "", "annotations": None}]
    ),
    "list without id": added_item(**without(LISTED, "id"), tools=[]),
    "MCP call without output": added_item(**MCP_CALL),
    "approval of what is no object": added_item(**{**MCP_CALL, "type": "mcp_approval_request", "arguments": "[]"}),
    "approval of what is no JSON": added_item(**{**MCP_CALL, "type": "mcp_approval_request", "arguments": "{"}),
    "approval with a null reason": added_item(
        id="i", type="mcp_approval_response", approval_request_id="r", approve=False, reason=None
    ),
    "MCP delta without obfuscation": {
        **without_content_index(),
        "type": "response.mcp_call_arguments.delta",
        "delta": "{}",
    },
    "null language": {
        **COMPLETED,
        "usage": {**TOKENS, "input_token_details": {"text_tokens": None, "audio_tokens": 1}},
    },
    "usage null": {**COMPLETED, "usage": None},
    "tokens without details": {**COMPLETED, "usage": without(TOKENS, "input_token_details")},
    "transcript delta null": {
        "type": "conversation.item.input_audio_transcription.delta",
        "event_id": "e",
        "item_id": "i",
        "content_index": 0,
        "delta": None,
    },
    "failed with null": {**FAILED, "error": {"type": "t", "code": None, "message": "m"}},
    "error without type": {"type": "error", "event_id": "e", "error": {"message": "m"}},
    "done without usage": done(usage=None),
    "done with null usage": done(usage={**USAGE, "input_tokens": None}),
    "done without details": {"type": "response.done", "event_id": "e", "response": without(RESPONSE, "status_details")},
    "done without output": done(output=None),
    "item in output": done(output=[{**CALL, "call_id": None}]),
    "own reason": done(status="cancelled", status_details={"type": "cancelled", "reason": "barge_in"}),
    "cancelled without reason": done(status="cancelled"),
    "failed without error": done(status="failed", status_details={"type": "failed"}),
    "own rate limit": {"type": "rate_limits.updated", "event_id": "e", "rate_limits": [{"name": "input_tokens"}]},
    "half a sample": {"type": "response.output_audio.delta", **IDS, "delta": "AA=="},
    "no audio": {"type": "response.output_audio.delta", **IDS, "delta": ""},
    "no base64": {"type": "response.output_audio.delta", **IDS, "delta": "?"},
}


@pytest.mark.parametrize("payload", LAWFUL)
def test_a_lawful_event_has_no_violations(payload: dict[str, Any]) -> None:
    assert violations(payload) == []


@pytest.mark.parametrize("case", UNLAWFUL)
def test_an_unlawful_event_is_found(case: str) -> None:
    assert violations(UNLAWFUL[case])


def broken(change: Callable[[dict[str, Any]], Any]) -> list[str]:
    settings = SessionSettings.initial(SessionDefaults())
    session = copy.deepcopy(settings.to_wire(session_id="s", model="m", expires_at_s=1))
    change(session)
    return violations({"type": "session.updated", "event_id": "e", "session": session})


@pytest.mark.parametrize(
    "change",
    [
        lambda session: session.pop("type"),
        lambda session: session.pop("id"),
        lambda session: session.update(expires_at=None),
        lambda session: session.update(gateway={}),
        lambda session: session.update(audio={}),
        lambda session: session.update(audio=None),
        lambda session: session["audio"]["input"].update(format="pcm16"),
        lambda session: session["audio"]["input"].update(noise_reduction={}),
        lambda session: session["audio"]["input"].update(transcription={"model": "m", "language": None}),
        lambda session: session["audio"]["input"]["turn_detection"].update(idle_timeout_ms=None),
        lambda session: session["audio"]["input"]["turn_detection"].pop("type"),
        lambda session: session["audio"]["output"].update(voice={"id": "v"}),
        lambda session: session["audio"]["output"]["format"].update(rate=16000),
    ],
)
def test_an_unlawful_session_is_found(change: Callable[[dict[str, Any]], Any]) -> None:
    assert broken(lambda session: None) == []
    assert broken(change)


def test_every_violation_is_told() -> None:
    item = {**ITEM, "status": "gone", "content": [{"type": "input_audio", "audio": 5}, "x"]}
    assert len(violations({"type": "conversation.item.added", "item": item, "extra": 1})) == 5
