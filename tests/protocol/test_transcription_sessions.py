"""Transcription sessions (protocol §2.12): what they hear is written down, and nobody answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from protocol.backend_events import InputCommitted, InputTranscriptCompleted, InputTranscriptDelta
from protocol.commands import Configure
from protocol.session_settings import SessionDefaults


@pytest.fixture
def scribe(new_talk: Callable[..., Any]) -> Any:
    """An open transcription session."""
    talk = new_talk(kind="transcription")
    talk.open()
    return talk


def update(scribe: Any, **session: Any) -> Any:
    return scribe.send("session.update", session={"type": "transcription", **session})


def test_it_opens_as_a_transcription_session_that_transcribes(new_talk: Callable[..., Any]) -> None:
    (created,) = new_talk(kind="transcription").open()
    session = created["session"]
    assert (session["type"], session["object"]) == ("transcription", "realtime.transcription_session")
    assert session["audio"]["input"]["transcription"] == {"model": "gpt-4o-mini-transcribe"}
    assert session["audio"]["input"]["turn_detection"]["type"] == "server_vad"
    assert set(session) == {"type", "object", "id", "expires_at", "audio", "include"}
    assert set(session["audio"]) == {"input"}


def test_its_backend_never_answers_whatever_the_flags_say(scribe: Any) -> None:
    update(scribe, audio={"input": {"turn_detection": {"type": "server_vad", "idle_timeout_ms": 6_000}}})
    for configure in scribe.commands(Configure):
        assert not configure.turn_detection.create_response
        assert not configure.turn_detection.interrupt_response
        assert configure.turn_detection.idle_timeout is None


def test_an_update_is_merged_and_echoed(scribe: Any) -> None:
    (updated,) = update(
        scribe,
        audio={"input": {"transcription": {"model": "gpt-realtime-whisper", "language": "en"}, "turn_detection": None}},
        include=["item.input_audio_transcription.logprobs"],
    )
    audio_input = updated["session"]["audio"]["input"]
    assert audio_input["transcription"] == {"model": "gpt-realtime-whisper", "language": "en"}
    assert audio_input["turn_detection"] is None
    assert updated["session"]["include"] == ["item.input_audio_transcription.logprobs"]
    configure = scribe.commands(Configure)[-1]
    assert configure.turn_detection is None
    assert configure.live_transcript
    assert configure.language == "en"


LIVE = ("gpt-realtime-whisper", "gpt-live-transcribe")


def detection(events: list[dict[str, Any]]) -> Any:
    return events[0]["session"]["audio"]["input"]["turn_detection"]


@pytest.mark.parametrize("model", LIVE)
def test_a_live_model_is_told_by_hand_where_turns_end(scribe: Any, new_talk: Callable[..., Any], model: str) -> None:
    """OpenAI's live models know no VAD: their clients leave `turn_detection` out and commit (protocol §2.12)."""
    assert detection(update(scribe, audio={"input": {"transcription": {"model": model}}})) is None
    assert scribe.commands(Configure)[-1].turn_detection is None
    asked_in_the_url = new_talk(SessionDefaults(transcription_model=model), kind="transcription")
    assert detection(asked_in_the_url.open()) is None
    of_a_key = new_talk(kind="transcription", initial={"audio": {"input": {"transcription": {"model": model}}}})
    assert detection(of_a_key.open()) is None


def test_turn_detection_that_is_asked_for_stays_whatever_the_model(scribe: Any) -> None:
    vad = {"type": "server_vad"}
    live = {"model": "gpt-realtime-whisper"}
    assert detection(update(scribe, audio={"input": {"transcription": live, "turn_detection": vad}}))
    assert detection(update(scribe, audio={"input": {"transcription": {"language": "de"}}}))
    assert detection(update(scribe, audio={"input": {"transcription": live}}))


def test_in_a_conversation_turn_detection_stays_with_a_live_model(talk: Any) -> None:
    audio = {"input": {"transcription": {"model": "gpt-realtime-whisper"}}}
    assert detection(talk.send("session.update", session={"type": "realtime", "audio": audio}))


def test_several_items_are_in_flight_and_complete_in_any_order(scribe: Any) -> None:
    committed = [scribe.backend(InputCommitted(f"u{n}", n * 24_000, (n + 1) * 24_000)) for n in range(3)]
    chain = [(events[0]["previous_item_id"], events[0]["item_id"]) for events in committed]
    assert chain == [(None, "u0"), ("u0", "u1"), ("u1", "u2")]
    texts = {"u2": ["three"], "u0": ["one ", "and a half"], "u1": [""]}
    for item_id, pieces in texts.items():
        deltas = scribe.backend(*[InputTranscriptDelta(item_id, piece) for piece in pieces if piece])
        (completed,) = scribe.backend(InputTranscriptCompleted(item_id, "".join(pieces), 24_000))
        assert "".join(delta["delta"] for delta in deltas) == completed["transcript"] == "".join(pieces)
        assert completed["usage"]["type"] == "tokens"
        assert {event["item_id"] for event in (*deltas, completed)} == {item_id}


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("response.create", {}),
        ("response.cancel", {}),
        ("output_audio_buffer.clear", {}),
        ("conversation.item.truncate", {"item_id": "i", "content_index": 0, "audio_end_ms": 0}),
        (
            "conversation.item.create",
            {"item": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}},
        ),
    ],
)
def test_what_needs_a_model_that_answers_is_refused(scribe: Any, kind: str, fields: dict[str, Any]) -> None:
    error = scribe.refused(kind, **fields)
    assert (error["code"], error["param"]) == ("invalid_value", "type")
    assert kind in error["message"]


def test_its_items_can_be_retrieved_and_deleted(scribe: Any) -> None:
    scribe.user_says("u1", "Hello.")
    assert scribe.retrieved("u1")["content"][0]["transcript"] == "Hello."
    (deleted,) = scribe.send("conversation.item.delete", item_id="u1")
    assert deleted["type"] == "conversation.item.deleted"


def test_the_kind_of_a_session_never_changes(scribe: Any, talk: Any) -> None:
    error = scribe.refused("session.update", session={"type": "realtime"})
    assert (error["code"], error["param"]) == ("invalid_model", "session.type")
    error = talk.refused("session.update", session={"type": "transcription"})
    assert error["message"] == "Passing a transcription session update event to a realtime session is not allowed."


@pytest.mark.parametrize(
    ("session", "param"),
    [
        ({"instructions": "x"}, "session.instructions"),
        ({"audio": {"output": {"voice": "marin"}}}, "session.audio.output"),
        ({"output_modalities": ["text"]}, "session.output_modalities"),
    ],
)
def test_what_only_a_conversation_has_is_unknown(scribe: Any, session: dict[str, Any], param: str) -> None:
    error = scribe.refused("session.update", session={"type": "transcription", **session})
    assert (error["code"], error["param"]) == ("unknown_parameter", param)
