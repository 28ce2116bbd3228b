"""Responses beside the conversation run in parallel, and nothing of the conversation touches them."""

from __future__ import annotations

import pytest

from gateway.turns.actions import StopResponse, TranscribeItem
from gateway.turns.inputs import ResponseRequested
from gateway.turns.out_of_band import PARALLEL_RESPONSES
from gateway.turns.states import Agent
from protocol.audio_time import samples_from_ms, samples_from_s
from protocol.backend_events import (
    ContextRequested,
    EngineFault,
    PlayoutCut,
    RefusalKind,
    ResponseEnded,
    ResponseStarted,
    SpeechStarted,
)
from tests.simulation.conversation import HANG, Call, Conversation, by_hand

LONG = "One two three four five six seven eight nine ten. " * 4


def status_of(conversation: Conversation, response_id: str) -> str:
    (end,) = [end for end in conversation.all(ResponseEnded) if end.response_id == response_id]
    return end.status.value if end.reason is None else f"{end.status.value}: {end.reason.value}"


def test_it_runs_beside_the_response_of_the_conversation() -> None:
    conversation = Conversation(by_hand(), llm=[LONG, "A summary."])
    first = conversation.create()
    conversation.wait(250)
    beside = conversation.create_out_of_band()
    conversation.wait(400)
    assert conversation.machine.active_response == first
    assert status_of(conversation, beside) == "completed"
    assert conversation.text(beside) == "A summary."
    conversation.run_dry()
    assert status_of(conversation, first) == "completed"
    assert [started.out_of_band for started in conversation.all(ResponseStarted)] == [False, True]


def test_one_may_speak_and_does_not_move_the_conversations_playout() -> None:
    conversation = Conversation(by_hand(), llm=LONG)
    beside = conversation.create_out_of_band(audio=True)
    conversation.wait(2_000)
    assert conversation.audio_of(beside) > 0
    assert conversation.agent is Agent.IDLE, "what stands beside the conversation is not the agent's turn"
    conversation.run_dry()
    assert status_of(conversation, beside) == "completed"


def test_its_speech_is_paced_by_itself() -> None:
    sentences = "Here is one more sentence that is long enough to be said. " * 30
    conversation = Conversation(by_hand(), llm=sentences, word_ms=500)
    beside = conversation.create_out_of_band(audio=True)
    conversation.wait(8_000)
    assert samples_from_s(30) <= conversation.audio_of(beside) <= samples_from_s(50)
    conversation.run_dry(400_000)
    assert status_of(conversation, beside) == "completed"


def test_the_users_speech_does_not_interrupt_it() -> None:
    conversation = Conversation(llm=[LONG, LONG])
    spoken = conversation.create()
    beside = conversation.create_out_of_band(audio=True)
    conversation.silence(2_000)
    conversation.speak(300)
    conversation.only(SpeechStarted)
    assert status_of(conversation, spoken) == "cancelled: turn_detected"
    assert beside in conversation.machine._out_of_band
    assert {cut.item_id for cut in conversation.all(PlayoutCut)} <= {"item_1", "item_2"}
    conversation.llm = "Yes."
    conversation.silence(5_000)
    conversation.run_dry()
    assert status_of(conversation, beside) == "completed"


def test_a_cancel_without_an_id_means_the_conversations_response() -> None:
    conversation = Conversation(by_hand(), llm=LONG)
    beside = conversation.create_out_of_band()
    conversation.cancel(client_event_id="evt_1")
    (refusal,) = conversation.refusals()
    assert (refusal.kind, refusal.client_event_id) == (RefusalKind.NO_ACTIVE_RESPONSE, "evt_1")
    conversation.cancel(beside)
    assert status_of(conversation, beside) == "cancelled: client_cancelled"
    assert conversation.only(StopResponse).response_id == beside
    conversation.run_dry()


def test_late_results_of_a_cancelled_one_are_dropped() -> None:
    conversation = Conversation(by_hand(), llm=[[*LONG.split(), Call(name="late")]])
    beside = conversation.create_out_of_band()
    conversation.wait(260)
    conversation.cancel(beside)
    before = len(conversation.timeline)
    conversation.wait(5_000)
    assert len(conversation.timeline) == before


def test_each_fails_alone() -> None:
    fault = EngineFault("llm_failed", "It broke.")
    conversation = Conversation(by_hand(), llm=[[fault], "All is well."])
    failing, whole = conversation.create_out_of_band(), conversation.create_out_of_band()
    conversation.run_dry()
    assert status_of(conversation, failing) == "failed"
    assert status_of(conversation, whole) == "completed"


def test_an_engine_that_never_answers_one_is_given_up() -> None:
    conversation = Conversation(by_hand(), llm=[[HANG]])
    beside = conversation.create_out_of_band()
    conversation.run_dry()
    (end,) = conversation.all(ResponseEnded)
    assert (end.response_id, end.fault and end.fault.code) == (beside, "llm_timeout")


def test_one_whose_context_holds_speech_waits_for_the_words() -> None:
    conversation = Conversation(by_hand(), asr_ms=700)
    conversation.speak(500)
    conversation.commit()
    waiting = conversation.create_out_of_band(needs_transcripts=True)
    own_input = conversation.create_out_of_band(needs_transcripts=False)
    conversation.wait(600)
    assert [asked.response_id for asked in conversation.all(ContextRequested)] == [own_input]
    conversation.run_dry()
    assert status_of(conversation, waiting) == "completed"


def test_one_that_waits_for_words_that_never_come_fails() -> None:
    fault = EngineFault("asr_failed", "It broke.")
    conversation = Conversation(by_hand(), asr=fault)
    conversation.speak(500)
    conversation.commit()
    waiting = conversation.create_out_of_band(needs_transcripts=True)
    own_input = conversation.create_out_of_band(needs_transcripts=False)
    conversation.run_dry()
    assert status_of(conversation, waiting) == "failed"
    assert status_of(conversation, own_input) == "completed"


def test_one_too_many_is_refused() -> None:
    conversation = Conversation(by_hand(), llm=[[HANG]] * PARALLEL_RESPONSES)
    for _ in range(PARALLEL_RESPONSES):
        conversation.create_out_of_band()
    conversation.tell(ResponseRequested("one_too_many", False, "evt_1", True, False))
    (refusal,) = conversation.refusals()
    assert refusal.kind is RefusalKind.TOO_MANY_RESPONSES
    assert (refusal.client_event_id, refusal.response_id) == ("evt_1", "one_too_many")
    conversation.run_dry()
    assert len(conversation.all(ResponseEnded)) == PARALLEL_RESPONSES


@pytest.mark.parametrize("beside", [False, True])
def test_the_words_of_an_item_with_audio_come_first(beside: bool) -> None:
    conversation = Conversation(by_hand(), asr="what time is it", asr_ms=300)
    conversation.give_audio("given", samples_from_ms(900))
    assert conversation.only(TranscribeItem).item_id == "given"
    if beside:
        conversation.create_out_of_band(needs_transcripts=True)
    else:
        conversation.create()
    conversation.wait(200)
    assert conversation.all(ContextRequested) == []
    conversation.run_dry()
    assert conversation.transcripts() == {"given": "what time is it"}
    assert [end.status.value for end in conversation.all(ResponseEnded)] == ["completed"]
