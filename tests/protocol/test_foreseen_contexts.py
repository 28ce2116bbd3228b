"""The context of an answer that is begun before the turn is over: told without a trace, exact if it turns out so."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.backend_events import (
    ContextForeseen,
    ContextRequested,
    EndReason,
    EndStatus,
    InputCommitted,
    InputTranscriptCompleted,
    OutputAudio,
    OutputSpoken,
    OutputTextDelta,
    PlayoutCut,
    ResponseEnded,
    ResponseStarted,
    SpeechStarted,
    SpeechStopped,
)
from protocol.commands import ProvideContext, ResponseContext, WithholdContext
from protocol.outputs import ToBackend
from protocol.session_settings import SessionDefaults
from tests.protocol.conftest import Talk

WORDS = "Tell me more about that."
TOOL = {"type": "function", "name": "look_up", "parameters": {"type": "object"}}


def foreseen(talk: Any, words: str = WORDS) -> ResponseContext:
    """Ask for the context of an answer to `words`; return it."""
    before = len(talk.outputs)
    assert talk.backend(ContextForeseen("spec_1", words)) == [], "the client is told nothing"
    (output,) = talk.outputs[before:]
    assert isinstance(output, ToBackend)
    assert isinstance(output.command, ProvideContext)
    assert output.command.response_id == "spec_1"
    return output.command.context


def real(talk: Any, words: str = WORDS) -> ResponseContext:
    """Let the user say `words`; return the context of the response that answers."""
    talk.backend(
        SpeechStarted("item_u", 0),
        SpeechStopped("item_u", 24_000),
        InputCommitted("item_u", 0, 24_000),
        ResponseStarted("resp_u"),
        InputTranscriptCompleted("item_u", words, 24_000),
        ContextRequested("resp_u"),
    )
    context: ResponseContext = talk.commands(ProvideContext)[-1].context
    return context


def test_a_foreseen_context_is_that_of_the_response_if_those_words_are_said(talk: Any) -> None:
    talk.update(instructions="Be brief.", tools=[TOOL], max_output_tokens=77)
    talk.user_says("item_1", "Hello.")
    talk.agent_says("resp_1", "item_2", ("Hello. ", 24_000), ("And now?", 24_000))
    context = foreseen(talk)
    assert context.messages[-1] == {"role": "user", "content": WORDS}
    assert context.max_output_tokens == 77
    assert [tool["function"]["name"] for tool in context.tools] == ["look_up"]
    assert context == real(talk)


def test_other_words_give_another_context(talk: Any) -> None:
    assert foreseen(talk, "Tell me more") != real(talk, "Tell me more about that")


def test_words_of_a_user_who_resumed_are_foreseen_in_one_message_with_the_first_ones(talk: Any) -> None:
    talk.user_says("item_1", "What is the weather")
    talk.backend(ResponseStarted("resp_1"), ContextRequested("resp_1"))
    talk.backend(ResponseEnded("resp_1", EndStatus.CANCELLED, 0, EndReason.TURN_DETECTED))
    context = foreseen(talk, "in Leeds?")
    assert context.messages[-1] == {"role": "user", "content": "What is the weather\nin Leeds?"}
    assert context == real(talk, "in Leeds?")


@pytest.mark.parametrize(
    "change",
    [
        lambda talk: talk.update(instructions="Answer in French."),
        lambda talk: talk.update(tools=[TOOL]),
        lambda talk: talk.update(tools=[TOOL], tool_choice="required"),
        lambda talk: talk.update(max_output_tokens=5),
        lambda talk: talk.update(audio={"output": {"speed": 1.2}}),
        lambda talk: talk.user_types("One more thing.", id="typed"),
        lambda talk: talk.send("conversation.item.delete", item_id="item_1"),
        lambda talk: talk.send("conversation.item.truncate", item_id="item_2", content_index=0, audio_end_ms=100),
    ],
)
def test_whatever_changes_what_the_model_would_be_told_changes_the_context(talk: Any, change: Any) -> None:
    talk.user_says("item_1", "Hello.")
    talk.agent_says("resp_1", "item_2", ("One two three four five.", 48_000))
    context = foreseen(talk)
    change(talk)
    assert context != real(talk)


def test_what_leaves_a_long_context_is_the_same_and_is_forgotten_only_by_the_response(
    new_talk: Callable[..., Any],
) -> None:
    talk = new_talk(SessionDefaults(instructions="", context_tokens=100))
    talk.open()
    for n in range(3):
        talk.user_types(f"{n} {'word' * 36}"[:140], id=f"u{n}")
    context = foreseen(talk, "w" * 80)
    assert len(talk.session.conversation.remembered) == 3, "nothing has left yet"
    assert context == real(talk, "w" * 80)
    assert [item.id for item in talk.session.conversation.remembered] == ["u2", "item_u"]


def test_where_the_client_forbids_truncation_a_context_that_is_too_long_is_withheld_and_no_response_fails(
    new_talk: Callable[..., Any],
) -> None:
    talk = new_talk(SessionDefaults(instructions="", context_tokens=100))
    talk.open()
    talk.update(truncation="disabled")
    talk.user_types("w" * 390)
    assert talk.backend(ContextForeseen("spec_1", WORDS)) == []
    (withheld,) = talk.commands(WithholdContext)
    assert (withheld.response_id, withheld.fault.code) == ("spec_1", "context_length_exceeded")
    assert talk.sent("response.created") == []


def test_what_the_model_writes_for_a_speculation_is_nothing_to_the_client(talk: Any) -> None:
    foreseen(talk)
    assert talk.backend(OutputTextDelta("spec_1", "item_x", "Leaked.")) == []
    assert talk.backend(ResponseEnded("spec_1", EndStatus.COMPLETED)) == []


STEPS = st.lists(st.sampled_from(["user", "types", "agent", "cut", "call", "update", "delete"]), max_size=12)


def perform(talk: Any, number: int, step: str) -> None:
    """Let something happen in the conversation."""
    item, response = f"item_a{number}", f"resp_a{number}"
    match step:
        case "user":
            talk.user_says(item, f"Words number {number}.")
        case "types":
            talk.user_types(f"Typed {number}.", id=f"typed_{number}")
        case "agent":
            talk.agent_says(response, item, (f"Reply {number}. ", 24_000), ("That is all.", 24_000))
        case "cut":
            talk.backend(
                ResponseStarted(response),
                OutputTextDelta(response, item, "One two three four."),
                OutputAudio(response, item, bytes(48_000)),
                OutputSpoken(response, item, 19, 48_000),
                ResponseEnded(response, EndStatus.CANCELLED, 12_000 * (number % 2), EndReason.TURN_DETECTED),
                PlayoutCut(item, 12_000 * (number % 2)),
            )
        case "call":
            call = {"type": "function_call", "call_id": f"call_{number}", "name": "look_up", "arguments": "{}"}
            talk.send("conversation.item.create", item=call)
            result = {"type": "function_call_output", "call_id": f"call_{number}", "output": "Seven."}
            talk.send("conversation.item.create", item=result)
        case "update":
            talk.update(instructions=f"Instructions {number}." * (number % 7), tools=[TOOL] * (number % 2))
        case "delete":
            items = talk.session.conversation.items
            if items:
                talk.send("conversation.item.delete", item_id=items[number % len(items)].id)


@given(STEPS, st.integers(60, 200), st.sampled_from(["Yes.", "Tell me more.", "w" * 150]))
@settings(max_examples=300, deadline=None, derandomize=True, database=None)
def test_in_any_conversation_the_foreseen_context_is_exact_and_leaves_no_trace(
    steps: list[str], context_tokens: int, words: str
) -> None:
    talk = Talk(SessionDefaults(instructions="", context_tokens=context_tokens))
    talk.open()
    for number, step in enumerate(steps):
        perform(talk, number, step)
    before = copy.deepcopy((talk.session.conversation.items, talk.session.conversation._forgotten))
    context = foreseen(talk, words)
    assert (talk.session.conversation.items, talk.session.conversation._forgotten) == before
    assert foreseen(talk, words) == context, "asked twice, it is the same"
    assert real(talk, words) == context
