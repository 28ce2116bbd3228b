"""Beta's transcription sessions: events of their own name, a flat session object, nobody who answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from protocol.backend_events import InputCommitted, InputTranscriptCompleted
from protocol.commands import Configure
from protocol.wire import Dialect

LOGPROBS = "item.input_audio_transcription.logprobs"


@pytest.fixture
def scribe(new_talk: Callable[..., Any]) -> Any:
    """An open transcription session that speaks beta."""
    talk = new_talk(kind="transcription", dialect=Dialect.BETA)
    talk.open()
    return talk


def test_its_first_event_has_a_name_of_its_own(new_talk: Callable[..., Any]) -> None:
    (created,) = new_talk(kind="transcription", dialect=Dialect.BETA).open()
    assert created["type"] == "transcription_session.created"
    assert created["session"] == {
        "id": "sess_1",
        "object": "realtime.transcription_session",
        "expires_at": 3600,
        "modalities": ["text", "audio"],
        "input_audio_format": "pcm16",
        "input_audio_transcription": {"model": "gpt-4o-mini-transcribe"},
        "input_audio_noise_reduction": None,
        "turn_detection": {
            "type": "server_vad",
            "threshold": 0.5,
            "prefix_padding_ms": 300,
            "silence_duration_ms": 500,
        },
        "include": None,
        "client_secret": None,
    }


def test_an_update_is_merged_and_echoed_under_its_own_name(scribe: Any) -> None:
    (updated,) = scribe.send(
        "transcription_session.update",
        session={
            "modalities": ["text", "audio"],
            "input_audio_format": "pcm16",
            "input_audio_transcription": {"model": "my-own-model", "language": "en", "prompt": "tea"},
            "input_audio_noise_reduction": {"type": "near_field"},
            "turn_detection": {"type": "server_vad", "silence_duration_ms": 900, "create_response": True},
            "include": [LOGPROBS],
            "client_secret": {"expires_at": {"anchor": "created_at", "seconds": 60}},
        },
    )
    assert updated["type"] == "transcription_session.updated"
    session = updated["session"]
    assert session["input_audio_transcription"] == {"model": "my-own-model", "language": "en", "prompt": "tea"}
    assert session["input_audio_noise_reduction"] == {"type": "near_field"}
    assert session["turn_detection"]["silence_duration_ms"] == 900
    assert (session["include"], session["client_secret"]) == ([LOGPROBS], None)
    detection = scribe.commands(Configure)[-1].turn_detection
    assert (detection.silence_duration, detection.create_response) == (900 * 24, False)


def test_turn_detection_can_be_off(scribe: Any) -> None:
    (updated,) = scribe.send("transcription_session.update", session={"turn_detection": None})
    assert updated["session"]["turn_detection"] is None
    assert scribe.commands(Configure)[-1].turn_detection is None


def test_what_is_heard_is_told(scribe: Any) -> None:
    events = scribe.backend(InputCommitted("u1", 0, 24_000), InputTranscriptCompleted("u1", "Hello.", 24_000))
    assert [event["type"] for event in events] == [
        "input_audio_buffer.committed",
        "conversation.item.created",
        "conversation.item.input_audio_transcription.completed",
    ]
    assert events[-1]["transcript"] == "Hello."


@pytest.mark.parametrize("key", ["voice", "instructions", "temperature", "tools", "output_audio_format", "type"])
def test_what_a_transcription_session_does_not_have_is_unknown(scribe: Any, key: str) -> None:
    error = scribe.refused("transcription_session.update", session={key: None})
    assert (error["code"], error["param"]) == ("unknown_parameter", f"session.{key}")


def test_an_error_names_the_beta_path(scribe: Any) -> None:
    error = scribe.refused("transcription_session.update", session={"input_audio_format": "mp3"})
    assert error["param"] == "session.input_audio_format"
    error = scribe.refused("transcription_session.update", session={"include": ["everything"]})
    assert error["param"] == "session.include[0]"


def test_the_kind_of_a_session_is_told_by_the_event_and_never_changes(scribe: Any, beta: Any) -> None:
    error = scribe.refused("session.update", session={"voice": "echo"})
    assert (error["code"], error["param"]) == ("invalid_model", "type")
    error = beta.refused("transcription_session.update", session={"input_audio_format": "pcm16"})
    assert (error["code"], error["param"]) == ("invalid_model", "type")
    assert error["message"] == "Passing a transcription session update event to a realtime session is not allowed."


def test_what_needs_a_model_that_answers_is_refused(scribe: Any) -> None:
    assert scribe.refused("response.create")["param"] == "type"


def test_a_transcription_update_tells_a_beta_client(new_talk: Callable[..., Any]) -> None:
    talk = new_talk(kind="transcription")
    (created,) = talk.open()
    assert created["type"] == "session.created"
    (updated,) = talk.send("transcription_session.update", session={"input_audio_transcription": {"language": "en"}})
    assert updated["type"] == "transcription_session.updated"
    assert talk.wire.dialect is Dialect.BETA


def test_a_ga_update_of_a_transcription_session_stays_ga(new_talk: Callable[..., Any]) -> None:
    talk = new_talk(kind="transcription")
    talk.open()
    (updated,) = talk.send("session.update", session={"type": "transcription", "include": [LOGPROBS]})
    assert updated["session"]["type"] == "transcription"
    assert talk.refused("transcription_session.update", session={})["param"] == "type"
