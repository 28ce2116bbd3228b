"""Barge-in off: while the agent is heard nothing is a turn, and whoever outlasts it has one."""

from __future__ import annotations

from typing import Any

from gateway.turns.actions import TranscribePartial
from gateway.turns.observations import OverlapVerdict
from gateway.turns.settings import VAD_FRAME, BargeIn
from protocol.audio_time import samples_from_ms
from protocol.backend_events import (
    PlayoutCut,
    SpeechStarted,
)
from tests.simulation.conversation import HANG, Conversation, server_vad
from tests.turns.voice_over_agent import (
    ANSWER,
    aligned,
    near_the_end,
    talking,
    turns,
    untouched,
    verdicts,
)


def off(**engines: Any) -> Conversation:
    return talking(server_vad(barge_in=BargeIn.OFF), **engines)


def test_with_barge_in_off_nothing_said_over_the_agent_counts() -> None:
    conversation = off(looks=["Stop."])
    conversation.speak(1_200)
    assert (verdicts(conversation), conversation.all(TranscribePartial)) == ([OverlapVerdict.NOT_ALLOWED], [])
    assert untouched(conversation)


def test_who_began_shortly_before_the_end_and_speaks_on_has_the_turn_from_their_onset() -> None:
    conversation = off()
    ends_at = near_the_end(conversation, 700)
    onset = aligned(conversation)
    conversation.speak(1_300)
    started = conversation.all(SpeechStarted)[1]
    assert started.start == onset - samples_from_ms(300)
    assert samples_from_ms(400) <= conversation.at(started) - ends_at <= samples_from_ms(400) + 2 * VAD_FRAME
    assert verdicts(conversation) == [OverlapVerdict.NOT_ALLOWED, ANSWER]
    assert conversation.all(PlayoutCut) == []


def test_who_talked_over_the_agent_for_long_has_the_turn_from_its_end_on() -> None:
    conversation = off()
    ends_at = near_the_end(conversation, 2_500)
    conversation.speak(3_200)
    position = ends_at - (conversation.now - conversation.machine.received)
    assert conversation.all(SpeechStarted)[1].start == position


def test_the_tail_of_a_loudspeaker_is_no_turn() -> None:
    conversation = off()
    near_the_end(conversation, 1_500)
    conversation.speak(1_800)
    conversation.silence(50)
    assert turns(conversation) == 1
    conversation.silence(250)
    conversation.silence(1_000)
    assert untouched(conversation)


def test_a_sound_just_behind_the_agents_last_word_waits_for_the_loudspeaker_too() -> None:
    conversation = off()
    near_the_end(conversation, -100)
    conversation.speak(250)
    conversation.silence(600)
    assert turns(conversation) == 1
    aligned(conversation)
    conversation.speak(70)
    assert turns(conversation) == 2


def test_with_barge_in_off_speech_to_an_agent_that_thinks_or_is_silent_is_a_turn_at_once() -> None:
    conversation = Conversation(server_vad(barge_in=BargeIn.OFF), llm=[[HANG], "Yes?"])
    conversation.speak(800)
    conversation.silence(1_000)
    conversation.speak(70)
    assert turns(conversation) == 2
