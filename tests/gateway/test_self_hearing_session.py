"""A client without echo cancellation: the agent hears itself, and talks on; a person it hears out."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import numpy as np
import pytest

from gateway.hearing import Hearing
from models.engines.scripted import ScriptedChat, ScriptedRecognizer, ScriptedVad
from models.engines.silero_vad import SileroVad
from models.interfaces import SpeechPiece, VoiceActivityDetector
from models.weights import WeightsStore
from models.weights_manifest import TURN_TAKING
from protocol.audio_time import samples_from_ms
from protocol.commands import AppendAudio, Command, SpeechFrame
from tests.gateway.echo_room import Sound, amplitude, hiss, pcm_of, silence, sound_of
from tests.gateway.fed_time import FedTime
from tests.gateway.scripted_cascade import APPEND_MS, RunningSession, open_session, scripted_engines
from tests.models.conftest import clip

REPLY = "One two three four five six seven eight nine ten eleven twelve and so on and so forth until the end."
PIECE_BYTES = 9_600
BUFFER_MS = 60
"""What the client collects before it plays."""

AIR_MS = 120


@pytest.fixture(params=["scripted", pytest.param("silero", marks=pytest.mark.models)])
async def vad(request: pytest.FixtureRequest) -> AsyncIterator[VoiceActivityDetector]:
    """An energy gate that hears the echo, and the real detector."""
    if request.param == "scripted":
        yield ScriptedVad(-55)
        return
    store = WeightsStore()
    store.fetch([TURN_TAKING])
    silero = SileroVad(store.path(TURN_TAKING, "silero_vad.onnx"))
    yield silero
    await silero.aclose()


class Reader:
    """A synthesiser with a person's voice."""

    async def synthesize(
        self, _text: str, *, voice: str = "", speed: float = 1.0, first: bool = False, language: str = ""
    ) -> AsyncGenerator[SpeechPiece, None]:
        pcm = clip("librivox_0870")
        for at in range(0, len(pcm), PIECE_BYTES):
            yield SpeechPiece(pcm[at : at + PIECE_BYTES])


class Loudspeaker:
    """A client's player, and what its microphone gets of it through the air and from the walls."""

    def __init__(self, gain_db: float) -> None:
        self.played = np.zeros(samples_from_ms(60_000))
        self._plays_until = 0
        rng = np.random.default_rng(5)
        late_ms = np.sort(rng.uniform(0, 60, 20))
        walls = rng.standard_normal(20) * 10 ** (-3 * late_ms / 300) * 0.4
        self._paths = [(AIR_MS, 1.0), *zip(AIR_MS + late_ms, walls, strict=True)]
        self._gain = amplitude(gain_db)

    def play(self, sound: Sound, now: int) -> None:
        start = max(now + samples_from_ms(BUFFER_MS), self._plays_until)
        self._plays_until = start + sound.size
        self.played[start : self._plays_until] = sound

    def flush(self, now: int) -> None:
        self.played[now:] = 0
        self._plays_until = now

    def picked_up(self, start: int, end: int) -> Sound:
        """Return the echo between two times."""
        echo = np.zeros(end - start)
        for late_ms, strength in self._paths:
            late = samples_from_ms(round(late_ms))
            echo += strength * self.played[start - late : end - late] if start >= late else 0
        return echo * self._gain


class Conversation:
    """A session with such a client, on fed time."""

    def __init__(self, running: RunningSession, time: FedTime, loudspeaker: Loudspeaker) -> None:
        self._running = running
        self._time = time
        self._loudspeaker = loudspeaker
        self.frames: list[SpeechFrame] = []
        self.events: list[dict[str, Any]] = []
        obey = running.backend.submit

        def submit(command: Command) -> None:
            if isinstance(command, AppendAudio):
                self.frames += command.frames
            obey(command)

        running.backend.submit = submit

    async def goes_on(self, user: Sound) -> None:
        """Let the user make a sound; the client plays what comes, and flushes as stock clients do."""
        step = samples_from_ms(APPEND_MS)
        for at in range(0, user.size, step):
            start = self._time.now()
            await self._time.advance(APPEND_MS)
            own = user[at : at + step]
            heard = own + self._loudspeaker.picked_up(start, start + own.size) + hiss(own.size, -65.0, seed=at)
            await self._running.append(pcm_of(heard))
            for event in await self._running.read():
                self.events.append(event)
                if event["type"] == "response.output_audio.delta":
                    self._loudspeaker.play(sound_of(base64.b64decode(event["delta"])), self._time.now())
                elif event["type"] == "input_audio_buffer.speech_started":
                    self._loudspeaker.flush(self._time.now())

    def count(self, kind: str) -> int:
        return sum(event["type"] == kind for event in self.events)

    @property
    def ended(self) -> list[str]:
        return [event["response"]["status"] for event in self.events if event["type"] == "response.done"]


async def asked(time: FedTime, running: RunningSession, gain_db: float) -> Conversation:
    """Return a conversation whose user has just asked something by voice, and is being answered."""
    conversation = Conversation(running, time, Loudspeaker(gain_db))
    detection = {"type": "semantic_vad"}
    session = {"type": "realtime", "audio": {"input": {"turn_detection": detection}}}
    await running.send("session.update", session=session)
    await conversation.goes_on(np.concatenate((silence(500), sound_of(clip("goforward")))))
    for _ in range(500):
        await conversation.goes_on(silence(20))
        if conversation.count("response.output_audio.delta"):
            break
    return conversation


def engines(time: FedTime) -> Any:
    """A recogniser that takes whatever it hears for a request: the words can't tell an echo from a person."""
    asr = ScriptedRecognizer(["Please order a large pizza for me."], delay_ms=60, sleep=time.sleep)
    return scripted_engines(time, asr=asr, chat=ScriptedChat([REPLY], sleep=time.sleep), tts=Reader())


@pytest.mark.parametrize("gain_db", [-20.0, -30.0])
async def test_the_agent_is_not_interrupted_by_its_own_voice(
    time: FedTime, vad: VoiceActivityDetector, gain_db: float
) -> None:
    async with open_session(time, engines(time), hearing=Hearing(vad)) as running:
        conversation = await asked(time, running, gain_db)
        began = len(conversation.frames)
        await conversation.goes_on(silence(9_000))
        voiced = [frame for frame in conversation.frames[began:] if frame.probability >= 0.5]
        assert len(voiced) > 60
        assert np.mean([frame.echo >= 0.5 for frame in voiced]) >= 0.9
        assert conversation.ended == ["completed"]
        assert conversation.count("input_audio_buffer.speech_started") == 1
        assert conversation.count("input_audio_buffer.committed") == 1


async def test_a_person_who_speaks_over_the_echo_is_heard_out(time: FedTime, vad: VoiceActivityDetector) -> None:
    async with open_session(time, engines(time), hearing=Hearing(vad)) as running:
        conversation = await asked(time, running, -30.0)
        await conversation.goes_on(silence(3_000))
        assert conversation.count("input_audio_buffer.speech_started") == 1
        began = len(conversation.frames)
        await conversation.goes_on(np.concatenate((sound_of(clip("something")), silence(200))))
        assert conversation.count("input_audio_buffer.speech_started") == 2
        loud = [frame for frame in conversation.frames[began:] if frame.level_dbfs >= -35]
        assert np.mean([frame.echo for frame in loud]) <= 0.1
