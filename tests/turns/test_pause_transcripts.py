"""The words of a pause are known before it is known whether it ends the turn, and serve as the item's if it does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.turns.actions import JudgeSound, JudgeWords, StopTranscribing, Transcribe, TranscribePause
from gateway.turns.end_of_turn import ASK_AFTER, WORDS_LONGEST, WORDS_STEP, words_step
from gateway.turns.inputs import PauseTranscript, TranscriptFailed
from gateway.turns.settings import Deadlines
from gateway.turns.user_turn import ASR_TAIL
from protocol.audio_time import samples_from_ms, samples_from_s
from protocol.backend_events import (
    ContextRequested,
    EngineFault,
    InputCommitted,
    InputTranscriptCompleted,
    InputTranscriptDelta,
    InputTranscriptFailed,
    ResponseStarted,
    SpeechStopped,
    TokenLogprob,
)
from tests.simulation.conversation import HANG, SILENCE, SPEECH, Conversation, by_hand, server_vad

FAULT = EngineFault("asr_failed", "It broke.")


@pytest.mark.parametrize(("silent_frames", "asked"), [(3, 0), (4, 1), (5, 1)])
def test_a_pause_is_recognised_once_it_has_lasted_128_ms(silent_frames: int, asked: int) -> None:
    conversation = Conversation()
    conversation.frames(*[SPEECH] * 30, *[SILENCE] * silent_frames)
    assert len(conversation.all(TranscribePause)) == asked
    assert samples_from_ms(128) == ASK_AFTER


@pytest.mark.parametrize(("silence_ms", "asked"), [(299, 0), (300, 1), (301, 1)])
def test_where_silence_ends_turns_too_soon_for_the_recogniser_nothing_is_asked_ahead(
    silence_ms: int, asked: int
) -> None:
    conversation = Conversation(server_vad(silence_duration=samples_from_ms(silence_ms)))
    conversation.speak(800)
    conversation.silence(1_000)
    assert len(conversation.all(TranscribePause)) == asked
    assert len(conversation.all(Transcribe)) == 1 - asked


def test_the_words_of_the_last_pause_are_the_items_and_it_is_not_recognised_again() -> None:
    conversation = Conversation(asr="good morning")
    conversation.speak(800)
    conversation.silence(1_000)
    asked, committed = conversation.only(TranscribePause), conversation.only(InputCommitted)
    assert conversation.all(Transcribe) == []
    assert conversation.transcripts() == {committed.item_id: "good morning"}
    assert (asked.start, asked.end) == (committed.start, committed.end - samples_from_ms(500) + ASR_TAIL)


def test_words_that_are_known_at_the_commit_follow_the_response_at_once() -> None:
    conversation = Conversation()
    conversation.speak(800)
    conversation.silence(1_000)
    order = [InputCommitted, ResponseStarted, InputTranscriptDelta, InputTranscriptCompleted, ContextRequested]
    told = [timed for timed in conversation.timeline if type(timed.output) in order]
    assert [type(timed.output) for timed in told] == order
    assert len({timed.at for timed in told}) == 1


def test_words_that_are_still_awaited_at_the_commit_come_when_they_come() -> None:
    conversation = Conversation(asr_ms=900)
    conversation.speak(800)
    conversation.silence(2_000)
    asked, done = conversation.only(TranscribePause), conversation.only(InputTranscriptCompleted)
    assert conversation.at(done) == conversation.at(asked) + samples_from_ms(900)
    assert conversation.at(done) > conversation.at(conversation.only(InputCommitted))
    assert conversation.all(Transcribe) == []


def test_a_user_who_goes_on_stops_the_recogniser_and_the_next_pause_has_the_next_number() -> None:
    conversation = Conversation(asr_ms=400, pauses=["I would", "I would like tea"])
    conversation.speak(800)
    conversation.silence(300)
    conversation.speak(800)
    conversation.silence(1_000)
    first, second = conversation.all(TranscribePause)
    assert conversation.only(StopTranscribing) == StopTranscribing(first.item_id, first.pause)
    assert (first.pause, second.pause) == (1, 2)
    assert first.start == second.start
    assert list(conversation.transcripts().values()) == ["I would like tea"], "the first pause's words came late"


def test_a_pause_whose_recognition_failed_is_recognised_again_at_the_commit() -> None:
    conversation = Conversation(asr="good morning", pauses=[FAULT])
    conversation.speak(800)
    conversation.silence(1_000)
    asked, again = conversation.only(TranscribePause), conversation.only(Transcribe)
    assert (asked.start, asked.end) == (again.start, again.end)
    assert conversation.transcripts() == {again.item_id: "good morning"}


def test_a_recognition_that_fails_after_the_commit_is_tried_again_and_its_audio_is_kept_for_that() -> None:
    conversation = Conversation(asr=FAULT, asr_ms=600)
    conversation.speak(3_000)
    conversation.silence(700)
    committed = conversation.only(InputCommitted)
    assert conversation.machine.needed_from == committed.start < committed.end
    conversation.silence(2_000)
    assert conversation.only(Transcribe).item_id == committed.item_id
    assert conversation.machine.needed_from > committed.start
    assert conversation.only(InputTranscriptFailed).fault == FAULT


def test_the_deadline_of_an_adopted_recognition_counts_from_the_commit() -> None:
    settings = replace(server_vad(), deadlines=Deadlines(transcript=samples_from_s(3)))
    conversation = Conversation(settings, asr=HANG)
    conversation.speak(800)
    conversation.silence(8_000)
    failed, committed = conversation.only(InputTranscriptFailed), conversation.only(InputCommitted)
    assert conversation.at(failed) == conversation.at(committed) + samples_from_s(3)
    conversation.feed(PauseTranscript(committed.item_id, 1, "too late"))
    conversation.feed(TranscriptFailed(committed.item_id, FAULT))
    assert conversation.all(InputTranscriptCompleted) == []


def test_a_commit_by_hand_that_wants_more_than_the_pause_holds_is_recognised_as_ever() -> None:
    conversation = Conversation()
    conversation.speak(800)
    conversation.silence(300)
    conversation.commit()
    conversation.wait(1_000)
    again = conversation.only(Transcribe)
    assert again.end == conversation.only(InputCommitted).end > conversation.only(TranscribePause).end


def test_a_commit_by_hand_of_just_what_the_pause_holds_takes_its_words() -> None:
    conversation = Conversation(asr="good morning", asr_ms=20)
    conversation.frames(*[SPEECH] * 30, *[SILENCE] * 4)
    conversation.wait(20)
    conversation.commit()
    assert conversation.all(Transcribe) == []
    assert list(conversation.transcripts().values()) == ["good morning"]


def test_turn_detection_that_is_switched_off_in_a_pause_ends_the_asking() -> None:
    conversation = Conversation(asr_ms=400)
    conversation.speak(800)
    conversation.silence(300)
    conversation.configure(by_hand())
    assert len(conversation.all(StopTranscribing)) == 1
    conversation.commit()
    conversation.wait(1_000)
    assert len(conversation.all(Transcribe)) == 1


def test_what_was_told_while_the_user_spoke_is_not_taken_back_by_the_words_of_the_pause() -> None:
    settings = replace(server_vad(), live_transcript=True)
    looks = ["Send ten", "Send ten dollars", "Send ten dollars to"]
    conversation = Conversation(settings, looks=looks, pauses=["Send tin dollars to Anna."])
    conversation.speak(900)
    conversation.silence(1_000)
    told = "".join(event.delta for event in conversation.all(InputTranscriptDelta))
    assert told == conversation.only(InputTranscriptCompleted).transcript == "Send ten dollars to Anna."


def test_the_log_probabilities_of_the_pauses_words_come_with_the_transcript() -> None:
    tokens = (TokenLogprob("hello", -0.5, b"hello"),)
    conversation = Conversation(asr=HANG)
    conversation.speak(800)
    conversation.silence(300)
    conversation.feed(PauseTranscript("item_1", 1, "hello", tokens))
    conversation.silence(300)
    assert conversation.only(InputTranscriptCompleted).logprobs == tokens


# --- how often ------------------------------------------------------------------------------------------------------


def test_one_pause_is_recognised_at_a_time() -> None:
    conversation = Conversation(asr=HANG)
    for _ in range(6):
        conversation.speak(600)
        conversation.silence(300)
    asked, stopped = conversation.all(TranscribePause), conversation.all(StopTranscribing)
    assert len(asked) == 6
    assert [stop.pause for stop in stopped] == [order.pause for order in asked[:-1]]


def test_a_stutter_is_recognised_at_most_twice_a_second() -> None:
    conversation = Conversation(asr_ms=10)
    for _ in range(30):
        conversation.frames(SPEECH, SPEECH, *[SILENCE] * 6)
    ends = [order.end for order in conversation.all(TranscribePause)]
    assert len(ends) > 5
    assert all(later - earlier >= WORDS_STEP for earlier, later in zip(ends, ends[1:], strict=False))


def test_a_monologue_is_heard_a_bounded_number_of_times_over() -> None:
    conversation = Conversation(asr_ms=10)
    for _ in range(100):
        conversation.speak(300)
        conversation.silence(220)
    orders = conversation.all(TranscribePause)
    length = orders[-1].end - orders[0].start
    assert 2 * length < sum(order.end - order.start for order in orders) < 18 * length
    assert words_step(samples_from_s(32)) == samples_from_s(2)


def test_no_pause_is_recognised_ahead_of_the_commit_beyond_a_minute() -> None:
    conversation = Conversation(server_vad(prefix_padding=0), asr_ms=10)
    conversation.speak(59_000)
    conversation.silence(300)
    conversation.speak(1_500)
    conversation.silence(1_000)
    asked = conversation.only(TranscribePause)
    assert asked.end - asked.start < WORDS_LONGEST
    assert conversation.only(Transcribe).end > asked.end


def test_recorded_speech_is_recognised_at_its_commits_and_its_last_pause_ahead() -> None:
    turn = [(400, False), (800, True), (1_400, False)]
    conversation = Conversation(asr=["one", "two", "three"], llm=["One.", "Two.", "Three."])
    conversation.burst(*turn * 2, (400, False), (800, True), (400, False))
    assert [order.item_id for order in conversation.all(Transcribe)] == ["item_1", "item_2"]
    assert [order.item_id for order in conversation.all(TranscribePause)] == ["item_3"]
    conversation.run_dry()
    assert list(conversation.transcripts().values()) == ["one", "two", "three"]


def test_no_judge_is_asked_where_silence_alone_ends_turns() -> None:
    conversation = Conversation(replace(server_vad(), judges=frozenset({"audio", "lexical"})))
    conversation.speak(800)
    conversation.silence(1_000)
    assert conversation.all(JudgeSound) == []
    assert conversation.all(JudgeWords) == []
    assert conversation.only(SpeechStopped).end % 24 == 0
