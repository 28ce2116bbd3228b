"""Telephone audio with real ears and a real voice: people are understood in G.711 and answered understandably."""

from __future__ import annotations

import asyncio
import base64
import math
from typing import Any

import pytest
from offline_speech import OfflineSpeech
from recording_chat_server import RecordingChatServer
from speech_references import REFERENCES, clip
from spoken_words import word_error_rate
from wire_session import SERVER_VAD, WireSession

from gateway.g711 import G711Codec
from protocol.audio_format import AudioFormat, encoded

pytestmark = pytest.mark.models

REPLY = "The train to the old harbour leaves at seven. You can buy a ticket on board."
FORMATS = [AudioFormat.PCMU, AudioFormat.PCMA]
PACKET_BYTES = 160
"""20 ms, as telephone gateways send them."""


def spoken(name: str, audio_format: AudioFormat) -> bytes:
    """Return a clip and a second of silence in `audio_format`."""
    return encoded(clip(name).pcm + bytes(48_000), audio_format, G711Codec())


def decoded(audio: bytes, audio_format: AudioFormat) -> bytes:
    return G711Codec().decoder(audio_format).feed(audio)


async def understood(url: str, audio_format: AudioFormat) -> list[tuple[str, str]]:
    """Say every clip, one turn each; return (reference, transcript) pairs."""
    async with WireSession(url) as session:
        session_ = await session.listen(None)
        shown = await session.update(audio={"input": {"format": audio_format.to_wire()}})
        assert shown["audio"]["input"] == {**session_["audio"]["input"], "format": audio_format.to_wire()}
        return [(REFERENCES[name], await session.transcript_of(spoken(name, audio_format))) for name in REFERENCES]


async def test_people_are_understood_in_g711_as_well_as_in_pcm(spoken_url: str) -> None:
    wide = word_error_rate(await understood(spoken_url, AudioFormat.PCM))
    for audio_format in FORMATS:
        pairs = await understood(spoken_url, audio_format)
        narrow = word_error_rate(pairs)
        print(f"word error rate in {audio_format.words} {narrow:.3f}, in PCM {wide:.3f}")
        assert narrow <= wide + 0.05, pairs


@pytest.mark.parametrize("audio_format", FORMATS, ids=["µ-law", "A-law"])
async def test_a_telephone_call_is_answered_understandably(
    spoken_url: str, llm: RecordingChatServer, speech: OfflineSpeech, audio_format: AudioFormat
) -> None:
    llm.answer(REPLY)
    wire = audio_format.to_wire()
    async with WireSession(spoken_url) as session:
        await session.listen(SERVER_VAD)
        await session.update(audio={"input": {"format": wire}, "output": {"format": wire}})
        await session.append(spoken("goforward", audio_format), chunk_bytes=PACKET_BYTES)
        stopped = await session.until("input_audio_buffer.speech_stopped")
        reply = await session.reply(after=0)
        assert reply.status == "completed"
        assert reply.done.details("response", "audio", "output", "format") == wire
        assert word_error_rate([(REFERENCES["goforward"], await session.transcript(stopped.details("item_id")))]) == 0
        heard = await asyncio.to_thread(speech.recognise, decoded(reply.audio, audio_format))
        assert word_error_rate([(reply.transcript, heard)]) <= 0.1, (reply.transcript, heard)

        # The client may truncate at the last byte that it got, and no further; the item comes back as it was sent.
        length_ms = math.ceil(len(reply.audio) / 8)
        truncated: dict[str, Any] = {"item_id": reply.item_id(), "content_index": 0}
        await session.send("conversation.item.truncate", **truncated, audio_end_ms=length_ms)
        answer = await session.until(lambda event: event.type in ("conversation.item.truncated", "error"))
        assert answer.details("audio_end_ms") == length_ms
        item = await session.retrieve(reply.item_id())
        assert base64.b64decode(item["content"][0]["audio"]) == reply.audio


async def test_how_probable_each_token_was_is_told_to_who_asks(spoken_url: str) -> None:
    async with WireSession(spoken_url) as session:
        await session.listen(None, include=["item.input_audio_transcription.logprobs"])
        transcript = await session.transcript_of(clip("librivox_0880").pcm)
        for event in session.since(0):
            if event.type.startswith("conversation.item.input_audio_transcription."):
                tokens = event.details("logprobs")
                assert "".join(token["token"] for token in tokens) == transcript
                assert bytes(byte for token in tokens for byte in token["bytes"]).decode() == transcript
                assert all(-5 < token["logprob"] <= 0 for token in tokens)
        kinds = [event.type.rsplit(".", 1)[1] for event in session.since(0) if "transcription." in event.type]
        assert kinds == ["delta", "completed"]
