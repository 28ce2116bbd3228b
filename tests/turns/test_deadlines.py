"""Each engine's patience: just under, exactly at and just over, and nothing left to wait for afterwards."""

from __future__ import annotations

import pytest

from gateway.turns.actions import Generate, StopGenerating, StopResponse, Synthesize, Transcribe
from gateway.turns.inputs import (
    ContextProvided,
    FunctionCallDelta,
    GenerationAlive,
    GenerationEnded,
    SynthesisEnded,
    SynthesizedSpeech,
    TextDelta,
    Transcript,
)
from gateway.turns.settings import LONGEST_REPLY, SYNTHESIS_LEAD, Deadlines
from protocol.audio_time import samples_from_ms, samples_from_s
from protocol.backend_events import (
    ContextRequested,
    EndReason,
    EndStatus,
    InputTranscriptCompleted,
    InputTranscriptFailed,
    OutputAudio,
    ResponseEnded,
)
from tests.simulation.conversation import Conversation, by_hand

PATIENCE = Deadlines(transcript=1_000, first_token=2_000, next_token=3_000, speech=4_000)
SETTINGS = by_hand(deadlines=PATIENCE)

AROUND = [(-1, False), (0, True), (1, True)]


def fault_of(conversation: Conversation) -> str:
    fault = conversation.only(ResponseEnded).fault
    assert fault is not None
    return fault.code


def committed() -> Conversation:
    conversation = Conversation(SETTINGS, engines=False)
    conversation.speak(500)
    conversation.commit()
    return conversation


def generating() -> Conversation:
    conversation = Conversation(SETTINGS, engines=False)
    conversation.create()
    conversation.only(Generate)
    return conversation


def synthesising() -> Conversation:
    conversation = generating()
    conversation.feed(TextDelta("client_resp_1", "A whole sentence to say. "))
    conversation.feed(TextDelta("client_resp_1", "Then another one follows."))
    conversation.feed(GenerationEnded("client_resp_1", "stop"))
    conversation.only(Synthesize)
    return conversation


# --- the recogniser -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("more", "fails"), AROUND)
def test_a_transcript_that_does_not_come_in_time_is_given_up(more: int, fails: bool) -> None:
    conversation = committed()
    conversation.run_until(conversation.now + PATIENCE.transcript + more)
    assert bool(conversation.all(InputTranscriptFailed)) is fails


def test_a_transcript_just_in_time_is_taken() -> None:
    conversation = committed()
    conversation.run_until(conversation.now + PATIENCE.transcript - 1)
    conversation.feed(Transcript("item_1", "hello"))
    conversation.wait(60_000)
    assert conversation.all(InputTranscriptFailed) == []
    assert conversation.only(InputTranscriptCompleted).transcript == "hello"


def test_a_transcript_after_its_time_is_dropped() -> None:
    conversation = committed()
    conversation.wait(60_000)
    assert conversation.feed(Transcript("item_1", "hello")) == []
    assert conversation.only(InputTranscriptFailed).fault.code == "asr_timeout"


def test_a_response_fails_with_the_transcript_it_waits_for() -> None:
    conversation = committed()
    conversation.create()
    conversation.wait(60_000)
    assert fault_of(conversation) == "asr_timeout"
    assert conversation.all(ContextRequested) == []


def test_every_commit_has_its_own_patience() -> None:
    conversation = committed()
    conversation.run_until(conversation.now + 500)
    conversation.speak(200)
    assert [t.item_id for t in conversation.all(Transcribe)] == ["item_1"]
    first_due = conversation.at(conversation.only(Transcribe)) + PATIENCE.transcript
    conversation.run_until(max(conversation.now, first_due))
    conversation.commit()
    second_due = conversation.now + PATIENCE.transcript
    conversation.run_until(second_due)
    times = [conversation.at(failed) for failed in conversation.all(InputTranscriptFailed)]
    assert times == [first_due, second_due]


# --- the language model ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("more", "fails"), AROUND)
def test_a_language_model_that_sends_nothing_is_given_up(more: int, fails: bool) -> None:
    conversation = generating()
    conversation.run_until(conversation.now + PATIENCE.first_token + more)
    assert bool(conversation.all(ResponseEnded)) is fails
    if fails:
        assert fault_of(conversation) == "llm_timeout"
        assert conversation.all(StopResponse) == [StopResponse("client_resp_1")]


@pytest.mark.parametrize(("more", "fails"), AROUND)
@pytest.mark.parametrize("first", ["Well", "<think>"])
def test_a_language_model_that_stops_in_mid_reply_is_given_up(more: int, fails: bool, first: str) -> None:
    conversation = generating()
    conversation.run_until(conversation.now + PATIENCE.first_token - 1)
    conversation.feed(TextDelta("client_resp_1", first))
    conversation.run_until(conversation.now + PATIENCE.next_token + more)
    assert bool(conversation.all(ResponseEnded)) is fails
    if fails:
        assert fault_of(conversation) == "llm_stalled"


@pytest.mark.parametrize(("more", "fails"), AROUND)
def test_a_model_that_thinks_is_alive_for_as_long_as_between_two_tokens(more: int, fails: bool) -> None:
    conversation = generating()
    for wait in (PATIENCE.first_token, PATIENCE.next_token, PATIENCE.next_token):
        conversation.run_until(conversation.now + wait - 1)
        conversation.feed(GenerationAlive("client_resp_1", 10))
    conversation.run_until(conversation.now + PATIENCE.next_token + more)
    assert bool(conversation.all(ResponseEnded)) is fails
    if fails:
        assert fault_of(conversation) == "llm_stalled"


@pytest.mark.parametrize(("more", "ends"), AROUND)
def test_thoughts_without_end_are_cut_like_a_reply(more: int, ends: bool) -> None:
    conversation = generating()
    conversation.feed(GenerationAlive("client_resp_1", LONGEST_REPLY + 1 + more))
    assert bool(conversation.all(ResponseEnded)) is ends
    if ends:
        ended = conversation.only(ResponseEnded)
        assert (ended.status, ended.reason) == (EndStatus.INCOMPLETE, EndReason.MAX_OUTPUT_TOKENS)
        assert conversation.all(StopGenerating) == [StopGenerating("client_resp_1")]


def test_signs_of_life_say_nothing() -> None:
    conversation = generating()
    assert conversation.feed(GenerationAlive("client_resp_1", 10)) == []
    assert conversation.feed(GenerationAlive("client_resp_9", 10)) == []


@pytest.mark.parametrize(("more", "fails"), AROUND)
def test_a_function_call_that_stops_in_the_middle_is_given_up(more: int, fails: bool) -> None:
    conversation = generating()
    conversation.feed(FunctionCallDelta("client_resp_1", 0, "call_1", "look", '{"a'))
    conversation.run_until(conversation.now + PATIENCE.next_token + more)
    assert bool(conversation.all(ResponseEnded)) is fails


def test_every_token_renews_the_patience() -> None:
    conversation = generating()
    for _ in range(20):
        conversation.feed(TextDelta("client_resp_1", "and "))
        conversation.run_until(conversation.now + PATIENCE.next_token - 1)
        if synthesize := conversation.all(Synthesize):  # which has its own patience
            conversation.feed(SynthesizedSpeech("client_resp_1", synthesize[-1].chunk, bytes(2)))
    assert conversation.all(ResponseEnded) == []


def test_the_language_models_patience_begins_with_its_context() -> None:
    conversation = Conversation(SETTINGS, engines=False, context_ms=1_000)
    conversation.create()
    conversation.wait(999)
    assert conversation.all(ResponseEnded) == []
    conversation.run_until(conversation.now + 24 + PATIENCE.first_token - 1)
    assert conversation.all(ResponseEnded) == []


def test_after_the_whole_reply_the_language_model_is_waited_for_no_more() -> None:
    conversation = synthesising()
    conversation.run_until(conversation.now + PATIENCE.next_token)
    assert conversation.all(ResponseEnded) == []


def test_a_token_after_the_whole_reply_does_not_start_the_patience_anew() -> None:
    conversation = synthesising()
    conversation.feed(TextDelta("client_resp_1", "late"))
    assert conversation.machine.next_deadline(conversation.now) == conversation.now + PATIENCE.speech


# --- the synthesiser ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("more", "fails"), AROUND)
def test_a_synthesiser_that_sends_nothing_is_given_up(more: int, fails: bool) -> None:
    conversation = synthesising()
    conversation.run_until(conversation.now + PATIENCE.speech + more)
    assert bool(conversation.all(ResponseEnded)) is fails
    if fails:
        assert fault_of(conversation) == "tts_timeout"


@pytest.mark.parametrize("pcm", [b"", bytes(480)])
@pytest.mark.parametrize(("more", "fails"), AROUND)
def test_a_synthesiser_that_stops_in_mid_chunk_is_given_up(more: int, fails: bool, pcm: bytes) -> None:
    conversation = synthesising()
    conversation.run_until(conversation.now + PATIENCE.speech - 1)
    conversation.feed(SynthesizedSpeech("client_resp_1", 0, pcm))
    conversation.run_until(conversation.now + PATIENCE.speech + more)
    assert bool(conversation.all(ResponseEnded)) is fails


def test_each_chunk_has_its_own_patience() -> None:
    conversation = synthesising()
    conversation.run_until(conversation.now + PATIENCE.speech - 1)
    conversation.feed(SynthesizedSpeech("client_resp_1", 0, bytes(480)))
    conversation.feed(SynthesisEnded("client_resp_1", 0))
    conversation.run_until(conversation.now + PATIENCE.speech - 1)
    assert conversation.all(ResponseEnded) == []
    conversation.run_until(conversation.now + 1)
    assert conversation.only(ResponseEnded).status is EndStatus.FAILED


# --- pacing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("more", "waits"), [(-1, 0), (0, 0), (1, 1), (24_000, 24_000)])
def test_speech_is_synthesised_at_most_thirty_seconds_ahead_of_the_player(more: int, waits: int) -> None:
    assert SYNTHESIS_LEAD == samples_from_s(30)
    conversation = synthesising()
    audio = SYNTHESIS_LEAD - samples_from_ms(150) + more
    conversation.feed(SynthesizedSpeech("client_resp_1", 0, bytes(2 * audio)))
    conversation.feed(SynthesisEnded("client_resp_1", 0))
    began = conversation.now
    conversation.run_until(began + max(0, waits - 1))
    assert len(conversation.all(Synthesize)) == (1 if waits else 2)
    conversation.run_until(began + waits)
    assert len(conversation.all(Synthesize)) == 2


def test_a_truncate_makes_room_for_the_next_chunk_at_once() -> None:
    conversation = synthesising()
    conversation.feed(SynthesizedSpeech("client_resp_1", 0, bytes(2 * samples_from_s(60))))
    conversation.feed(SynthesisEnded("client_resp_1", 0))
    assert len(conversation.all(Synthesize)) == 1
    conversation.truncate(conversation.all(OutputAudio)[0].item_id, 5_000)
    assert len(conversation.all(Synthesize)) == 2


def test_waiting_for_the_player_is_not_waiting_for_an_engine() -> None:
    conversation = synthesising()
    conversation.feed(SynthesizedSpeech("client_resp_1", 0, bytes(2 * samples_from_s(60))))
    conversation.feed(SynthesisEnded("client_resp_1", 0))
    conversation.wait(20_000)
    assert conversation.all(ResponseEnded) == []


# --- afterwards -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", [committed, generating, synthesising])
def test_after_a_failure_nothing_is_due(stage: object) -> None:
    assert callable(stage)
    conversation = stage()
    conversation.wait(60_000)
    assert conversation.machine.next_deadline(conversation.now) is None
    assert conversation.machine.active_response is None


def test_rb41_after_a_timeout_the_next_response_is_accepted() -> None:
    conversation = generating()
    conversation.wait(60_000)
    conversation.engines = True
    conversation.first_token_ms = conversation.first_audio_ms = 50
    conversation.create()
    conversation.run_dry()
    assert [status for _, status, _ in conversation.ends()] == ["failed", "completed"]


def test_a_context_nobody_asked_for_is_ignored() -> None:
    conversation = generating()
    assert conversation.feed(ContextProvided("client_resp_1")) == []
