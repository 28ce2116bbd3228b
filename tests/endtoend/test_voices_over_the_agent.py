"""What stops the agent and what doesn't, with real ears: Silero, Moonshine, and the agent's voice by Piper.

In lockstep: reaction times are audio time, with each answer of the recogniser 90 ms after its question.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gateway.lockstep import LockstepSession, Stamped, lockstep_engines, lockstep_session
from gateway.settings import Settings
from gateway.virtual_loop import VirtualLoop
from models.engines.scripted import ScriptedChat
from models.interfaces import Engines, SpeechPiece
from models.timed_voices import TimedVoice, open_timed_voices
from models.weights import WeightsStore
from tests.endtoend.sounds import RATE_HZ, Sound, at_level, cough, door_slam, hummed_mm_hm

pytestmark = pytest.mark.models

FEED = RATE_HZ // 50
STORY = (
    "This is a long story about tea, which begins in the mountains, where an old man kept a garden of his own. "
    "Every morning he walked between the rows, and every evening he counted the leaves that he had dried by hand."
)
SPEAKER_DBFS = -20.0
PLAYOUT_DELAY_MS = 150


class StoryTeller:
    """Says the story with a voice that was recorded before, a second at a time."""

    def __init__(self, pcm: bytes) -> None:
        self._pcm = pcm

    async def synthesize(self, text: str, **_options: Any) -> Any:
        share = len(text) / len(STORY)
        size = 2 * int(share * len(self._pcm) / 2)
        spoken, self._pcm = self._pcm[:size], self._pcm[size:] or self._pcm
        for at in range(0, len(spoken), 2 * RATE_HZ):
            yield SpeechPiece(spoken[at : at + 2 * RATE_HZ])


class Stage:
    """The engines in lockstep, the user's voice and the story's sound."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=VirtualLoop)
        self._open = AsyncExitStack()
        self._engines: Engines = self._runner.run(
            self._open.enter_async_context(lockstep_engines(Settings(profile="embedded")))
        )
        joe, self.heart = open_timed_voices(WeightsStore())
        self.story = spoken(joe, STORY)
        self.request = spoken(self.heart, "Please tell me a long story about tea.")

    def act(self, sound: Sound | None, *, at_s: float = 3.0, echo_db: float | None = None) -> Act:
        """Ask for the story; at `at_s` into it `sound` begins, or the microphone gets the agent's own voice back."""
        return self._runner.run(self._act(sound, at_s, echo_db))

    async def _act(self, sound: Sound | None, at_s: float, echo_db: float | None) -> Act:
        story = (self.story.round().astype("<i2")).tobytes()
        engines = replace(self._engines, chat=ScriptedChat([STORY, "Yes?"]), tts=StoryTeller(story))
        async with lockstep_session(engines) as session:
            return await Act(session).play(self.request, sound, at_s, echo_db)

    def close(self) -> None:
        """Close the engines."""
        self._runner.run(self._open.aclose())
        self._runner.close()


def spoken(voice: TimedVoice, text: str) -> Sound:
    """Return `text` spoken, its silent edges trimmed to 10 ms."""
    sound = np.frombuffer(voice.speak(text).pcm, "<i2").astype(float)
    loud = np.flatnonzero(np.abs(sound) > np.abs(sound).max() * 10 ** (-35 / 20))
    return at_level(sound[max(0, loud[0] - RATE_HZ // 100) : loud[-1] + RATE_HZ // 100], SPEAKER_DBFS)


class Act:
    """One session in which the agent tells its story."""

    def __init__(self, session: LockstepSession) -> None:
        self._session = session
        self._rng = np.random.default_rng(3)
        self._now = 0
        self._playing = np.zeros(RATE_HZ * 120)
        self._plays_until = 0
        self.events: list[Stamped] = []
        self.began_at: int | None = None
        self.story_heard_from: int | None = None

    async def play(self, request: Sound, sound: Sound | None, at_s: float, echo_db: float | None) -> Act:
        update = {"type": "realtime", "audio": {"input": {"turn_detection": {"type": "semantic_vad"}}}}
        self._take(await self._session.send({"type": "session.update", "session": update}))
        await self._feed(np.concatenate([np.zeros(RATE_HZ // 2), request]))
        while self.story_heard_from is None:
            await self._feed(np.zeros(FEED))
            assert self._now < 20 * RATE_HZ, "the agent never began"
        if echo_db is not None:
            await self._feed_echo(int(at_s * RATE_HZ), 10 ** (echo_db / 20))
            return self
        await self._feed(np.zeros(int(at_s * RATE_HZ)))
        assert sound is not None
        self.began_at = self._now
        await self._feed(np.concatenate([sound, np.zeros(RATE_HZ * 3 // 2)]))
        return self

    async def _feed(self, sound: Sound) -> None:
        for at in range(0, len(sound), FEED):
            await self._append(sound[at : at + FEED])

    async def _feed_echo(self, samples: int, gain: float) -> None:
        late = RATE_HZ * 12 // 100
        for _ in range(samples // FEED):
            start = self._now - late
            await self._append(gain * self._playing[start : start + FEED])

    async def _append(self, sound: Sound) -> None:
        noisy = sound + self._rng.normal(0, 20, len(sound))
        self._now += len(sound)
        self._take(await self._session.feed(noisy.clip(-32768, 32767).round().astype("<i2").tobytes()))

    def _take(self, said: list[Stamped]) -> None:
        for stamped in said:
            self.events.append(stamped)
            if stamped.event["type"] == "response.output_audio.delta":
                pcm = np.frombuffer(base64.b64decode(stamped.event["delta"]), "<i2")
                start = max(stamped.at + RATE_HZ * PLAYOUT_DELAY_MS // 1000, self._plays_until)
                self._playing[start : start + len(pcm)] = pcm
                self._plays_until = start + len(pcm)
                self.story_heard_from = self.story_heard_from or start

    @property
    def interrupted_after_ms(self) -> float | None:
        """When the client was told to fall silent, after the sound began; None if it never was."""
        assert self.began_at is not None
        starts = [stamped.at for stamped in self.events if stamped.event["type"] == "input_audio_buffer.speech_started"]
        return None if len(starts) < 2 else (starts[1] - self.began_at) / RATE_HZ * 1000

    @property
    def items(self) -> int:
        """How many user items there are."""
        return sum(stamped.event["type"] == "input_audio_buffer.committed" for stamped in self.events)

    @property
    def cancelled(self) -> bool:
        """Whether a response was cut short."""
        done = [stamped.event for stamped in self.events if stamped.event["type"] == "response.done"]
        return any(event["response"]["status"] == "cancelled" for event in done)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.close()


def test_stop_silences_the_agent_within_450_ms(stage: Stage) -> None:
    act = stage.act(spoken(stage.heart, "Stop."))

    assert act.interrupted_after_ms is not None
    assert 0 < act.interrupted_after_ms <= 450
    assert act.cancelled or act.items == 2


def test_a_question_over_the_agent_is_heard_out_and_answered(stage: Stage) -> None:
    act = stage.act(spoken(stage.heart, "Can you tell me the price of the green one?"))

    assert act.interrupted_after_ms is not None
    assert act.interrupted_after_ms <= 600
    assert act.items == 2


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_cough_does_not_stop_the_agent(stage: Stage, seed: int) -> None:
    act = stage.act(at_level(cough(seed), SPEAKER_DBFS))

    assert (act.interrupted_after_ms, act.items, act.cancelled) == (None, 1, False)


def test_a_door_slam_does_not_stop_the_agent(stage: Stage) -> None:
    act = stage.act(at_level(door_slam(1), -10.0))

    assert (act.interrupted_after_ms, act.items, act.cancelled) == (None, 1, False)


@pytest.mark.parametrize("pitch_hz", [100.0, 120.0, 180.0])
def test_a_hummed_nod_does_not_stop_the_agent(stage: Stage, pitch_hz: float) -> None:
    act = stage.act(at_level(hummed_mm_hm(pitch_hz), SPEAKER_DBFS))

    assert (act.interrupted_after_ms, act.items, act.cancelled) == (None, 1, False)


@pytest.mark.parametrize("words", ["Uh-huh.", "Right.", "Okay."])
def test_a_spoken_nod_does_not_stop_the_agent(stage: Stage, words: str) -> None:
    act = stage.act(spoken(stage.heart, words))

    assert (act.interrupted_after_ms, act.items, act.cancelled) == (None, 1, False)


def test_the_agents_own_voice_30_db_down_does_not_stop_it(stage: Stage) -> None:
    act = stage.act(None, at_s=8.0, echo_db=-30.0)

    starts = [stamped for stamped in act.events if stamped.event["type"] == "input_audio_buffer.speech_started"]
    assert (len(starts), act.items, act.cancelled) == (1, 1, False)
