"""Real speech into transcription sessions: dictation by the VAD, and live words of turns that the client ends."""

from __future__ import annotations

import asyncio

import pytest
from speech_references import REFERENCES, clip
from spoken_words import word_error_rate
from wire_session import WireSession, silence

pytestmark = pytest.mark.models

NAMES = ("librivox_0880", "librivox_0930", "goforward", "something", "cards_005", "librivox_0890")
DELTA = "conversation.item.input_audio_transcription.delta"
COMPLETED = "conversation.item.input_audio_transcription.completed"


async def test_utterances_sent_at_once_are_in_flight_together_and_every_word_arrives(spoken_url: str) -> None:
    async with WireSession(f"{spoken_url}?intent=transcription") as session:
        await session.until("session.created")
        speech = b"".join(clip(name).pcm + silence(900) for name in NAMES)
        await session.append(speech, chunk_bytes=len(speech))
        await session.until(lambda _: len(session.since(0, COMPLETED)) >= len(NAMES), within_s=120)
        committed = [event.details("item_id") for event in session.since(0, "input_audio_buffer.committed")]
        texts = {event.details("item_id"): event.details("transcript") for event in session.since(0, COMPLETED)}
        assert len(committed) == len(set(committed)) == len(texts) == len(NAMES)
        for item_id, text in texts.items():
            deltas = [e.details("delta") for e in session.since(0, DELTA) if e.details("item_id") == item_id]
            assert "".join(deltas) == text
        heard = " ".join(texts[item_id] for item_id in committed)
        assert word_error_rate([(" ".join(REFERENCES[name] for name in NAMES), heard)]) <= 0.1
        in_flight, most = 0, 0
        for event in session.events:
            in_flight += (event.type == "input_audio_buffer.committed") - (event.type == COMPLETED)
            most = max(most, in_flight)
        assert most >= 3
        assert session.since(0, "response.created") == []


async def test_a_live_model_writes_before_the_client_ends_the_turn(spoken_url: str) -> None:
    async with WireSession(f"{spoken_url}?intent=transcription&model=gpt-realtime-whisper") as session:
        created = await session.until("session.created")
        assert created.details("session", "audio", "input", "transcription")["model"] == "gpt-realtime-whisper"
        update = {"type": "transcription", "audio": {"input": {"turn_detection": None}}}
        await session.send("session.update", session=update)
        await session.until("session.updated")
        await session.stream(clip("librivox_0920").pcm)
        await session.until(DELTA)
        await asyncio.sleep(0.2)
        await session.send("input_audio_buffer.commit")
        completed = await session.until(COMPLETED)
        committed = session.since(0, "input_audio_buffer.committed")[0]
        deltas = session.since(0, DELTA)
        before = [event for event in deltas if session.events.index(event) < session.events.index(committed)]
        assert before, "words came while the user spoke"
        assert {event.details("item_id") for event in deltas} == {committed.details("item_id")}
        assert "".join(event.details("delta") for event in deltas) == completed.details("transcript")
        assert word_error_rate([(REFERENCES["librivox_0920"], completed.details("transcript"))]) <= 0.2
