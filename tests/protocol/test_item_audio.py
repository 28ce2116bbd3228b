"""Audio inside an item that the client writes: it is kept, and recognised if no transcript came with it."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from gateway.g711 import G711Codec
from protocol.audio_format import AudioFormat
from protocol.backend_events import EngineFault, InputTranscriptCompleted, InputTranscriptDelta, InputTranscriptFailed
from protocol.commands import RecogniseItem
from protocol.item_audio import LONGEST_PENDING_S, MOST_PENDING

PCM = bytes(range(256)) * 20


def spoken(audio: bytes = PCM, **part: Any) -> dict[str, Any]:
    content = {"type": "input_audio", "audio": base64.b64encode(audio).decode(), **part}
    return {"type": "message", "role": "user", "content": [content]}


def test_it_is_recognised_and_its_words_are_told_as_those_of_committed_audio(talk: Any) -> None:
    talk.update(audio={"input": {"transcription": {"model": "gpt-4o-transcribe"}}})
    added, done = talk.send("conversation.item.create", item={**spoken(), "id": "u1"})
    assert added["item"]["content"] == done["item"]["content"] == [{"type": "input_audio", "transcript": None}]
    assert talk.commands(RecogniseItem) == [RecogniseItem("u1", PCM)]
    delta, completed = talk.backend(InputTranscriptDelta("u1", "Hi."), InputTranscriptCompleted("u1", "Hi.", 2_560))
    assert (delta["delta"], completed["transcript"]) == ("Hi.", "Hi.")
    assert talk.retrieved("u1")["content"][0]["transcript"] == "Hi."


def test_its_audio_is_kept_for_retrieve(talk: Any) -> None:
    talk.send("conversation.item.create", item={**spoken(), "id": "u1"})
    assert base64.b64decode(talk.retrieved("u1")["content"][0]["audio"]) == PCM


def test_audio_with_a_transcript_is_not_recognised(talk: Any) -> None:
    talk.send("conversation.item.create", item={**spoken(transcript="Hello."), "id": "u1"})
    assert talk.commands(RecogniseItem) == []
    assert talk.retrieved("u1")["content"][0]["transcript"] == "Hello."
    assert "audio" in talk.retrieved("u1")["content"][0]


def test_a_wav_header_is_taken_off(talk: Any) -> None:
    fmt = (16).to_bytes(4, "little") + bytes.fromhex("0100010080bb0000 00770100 02001000".replace(" ", ""))
    fmt = fmt[:8] + (24_000).to_bytes(4, "little") + fmt[12:]
    wav = b"RIFF\0\0\0\0WAVEfmt " + fmt + b"data" + len(PCM).to_bytes(4, "little") + PCM
    talk.send("conversation.item.create", item=spoken(wav))
    assert talk.commands(RecogniseItem)[0].pcm == PCM


def test_a_recogniser_that_fails_leaves_the_item_without_words(talk: Any) -> None:
    talk.update(audio={"input": {"transcription": {"model": "gpt-4o-transcribe"}}})
    talk.send("conversation.item.create", item={**spoken(), "id": "u1"})
    (failed,) = talk.backend(InputTranscriptFailed("u1", EngineFault("asr_failed", "It broke.")))
    assert failed["item_id"] == "u1"
    assert failed["error"]["code"] == "asr_failed"
    assert talk.retrieved("u1")["content"][0]["transcript"] == ""


def test_more_than_the_recogniser_is_given_at_a_time_is_refused_and_adds_nothing(talk: Any) -> None:
    minutes = bytes(2 * 24_000 * 140)
    for _ in range(2):
        assert len(talk.send("conversation.item.create", item=spoken(minutes))) == 2
    error = talk.refused("conversation.item.create", item=spoken(minutes))
    assert (error["code"], error["param"]) == ("invalid_value", "item.content")
    assert str(LONGEST_PENDING_S) in error["message"]
    assert len(talk.session.conversation.items) == 2
    talk.refused("response.create", response={"conversation": "none", "input": [spoken(minutes)]})
    first = talk.commands(RecogniseItem)[0].item_id
    talk.backend(InputTranscriptCompleted(first, "Words.", 24_000 * 140))
    assert len(talk.send("conversation.item.create", item=spoken(minutes))) == 2


def test_more_recordings_than_the_recogniser_is_given_at_a_time_are_refused_however_short_they_are(talk: Any) -> None:
    asked = {"conversation": "none", "input": [spoken(b"")] * (MOST_PENDING + 1)}
    assert str(MOST_PENDING) in talk.refused("response.create", response=asked)["message"]
    assert talk.commands(RecogniseItem) == []
    for _ in range(MOST_PENDING):
        assert len(talk.send("conversation.item.create", item=spoken(b""))) == 2
    error = talk.refused("conversation.item.create", item=spoken(b""))
    assert (error["code"], error["param"]) == ("invalid_value", "item.content")
    first = talk.commands(RecogniseItem)[0].item_id
    talk.backend(InputTranscriptCompleted(first, "", 0))
    assert len(talk.send("conversation.item.create", item=spoken(b""))) == 2


def test_an_item_that_was_deleted_meanwhile_gets_no_words(talk: Any) -> None:
    talk.send("conversation.item.create", item={**spoken(), "id": "u1"})
    talk.send("conversation.item.delete", item_id="u1")
    talk.backend(InputTranscriptCompleted("u1", "Hi.", 2_560))
    assert talk.session.conversation.items == ()


@pytest.mark.parametrize("wire", ["audio/pcmu", "audio/pcma"])
def test_it_is_in_the_sessions_input_format(talk: Any, wire: str) -> None:
    talk.update(audio={"input": {"format": {"type": wire}}})
    talk.append(PCM[:1_000])  # what is streamed and what is in an item know nothing of each other
    talk.send("conversation.item.create", item={**spoken(), "id": "u1"})
    talk.send("response.create", response={"input": [spoken()]})
    samples = G711Codec().decoder(AudioFormat(wire)).feed(PCM)
    assert [command.pcm for command in talk.commands(RecogniseItem)] == [samples, samples]
    error = talk.refused("conversation.item.create", item=spoken(b"RIFF\0\0\0\0WAVE"))
    assert "G.711" in error["message"]


def test_a_recording_too_long_to_be_recognised_is_refused_before_it_is_decoded(talk: Any) -> None:
    talk.update(audio={"input": {"format": {"type": "audio/pcmu"}}})
    error = talk.refused("conversation.item.create", item=spoken(bytes(8_000 * LONGEST_PENDING_S + 1)))
    assert error["param"] == "item.content[0].audio"
    talk.send("conversation.item.create", item={**spoken(bytes(8_000 * LONGEST_PENDING_S)), "id": "u1"})
    assert len(talk.commands(RecogniseItem)[0].pcm) == 48_000 * LONGEST_PENDING_S


def test_only_the_part_that_was_recorded_shows_audio(talk: Any) -> None:
    item = spoken()
    item["content"] = [{"type": "input_text", "text": "Listen:"}, *item["content"]]
    talk.send("conversation.item.create", item={**item, "id": "u1"})
    text, audio = talk.retrieved("u1")["content"]
    assert "audio" not in text
    assert base64.b64decode(audio["audio"]) == PCM


def test_audio_is_left_out_where_the_event_would_be_too_large(talk: Any) -> None:
    long = spoken(bytes(2 * 24_000 * 14), transcript="x" * 200_000)
    talk.send("conversation.item.create", item={**long, "id": "u1"})
    (part,) = talk.retrieved("u1")["content"]
    assert "audio" not in part
    assert len(part["transcript"]) == 200_000
