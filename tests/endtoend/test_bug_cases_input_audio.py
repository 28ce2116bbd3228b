"""RB-10, 11, 14, 16, 29, 30 of the real-world bug cases, with real engines: what the gateway hears."""

from __future__ import annotations

import asyncio
import base64
import re
import struct
from typing import Any

import jiwer
import pytest
from offline_speech import OfflineSpeech, hum, noise
from recording_chat_server import RecordingChatServer
from spoken_words import digits, normal_words
from wire_session import SERVER_VAD, WireSession, silence

from clients.wav_audio import RATE_HZ

pytestmark = pytest.mark.models

FOX = "The quick brown fox jumps over the lazy dog."


def odd_chunks(pcm: bytes) -> list[bytes]:
    """Return `pcm` in pieces of 1, 3, 5, 7 … bytes for its first 4 kB, then of 961."""
    found, position, size = [], 0, 1
    while position < len(pcm):
        length = size if position < 4_000 else 961
        found.append(pcm[position : position + length])
        position += length
        size += 2
    return found


async def test_rb10_a_sample_split_between_appends_does_no_harm(
    spoken_url: str, llm: RecordingChatServer, speech: OfflineSpeech
) -> None:
    pcm = speech.say(FOX).pcm
    async with WireSession(spoken_url) as session:
        await session.listen(None)
        control = normal_words(await session.transcript_of(pcm))
        assert "fox" in control
        for chunks in ([pcm[start : start + 961] for start in range(0, len(pcm), 961)], odd_chunks(pcm)):
            for chunk in chunks[:-1]:
                await session.send_audio(chunk)
            assert normal_words(await session.transcript_of(chunks[-1])) == control
        assert normal_words(await session.transcript_of(pcm + b"\x7f")) == control
        await session.send("input_audio_buffer.clear")
        assert normal_words(await session.transcript_of(pcm)) == control
        assert [event for event in session.events if event.type == "error"] == []


def wav_header(data_bytes: int) -> bytes:
    return (
        b"RIFF"
        + struct.pack("<I", 36 + data_bytes)
        + b"WAVEfmt "
        + struct.pack("<IHHIIHH", 16, 1, 1, RATE_HZ, 2 * RATE_HZ, 2, 16)
        + b"data"
        + struct.pack("<I", data_bytes)
    )


async def test_rb11_wav_headers_are_no_speech(spoken_url: str, llm: RecordingChatServer, speech: OfflineSpeech) -> None:
    pcm = speech.say("please book a table for two").pcm

    async def heard(before: list[bytes], first: bytes) -> str:
        async with WireSession(spoken_url) as session:
            await session.listen(SERVER_VAD)
            for chunk in before:
                await session.stream(silence(400)[: -len(chunk)] if not chunk else chunk + silence(400))
            await session.update()
            assert not [event for event in session.events if event.type == "input_audio_buffer.speech_started"]
            await session.stream(first + pcm + silence(1_200))
            committed = await session.until("input_audio_buffer.committed")
            text = await session.transcript(committed.details("item_id"))
            assert len([event for event in session.events if event.type == "input_audio_buffer.committed"]) == 1
            return normal_words(text)

    header = wav_header(len(silence(400)))
    control, with_headers = await asyncio.gather(
        heard([silence(0)] * 0, silence(2_000)), heard([header] * 5, wav_header(len(pcm)))
    )
    assert with_headers == control


SOFT_STARTS = (
    "Fifteen silver foxes",
    "She sells fresh fish",
    "Have you seen Harry",
    "Four fine violins",
    "Thursday at three",
)
FIRST_WORDS = {"four": "four|for"}
"""What sounds the same."""

LEAD_MS = 1_500


@pytest.mark.parametrize("text", SOFT_STARTS)
async def test_rb14_the_first_word_is_heard_whole(
    spoken_url: str, llm: RecordingChatServer, speech: OfflineSpeech, text: str
) -> None:
    said = speech.say(text).pcm
    pcm = silence(LEAD_MS) + said + silence(1_200)
    first_word = FIRST_WORDS.get(normal_words(text).split()[0], normal_words(text).split()[0])

    async def spoken(prefix_padding_ms: int) -> tuple[int, str, bytes]:
        async with WireSession(spoken_url) as session:
            await session.listen({**SERVER_VAD, "prefix_padding_ms": prefix_padding_ms})
            await session.stream(pcm)
            started = await session.until("input_audio_buffer.speech_started")
            transcript = await session.transcript(started.details("item_id"))
            audio = item_audio(await session.retrieve(started.details("item_id")))
            return started.details("audio_start_ms"), transcript, audio

    async def control() -> str:
        async with WireSession(spoken_url) as session:
            await session.listen(None)
            return await session.transcript_of(pcm)

    whole, (start_ms, heard, audio), (bare_start_ms, _, _) = await asyncio.gather(control(), spoken(300), spoken(0))
    assert LEAD_MS - 300 - 250 <= start_ms <= LEAD_MS
    assert 200 <= bare_start_ms - start_ms <= 400
    assert said[: len(said) // 2] in audio  # to the sample
    if re.match(first_word, normal_words(whole)):
        assert re.match(first_word, normal_words(heard)), heard


@pytest.mark.parametrize("silence_duration_ms", [1_100, 300])
async def test_rb16_a_dictated_number_waits_for_the_silence_that_was_asked_for(
    spoken_url: str, llm: RecordingChatServer, speech: OfflineSpeech, silence_duration_ms: int
) -> None:
    groups = [speech.say(text).pcm for text in ("five five five", "zero one two", "four four nine eight")]
    pcm = silence(500) + silence(700).join(groups) + silence(2_000)
    end_ms = (len(pcm) // 2) * 1_000 // RATE_HZ - 2_000
    llm.answer("Noted.")
    async with WireSession(spoken_url) as session:
        await session.listen({**SERVER_VAD, "silence_duration_ms": silence_duration_ms})
        await session.stream(pcm)
        last = await session.until(
            lambda event: event.type == "input_audio_buffer.speech_stopped" and event.details("audio_end_ms") > end_ms
        )
        await session.reply(after=session.events.index(last))
        committed = [
            event.details("item_id") for event in session.events if event.type == "input_audio_buffer.committed"
        ]
        said = "".join([digits(await session.transcript(item_id)) for item_id in committed])
        audio = b"|".join([item_audio(await session.retrieve(item_id)) for item_id in committed])
        assert all(group in audio for group in groups)  # to the sample: the recogniser was given all that was said
        assert distance(said, "5550124498") <= 1, said  # it takes a first "five" for "by" at some offsets
        if silence_duration_ms == 1_100:
            assert len(committed) == 1
            assert len([event for event in session.events if event.type == "response.created"]) == 1
            assert abs(last.details("audio_end_ms") - end_ms - 1_100) <= 300
        else:
            assert len(committed) >= 3
            assert one_response_at_a_time(session)


def item_audio(item: dict[str, Any]) -> bytes:
    return base64.b64decode(item["content"][0]["audio"])


def distance(said: str, wanted: str) -> int:
    """Return how many digits must be added, dropped or changed."""
    return round(jiwer.cer(wanted, said) * len(wanted))


def one_response_at_a_time(session: WireSession) -> bool:
    running = 0
    for event in session.events:
        running += (event.type == "response.created") - (event.type == "response.done")
        if running > 1:
            return False
    return True


NOISE_DBFS = -50.0


@pytest.mark.parametrize(
    "pcm",
    [
        pytest.param(silence(3_000), id="silence"),
        pytest.param(noise(3_000, NOISE_DBFS), id="noise"),
        pytest.param(hum(2_000, -40.0), id="hum"),
    ],
)
async def test_rb29_silence_noise_and_hum_have_no_words(spoken_url: str, llm: RecordingChatServer, pcm: bytes) -> None:
    async with WireSession(spoken_url) as session:
        await session.listen(None)
        assert normal_words(await session.transcript_of(pcm)) == ""


async def test_rb29_noise_is_no_turn(spoken_url: str, llm: RecordingChatServer) -> None:
    async with WireSession(spoken_url) as session:
        await session.listen(SERVER_VAD)
        mark = session.mark
        await session.stream(noise(20_000, NOISE_DBFS))
        await session.update()
        assert [event.type for event in session.since(mark)] == ["session.updated"]


@pytest.mark.parametrize("model", ["gpt-realtime-whisper", "gpt-4o-transcribe", "whisper-1"])
async def test_rb30_partial_transcripts_add_up_to_the_final_one(
    spoken_url: str, llm: RecordingChatServer, speech: OfflineSpeech, model: str
) -> None:
    text = "I would like a table for four at half past seven, near the window please."
    async with WireSession(spoken_url) as session:
        audio: dict[str, Any] = {"input": {"turn_detection": SERVER_VAD, "transcription": {"model": model}}}
        await session.update(audio=audio)
        await session.stream(silence(300) + speech.say(text).pcm + silence(1_200))
        await session.reply(after=0)
        await session.healthy_tail()
        items = {event.details("item_id") for event in session.events if event.type == "input_audio_buffer.committed"}
        said = []
        for item_id in items:
            mine = [
                event
                for event in session.events
                if "input_audio_transcription" in event.type and event.details("item_id") == item_id
            ]
            *deltas, final = mine
            assert final.type.endswith(".completed")
            assert {event.type for event in deltas} <= {"conversation.item.input_audio_transcription.delta"}
            assert {event.details("content_index") for event in mine} == {0}
            if deltas:
                assert "".join(event.details("delta") for event in deltas) == final.details("transcript")
            said.append(normal_words(final.details("transcript")))
        assert " ".join(said).count("table for") == 1
