"""All engines real: the stock SDKs speak with recordings of people and are understood, and understandably answered."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from agents import set_tracing_disabled
from agents.realtime import RealtimeAgent, RealtimeRunner
from offline_speech import OfflineSpeech
from openai import AsyncOpenAI
from openai.resources.realtime.realtime import AsyncRealtimeConnection
from speech_references import REFERENCES, clip
from spoken_words import normal_words, word_error_rate
from wire_session import DEADLINE_S

from clients.microphone import Microphone, Utterance
from clients.wav_audio import RATE_HZ

pytestmark = pytest.mark.models

set_tracing_disabled(True)

QUIET_S = 1.5
"""Silence after a clip after which its turn must be over (endpointing 500 ms), with room for a busy machine."""


class Talk:
    """What a spoken conversation through a stock client brought, whichever the client."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.arrived = asyncio.Condition()

    async def take(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        async with self.arrived:
            self.arrived.notify_all()

    async def until(self, holds: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(DEADLINE_S), self.arrived:
                await self.arrived.wait_for(holds)
        except TimeoutError:
            quiet = ("response.output_audio.delta", "response.output_audio_transcript.delta")
            told = [(e["type"], e.get("audio_end_ms")) for e in self.events if e["type"] not in quiet]
            pytest.fail(f"the turn has not settled: {told[-40:]}")

    def of(self, *kinds: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] in kinds]

    def settled(self, utterance: Utterance) -> bool:
        """Say whether all turns are answered and transcribed, and the last of them is of the utterance."""
        started = len(self.of("input_audio_buffer.speech_started"))
        stopped = self.of("input_audio_buffer.speech_stopped")
        if not stopped or len(stopped) != started or stopped[-1]["audio_end_ms"] < utterance.onset_ms:
            return False
        transcribed = self.of("conversation.item.input_audio_transcription.completed")
        created, done = self.of("response.created"), self.of("response.done")
        return len(transcribed) == started and len(created) == len(done) >= started

    def words(self, begin: int) -> str:
        """Return what was heard since event `begin`, turns in the order in which they were committed."""
        texts = {
            event["item_id"]: event["transcript"]
            for event in self.of("conversation.item.input_audio_transcription.completed")
        }
        committed = [event for event in self.events[begin:] if event["type"] == "input_audio_buffer.committed"]
        return " ".join(texts.get(event["item_id"], "") for event in committed)

    def replies(self) -> list[tuple[str, bytes]]:
        """Return text and audio of each whole reply."""
        found = []
        for done in self.of("response.done"):
            if done["response"]["status"] == "cancelled" or not done["response"]["output"]:
                continue
            item = done["response"]["output"][0]
            audio = [
                base64.b64decode(e["delta"])
                for e in self.of("response.output_audio.delta")
                if e["item_id"] == item["id"]
            ]
            found.append((item["content"][0]["transcript"], b"".join(audio)))
        return found


async def speak(
    talk: Talk, microphone: Microphone, names: list[str], hear: Callable[[str, int], Awaitable[None]]
) -> list[tuple[str, str]]:
    """Say each clip and `hear` its answer (item id, ms) to the end; return (reference, transcript) pairs."""
    pairs = []
    for name in names:
        begin = len(talk.events)
        utterance = microphone.say(clip(name))
        # The end of a clip by its level, which breath holds up, may lie far behind its last word: no turn tells of it.
        await asyncio.sleep(microphone.time_of(utterance.end) + QUIET_S - time.monotonic())
        await talk.until(lambda utterance=utterance: talk.settled(utterance))
        pairs.append((REFERENCES[name], talk.words(begin)))
        audio = [event for event in talk.events[begin:] if event["type"] == "response.output_audio.delta"]
        if audio:
            item_id = audio[-1]["item_id"]
            pcm = b"".join(base64.b64decode(event["delta"]) for event in audio if event["item_id"] == item_id)
            await hear(item_id, len(pcm) * 1000 // (2 * RATE_HZ))
    return pairs


async def talk_by_openai_python(base_url: str, names: list[str]) -> tuple[Talk, list[tuple[str, str]]]:
    talk = Talk()

    async def receive(connection: AsyncRealtimeConnection) -> None:
        async for event in connection:
            await talk.take(event.model_dump())

    async with AsyncOpenAI(api_key="k", base_url=base_url) as client, client.realtime.connect(model="m") as connection:
        await connection.session.update(
            session={
                "type": "realtime",
                "instructions": "Answer in one short sentence.",
                "audio": {"input": {"transcription": {"model": "whisper-1", "language": "en"}}},
            }
        )

        async def send(frame: str) -> None:
            await connection.send_raw(frame)

        microphone = Microphone(send)
        tasks = [asyncio.create_task(receive(connection)), asyncio.create_task(microphone.run())]
        try:

            async def hear(item_id: str, ms: int) -> None:
                # A player that plays in no time and says so: the client's word on what was heard wins.
                await connection.conversation.item.truncate(item_id=item_id, content_index=0, audio_end_ms=ms)

            pairs = await speak(talk, microphone, names, hear)
        finally:
            await stop(microphone, tasks)
    return talk, pairs


async def talk_by_openai_agents(url: str, names: list[str]) -> tuple[Talk, list[tuple[str, str]]]:
    talk = Talk()
    agent = RealtimeAgent(name="Assistant", instructions="Answer in one short sentence.")
    config: Any = {"url": url, "api_key": "k"}
    async with await RealtimeRunner(agent).run(model_config=config) as session:

        async def receive() -> None:
            async for event in session:
                assert event.type != "error", event.error
                if event.type == "raw_model_event" and event.data.type == "raw_server_event":
                    await talk.take(event.data.data)

        async def send(frame: str) -> None:
            await session.send_audio(base64.b64decode(frame.rsplit('"', 2)[1]))

        microphone = Microphone(send)
        tasks = [asyncio.create_task(receive()), asyncio.create_task(microphone.run())]
        try:

            async def hear(item_id: str, ms: int) -> None:
                await asyncio.sleep(ms / 1000)  # the SDK speaks for its own player, which plays at 1×

            pairs = await speak(talk, microphone, names, hear)
        finally:
            await stop(microphone, tasks)
    return talk, pairs


async def stop(microphone: Microphone, tasks: list[asyncio.Task[None]]) -> None:
    microphone.stop()
    tasks[0].cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await task


async def test_a_real_conversation_is_heard_and_spoken_word_for_word(embedded_url: str, speech: OfflineSpeech) -> None:
    base_url = embedded_url.replace("ws", "http", 1).removesuffix("/realtime")
    names = list(REFERENCES)
    by_openai, openai_pairs = await talk_by_openai_python(base_url, names)
    by_agents, agents_pairs = await talk_by_openai_agents(embedded_url, ["goforward", "librivox_0880", "something"])
    for pairs in (openai_pairs, agents_pairs):
        assert word_error_rate(pairs) <= 0.10, pairs
    replies = by_openai.replies() + by_agents.replies()
    assert len(replies) >= 10
    heard = []
    for text, audio in replies:
        assert len(audio) / 2 / RATE_HZ > 0.2
        heard.append((text, await asyncio.to_thread(speech.recognise, audio)))
    spoken = [pair for pair in heard if normal_words(pair[0])]
    assert word_error_rate(spoken) <= 0.10, spoken
