"""Frames that clients send: what is read, what is refused, in OpenAI's words (RB-53, RB-55)."""

from __future__ import annotations

import base64
import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.client_events import AppendInput, CommitInputBuffer, parse_client_event
from protocol.errors import ProtocolError
from protocol.wire_rules import MAX_EVENT_BYTES


def refusal(frame: str | bytes) -> ProtocolError:
    with pytest.raises(ProtocolError) as caught:
        parse_client_event(frame)
    return caught.value


BROKEN_FRAMES: list[tuple[str | bytes, str, str | None, str | None]] = [
    ('{"type": "bogus.event", "event_id": "m1"}', "invalid_value", "type", "m1"),
    ('{"type": "session.update", "event_id": "m2"}', "missing_required_parameter", "session", "m2"),
    ('{"event_id": "m3"}', "invalid_event", None, "m3"),
    ('{"type": 5, "event_id": "m3"}', "invalid_type", "type", "m3"),
    ("[]", "invalid_event", None, None),
    ('"text"', "invalid_event", None, None),
    ("null", "invalid_event", None, None),
    ("text", "invalid_json", None, None),
    ("{", "invalid_json", None, None),
    ("", "invalid_json", None, None),
    (b"\x00\x01", "invalid_event", None, None),
    ('{"type": "input_audio_buffer.append", "event_id": "m8"}', "missing_required_parameter", "audio", "m8"),
    ('{"type": "input_audio_buffer.append", "audio": 7}', "invalid_type", "audio", None),
    ('{"type": "input_audio_buffer.append", "audio": "A"}', "invalid_value", "audio", None),
    ('{"type": "input_audio_buffer.append", "audio": "AA"}', "invalid_value", "audio", None),
    ('{"type": "input_audio_buffer.append", "audio": "é==="}', "invalid_value", "audio", None),
    ('{"type": "input_audio_buffer.append", "audio": "_-=="}', "invalid_value", "audio", None),
    ('{"type": "input_audio_buffer.append", "audio": "", "codec": 1}', "unknown_parameter", "codec", None),
    ('{"type": "input_audio_buffer.append", "audio": "", "event_id": 1}', "invalid_type", "event_id", None),
    ('{"type": "input_audio_buffer.commit", "event_id": 1}', "invalid_type", "event_id", None),
    (
        json.dumps({"type": "input_audio_buffer.commit", "event_id": "e" * 513}),
        "string_above_max_length",
        "event_id",
        None,
    ),
    ('{"type": "response.cancel", "why": NaN}', "invalid_json", None, None),
    ('{"type": "response.cancel", "why": 1e999}', "invalid_json", None, None),
    ('{"type": "response.cancel", "event_id": "\\ud800"}', "invalid_json", None, None),
    ("[" * 100_000, "invalid_json", None, None),
    (
        '{"type": "response.create", "event_id": "m", "response": {"tools": ' + "[" * 90 + "]" * 90 + "}}",
        "invalid_json",
        None,
        "m",
    ),
    ('{"type": "response.cancel", "response_id": ' + "9" * 5000 + "}", "invalid_json", None, None),
]


@pytest.mark.parametrize(("frame", "code", "param", "event_id"), BROKEN_FRAMES)
def test_a_broken_frame_gives_one_error_and_the_session_goes_on(
    talk: Any, frame: str | bytes, code: str, param: str | None, event_id: str | None
) -> None:
    events = talk.frame(frame)
    assert [event["type"] for event in events] == ["error"]
    error = events[0]["error"]
    assert (error["code"], error["param"], error["event_id"]) == (code, param, event_id)
    assert error["type"] == "invalid_request_error"
    assert error["message"]
    assert [event["type"] for event in talk.update(instructions="k")] == ["session.updated"]


def test_a_pair_of_surrogate_escapes_is_a_character() -> None:
    event = parse_client_event('{"type": "input_audio_buffer.commit", "event_id": "\\ud83e\\uded6"}')
    assert event == CommitInputBuffer("🫖")


def test_an_event_beyond_the_size_limit_is_refused_with_its_id() -> None:
    frame = json.dumps({"type": "input_audio_buffer.append", "event_id": "big", "audio": ""})
    padded = frame[:-1] + " " * (MAX_EVENT_BYTES - len(frame)) + "}"
    assert parse_client_event(padded) == AppendInput(b"", "big")
    error = refusal(padded[:-1] + " }")
    assert (error.code, error.event_id) == ("event_too_large", "big")


@given(st.binary(max_size=200))
def test_appended_bytes_arrive_as_they_were(audio: bytes) -> None:
    frame = json.dumps({"type": "input_audio_buffer.append", "audio": base64.b64encode(audio).decode()})
    assert parse_client_event(frame) == AppendInput(audio)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KINDS = [
    "session.update",
    "input_audio_buffer.append",
    "conversation.item.create",
    "conversation.item.truncate",
    "response.create",
    "response.cancel",
]
KEYS = [
    "session",
    "item",
    "response",
    "audio",
    "item_id",
    "audio_end_ms",
    "content",
    "tools",
    "turn_detection",
    "event_id",
]


@given(st.sampled_from(KINDS), st.dictionaries(st.sampled_from(KEYS), json_values, max_size=4))
def test_no_json_object_can_crash_the_parser(kind: str, fields: dict[str, Any]) -> None:
    with contextlib.suppress(ProtocolError):
        parse_client_event(json.dumps({"type": kind, **fields}))


@pytest.mark.parametrize(
    ("value", "code", "words"),
    [
        ("1234.5", "invalid_type", "expected an integer, but got a decimal number instead."),
        ("-11", "integer_below_min_value", "integer below minimum value. Expected a value >= 0, but got -11 instead."),
        ('"500"', "invalid_type", "expected an integer, but got a string instead."),
        ("null", "invalid_type", "expected an integer, but got null instead."),
        ("1e+20", "invalid_type", "expected an integer, but got a decimal number instead."),
        ("true", "invalid_type", "expected an integer, but got a boolean instead."),
        ("[]", "invalid_type", "expected an integer, but got an array instead."),
        ("{}", "invalid_type", "expected an integer, but got an object instead."),
    ],
)
def test_a_truncate_position_that_is_no_count_of_milliseconds_is_refused(value: str, code: str, words: str) -> None:
    event = {"type": "conversation.item.truncate", "event_id": "n", "item_id": "i", "content_index": 0}
    error = refusal(json.dumps(event)[:-1] + f', "audio_end_ms": {value}}}')
    assert (error.code, error.param, error.event_id) == (code, "audio_end_ms", "n")
    assert words in error.message


def item(**fields: Any) -> dict[str, Any]:
    return {"type": "conversation.item.create", "item": fields}


def tool(**fields: Any) -> dict[str, Any]:
    return {"type": "session.update", "session": {"type": "realtime", "tools": [fields]}}


def response(**fields: Any) -> dict[str, Any]:
    return {"type": "response.create", "response": fields}


REFUSED = [
    (item(role="user", content=[]), "missing_required_parameter", "item.type"),
    (item(type="message", content=[]), "missing_required_parameter", "item.role"),
    (item(type="message", role="user"), "missing_required_parameter", "item.content"),
    (item(type="message", role="wizard", content=[]), "invalid_value", "item.role"),
    (item(type="message", role=3, content=[]), "invalid_type", "item.role"),
    (item(type="mcp_tool_call"), "invalid_value", "item.type"),
    (item(type="mcp_call", id="i", server_label="s", name="t"), "missing_required_parameter", "item.arguments"),
    (item(type="mcp_approval_response", approval_request_id="i"), "missing_required_parameter", "item.approve"),
    (
        item(type="mcp_approval_response", approval_request_id="i", approve=True, id="i" * 65),
        "string_above_max_length",
        "item.id",
    ),
    (item(type="message", role="user", content=["hi"]), "invalid_type", "item.content[0]"),
    (item(type="message", role="user", content="hi"), "invalid_type", "item.content"),
    (item(type="message", role="user", content=[{"text": "hi"}]), "missing_required_parameter", "item.content[0].type"),
    (item(type="message", role="user", content=[{"type": "text"}]), "invalid_value", "item.content[0].type"),
    (
        item(type="message", role="user", content=[{"type": "input_text", "tone": 1}]),
        "unknown_parameter",
        "item.content[0].tone",
    ),
    (item(type="message", role="user", content=[], id="i" * 33), "string_above_max_length", "item.id"),
    (item(type="function_call", name="f"), "missing_required_parameter", "item.arguments"),
    (tool(type="function", name="f", strict=True), "unknown_parameter", "session.tools[0].strict"),
    (
        item(type="mcp_list_tools", server_label="x", tools=[{"name": "t", "input_schema": None}]),
        "missing_required_parameter",
        "item.tools[0].input_schema",
    ),
    (tool(type="function"), "missing_required_parameter", "session.tools[0].name"),
    (tool(type="function", name=None), "missing_required_parameter", "session.tools[0].name"),
    (tool(type=None, name="f"), "missing_required_parameter", "session.tools[0].type"),
    (
        item(type="message", role="system", content=[{"type": None, "text": "hi"}]),
        "missing_required_parameter",
        "item.content[0].type",
    ),
    (tool(name="f"), "missing_required_parameter", "session.tools[0].type"),
    (tool(type="web_search"), "invalid_value", "session.tools[0].type"),
    (tool(type="mcp", server_url="http://localhost"), "missing_required_parameter", "session.tools[0].server_label"),
    (tool(type="mcp", server_label="s", server=1), "unknown_parameter", "session.tools[0].server"),
    (tool(type="mcp", server_label="s", headers={"K": 1}), "invalid_type", "session.tools[0].headers.K"),
    (
        tool(type="mcp", server_label="s", require_approval="maybe"),
        "invalid_value",
        "session.tools[0].require_approval",
    ),
    (
        tool(type="mcp", server_label="s", require_approval={"never": {"tools": []}}),
        "unknown_parameter",
        "session.tools[0].require_approval.never.tools",
    ),
    (tool(type="mcp", server_label="s", allowed_tools=[1]), "invalid_type", "session.tools[0].allowed_tools[0]"),
    (tool(type="mcp", server_label="s" * 129), "string_above_max_length", "session.tools[0].server_label"),
    (response(metadata={"k": 1}), "invalid_type", "response.metadata.k"),
    (response(metadata=[]), "invalid_type", "response.metadata"),
    (response(metadata={str(n): "" for n in range(17)}), "invalid_value", "response.metadata"),
    (response(metadata={"k" * 65: ""}), "string_above_max_length", "response.metadata"),
    (response(metadata={"k": "v" * 513}), "string_above_max_length", "response.metadata.k"),
    (response(max_output_tokens=0), "integer_below_min_value", "response.max_output_tokens"),
    (response(max_output_tokens="many"), "invalid_value", "response.max_output_tokens"),
    (response(output_modalities=["text", "audio"]), "invalid_value", "response.output_modalities"),
    (response(tool_choice="sometimes"), "invalid_value", "response.tool_choice"),
    (response(tool_choice={"type": "tool"}), "invalid_value", "response.tool_choice.type"),
    (response(tool_choice=5), "invalid_type", "response.tool_choice"),
    (response(input=[{"type": "item_reference"}]), "missing_required_parameter", "response.input[0].id"),
]


@pytest.mark.parametrize(("event", "code", "param"), REFUSED)
def test_a_wrong_field_is_named_by_its_path(event: dict[str, Any], code: str, param: str) -> None:
    error = refusal(json.dumps({**event, "event_id": "evt"}))
    assert (error.code, error.param, error.event_id) == (code, param, "evt")


def test_an_unknown_value_is_answered_with_the_known_ones() -> None:
    error = refusal(json.dumps(item(type="message", role="wizard", content=[])))
    assert error.message == "Invalid value: 'wizard'. Supported values are: 'system', 'user', and 'assistant'."


def test_an_error_does_not_repeat_a_long_string() -> None:
    assert len(refusal(json.dumps({"type": "x" * 10_000})).message) < 1000
    assert len(refusal(json.dumps({"type": "response.cancel", "x" * 10_000: 1})).param or "") < 100


@pytest.mark.parametrize(
    "response",
    [
        None,
        {},
        {"metadata": {"client_event_id": "x"}},
        {"input": []},
        {"tool_choice": {"type": "function", "name": "f"}},
    ],
)
def test_the_forms_of_response_create_that_clients_use_are_read(response: Any) -> None:
    parse_client_event(json.dumps({"type": "response.create", "response": response}))


@pytest.mark.parametrize("arguments", ["", "[]", "7", '{"a": ', "{'a': 1}"])
def test_an_approval_request_whose_arguments_would_break_clients_is_refused(talk: Any, arguments: str) -> None:
    request = {"type": "mcp_approval_request", "server_label": "docs", "name": "search", "arguments": arguments}
    error = talk.refused("conversation.item.create", item=request)
    assert (error["code"], error["param"]) == ("invalid_value", "item.arguments")
    assert len(talk.send("conversation.item.create", item={**request, "arguments": "{}"})) == 2
