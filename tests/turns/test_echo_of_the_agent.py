"""The agent's own voice in the microphone: no interruption, no turn, and no hindrance to a real one."""

from __future__ import annotations

import pytest

from gateway.turns.actions import TranscribePartial
from gateway.turns.observations import OverlapVerdict
from gateway.turns.overlap_policy import ECHO_TAIL
from gateway.turns.states import Agent, User
from protocol.audio_time import samples_from_ms
from protocol.backend_events import (
    SpeechStarted,
)
from tests.simulation.conversation import HANG
from tests.turns.voice_over_agent import (
    ECHO,
    INTERRUPTION,
    STORY,
    aligned,
    talking,
    turns,
    untouched,
    verdicts,
)


def test_sound_that_the_agents_audio_explains_is_no_speech_and_is_told_of_once_to_who_watches() -> None:
    conversation = talking(looks=["Tea in the mountains of"] * 40)
    conversation.echo = 0.8
    conversation.speak(1_500)
    conversation.echo = 0.0
    assert conversation.user is User.SILENT
    assert (verdicts(conversation), conversation.all(TranscribePartial)) == ([ECHO], [])
    assert untouched(conversation)


def test_two_stretches_of_echo_are_told_of_twice() -> None:
    conversation = talking()
    for _ in range(2):
        conversation.echo = 0.8
        conversation.speak(300)
        conversation.echo = 0.0
        conversation.silence(400)
    assert verdicts(conversation) == [ECHO, ECHO]


def test_an_estimate_that_flickers_is_judged_by_its_mean() -> None:
    conversation = talking(looks=["in a land of", "in a land of", "in a land of"])
    aligned(conversation)
    for echo in (0.4, 0.4, 0.9, 0.9, 0.9, 0.4, 0.9, 0.9, 0.9, 0.4, 0.4, 0.9, 0.9, 0.9):
        conversation.echo = echo
        conversation.frames(0.9)
    conversation.echo = 0.0
    conversation.silence(500)
    assert verdicts(conversation) == [ECHO]
    assert untouched(conversation)


def test_a_user_who_speaks_through_the_echo_interrupts() -> None:
    conversation = talking(looks=["Wait."])
    conversation.echo = 0.8
    conversation.speak(1_000)
    conversation.echo = 0.1
    onset = aligned(conversation)
    conversation.speak(400)
    assert verdicts(conversation) == [ECHO, INTERRUPTION]
    assert conversation.all(SpeechStarted)[1].start == onset - samples_from_ms(300)


def test_echo_estimates_during_a_turn_that_was_told_change_nothing() -> None:
    conversation = talking(looks=["Wait."], llm=[[STORY, HANG], "All right."])
    conversation.speak(400)
    assert turns(conversation) == 2
    conversation.echo = 0.9
    conversation.speak(1_000)
    conversation.silence(900)
    start, end = conversation.speech_times()[1]
    assert end - start > samples_from_ms(1_400)


@pytest.mark.parametrize(("after_ms", "turn"), [(20, False), (440, False), (700, True)])
def test_the_late_tail_of_the_echo_is_no_turn(after_ms: int, turn: bool) -> None:
    conversation = talking(asr=["Tell me a story.", "and so on"])
    while conversation.agent is not Agent.IDLE:
        conversation.silence(20)
    conversation.silence(after_ms)
    aligned(conversation)
    conversation.echo = 0.8
    conversation.frames(0.9, 0.9)
    assert (turns(conversation) == 2) is turn
    assert ECHO_TAIL == samples_from_ms(500)


@pytest.mark.parametrize(("drop_db", "echo", "verdict"), [(10, 0.0, ECHO), (0, 0.3, ECHO), (0, 0.0, INTERRUPTION)])
def test_the_agents_own_words_are_its_echo_unless_the_speaker_says_them(
    drop_db: int, echo: float, verdict: OverlapVerdict
) -> None:
    conversation = talking(looks=["story about tea"] * 5, level_dbfs=-25.0, for_ms=1_300)
    conversation.level_dbfs, conversation.echo = -25.0 - drop_db, echo
    conversation.speak(450)
    conversation.silence(100)
    assert verdicts(conversation) == [verdict]


def test_words_that_the_agent_will_say_much_later_are_not_its_echo() -> None:
    conversation = talking(looks=["Nobody knows why"] * 5, for_ms=500)
    conversation.speak(450)
    assert verdicts(conversation) == [INTERRUPTION]
