"""A full-duplex session whose microphone hears the agent: its voice leaves no item and no overlap."""

from __future__ import annotations

import numpy as np
import pytest

from gateway.hearing import Hearing
from models.duplex_interface import DuplexStep
from models.engines.scripted import ScriptedVad
from models.engines.scripted_duplex import DuplexReply, ScriptedDuplexStream
from tests.gateway.echo_room import silence, sound_of
from tests.gateway.fed_time import FedTime
from tests.gateway.native_session import native_session
from tests.gateway.observed import told
from tests.gateway.scripted_cascade import voice
from tests.gateway.test_self_hearing_session import Conversation, Loudspeaker

STORY = DuplexReply("once upon a time there was a king who had three daughters and no son at all")
ECHO_DB = -30.0
"""Below what the scripted model takes for a voice, above what the ear's VAD does."""

ECHO_VAD_DBFS = -55


async def test_the_agents_own_voice_is_no_turn_and_no_overlap(time: FedTime, monkeypatch: pytest.MonkeyPatch) -> None:
    own: list[bool] = []  # what the model was told of each frame

    async def step(stream: ScriptedDuplexStream, pcm: bytes, *, own_voice: bool = False) -> DuplexStep:
        own.append(own_voice)
        return await heard(stream, pcm, own_voice=own_voice)

    heard = ScriptedDuplexStream.step
    monkeypatch.setattr(ScriptedDuplexStream, "step", step)
    hearing = Hearing(ScriptedVad(ECHO_VAD_DBFS))
    async with native_session(time, STORY, heard=("tell me a story", "once upon"), hearing=hearing) as native:
        conversation = Conversation(native.running, time, Loudspeaker(ECHO_DB))
        await conversation.goes_on(np.concatenate((silence(480), sound_of(voice(960)), silence(1_200))))
        began = len(conversation.frames)
        assert sum(own) <= 10  # the agent has begun by now
        assert not any(own[:24])  # in the user's turn
        await conversation.goes_on(silence(6_000))
        echoes = [frame for frame in conversation.frames[began:] if frame.probability >= 0.5]
        assert len(echoes) > 60  # two seconds of it
        assert np.mean([frame.echo >= 0.5 for frame in echoes]) >= 0.9
        assert sum(own) > 20
        assert conversation.ended == ["completed"]
        assert conversation.count("input_audio_buffer.speech_started") == 1
        assert conversation.count("input_audio_buffer.committed") == 1
        assert told(native.observer.ring, "overlap.measured") == []
