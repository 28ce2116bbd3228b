"""The user's words: final transcripts, and those told while the user still speaks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.turns.actions import TranscribePartial
from gateway.turns.inputs import PartialTranscript, Transcript, TranscriptFailed
from gateway.turns.settings import PARTIAL_LONGEST, VAD_FRAME, TurnSettings
from gateway.turns.stable_transcript import StableTranscript, tokens_of
from protocol.audio_time import samples_from_ms
from protocol.backend_events import (
    EngineFault,
    InputCommitted,
    InputTranscriptCompleted,
    InputTranscriptDelta,
    InputTranscriptFailed,
    SpeechStarted,
    TokenLogprob,
)
from tests.simulation.conversation import SILENCE, SPEECH, Conversation, by_hand, server_vad

LIVE = replace(server_vad(prefix_padding=0), live_transcript=True)
FAULT = EngineFault("asr_failed", "It broke.")


def deltas(conversation: Conversation) -> list[str]:
    return [event.delta for event in conversation.all(InputTranscriptDelta)]


def look_frames(conversation: Conversation) -> list[int]:
    onset = conversation.only(SpeechStarted).start
    return [(look.end - onset) // VAD_FRAME for look in conversation.all(TranscribePartial)]


# --- the schedule of the looks --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("frames", "looks"), [(5, 0), (6, 1), (7, 1)])
def test_the_first_look_comes_after_192_ms_of_speech(frames: int, looks: int) -> None:
    conversation = Conversation(LIVE, asr_ms=0)
    conversation.frames(*[SPEECH] * frames)
    assert len(conversation.all(TranscribePartial)) == looks


def test_looks_come_every_96_ms_within_the_first_second_then_every_480_ms_and_none_beyond_12_s() -> None:
    conversation = Conversation(LIVE, asr_ms=0)
    conversation.frames(*[SPEECH] * 420)
    first_second = [6, 9, 12, 15, 18, 21, 24, 27, 30]
    later = list(range(30 + 15, 376, 15))
    assert look_frames(conversation) == first_second + later
    assert later[-1] * VAD_FRAME <= PARTIAL_LONGEST < (later[-1] + 15) * VAD_FRAME


@pytest.mark.parametrize(("padding", "looked"), [(11_519, True), (11_520, True), (11_521, False)])
def test_no_look_covers_more_than_12_s_with_its_padding(padding: int, looked: bool) -> None:
    conversation = Conversation(replace(server_vad(prefix_padding=padding), live_transcript=True), asr_ms=0)
    conversation.frames(*[SILENCE] * 20, *[SPEECH] * 360)
    last = conversation.all(TranscribePartial)[-1]
    assert (last.end == (20 + 360) * VAD_FRAME) is looked
    assert last.end - last.start <= PARTIAL_LONGEST


def test_there_is_no_second_look_while_the_first_runs() -> None:
    conversation = Conversation(LIVE, engines=False)
    conversation.frames(*[SPEECH] * 60)
    assert look_frames(conversation) == [6]
    conversation.feed(PartialTranscript("item_1", None))
    conversation.frames(SPEECH)
    assert look_frames(conversation) == [6, 61]


def test_nobody_looks_unless_the_client_asked_for_a_live_transcript() -> None:
    conversation = Conversation()
    conversation.frames(*[SPEECH] * 100)
    assert conversation.all(TranscribePartial) == []


def test_a_turn_that_is_ended_by_hand_is_looked_at_from_its_first_sound() -> None:
    conversation = Conversation(
        by_hand(live_transcript=True), looks=["I would", "I would like"], asr="I would like tea."
    )
    conversation.silence(2_000)
    assert conversation.all(TranscribePartial) == []
    conversation.speak(600)
    first, *_ = conversation.all(TranscribePartial)
    assert samples_from_ms(1_600) < first.start < samples_from_ms(2_000), "the long silence before it is left out"
    assert deltas(conversation) == ["I would"]
    conversation.commit()
    conversation.wait(1_000)
    committed = conversation.only(InputCommitted)
    assert {delta.item_id for delta in conversation.all(InputTranscriptDelta)} == {committed.item_id}
    assert committed.start == 0, "the item holds all that was in the buffer"
    assert "".join(deltas(conversation)) == "I would like tea."


def test_a_cleared_utterance_is_forgotten_and_the_next_has_another_id() -> None:
    conversation = Conversation(by_hand(live_transcript=True), looks=["one two"] * 40, asr="three four")
    conversation.speak(600)
    conversation.clear()
    conversation.speak(600)
    conversation.commit()
    conversation.wait(1_000)
    looked = [*dict.fromkeys(look.item_id for look in conversation.all(TranscribePartial))]
    assert len(looked) == 2
    assert conversation.only(InputCommitted).item_id == looked[1]


def test_a_turn_by_hand_without_readers_is_not_looked_at() -> None:
    conversation = Conversation(by_hand())
    conversation.frames(*[SPEECH] * 100)
    assert conversation.all(TranscribePartial) == []


# --- what is told ---------------------------------------------------------------------------------------------------


def test_rb30_words_are_told_once_two_looks_agree_and_add_up_to_the_final_transcript() -> None:
    conversation = Conversation(
        LIVE, looks=["I would", "I would like a", "I would like a table"], asr="I would like a table for four."
    )
    conversation.speak(900)
    assert deltas(conversation) == ["I would", " like a"]
    conversation.silence(1_000)
    assert "".join(deltas(conversation)) == "I would like a table for four."
    assert conversation.only(InputTranscriptCompleted).transcript == "I would like a table for four."


def test_a_word_that_was_told_is_never_taken_back() -> None:
    conversation = Conversation(
        LIVE, looks=["Send ten", "Send ten dollars", "Send ten dollars to"], asr="Send tin dollars to Anna."
    )
    conversation.speak(900)
    conversation.silence(1_000)
    told = "".join(deltas(conversation))
    assert told == conversation.only(InputTranscriptCompleted).transcript == "Send ten dollars to Anna."


def test_a_final_transcript_shorter_than_what_was_told_adds_nothing() -> None:
    conversation = Conversation(LIVE, looks=["one two three four", "one two three four", "one two three four"], asr="")
    conversation.speak(900)
    conversation.silence(1_000)
    assert conversation.only(InputTranscriptCompleted).transcript == "".join(deltas(conversation)) == "one two three"


def test_the_full_stop_of_an_unfinished_sentence_is_not_told() -> None:
    transcript = StableTranscript()
    transcript.partial("I think so. And")
    assert transcript.partial("I think so. Then") == "I think so"
    assert transcript.final("I think so, then we go.") == " then we go."
    assert transcript.told == "I think so then we go."


def test_a_word_of_dots_only_is_told_as_it_is() -> None:
    transcript = StableTranscript()
    transcript.partial("well ... so")
    assert transcript.partial("well ... so") == "well ..."
    assert transcript.final("well ... so what") == " so what"


def test_the_last_word_of_a_look_is_never_told() -> None:
    transcript = StableTranscript()
    assert [transcript.partial("hel"), transcript.partial("hel"), transcript.partial("hello")] == ["", "", ""]


def test_looks_that_disagree_tell_nothing() -> None:
    transcript = StableTranscript()
    assert [transcript.partial("we can go"), transcript.partial("weak end go on")] == ["", ""]


def test_a_look_that_contradicts_what_was_told_tells_nothing_more() -> None:
    transcript = StableTranscript()
    transcript.partial("ten men went")
    assert transcript.partial("ten men went there") == "ten men went"
    transcript.partial("then men went there now")
    assert transcript.partial("then men went there now and") == ""


def test_case_and_punctuation_do_not_count_as_disagreement() -> None:
    transcript = StableTranscript()
    transcript.partial("Hello there how")
    assert transcript.partial("hello, there how are") == "hello, there how"


def test_without_looks_the_final_transcript_is_one_delta_word_for_word() -> None:
    transcript = StableTranscript()
    assert transcript.final("  as it came ") == "  as it came "


def test_a_look_that_was_superseded_loses_nothing() -> None:
    conversation = Conversation(LIVE, looks=["one two", None, "one two three"], asr="one two three four five")
    conversation.speak(900)
    conversation.silence(1_000)
    assert "".join(deltas(conversation)) == "one two three four five"


def test_a_look_that_comes_after_the_commit_is_dropped() -> None:
    conversation = Conversation(LIVE, engines=False)
    conversation.frames(*[SPEECH] * 30, *[SILENCE] * 20)
    assert conversation.feed(PartialTranscript("item_1", "late words here")) == []
    assert conversation.feed(Transcript("item_1", "The words."))[:2] == [
        InputTranscriptDelta("item_1", "The words."),
        InputTranscriptCompleted("item_1", "The words.", 30 * VAD_FRAME + 12_000),
    ]


def test_a_look_at_another_utterance_is_dropped() -> None:
    conversation = Conversation(replace(LIVE, live_transcript=True), engines=False)
    conversation.frames(*[SPEECH] * 30, *[SILENCE] * 20, *[SPEECH] * 30)
    for _ in range(2):
        assert conversation.feed(PartialTranscript("item_1", "old words that agree")) == []


def test_words_told_before_a_commit_by_hand_begin_its_transcript() -> None:
    conversation = Conversation(LIVE, looks=["good morning to", "good morning to you"], asr="Good morning to you all.")
    conversation.speak(700)
    conversation.commit()
    conversation.run_dry()
    assert deltas(conversation) == ["good morning to", " you all."]


def test_words_told_before_the_input_is_cleared_stay_without_an_end() -> None:
    conversation = Conversation(LIVE, looks=["good morning to", "good morning to you"])
    conversation.speak(700)
    conversation.clear()
    conversation.silence(3_000)
    assert conversation.all(InputTranscriptCompleted) == []


def test_words_told_before_the_vad_is_turned_off_stay_without_an_end() -> None:
    conversation = Conversation(LIVE, engines=False)
    conversation.frames(*[SPEECH] * 10)
    conversation.configure(by_hand(live_transcript=True))
    assert conversation.feed(PartialTranscript("item_1", "good morning")) == []


# --- log probabilities ----------------------------------------------------------------------------------------------


def tokens(*texts: str) -> tuple[TokenLogprob, ...]:
    return tuple(TokenLogprob(text, -0.5, text.encode()) for text in texts)


WORDS = tokens("Good", " morn", "ing", " to", " you")


@pytest.mark.parametrize(
    ("delta", "said"),
    [
        ("Good morning to you", WORDS),
        (" to you", WORDS[3:]),
        (" you", WORDS[4:]),
        ("ning to you", None),
        ("well, Good morning to you", None),
        (" to me", None),
        ("", None),
    ],
)
def test_a_delta_has_the_last_tokens_if_they_say_it_and_nothing_else(
    delta: str, said: tuple[TokenLogprob, ...] | None
) -> None:
    assert tokens_of(delta, WORDS) == said
    assert tokens_of(delta, None) is None
    assert tokens_of(delta, ()) is None


def test_half_a_character_in_each_of_two_tokens_is_one_in_the_delta() -> None:
    halves = (TokenLogprob("\ufffd", -0.1, b"\xc3"), TokenLogprob("\ufffd", -0.2, b"\xbc"))
    assert tokens_of("ü", halves) == halves


def test_a_transcript_that_comes_at_once_has_all_tokens_in_its_delta_and_at_its_end() -> None:
    conversation = Conversation(engines=False)
    conversation.frames(*[SPEECH] * 30, *[SILENCE] * 20)
    assert conversation.feed(Transcript("item_1", "Good morning to you", WORDS))[:2] == [
        InputTranscriptDelta("item_1", "Good morning to you", WORDS),
        InputTranscriptCompleted("item_1", "Good morning to you", 30 * VAD_FRAME + 12_000, WORDS),
    ]


def test_what_was_told_before_the_end_has_no_tokens_what_is_left_has_its_own() -> None:
    conversation = Conversation(LIVE, engines=False)
    conversation.frames(*[SPEECH] * 6)
    for look in ("good morning", "good morning to", "good morning to"):
        conversation.feed(PartialTranscript("item_1", look))
        conversation.frames(*[SPEECH] * 3)
    assert conversation.only(InputTranscriptDelta) == InputTranscriptDelta("item_1", "good morning")
    conversation.frames(*[SILENCE] * 20)
    last, completed = conversation.feed(Transcript("item_1", "Good morning to you", WORDS))[:2]
    assert last == InputTranscriptDelta("item_1", " to you", WORDS[3:])
    assert completed.logprobs == WORDS


# --- exactly one end ------------------------------------------------------------------------------------------------


def test_a_transcript_is_told_once() -> None:
    conversation = Conversation(engines=False)
    conversation.frames(*[SPEECH] * 10, *[SILENCE] * 20)
    assert conversation.feed(Transcript("item_1", "hello")) != []
    assert conversation.feed(Transcript("item_1", "hello")) == []
    assert conversation.feed(TranscriptFailed("item_1", FAULT)) == []


def test_a_failed_transcript_stays_failed() -> None:
    conversation = Conversation(engines=False)
    conversation.frames(*[SPEECH] * 10, *[SILENCE] * 20)
    conversation.feed(TranscriptFailed("item_1", FAULT))
    assert conversation.only(InputTranscriptFailed).fault is FAULT
    assert conversation.feed(Transcript("item_1", "hello")) == []


@pytest.mark.parametrize("message", [Transcript("item_9", "hello"), TranscriptFailed("item_9", FAULT)])
def test_the_words_of_an_unknown_item_are_dropped(message: Transcript | TranscriptFailed) -> None:
    assert Conversation().feed(message) == []


def test_a_transcript_may_come_after_the_response_that_did_not_wait_for_it() -> None:
    conversation = Conversation(server_vad(create_response=False), asr_ms=3_000)
    conversation.create()
    conversation.speak(600)
    conversation.silence(800)
    conversation.run_dry()
    assert list(conversation.transcripts().values()) == ["hello there"]


def test_the_default_settings_tell_no_live_transcript() -> None:
    assert TurnSettings().live_transcript is False
