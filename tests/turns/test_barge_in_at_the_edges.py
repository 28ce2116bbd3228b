"""Voice over a reply's very beginning and its last words."""

from __future__ import annotations

import pytest

from gateway.turns.observations import OverlapJudged
from gateway.turns.states import Agent
from protocol.audio_time import samples_from_ms
from protocol.backend_events import (
    PlayoutCut,
    SpeechStarted,
)
from tests.simulation.conversation import HANG, Conversation
from tests.turns.voice_over_agent import (
    ANSWER,
    BACKCHANNEL,
    INTERRUPTION,
    NOISE,
    STORY,
    TOO_EARLY,
    aligned,
    judged,
    near_the_end,
    talking,
    turns,
    untouched,
    verdicts,
)


def test_voice_at_the_very_beginning_of_a_reply_needs_words() -> None:
    conversation = talking(for_ms=100)
    conversation.speak(600)
    assert verdicts(conversation) == [TOO_EARLY]
    assert turns(conversation) == 1


def test_with_words_the_beginning_of_a_reply_is_as_good_as_any() -> None:
    conversation = talking(for_ms=100, looks=["And also milk"])
    conversation.speak(600)
    assert verdicts(conversation) == [INTERRUPTION]


def test_voice_that_outlasts_the_grace_interrupts_without_words() -> None:
    conversation = talking(for_ms=100)
    conversation.speak(1_400)
    assert verdicts(conversation) == [TOO_EARLY, INTERRUPTION]


def test_speech_before_the_first_sound_is_heard_interrupts_at_its_onset() -> None:
    conversation = talking(for_ms=-150)
    aligned(conversation)
    conversation.speak(70)
    assert (turns(conversation), conversation.all(OverlapJudged)) == (2, [])
    assert conversation.only(PlayoutCut).heard == 0


def test_speech_while_the_agent_thinks_interrupts_at_its_onset() -> None:
    conversation = Conversation(judged(), llm=[[HANG], "Yes?"])
    conversation.speak(800)
    conversation.silence(1_000)
    assert conversation.agent is Agent.THINKING
    conversation.speak(70)
    assert (turns(conversation), conversation.all(OverlapJudged)) == (2, [])
    assert conversation.ends() == [("resp_1", "cancelled", "turn_detected")]


def test_a_synthesiser_that_runs_dry_for_a_moment_has_not_ended_the_agents_speech() -> None:
    conversation = talking(looks=["Mm-hm."] * 9, llm=[[STORY, HANG]], piece_every_ms=220, for_ms=1_200)
    conversation.speak(400)
    conversation.silence(300)
    assert verdicts(conversation) == [BACKCHANNEL]
    assert turns(conversation) == 1


@pytest.mark.parametrize("words", ["Yes.", "Tomorrow.", "Two of them"])
def test_an_answer_over_the_agents_last_words_is_a_turn_once_they_are_heard(words: str) -> None:
    conversation = talking(looks=[words] * 9, asr=["Ask me.", words])
    ends_at = near_the_end(conversation, 450)
    conversation.speak(300)
    conversation.silence(400)
    assert verdicts(conversation) == [ANSWER]
    assert conversation.at(conversation.all(SpeechStarted)[1]) == ends_at
    assert conversation.all(PlayoutCut) == []
    conversation.silence(600)
    conversation.run_dry()
    assert conversation.text("resp_2") == "All right."


def test_a_nod_early_enough_over_the_last_words_waits_for_the_playouts_end_as_an_answer() -> None:
    conversation = talking(looks=["Yes."] * 9, asr=["Ask me.", "Yes."])
    ends_at = near_the_end(conversation, 680)
    conversation.speak(260)
    conversation.silence(600)
    assert verdicts(conversation) == [BACKCHANNEL, ANSWER]
    assert conversation.at(conversation.all(SpeechStarted)[1]) == ends_at


def test_a_nod_before_the_last_words_is_none() -> None:
    conversation = talking(looks=["Yes."] * 9)
    near_the_end(conversation, 900)
    conversation.speak(300)
    conversation.silence(1_200)
    assert verdicts(conversation) == [BACKCHANNEL]
    assert untouched(conversation)


def test_a_user_who_still_speaks_when_the_agent_falls_silent_has_the_turn_at_once() -> None:
    conversation = talking(look_ms=5_000)
    ends_at = near_the_end(conversation, 200)
    onset = aligned(conversation)
    conversation.speak(600)
    assert conversation.at(conversation.all(SpeechStarted)[1]) == ends_at
    assert conversation.all(SpeechStarted)[1].start == onset - samples_from_ms(300)
    assert verdicts(conversation) == [ANSWER]


def test_a_nod_that_goes_on_beyond_the_agents_last_words_is_a_turn() -> None:
    conversation = talking(looks=["Yeah."] * 9)
    near_the_end(conversation, 1_000)
    conversation.speak(1_300)
    assert verdicts(conversation) == [BACKCHANNEL, ANSWER]


def test_an_answer_that_no_recogniser_confirms_is_not_lost() -> None:
    conversation = talking()
    near_the_end(conversation, 300)
    conversation.speak(250)
    conversation.silence(400)
    assert verdicts(conversation) == [ANSWER]


def test_a_cough_over_the_last_words_is_no_answer() -> None:
    conversation = talking(looks=["", ""])
    near_the_end(conversation, 300)
    aligned(conversation)
    conversation.speak(160)
    conversation.silence(600)
    assert verdicts(conversation) == [NOISE]
    assert untouched(conversation)


def test_a_cough_that_sounds_like_a_word_is_no_answer_either() -> None:
    conversation = talking(looks=["You know?", ""])
    near_the_end(conversation, 300)
    aligned(conversation)
    conversation.speak(160)
    conversation.silence(600)
    assert verdicts(conversation) == [NOISE]
