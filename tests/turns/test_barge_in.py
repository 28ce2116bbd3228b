"""The user speaks while the agent thinks or speaks, or right after the turn was thought to be over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.turns.actions import StopResponse
from gateway.turns.states import Agent, User
from protocol.audio_time import samples_from_ms
from protocol.backend_events import (
    ContextRequested,
    EndReason,
    EndStatus,
    EngineFault,
    InputCommitted,
    InputTranscriptCompleted,
    OutputAudio,
    OutputSpoken,
    PlayoutCut,
    RefusalKind,
    ResponseEnded,
    ResponseStarted,
    SpeechStarted,
)
from tests.simulation.conversation import HANG, Conversation, server_vad

LONG_REPLY = "This is a long story about tea. It begins in the mountains. It ends in a cup. Nobody knows why."


def answered(conversation: Conversation, *, for_ms: int) -> Conversation:
    """The user has said something and the reply has been running for `for_ms` since its ResponseStarted."""
    conversation.silence(300)
    conversation.speak(800)
    conversation.silence(500)
    while not conversation.responses():
        conversation.silence(20)
    conversation.silence(for_ms)
    return conversation


def say_more(conversation: Conversation, ms: int = 600) -> None:
    conversation.speak(ms)
    conversation.silence(900)


def order(conversation: Conversation, *kinds: type) -> list[type]:
    return [type(output) for output in conversation.outputs if isinstance(output, kinds)]


# --- cutting in -----------------------------------------------------------------------------------------------------


def test_rb18_speech_started_comes_first_and_the_cancelled_response_right_after() -> None:
    conversation = answered(Conversation(llm=LONG_REPLY, piece_every_ms=90), for_ms=1_440)
    conversation.speak(100)
    since = conversation.outputs.index(conversation.all(SpeechStarted)[1])
    assert conversation.names(since) == ["SpeechStarted", "OutputSpoken", "ResponseEnded", "StopResponse", "PlayoutCut"]
    times = {timed.at for timed in conversation.timeline[since:]}
    assert len(times) == 1, "in one list"


def test_barge_in_while_the_agent_thinks_cancels_the_response() -> None:
    conversation = answered(Conversation(asr=["one", "two"], llm=[[HANG], "Yes?"]), for_ms=1_000)
    assert conversation.agent is Agent.THINKING
    say_more(conversation)
    first = conversation.all(ResponseEnded)[0]
    assert (first.status, first.reason, first.heard) == (EndStatus.CANCELLED, EndReason.TURN_DETECTED, 0)
    assert conversation.all(StopResponse)[0] == StopResponse("resp_1")
    assert conversation.all(PlayoutCut) == []
    conversation.run_dry()
    assert conversation.text("resp_2") == "Yes?"


def test_barge_in_while_the_agent_speaks_keeps_what_was_heard() -> None:
    conversation = answered(Conversation(llm=[[LONG_REPLY, HANG], "Yes?"], piece_every_ms=90), for_ms=1_500)
    assert conversation.agent is Agent.SPEAKING
    first_audio = conversation.at(conversation.all(OutputAudio)[0])
    say_more(conversation)
    cut = conversation.only(PlayoutCut)
    cancelled = conversation.all(ResponseEnded)[0]
    onset_at = conversation.at(conversation.all(SpeechStarted)[1])
    assert cut.heard == cancelled.heard == onset_at - first_audio - samples_from_ms(150)
    assert (cancelled.status, cancelled.reason) == (EndStatus.CANCELLED, EndReason.TURN_DETECTED)


def test_the_marks_reach_beyond_what_was_heard_so_that_the_words_can_be_told() -> None:
    conversation = answered(Conversation(llm=[[LONG_REPLY, HANG], "Yes?"], piece_every_ms=90), for_ms=1_500)
    say_more(conversation)
    cut = conversation.only(PlayoutCut)
    marks = [mark for mark in conversation.all(OutputSpoken) if mark.item_id == cut.item_id]
    assert marks[-1].audio_end >= cut.heard


def test_nothing_of_a_cut_response_leaves_after_its_end_except_the_cut() -> None:
    conversation = answered(Conversation(llm=[LONG_REPLY, "Yes?"]), for_ms=800)
    say_more(conversation)
    conversation.run_dry()  # late tokens and audio arrive; the driver checks that they are dropped
    assert conversation.ends()[0] == ("resp_1", "cancelled", "turn_detected")


def test_rb18_a_response_that_ended_but_still_plays_is_cut_without_a_second_end() -> None:
    conversation = answered(Conversation(llm=[LONG_REPLY, "Yes?"]), for_ms=3_000)
    assert conversation.ends() == [("resp_1", "completed", None)]
    assert conversation.agent is Agent.SPEAKING
    say_more(conversation)
    conversation.run_dry()
    assert [end for end in conversation.ends() if end[0] == "resp_1"] == [("resp_1", "completed", None)]
    assert 0 < conversation.only(PlayoutCut).heard < conversation.audio_of("resp_1")


def test_the_agent_is_idle_from_the_cut_on() -> None:
    conversation = answered(Conversation(llm=LONG_REPLY), for_ms=1_500)
    conversation.speak(100)
    assert conversation.agent is Agent.IDLE
    assert conversation.user is User.SPEAKING
    assert conversation.machine.active_response is None


def test_both_may_speak_at_once_if_the_client_wants_no_interruptions() -> None:
    conversation = answered(Conversation(server_vad(interrupt_response=False), llm=LONG_REPLY), for_ms=1_500)
    conversation.speak(300)
    assert (conversation.user, conversation.agent) == (User.SPEAKING, Agent.SPEAKING)
    assert conversation.all(PlayoutCut) == []


def test_without_interruptions_the_turn_is_committed_and_its_response_refused_as_openai_does() -> None:
    conversation = answered(Conversation(server_vad(interrupt_response=False), llm=[[LONG_REPLY, HANG]]), for_ms=1_500)
    say_more(conversation)
    assert len(conversation.all(InputCommitted)) == 2
    (refusal,) = conversation.refusals()
    assert (refusal.kind, refusal.client_event_id, refusal.response_id) == (RefusalKind.RESPONSE_ACTIVE, None, None)
    assert len(conversation.transcripts()) == 2


def test_with_interruptions_but_without_automatic_responses_the_client_goes_on_itself() -> None:
    conversation = Conversation(server_vad(create_response=False), llm=[LONG_REPLY, "Yes?"])
    conversation.create()
    conversation.silence(1_500)
    say_more(conversation)
    conversation.run_dry()
    assert conversation.responses() == ["client_resp_1"]
    assert len(conversation.all(PlayoutCut)) == 1
    conversation.create()
    conversation.run_dry()
    assert conversation.text("client_resp_2") == "Yes?"


def test_without_both_there_are_speech_events_and_commits_only() -> None:
    settings = server_vad(create_response=False, interrupt_response=False)
    conversation = Conversation(settings, llm=LONG_REPLY)
    conversation.create()
    conversation.silence(1_500)
    say_more(conversation)
    conversation.run_dry()
    assert conversation.ends() == [("client_resp_1", "completed", None)]
    assert (conversation.all(PlayoutCut), conversation.refusals()) == ([], [])


@pytest.mark.parametrize(("ms", "cut"), [(32, False), (64, True), (350, True)])
def test_rb19_server_vad_lets_every_speech_cut_in_and_no_click(ms: int, cut: bool) -> None:
    conversation = answered(Conversation(llm=[LONG_REPLY, "Yes?"]), for_ms=1_500)
    conversation.silence(-conversation.machine.received % 768 // 24)  # so that the speech fills whole frames
    conversation.speak(ms)
    conversation.silence(100)
    assert bool(conversation.all(PlayoutCut)) is cut


def test_the_same_barge_in_twice_is_two_turns() -> None:
    conversation = answered(Conversation(llm=[LONG_REPLY, LONG_REPLY, "Yes?"]), for_ms=1_500)
    say_more(conversation)
    conversation.silence(1_500)
    say_more(conversation)
    conversation.run_dry()
    assert len(conversation.all(PlayoutCut)) == 2
    assert len(conversation.all(InputCommitted)) == 3


# --- resuming right after the commit --------------------------------------------------------------------------------


def resumed(conversation: Conversation) -> Conversation:
    """The user goes on right after the commit, before the recogniser has answered."""
    conversation.asr_ms = max(conversation.asr_ms, 600)  # asked at the pause, 128 ms after the voice
    conversation.speak(800)
    conversation.silence(540)
    assert len(conversation.responses()) == 1
    conversation.speak(800)
    conversation.silence(900)
    return conversation


def test_a_user_who_resumes_after_the_commit_gets_a_second_item_and_one_answer_to_both() -> None:
    conversation = resumed(Conversation(asr=["I would like", "a cup of tea"], llm=["With milk?"]))
    conversation.run_dry()
    first, second = conversation.all(SpeechStarted)
    assert first.item_id != second.item_id
    assert conversation.ends() == [("resp_1", "cancelled", "turn_detected"), ("resp_2", "completed", None)]
    assert conversation.transcripts() == {first.item_id: "I would like", second.item_id: "a cup of tea"}


def test_the_wire_never_unsays_the_first_commit() -> None:
    conversation = resumed(Conversation(llm=["With milk?"]))
    kinds = order(conversation, SpeechStarted, InputCommitted, ResponseStarted, ResponseEnded)
    assert kinds[:5] == [SpeechStarted, InputCommitted, ResponseStarted, SpeechStarted, ResponseEnded]
    assert kinds[5:7] == [InputCommitted, ResponseStarted]


def test_the_response_waits_for_the_words_of_both_items() -> None:
    conversation = resumed(Conversation(asr_ms=3_000, llm=["With milk?"]))
    conversation.run_dry()
    kinds = order(conversation, InputTranscriptCompleted, ContextRequested)
    assert kinds == [InputTranscriptCompleted, InputTranscriptCompleted, ContextRequested]


def test_words_that_come_out_of_order_are_both_waited_for() -> None:
    conversation = Conversation(asr=["first", "second"], llm=["Yes."], asr_ms=3_000)
    conversation.speak(800)
    conversation.silence(540)
    conversation.asr_ms = 100  # the second one is quicker
    conversation.speak(800)
    conversation.silence(900)
    assert list(conversation.transcripts().values()) == ["second"]
    conversation.run_dry()
    assert list(conversation.transcripts().values()) == ["second", "first"]
    assert conversation.text("resp_2") == "Yes."


# --- coughs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("heard", ["", " ", "\n", ".", " ... "])
def test_a_cough_ends_its_response_without_output(heard: str) -> None:
    conversation = Conversation(asr=[heard], llm=[])
    conversation.speak(200)
    conversation.silence(900)
    conversation.run_dry()
    assert conversation.ends() == [("resp_1", "completed", None)]
    assert conversation.all(ContextRequested) == []
    assert conversation.agent is Agent.IDLE


def test_a_cough_right_after_a_question_does_not_lose_its_answer() -> None:
    conversation = resumed(Conversation(asr=["What is the capital of France?", ""], llm=["Paris."]))
    conversation.run_dry()
    assert conversation.ends() == [("resp_1", "cancelled", "turn_detected"), ("resp_2", "completed", None)]
    assert conversation.text("resp_2") == "Paris."


def test_a_cough_right_before_the_words_does_not_lose_their_answer() -> None:
    conversation = resumed(Conversation(asr=["", "What is the capital of France?"], llm=["Paris."]))
    conversation.run_dry()
    assert conversation.text("resp_2") == "Paris."


def test_a_cough_after_the_answer_began_to_play_has_nothing_to_answer() -> None:
    conversation = answered(Conversation(asr=["Tell me a story.", ""], llm=[LONG_REPLY]), for_ms=1_500)
    conversation.speak(200)
    conversation.silence(900)
    conversation.run_dry()
    assert [status for _, status, _ in conversation.ends()][-1] == "completed"
    assert conversation.text("resp_2") == ""


def test_a_cough_after_a_text_answer_has_nothing_to_answer() -> None:
    settings = replace(server_vad(), audio_output=False)
    conversation = answered(Conversation(settings, asr=["Tell me.", ""], llm=["Well."]), for_ms=1_000)
    conversation.speak(200)
    conversation.silence(900)
    conversation.run_dry()
    assert [conversation.text(response_id) for response_id in conversation.responses()] == ["Well.", ""]


def test_a_cough_after_a_failed_answer_tries_again() -> None:
    fault = EngineFault("llm_failed", "It broke.")
    conversation = answered(Conversation(asr=["What is the time?", ""], llm=[[fault], "Noon."]), for_ms=1_000)
    conversation.speak(200)
    conversation.silence(900)
    conversation.run_dry()
    assert conversation.text("resp_2") == "Noon."


def test_two_coughs_in_a_row_get_no_answer() -> None:
    conversation = resumed(Conversation(asr=["", ""], llm=[]))
    conversation.run_dry()
    assert [status for _, status, _ in conversation.ends()] == ["cancelled", "completed"]
    assert conversation.all(ContextRequested) == []


def test_words_said_while_an_older_answer_ran_are_not_taken_for_answered_by_it() -> None:
    settings = server_vad(interrupt_response=False)
    conversation = answered(
        Conversation(
            settings, asr=["Tell me a story.", "And the time?", ""], llm=[LONG_REPLY, "Noon."], piece_every_ms=90
        ),
        for_ms=1_500,
    )
    say_more(conversation)  # answered by nobody: its automatic response is refused
    assert len(conversation.refusals()) == 1
    conversation.silence(12_000)
    assert conversation.ends() == [("resp_1", "completed", None)]
    conversation.speak(200)  # a cough
    conversation.silence(900)
    conversation.run_dry()
    assert conversation.text("resp_2") == "Noon."


def test_a_cough_beside_a_clients_own_response_does_not_end_it() -> None:
    conversation = Conversation(server_vad(create_response=False, interrupt_response=False), asr=[""])
    conversation.speak(200)
    conversation.silence(600)
    conversation.create()
    conversation.run_dry()
    assert conversation.text("client_resp_1") == "I hear you."
