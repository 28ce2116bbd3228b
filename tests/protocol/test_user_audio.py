"""The user's side: appended bytes, speech, commits and transcripts (RB-07, RB-10, RB-11, RB-30, RB-48)."""

from __future__ import annotations

import base64
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.g711 import G711Codec
from protocol.backend_events import (
    CommandRefused,
    EngineFault,
    InputCleared,
    InputCommitted,
    InputTranscriptCompleted,
    InputTranscriptDelta,
    InputTranscriptFailed,
    RefusalKind,
    SpeechStarted,
    SpeechStopped,
    TokenLogprob,
)
from protocol.commands import AppendAudio, ClearInput, CommitInput, Configure
from protocol.errors import ProtocolError
from protocol.input_pcm import InputPcm

TRANSCRIPTION = "conversation.item.input_audio_transcription"


def wav(pcm: bytes, rate_hz: int = 24_000, channels: int = 1, bits: int = 16, size: int | None = None) -> bytes:
    fmt = struct.pack("<HHIIHH", 1, channels, rate_hz, rate_hz * channels * bits // 8, channels * bits // 8, bits)
    data = struct.pack("<4sI", b"data", len(pcm) if size is None else size) + pcm
    junk = struct.pack("<4sI", b"LIST", 3) + b"abc\0"
    body = b"WAVE" + struct.pack("<4sI", b"fmt ", 16) + fmt + junk + data
    return struct.pack("<4sI", b"RIFF", len(body)) + body


def appended(talk: Any) -> bytes:
    return b"".join(command.pcm for command in talk.commands(AppendAudio))


# --- bytes ---------------------------------------------------------------------------------------------------------


def test_a_sample_split_across_two_appends_is_joined(talk: Any) -> None:
    assert talk.append(b"\x01") == []
    assert talk.commands(AppendAudio) == []
    talk.append(b"\x02\x03")
    talk.append(b"\x04")
    assert [command.pcm for command in talk.commands(AppendAudio)] == [b"\x01\x02", b"\x03\x04"]


@pytest.mark.parametrize("ending", ["input_audio_buffer.commit", "input_audio_buffer.clear"])
def test_a_stray_byte_does_not_shift_the_next_turn(talk: Any, ending: str) -> None:
    talk.append(b"\x01\x02\x03")
    talk.send(ending)
    talk.append(b"\x04\x05")
    assert appended(talk) == b"\x01\x02\x04\x05"


@given(st.binary(max_size=64), st.lists(st.integers(1, 7), min_size=1))
def test_any_cutting_of_the_audio_gives_the_same_samples(audio: bytes, sizes: list[int]) -> None:
    pcm, out, at = InputPcm(G711Codec()), b"", 0
    while at < len(audio):
        for size in sizes:
            piece = pcm.append(audio[at : at + size])
            assert len(piece) % 2 == 0
            out += piece
            at += size
    assert out == audio[: len(audio) // 2 * 2]


def test_a_wav_header_is_taken_off(talk: Any) -> None:
    talk.append(b"\x07")
    for _ in range(2):
        talk.append(wav(b"\x01\x02\x03\x04"))
    assert appended(talk) == b"\x01\x02\x03\x04" * 2


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF, 1_000_000])
def test_a_wav_header_of_a_stream_means_until_the_end(talk: Any, size: int) -> None:
    talk.append(wav(b"\x01\x02\x03\x04", size=size))
    assert appended(talk) == b"\x01\x02\x03\x04"


def test_what_follows_the_audio_in_a_wav_is_no_audio(talk: Any) -> None:
    talk.append(wav(b"\x01\x02") + b"LIST\x02\0\0\0ab")
    assert appended(talk) == b"\x01\x02"


@pytest.mark.parametrize(
    "header",
    [
        wav(b"", rate_hz=16_000),
        wav(b"", channels=2),
        wav(b"", bits=8),
        wav(b"")[:40],
        b"RIFF\0\0\0\0WAVE",
    ],
)
def test_a_wav_of_another_format_is_refused_and_raw_audio_goes_on(talk: Any, header: bytes) -> None:
    error = talk.refused("input_audio_buffer.append", audio=base64.b64encode(header).decode())
    assert "raw PCM16" in error["message"]
    assert error["param"] == "audio"
    talk.append(b"\x01\x02")
    assert appended(talk) == b"\x01\x02"


def test_audio_that_only_looks_like_the_start_of_a_header_is_audio() -> None:
    assert InputPcm(G711Codec()).append(b"RIFFabcdWAVX") == b"RIFFabcdWAVX"
    with pytest.raises(ProtocolError):
        InputPcm(G711Codec()).append(b"RIFFabcdWAVE")


# --- turns ---------------------------------------------------------------------------------------------------------


def test_a_spoken_turn_carries_one_item_id_and_whole_milliseconds(talk: Any) -> None:
    events = talk.backend(
        SpeechStarted("item_u", 2_399), SpeechStopped("item_u", 48_000), InputCommitted("item_u", 2_399, 48_000)
    )
    assert [event["type"] for event in events] == [
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
    ]
    started, stopped, committed, added, done = events
    assert (started["item_id"], started["audio_start_ms"]) == ("item_u", 99)
    assert (stopped["item_id"], stopped["audio_end_ms"]) == ("item_u", 2000)
    assert (committed["item_id"], committed["previous_item_id"]) == ("item_u", None)
    assert added["item"] == done["item"]
    assert added["item"] == {
        "id": "item_u",
        "object": "realtime.item",
        "type": "message",
        "status": "completed",
        "role": "user",
        "content": [{"type": "input_audio", "transcript": None}],
    }


def test_the_chain_of_previous_items_rebuilds_the_dialogue(talk: Any) -> None:
    talk.user_says("u1", "What is the capital of France?")
    talk.agent_says("r1", "a1", ("Paris.", 4800))
    talk.user_says("u2", "And of Italy?")
    talk.agent_says("r2", "a2", ("Rome.", 4800))
    chain = {event["item"]["id"]: event["previous_item_id"] for event in talk.sent("conversation.item.added")}
    assert chain == {"u1": None, "a1": "u1", "u2": "a1", "a2": "u2"}
    assert [event["previous_item_id"] for event in talk.sent("input_audio_buffer.committed")] == [None, "a1"]
    assert [event["previous_item_id"] for event in talk.sent("conversation.item.done")] == [None, "u1", "a1", "u2"]


def test_a_client_cannot_take_the_id_of_speech_that_goes_on(talk: Any) -> None:
    talk.backend(SpeechStarted("item_u", 0))
    content = [{"type": "input_text", "text": "me first"}]
    item = {"id": "item_u", "type": "message", "role": "user", "content": content}
    assert talk.refused("conversation.item.create", item=item)["code"] == "item_create_duplicate_item_id"
    assert talk.backend(InputCommitted("item_u", 0, 24_000))[0]["item_id"] == "item_u"


def test_commit_and_clear_go_to_the_backend_with_the_clients_event_id(talk: Any) -> None:
    assert talk.send("input_audio_buffer.commit", event_id="c1") == []
    assert talk.send("input_audio_buffer.clear", event_id="c2") == []
    assert talk.commands(CommitInput) == [CommitInput("c1")]
    assert talk.commands(ClearInput) == [ClearInput("c2")]
    assert [event["type"] for event in talk.backend(InputCleared())] == ["input_audio_buffer.cleared"]


def test_a_commit_of_too_little_audio_is_a_clean_error(talk: Any) -> None:
    (event,) = talk.backend(CommandRefused(RefusalKind.INPUT_TOO_SHORT, "c2", buffered=960))
    assert event["error"] == {
        "type": "invalid_request_error",
        "code": "input_audio_buffer_commit_empty",
        "message": "Error committing input audio buffer: buffer too small. Expected at least 100ms of audio, "
        "but buffer only has 40.00ms of audio.",
        "param": None,
        "event_id": "c2",
    }


def test_the_output_buffer_is_the_clients_on_a_websocket(talk: Any) -> None:
    assert "WebSocket" in talk.refused("output_audio_buffer.clear")["message"]


# --- transcripts ---------------------------------------------------------------------------------------------------


def transcribed(talk: Any, model: str) -> None:
    talk.update(audio={"input": {"transcription": {"model": model}}})


def test_deltas_add_up_to_the_transcript(talk: Any) -> None:
    transcribed(talk, "gpt-4o-mini-transcribe")
    talk.backend(
        InputCommitted("u", 0, 24_000), InputTranscriptDelta("u", "I would "), InputTranscriptDelta("u", "like")
    )
    (completed,) = talk.backend(InputTranscriptCompleted("u", "I would like", 24_000))
    deltas = talk.sent(f"{TRANSCRIPTION}.delta")
    assert "".join(event["delta"] for event in deltas) == completed["transcript"] == "I would like"
    assert {event["content_index"] for event in (*deltas, completed)} == {0}
    assert completed["usage"] == {
        "type": "tokens",
        "total_tokens": 13,
        "input_tokens": 10,
        "input_token_details": {"text_tokens": 0, "audio_tokens": 10},
        "output_tokens": 3,
    }
    assert talk.backend(InputTranscriptDelta("u2", "")) == []


def test_whisper_1_is_counted_in_seconds(talk: Any) -> None:
    transcribed(talk, "whisper-1")
    talk.user_says("u", "Hi.", 0, 36_000)
    assert talk.sent(f"{TRANSCRIPTION}.completed")[0]["usage"] == {"type": "duration", "seconds": 1.5}


def test_without_transcription_the_words_enter_the_conversation_silently(talk: Any) -> None:
    talk.backend(InputCommitted("u", 0, 24_000))
    assert talk.backend(InputTranscriptDelta("u", "Hi"), InputTranscriptCompleted("u", "Hi.", 24_000)) == []
    assert talk.retrieved("u")["content"] == [{"type": "input_audio", "transcript": "Hi."}]


def test_transcription_switched_on_within_an_item_begins_with_the_next(talk: Any) -> None:
    talk.backend(InputCommitted("u", 0, 24_000), InputTranscriptDelta("u", "Hi"))
    transcribed(talk, "whisper-1")
    assert talk.backend(InputTranscriptDelta("u", " you"), InputTranscriptCompleted("u", "Hi you", 24_000)) == []
    assert len(talk.user_says("u2", "Bye")) == 4


def test_a_failed_transcription_is_told_without_nulls(talk: Any) -> None:
    talk.backend(InputCommitted("u0", 0, 24_000))
    assert talk.backend(InputTranscriptFailed("u0", EngineFault("timeout", "Too slow."))) == []
    transcribed(talk, "whisper-1")
    talk.backend(InputCommitted("u", 0, 24_000))
    (failed,) = talk.backend(InputTranscriptFailed("u", EngineFault("timeout", "Too slow.")))
    assert failed["type"] == f"{TRANSCRIPTION}.failed"
    assert failed["error"] == {"type": "server_error", "code": "timeout", "message": "Too slow."}


def test_a_transcript_of_a_deleted_item_goes_nowhere(talk: Any) -> None:
    transcribed(talk, "whisper-1")
    talk.backend(InputCommitted("u", 0, 24_000))
    talk.send("conversation.item.delete", item_id="u")
    (event,) = talk.backend(InputTranscriptCompleted("u", "Hi.", 24_000))
    assert event["transcript"] == "Hi."
    assert talk.session.conversation.items == ()


# --- log probabilities ---------------------------------------------------------------------------------------------

TOKENS = (TokenLogprob("Grü", -0.5, "Grü".encode()), TokenLogprob("\ufffd", -0.25, b"\xc3"))
SHOWN = [
    {"token": "Grü", "logprob": -0.5, "bytes": [71, 114, 195, 188]},
    {"token": "\ufffd", "logprob": -0.25, "bytes": [195]},
]
INCLUDE = ["item.input_audio_transcription.logprobs"]


def said(talk: Any, item_id: str, logprobs: tuple[TokenLogprob, ...] | None = TOKENS) -> list[dict[str, Any]]:
    """Return what is told of an item's transcript."""
    talk.backend(InputCommitted(item_id, 0, 24_000))
    delta, completed = talk.backend(
        InputTranscriptDelta(item_id, "Hi.", logprobs), InputTranscriptCompleted(item_id, "Hi.", 24_000, logprobs)
    )
    return [delta, completed]


def test_log_probabilities_are_told_when_asked_for(talk: Any) -> None:
    transcribed(talk, "gpt-4o-transcribe")
    talk.update(include=INCLUDE)
    assert talk.commands(Configure)[-1].transcript_logprobs
    assert [event["logprobs"] for event in said(talk, "u")] == [SHOWN, SHOWN]
    assert [event["logprobs"] for event in said(talk, "silence", ())] == [[], []]


def test_log_probabilities_that_the_recogniser_does_not_know_are_left_out(talk: Any) -> None:
    transcribed(talk, "gpt-4o-transcribe")
    talk.update(include=INCLUDE)
    assert not any("logprobs" in event for event in said(talk, "u", None))


@pytest.mark.parametrize("include", [None, []])
def test_nobody_is_told_log_probabilities_unasked(talk: Any, include: list[str] | None) -> None:
    transcribed(talk, "gpt-4o-transcribe")
    talk.update(include=include)
    assert not talk.commands(Configure)[-1].transcript_logprobs
    assert not any("logprobs" in event for event in said(talk, "u"))


def test_without_transcripts_nothing_is_asked_of_the_recogniser_for_their_sake(talk: Any) -> None:
    talk.update(include=INCLUDE)
    assert not talk.commands(Configure)[-1].transcript_logprobs


def test_whether_log_probabilities_are_told_is_settled_with_an_items_first_event(talk: Any) -> None:
    transcribed(talk, "gpt-4o-transcribe")
    talk.backend(InputCommitted("u", 0, 24_000), InputTranscriptDelta("u", "H", TOKENS))
    talk.update(include=INCLUDE)
    (completed,) = talk.backend(InputTranscriptCompleted("u", "Hi.", 24_000, TOKENS))
    assert "logprobs" not in completed
    assert said(talk, "next")[1]["logprobs"] == SHOWN


def test_words_of_an_utterance_that_is_dropped_are_remembered_by_nobody(talk: Any) -> None:
    talk.update(audio={"input": {"transcription": {"model": "gpt-realtime-whisper"}, "turn_detection": None}})
    assert len(talk.backend(InputTranscriptDelta("item_x", "I would"))) == 1
    talk.send("input_audio_buffer.clear")
    talk.backend(InputCleared())
    assert talk.session._input._wanted == {}
    talk.backend(InputTranscriptDelta("item_y", "Good"), InputTranscriptDelta("item_z", "Well"))
    assert talk.session._input._wanted.keys() == {"item_z"}
    error = talk.refused(
        "conversation.item.create", item={"id": "item_z", "type": "message", "role": "user", "content": []}
    )
    assert error["code"] == "item_create_duplicate_item_id"
    talk.user_says("item_z", "Well.")
    assert talk.session._input._wanted == {}
