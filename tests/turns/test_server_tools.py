"""Calls that the gateway runs itself: a response stays open a little for them, so that quick results come inside it."""

from __future__ import annotations

import pytest

from gateway.turns.inputs import GenerationEnded, ToolCallEnded
from gateway.turns.settings import Deadlines, Detection, TurnSettings
from gateway.turns.states import Agent
from protocol.audio_time import samples_from_ms
from protocol.backend_events import (
    EndStatus,
    FunctionCallStarted,
    OutputItemEnded,
    RefusalKind,
    ResponseEnded,
    ResponseStarted,
    SpeechStarted,
)
from tests.simulation.conversation import HANG, Call, Conversation, Finish, by_hand

PATIENCE = Deadlines(tools=4_000)
SEARCH = Call(0, "search", '{"q": 1}', "call_1")


def asked(llm: list[object] | None = None, *, audio: bool = True, **options: object) -> Conversation:
    """Ask for a response in which the model calls the gateway's own tool."""
    settings = by_hand(deadlines=PATIENCE)
    conversation = Conversation(settings, llm=[llm or [SEARCH]], server_tools=["search"], **options)
    conversation.create(audio=audio)
    return conversation


def until_the_call_is_whole(conversation: Conversation) -> None:
    while not conversation.all(OutputItemEnded):
        conversation.run_until(conversation.now + 1)


@pytest.mark.parametrize(("more", "ended"), [(-1, False), (0, True), (1, True)])
def test_a_response_waits_for_its_call_until_the_deadline(more: int, ended: bool) -> None:
    conversation = asked(token_ms=1)
    until_the_call_is_whole(conversation)
    conversation.run_until(conversation.now + PATIENCE.tools + more)
    assert bool(conversation.all(ResponseEnded)) is ended


def test_a_call_that_takes_too_long_outlives_its_response() -> None:
    conversation = asked(tool_ms=10_000)
    conversation.run_dry()
    assert conversation.ends() == [("client_resp_1", "completed", None)]
    waited = conversation.at(conversation.only(ResponseEnded)) - conversation.at(conversation.only(OutputItemEnded))
    assert waited == PATIENCE.tools


def test_a_response_ends_with_its_call() -> None:
    conversation = asked(tool_ms=100)
    conversation.run_dry()
    assert conversation.ends() == [("client_resp_1", "completed", None)]
    waited = conversation.at(conversation.only(ResponseEnded)) - conversation.at(conversation.only(OutputItemEnded))
    assert waited == samples_from_ms(100)


def test_nothing_continues_by_itself_after_a_call_of_the_gateway() -> None:
    conversation = asked(tool_ms=100)
    conversation.run_dry()
    assert len(conversation.all(ResponseStarted)) == 1
    assert conversation.agent is Agent.IDLE


def test_a_response_waits_for_all_of_its_calls() -> None:
    conversation = asked([Call(0, "search", "{}", "a"), Call(1, "get_time", "{}", "b"), Call(2, "search", "{}", "c")])
    conversation.wait(300)
    first, second, third = (call.item_id for call in conversation.all(FunctionCallStarted))
    conversation.tell(ToolCallEnded("client_resp_1", third))
    conversation.tell(ToolCallEnded("client_resp_1", second))  # the client's own: nobody waits for it
    assert conversation.all(ResponseEnded) == []
    conversation.tell(ToolCallEnded("client_resp_1", first))
    assert conversation.ends() == [("client_resp_1", "completed", None)]


def test_a_clients_function_is_not_waited_for() -> None:
    conversation = asked([Call(0, "get_time", "{}", "call_1")])
    conversation.run_dry()
    assert conversation.at(conversation.only(ResponseEnded)) == conversation.at(conversation.only(OutputItemEnded))


def test_a_call_that_ends_while_the_agent_speaks_is_not_waited_for() -> None:
    conversation = asked(["Let me look that up for you. ", SEARCH], tool_ms=1)
    conversation.run_dry()
    call, message = conversation.all(OutputItemEnded)
    assert conversation.at(call) < conversation.at(message)
    assert conversation.at(conversation.only(ResponseEnded)) == conversation.at(message)


def test_the_words_before_a_call_end_before_the_wait_for_it() -> None:
    conversation = asked(["Let me look. ", SEARCH], tool_ms=3_000)
    conversation.run_dry()
    call, message = conversation.all(OutputItemEnded)
    assert (call.item_id == message.item_id) is False
    assert conversation.at(message) < conversation.at(conversation.only(ResponseEnded))
    assert [end[1] for end in conversation.ends()] == ["completed"]


def test_a_call_cut_at_the_models_limit_is_waited_for_too() -> None:
    conversation = asked([SEARCH, Finish("length")], tool_ms=100)
    conversation.run_dry()
    assert conversation.ends() == [("client_resp_1", "incomplete", "max_output_tokens")]


def test_a_cancel_ends_the_wait() -> None:
    conversation = asked()
    until_the_call_is_whole(conversation)
    conversation.cancel()
    assert conversation.ends() == [("client_resp_1", "cancelled", "client_cancelled")]
    (item,) = conversation.all(FunctionCallStarted)
    conversation.tell(ToolCallEnded("client_resp_1", item.item_id))
    conversation.run_dry()
    assert len(conversation.all(ResponseEnded)) == 1


def test_the_users_speech_ends_the_wait_but_cancels_nothing() -> None:
    conversation = Conversation(
        TurnSettings(deadlines=Deadlines(tools=samples_from_ms(5_000))),
        llm=[[SEARCH], "All right."],
        server_tools=["search"],
    )
    conversation.speak(600)
    conversation.silence(1_200)
    assert conversation.all(ResponseEnded) == []
    conversation.speak(600)
    conversation.silence(900)
    conversation.run_dry()
    assert [end.status for end in conversation.all(ResponseEnded)] == [EndStatus.COMPLETED] * 2
    begins, ends = conversation.all(SpeechStarted)[1], conversation.all(ResponseEnded)[0]
    assert conversation.at(begins) == conversation.at(ends)


def test_a_turn_ends_the_wait_where_speech_does_not() -> None:
    conversation = Conversation(
        TurnSettings(Detection(interrupt_response=False), deadlines=Deadlines(tools=samples_from_ms(5_000))),
        llm=[[SEARCH], "All right."],
        server_tools=["search"],
    )
    conversation.speak(600)
    conversation.silence(1_200)
    conversation.speak(600)
    assert conversation.all(ResponseEnded) == []
    conversation.silence(900)
    conversation.run_dry()
    assert conversation.refusals() == []
    assert [end.status for end in conversation.all(ResponseEnded)] == [EndStatus.COMPLETED] * 2


def test_another_response_ends_the_wait() -> None:
    conversation = asked()
    until_the_call_is_whole(conversation)
    conversation.llm = ["One moment."]
    conversation.create()
    assert conversation.refusals() == []
    conversation.run_dry()
    assert [end[:2] for end in conversation.ends()] == [("client_resp_1", "completed"), ("client_resp_2", "completed")]


def test_another_response_is_refused_while_one_still_speaks() -> None:
    conversation = asked(["A long sentence that takes its time. ", SEARCH], tool_ms=1)
    until_the_call_is_whole(conversation)
    conversation.create()
    assert [refusal.kind for refusal in conversation.refusals()] == [RefusalKind.RESPONSE_ACTIVE]


def test_a_response_that_fails_does_not_wait() -> None:
    conversation = asked([SEARCH, HANG])
    conversation.run_dry()
    assert [end[1] for end in conversation.ends()] == ["failed"]


def test_a_call_that_ends_before_it_is_whole_is_not_waited_for() -> None:
    conversation = asked([SEARCH, HANG])
    conversation.wait(300)
    (call,) = conversation.all(FunctionCallStarted)
    conversation.tell(ToolCallEnded("client_resp_1", call.item_id))
    assert conversation.all(ResponseEnded) == []
    conversation.tell(GenerationEnded("client_resp_1", "tool_calls"))
    assert conversation.ends() == [("client_resp_1", "completed", None)]


def test_an_out_of_band_response_waits_for_its_calls_as_well() -> None:
    conversation = Conversation(by_hand(), llm=[[SEARCH]], server_tools=["search"], tool_ms=200)
    conversation.create_out_of_band()
    conversation.run_dry()
    waited = conversation.at(conversation.only(ResponseEnded)) - conversation.at(conversation.only(OutputItemEnded))
    assert waited == samples_from_ms(200)
