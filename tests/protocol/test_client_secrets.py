"""`POST /v1/realtime/client_secrets`, without HTTP: what is taken, what is refused, what is shown."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types.realtime import ClientSecretCreateResponse

from gateway.g711 import G711Codec
from protocol import shapes
from protocol.client_events import AppendInput, parse_client_event
from protocol.client_secrets import NO_SESSION_YET, client_secret_request, configured_session
from protocol.commands import AppendAudio
from protocol.errors import ProtocolError
from protocol.ids import CountingIds
from protocol.outputs import ServerEvent, ToBackend
from protocol.session import SessionProtocol
from protocol.session_settings import SessionDefaults, SessionKind
from protocol.shapes import Rules
from protocol.wire_law import violations

TOOL = {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}}
RICH: dict[str, Any] = {
    "type": "realtime",
    "model": "gpt-realtime-2.1",
    "instructions": "Be kind.",
    "output_modalities": ["text"],
    "audio": {
        "input": {
            "format": {"type": "audio/pcm", "rate": 24_000},
            "transcription": {"model": "whisper-1", "language": "en"},
            "noise_reduction": {"type": "near_field"},
            "turn_detection": {"type": "semantic_vad", "eagerness": "low"},
        },
        "output": {"voice": "cedar", "speed": 1.25},
    },
    "tools": [TOOL],
    "tool_choice": {"type": "function", "name": "f"},
    "max_output_tokens": 100,
    "tracing": "auto",
    "truncation": "disabled",
    "include": ["item.input_audio_transcription.logprobs"],
    "reasoning": {"effort": "low"},
}
TELEPHONE: dict[str, Any] = {
    "type": "realtime",
    "audio": {"input": {"format": {"type": "audio/pcmu"}}, "output": {"format": {"type": "audio/pcmu"}}},
}
TRANSCRIPTION: dict[str, Any] = {
    "type": "transcription",
    "audio": {"input": {"transcription": {"model": "whisper-1"}, "turn_detection": {"type": "server_vad"}}},
}


def refused(body: dict[str, Any]) -> ProtocolError:
    with pytest.raises(ProtocolError) as caught:
        client_secret_request(body)
    return caught.value


def shown(session: dict[str, Any]) -> dict[str, Any]:
    return configured_session(session, SessionDefaults(), session_id="sess_1", model="gpt-realtime")


def test_a_key_lasts_ten_minutes_unless_told_otherwise() -> None:
    for body in ({}, {"expires_after": None}, {"expires_after": {"anchor": "created_at"}}):
        assert client_secret_request(body).lifetime_s == 600
    for seconds in (10, 7_200):
        body = {"expires_after": {"anchor": "created_at", "seconds": seconds}}
        assert client_secret_request(body).lifetime_s == seconds


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ({"expires_after": {"seconds": 9}}, "integer_below_min_value", "expires_after.seconds"),
        ({"expires_after": {"seconds": 7_201}}, "integer_above_max_value", "expires_after.seconds"),
        ({"expires_after": {"seconds": 60.0}}, "invalid_type", "expires_after.seconds"),
        ({"expires_after": {"seconds": True}}, "invalid_type", "expires_after.seconds"),
        ({"expires_after": {"anchor": "now"}}, "invalid_value", "expires_after.anchor"),
        ({"expires_after": {"second": 60}}, "unknown_parameter", "expires_after.second"),
        ({"expires_after": 60}, "invalid_type", "expires_after"),
        ({"expires": 60}, "unknown_parameter", "expires"),
        ({"session": []}, "invalid_type", "session"),
        ({"session": {}}, "missing_required_parameter", "session.type"),
        ({"session": {"type": "speech"}}, "invalid_value", "session.type"),
        ({"session": {"type": "realtime", "voice": "marin"}}, "unknown_parameter", "session.voice"),
        ({"session": {"type": "transcription", "tools": []}}, "unknown_parameter", "session.tools"),
        (
            {"session": {"type": "transcription", "audio": {"input": {"turn_detection": {"type": "x"}}}}},
            "invalid_value",
            "session.audio.input.turn_detection.type",
        ),
    ],
)
def test_what_is_wrong_is_named(body: dict[str, Any], code: str, param: str) -> None:
    error = refused(body)
    assert (error.type, error.code, error.param) == ("invalid_request_error", code, param)


@pytest.mark.parametrize(
    "session",
    [
        {"type": "realtime", "audio": {"input": {"format": {"type": "audio/pcm", "rate": 16_000}}}},
        {"type": "realtime", "audio": {"input": {"format": "pcm16"}}},
        {"type": "realtime", "output_modalities": ["text", "audio"]},
        {"type": "realtime", "max_output_tokens": 0},
        {"type": "realtime", "tools": [{**TOOL, "strict": True}]},
        {"type": "realtime", "audio": {"output": {"speed": 9.0}}},
        {"modalities": ["text"]},
    ],
)
def test_a_session_is_refused_as_its_update_would_be(session: dict[str, Any]) -> None:
    error = refused({"session": session})
    with pytest.raises(ProtocolError) as caught:
        parse_client_event(json.dumps({"type": "session.update", "session": session}))
    assert error.to_wire() == caught.value.to_wire()


@pytest.mark.parametrize("session", [{"type": "realtime"}, RICH, TELEPHONE, {"type": "transcription"}, TRANSCRIPTION])
def test_the_answer_is_of_openais_type_with_nothing_unknown_in_it(session: dict[str, Any]) -> None:
    taken = client_secret_request({"session": session}).session
    answer = {"value": "ek_1", "expires_at": 1, "session": shown(taken)}
    assert [problem.message for problem in shapes.problems(answer, ClientSecretCreateResponse, rules=Rules())] == []
    ClientSecretCreateResponse.model_validate(answer, strict=True)


def test_the_answer_shows_the_whole_session_with_what_was_asked_for() -> None:
    session = shown(RICH)
    assert (session["type"], session["object"], session["id"]) == ("realtime", "realtime.session", "sess_1")
    assert session["instructions"] == "Be kind."
    assert session["audio"]["output"] == {
        "format": {"type": "audio/pcm", "rate": 24_000},
        "voice": "cedar",
        "speed": 1.25,
    }
    assert session["audio"]["input"]["turn_detection"]["eagerness"] == "low"
    assert session["audio"]["input"]["turn_detection"]["interrupt_response"] is True
    assert session["expires_at"] == 0
    plain = shown({"type": "realtime"})
    assert plain["audio"]["input"]["turn_detection"]["type"] == "server_vad"
    assert plain["instructions"] == SessionDefaults().instructions


def opened(session: dict[str, Any], kind: SessionKind = "realtime") -> SessionProtocol:
    return SessionProtocol(
        ids=CountingIds(),
        session_id="sess_1",
        model="gpt-realtime",
        expires_at_s=NO_SESSION_YET,
        defaults=SessionDefaults(),
        g711=G711Codec(),
        kind=kind,
        initial=session,
    )


@pytest.mark.parametrize("session", [{"type": "realtime"}, RICH, TELEPHONE])
def test_session_created_shows_what_the_answer_showed(session: dict[str, Any]) -> None:
    created = opened(session).open()[0]
    assert isinstance(created, ServerEvent)
    assert violations(created.payload) == []
    assert created.payload["session"] == shown(session)


def test_a_key_for_a_transcription_session_opens_no_conversation() -> None:
    with pytest.raises(ProtocolError):
        opened(TRANSCRIPTION, kind="realtime")


def test_the_first_audio_is_heard_in_the_format_that_the_key_carries() -> None:
    (output,) = opened(TELEPHONE).receive(AppendInput(b"\xff" * 160))  # 20 ms of silence at 8 kHz
    assert isinstance(output, ToBackend)
    assert isinstance(output.command, AppendAudio)
    assert len(output.command.pcm) == 3 * 160 * 2


def test_a_transcription_session_shows_its_input_and_nothing_else() -> None:
    session = shown(TRANSCRIPTION)
    assert set(session) == {"type", "object", "id", "expires_at", "audio", "include"}
    assert set(session["audio"]) == {"input"}
    assert session["object"] == "realtime.transcription_session"
    assert session["audio"]["input"]["transcription"] == {"model": "whisper-1"}
