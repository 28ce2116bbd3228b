"""Responses on the wire: order, endings, overrides (RB-05, RB-06, RB-07, RB-18, RB-26)."""

from __future__ import annotations

import base64
from collections import Counter
from typing import Any

import pytest

from protocol.backend_events import (
    CommandRefused,
    ContextRequested,
    EndReason,
    EndStatus,
    EngineFault,
    FunctionCallArgumentsDelta,
    FunctionCallStarted,
    OutputAudio,
    OutputItemEnded,
    OutputSpoken,
    OutputTextDelta,
    RefusalKind,
    ResponseEnded,
    ResponseStarted,
    TokenUsage,
)
from protocol.commands import CancelResponse, CreateResponse, ProvideContext
from protocol.history import chat_messages
from protocol.outputs import DiscardAudio, ServerEvent

COMPLETED = EndStatus.COMPLETED


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def test_a_spoken_response_has_openais_order(talk: Any) -> None:
    talk.user_says("u", "Hello?")
    events = talk.agent_says("r", "a", ("Hello ", 2400), ("there.", 2400))
    assert kinds(events) == [
        "created",
        "output_item.added",
        "conversation.item.added",
        "content_part.added",
        "output_audio_transcript.delta",
        "output_audio.delta",
        "output_audio_transcript.delta",
        "output_audio.delta",
        "output_audio.done",
        "output_audio_transcript.done",
        "content_part.done",
        "conversation.item.done",
        "output_item.done",
        "done",
        "rate_limits.updated",
    ]
    created, opened, added, part = events[:4]
    assert created["response"] == {
        "object": "realtime.response",
        "id": "r",
        "status": "in_progress",
        "status_details": None,
        "output": [],
        "conversation_id": "conv_1",
        "usage": None,
        "output_modalities": ["audio"],
        "max_output_tokens": "inf",
        "audio": {"output": {"format": {"type": "audio/pcm", "rate": 24000}, "voice": "marin"}},
        "metadata": None,
    }
    assert opened["item"] == added["item"]
    assert (opened["item"]["content"], opened["item"]["status"]) == ([], "in_progress")
    assert added["previous_item_id"] == "u"
    assert part["part"] == {"type": "audio", "transcript": ""}
    transcript_done, part_done, item_done, output_done, done, limits = events[9:]
    assert transcript_done["transcript"] == "Hello there."
    assert part_done["part"] == {"type": "audio", "transcript": "Hello there."}
    item = {
        "id": "a",
        "object": "realtime.item",
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_audio", "transcript": "Hello there."}],
    }
    assert item_done["item"] == output_done["item"] == item
    assert item_done["previous_item_id"] == "u"
    assert done["response"]["output"] == [item]
    assert (done["response"]["status"], done["response"]["status_details"]) == ("completed", None)
    assert limits["rate_limits"] == []
    assert {(e["item_id"], e["output_index"], e["content_index"]) for e in events if "content_index" in e} == {
        ("a", 0, 0)
    }


def test_audio_may_come_before_its_text(talk: Any) -> None:
    events = talk.backend(ResponseStarted("r"), OutputAudio("r", "a", bytes(2)), OutputTextDelta("r", "a", "Hm."))
    assert kinds(events)[1:4] == ["output_item.added", "conversation.item.added", "content_part.added"]
    assert kinds(events)[4:] == ["output_audio.delta", "output_audio_transcript.delta"]


def test_audio_is_cut_into_deltas_of_200_ms_and_marked_as_the_responses(talk: Any) -> None:
    pcm = bytes(range(256)) * 80
    talk.backend(ResponseStarted("r"), OutputAudio("r", "a", pcm))
    deltas = [out for out in talk.outputs if isinstance(out, ServerEvent) and out.audio_of is not None]
    audio = [base64.b64decode(out.payload["delta"]) for out in deltas]
    assert [len(piece) for piece in audio] == [9600, 9600, 1280]
    assert b"".join(audio) == pcm
    assert {out.audio_of for out in deltas} == {"r"}
    assert {out.payload["type"] for out in deltas} == {"response.output_audio.delta"}


def test_a_text_response_has_no_audio_events(talk: Any) -> None:
    talk.update(output_modalities=["text"])
    events = talk.backend(
        ResponseStarted("r"),
        OutputTextDelta("r", "a", "Très "),
        OutputAudio("r", "a", bytes(2)),
        OutputTextDelta("r", "a", "bien, Київ 🫖"),
        OutputSpoken("r", "a", 4, 1),
        OutputItemEnded("r", "a"),
        ResponseEnded("r", COMPLETED),
    )
    assert kinds(events) == [
        "created",
        "output_item.added",
        "conversation.item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "conversation.item.done",
        "output_item.done",
        "done",
        "rate_limits.updated",
    ]
    assert events[3]["part"] == {"type": "text", "text": ""}
    assert events[6]["text"] == "Très bien, Київ 🫖"
    assert events[9]["item"]["content"] == [{"type": "output_text", "text": "Très bien, Київ 🫖"}]
    assert talk.retrieved("a")["content"] == [{"type": "output_text", "text": "Très bien, Київ 🫖"}]


@pytest.mark.parametrize("status", [COMPLETED, EndStatus.FAILED])
def test_a_reply_of_nothing_still_ends(talk: Any, status: EndStatus) -> None:
    fault = EngineFault("llm_unavailable", "The language model did not answer.") if status is EndStatus.FAILED else None
    events = talk.backend(
        ResponseStarted("r"),
        OutputTextDelta("r", "a", ""),
        OutputAudio("r", "a", b""),
        ResponseEnded("r", status, fault=fault),
    )
    assert kinds(events) == ["created", "done", "rate_limits.updated"]
    response = events[1]["response"]
    assert response["output"] == []
    assert response["usage"]["total_tokens"] == 0
    if fault:
        assert response["status_details"] == {
            "type": "failed",
            "error": {"type": "server_error", "code": fault.code, "message": fault.message},
        }
    assert kinds(talk.agent_says("r2", "a2", ("Next.", 2)))[-2] == "done"


def test_a_cancelled_response_drops_its_queued_audio_and_closes_what_is_open(talk: Any) -> None:
    talk.backend(
        ResponseStarted("r"),
        OutputTextDelta("r", "a", "One."),
        OutputAudio("r", "a", bytes(4800)),
        OutputItemEnded("r", "a"),
        OutputTextDelta("r", "b", "Two"),
    )
    before = len(talk.outputs)
    events = talk.backend(ResponseEnded("r", EndStatus.CANCELLED, 100, EndReason.TURN_DETECTED))
    assert talk.outputs[before] == DiscardAudio("r")
    assert kinds(events) == [
        "output_audio.done",
        "output_audio_transcript.done",
        "content_part.done",
        "conversation.item.done",
        "output_item.done",
        "done",
        "rate_limits.updated",
    ]
    response = events[5]["response"]
    assert response["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
    assert [(item["id"], item["status"]) for item in response["output"]] == [("a", "completed"), ("b", "incomplete")]
    late = [
        OutputTextDelta("r", "b", "late"),
        OutputAudio("r", "b", bytes(2)),
        OutputItemEnded("r", "b"),
        FunctionCallStarted("r", "f", "c", "f"),
        ResponseEnded("r", COMPLETED),
    ]
    assert talk.backend(*late) == []


def test_an_incomplete_response_says_why_and_keeps_its_audio(talk: Any) -> None:
    talk.backend(ResponseStarted("r"), OutputTextDelta("r", "a", "One"))
    before = len(talk.outputs)
    events = talk.backend(ResponseEnded("r", EndStatus.INCOMPLETE, reason=EndReason.MAX_OUTPUT_TOKENS))
    assert not any(isinstance(output, DiscardAudio) for output in talk.outputs[before:])
    assert events[-2]["response"]["status_details"] == {"type": "incomplete", "reason": "max_output_tokens"}
    assert events[-2]["response"]["output"][0]["status"] == "incomplete"


def test_an_item_in_which_the_model_was_cut_off_is_incomplete(talk: Any) -> None:
    """Protocol §2.16: the *.done chain with an incomplete item, whose words have all been said."""
    talk.backend(ResponseStarted("r"), OutputTextDelta("r", "a", "One two"), OutputAudio("r", "a", bytes(4_800)))
    events = talk.backend(
        OutputSpoken("r", "a", 7, 2_400),
        OutputItemEnded("r", "a", cut=True),
        ResponseEnded("r", EndStatus.INCOMPLETE, reason=EndReason.MAX_OUTPUT_TOKENS),
    )
    shown = [event["item"]["status"] for event in events if "item" in event]
    assert shown == ["incomplete", "incomplete"]
    assert [event["type"] for event in events][-4:-2] == ["conversation.item.done", "response.output_item.done"]
    assert events[-2]["response"]["output"][0]["status"] == "incomplete"
    assert chat_messages("", talk.session.conversation.items) == ({"role": "assistant", "content": "One two"},)


def test_a_call_in_which_the_model_was_cut_off_is_incomplete_so_that_no_client_makes_it(talk: Any) -> None:
    talk.backend(ResponseStarted("r"), FunctionCallStarted("r", "c", "call_1", "look_up"))
    events = talk.backend(FunctionCallArgumentsDelta("r", "c", '{"ci'), OutputItemEnded("r", "c", cut=True))
    assert [event["item"]["status"] for event in events if "item" in event] == ["incomplete", "incomplete"]


def test_output_for_an_item_that_has_ended_is_dropped(talk: Any) -> None:
    talk.backend(ResponseStarted("r"), OutputTextDelta("r", "a", "One"), OutputItemEnded("r", "a"))
    late = [OutputTextDelta("r", "a", "late"), OutputAudio("r", "a", bytes(2)), OutputItemEnded("r", "a")]
    assert talk.backend(*late, OutputItemEnded("r", "x"), OutputSpoken("r", "x", 1, 1)) == []


# --- function calls ------------------------------------------------------------------------------------------------


def test_two_calls_of_one_response_do_not_mix(talk: Any) -> None:
    events = talk.backend(
        ResponseStarted("r"),
        FunctionCallStarted("r", "f0", "call_w", "get_weather"),
        FunctionCallStarted("r", "f1", "call_t", "get_time"),
        FunctionCallArgumentsDelta("r", "f0", '{"city":'),
        FunctionCallArgumentsDelta("r", "f1", '{"city": '),
        FunctionCallArgumentsDelta("r", "f0", '"Oslo"}'),
        FunctionCallArgumentsDelta("r", "f1", '"Oslo"}'),
        FunctionCallArgumentsDelta("r", "f1", ""),
        FunctionCallArgumentsDelta("r", "nobody", "{}"),
        OutputItemEnded("r", "f0"),
        OutputItemEnded("r", "f1"),
        FunctionCallArgumentsDelta("r", "f1", "late"),
        ResponseEnded("r", COMPLETED),
    )
    for index, (item_id, call_id, name) in enumerate((("f0", "call_w", "get_weather"), ("f1", "call_t", "get_time"))):
        own = [e for e in events if item_id in (e.get("item_id"), e.get("item", {}).get("id"))]
        assert kinds(own) == [
            "output_item.added",
            "conversation.item.added",
            "function_call_arguments.delta",
            "function_call_arguments.delta",
            "function_call_arguments.done",
            "conversation.item.done",
            "output_item.done",
        ]
        assert (own[0]["item"]["arguments"], own[0]["item"]["status"]) == ("", "in_progress")
        done = own[4]
        assert "".join(e["delta"] for e in own[2:4]) == done["arguments"]
        assert (done["name"], done["call_id"], done["output_index"]) == (name, call_id, index)
        assert own[6]["item"]["status"] == "completed"
        assert own[6]["item"]["arguments"] == done["arguments"]
    assert [item["call_id"] for item in events[-2]["response"]["output"]] == ["call_w", "call_t"]
    assert Counter(kinds(events))["done"] == 1


def test_a_call_that_is_cut_off_is_incomplete(talk: Any) -> None:
    talk.backend(
        ResponseStarted("r"), FunctionCallStarted("r", "f", "c", "f"), FunctionCallArgumentsDelta("r", "f", "{")
    )
    events = talk.backend(ResponseEnded("r", EndStatus.CANCELLED, reason=EndReason.CLIENT_CANCELLED))
    assert kinds(events)[:3] == ["function_call_arguments.done", "conversation.item.done", "output_item.done"]
    assert events[2]["item"]["status"] == "incomplete"


@pytest.mark.parametrize("given", ["", "c" * 33, "call_0"])
def test_a_call_id_that_clients_cannot_use_is_replaced(talk: Any, given: str) -> None:
    talk.backend(
        ResponseStarted("r"), FunctionCallStarted("r", "f", "call_0", "f"), FunctionCallStarted("r", "g", given, "g")
    )
    calls = [event["item"]["call_id"] for event in talk.sent("response.output_item.added")]
    assert calls == ["call_0", "call_1"]


def test_text_for_a_function_call_is_dropped(talk: Any) -> None:
    talk.backend(ResponseStarted("r"), FunctionCallStarted("r", "f", "c", "f"))
    assert talk.backend(OutputTextDelta("r", "f", "x"), OutputSpoken("r", "f", 1, 1)) == []


# --- response.create -----------------------------------------------------------------------------------------------


def test_response_create_goes_to_the_backend_and_comes_back_with_its_parameters(talk: Any) -> None:
    overrides = {
        "metadata": {"client_event_id": "x1"},
        "output_modalities": ["text"],
        "max_output_tokens": 50,
        "audio": {"output": {"voice": {"id": "v9"}}},
    }
    assert talk.send("response.create", event_id="e1", response=overrides) == []
    assert talk.commands(CreateResponse) == [CreateResponse("resp_1", audio=False, client_event_id="e1")]
    (created,) = talk.backend(ResponseStarted("resp_1"))
    response = created["response"]
    assert response["metadata"] == {"client_event_id": "x1"}
    assert response["output_modalities"] == ["text"]
    assert response["max_output_tokens"] == 50
    assert response["audio"]["output"]["voice"] == "v9"
    done = talk.backend(ResponseEnded("resp_1", COMPLETED))[0]
    assert done["response"]["metadata"] == {"client_event_id": "x1"}
    (auto,) = talk.backend(ResponseStarted("resp_auto"))
    assert auto["response"]["metadata"] is None
    assert auto["response"]["output_modalities"] == ["audio"]


def context(talk: Any, response_id: str) -> Any:
    assert talk.backend(ContextRequested(response_id)) == []
    provided = talk.commands(ProvideContext)[-1]
    assert provided.response_id == response_id
    return provided.context


def test_overrides_hold_for_one_response_only(talk: Any) -> None:
    tool = {"type": "function", "name": "t", "parameters": {"type": "object"}}
    talk.update(instructions="session", parallel_tool_calls=True)
    talk.user_types("hi")
    choice = {"type": "function", "name": "t"}
    overrides = {"instructions": "once", "tools": [tool], "tool_choice": choice, "max_output_tokens": 9}
    talk.send("response.create", response={**overrides, "metadata": None, "conversation": "auto"})
    for _ in ("before it starts", "while it runs"):
        once = context(talk, "resp_1")
        assert once.messages == ({"role": "system", "content": "once"}, {"role": "user", "content": "hi"})
        assert once.tools[0]["function"]["name"] == "t"
        assert once.tool_choice == {"type": "function", "function": {"name": "t"}}
        assert (once.max_output_tokens, once.parallel_tool_calls, once.voice) == (9, True, "marin")
        talk.backend(ResponseStarted("resp_1"))
    talk.backend(ResponseEnded("resp_1", COMPLETED))
    talk.backend(ResponseStarted("resp_auto"))
    usual = context(talk, "resp_auto")
    assert usual.messages[0]["content"] == "session"
    assert (usual.tools, usual.tool_choice, usual.max_output_tokens) == ((), "auto", None)
    assert context(talk, "resp_before_it_starts").messages == usual.messages


def test_input_replaces_the_context_and_may_refer_to_items(talk: Any) -> None:
    talk.update(instructions="")
    talk.user_types("earlier", id="u1")
    talk.user_types("unrelated", id="u2")
    raw = {"type": "message", "role": "system", "content": [{"type": "input_text", "text": "short"}]}
    talk.send("response.create", response={"input": [raw, {"type": "item_reference", "id": "u1"}]})
    messages = ({"role": "system", "content": "short"}, {"role": "user", "content": "earlier"})
    assert context(talk, "resp_1").messages == messages
    talk.send("response.create", response={"input": []})
    assert context(talk, "resp_2").messages == ()
    assert len(talk.session.conversation.items) == 2


def test_a_response_create_that_cannot_be_obeyed_starts_nothing(talk: Any) -> None:
    error = talk.refused("response.create", response={"conversation": "another"})
    assert (error["code"], error["param"]) == ("invalid_value", "response.conversation")
    error = talk.refused("response.create", response={"input": [{"type": "item_reference", "id": "nope"}]})
    assert (error["code"], error["param"]) == ("item_not_found", "response.input[0].id")
    raw = {"type": "message", "role": "user", "content": [{"type": "input_text"}]}
    error = talk.refused("response.create", response={"input": [raw]})
    assert error["param"] == "response.input[0].content[0].text"
    talk.agent_says("r", "a", ("Hi.", 2400))
    error = talk.refused("response.create", response={"audio": {"output": {"voice": "coral"}}})
    assert error["code"] == "cannot_update_voice"
    assert talk.commands(CreateResponse) == []


def test_a_second_response_create_is_refused_and_the_first_goes_on(talk: Any) -> None:
    talk.send("response.create")
    talk.backend(ResponseStarted("resp_1"))
    talk.send("response.create", event_id="evt_dup")
    (event,) = talk.backend(CommandRefused(RefusalKind.RESPONSE_ACTIVE, "evt_dup", "resp_2"))
    assert event["error"] == {
        "type": "invalid_request_error",
        "code": "conversation_already_has_active_response",
        "message": "Conversation already has an active response in progress: resp_1. "
        "Wait until the response is finished before creating a new one.",
        "param": None,
        "event_id": "evt_dup",
    }
    assert kinds(talk.backend(ResponseEnded("resp_1", COMPLETED))) == ["done", "rate_limits.updated"]
    talk.send("response.create")
    assert kinds(talk.backend(ResponseStarted("resp_3"))) == ["created"]


def test_only_the_first_of_two_responses_asked_for_by_one_event_is_forgotten(talk: Any) -> None:
    for words in ("one", "two"):
        talk.send("response.create", event_id="same", response={"instructions": words})
    talk.backend(CommandRefused(RefusalKind.RESPONSE_ACTIVE, "same"))
    assert context(talk, "resp_1").messages[0]["content"] not in ("one", "two")
    assert context(talk, "resp_2").messages[0]["content"] == "two"


def test_a_refusal_of_the_gateways_own_response_forgets_no_request(talk: Any) -> None:
    talk.send("response.create", response={"instructions": "kept"})
    talk.backend(CommandRefused(RefusalKind.RESPONSE_ACTIVE, None, "resp_auto"))
    assert context(talk, "resp_1").messages[0]["content"] == "kept"
    talk.backend(CommandRefused(RefusalKind.RESPONSE_ACTIVE, None, "resp_1"))
    assert context(talk, "resp_1").messages[0]["content"] != "kept"


@pytest.mark.parametrize("named", ["resp_2", None])
def test_the_parameters_of_a_refused_response_are_forgotten(talk: Any, named: str | None) -> None:
    talk.send("response.create")
    talk.backend(ResponseStarted("resp_1"))
    talk.send("response.create", event_id="dup", response={"instructions": "never"})
    talk.send("response.create", event_id="other", response={"instructions": "kept"})
    talk.backend(CommandRefused(RefusalKind.RESPONSE_ACTIVE, "dup", named))
    assert context(talk, "resp_2").messages[0]["content"] != "never"
    assert context(talk, "resp_3").messages[0]["content"] == "kept"


def test_a_refusal_that_matches_no_request_is_still_told(talk: Any) -> None:
    (event,) = talk.backend(CommandRefused(RefusalKind.RESPONSE_ACTIVE))
    assert event["error"]["code"] == "conversation_already_has_active_response"
    assert event["error"]["event_id"] is None
    (event,) = talk.backend(CommandRefused(RefusalKind.UNSUPPORTED, "e", detail="The model takes no text."))
    assert event["error"]["message"] == "The model takes no text."
    (event,) = talk.backend(CommandRefused(RefusalKind.UNSUPPORTED, "e"))
    assert event["error"]["message"]


def test_a_cancel_with_nothing_running_is_the_error_that_clients_ignore(talk: Any) -> None:
    assert talk.send("response.cancel", event_id="c1", response_id="resp_9") == []
    assert talk.commands(CancelResponse) == [CancelResponse("resp_9", "c1")]
    (event,) = talk.backend(CommandRefused(RefusalKind.NO_ACTIVE_RESPONSE, "c1"))
    assert event["error"]["code"] == "response_cancel_not_active"
    assert event["error"]["message"] == "Cancellation failed: no active response found"
    assert event["error"]["event_id"] == "c1"


# --- usage ---------------------------------------------------------------------------------------------------------


def test_usage_counts_text_tokens_and_audio_at_openais_rates(talk: Any) -> None:
    talk.user_says("u", "Hello?", 0, 24_001)
    talk.backend(ResponseStarted("r"), OutputAudio("r", "a", bytes(2 * 2401)), FunctionCallStarted("r", "f", "c", "f"))
    tokens = TokenUsage(input_text_tokens=20, cached_text_tokens=8, output_text_tokens=5)
    usage = talk.backend(ResponseEnded("r", COMPLETED, usage=tokens))[-2]["response"]["usage"]
    assert usage == {
        "total_tokens": 39,
        "input_tokens": 31,
        "output_tokens": 8,
        "input_token_details": {
            "text_tokens": 20,
            "audio_tokens": 11,
            "image_tokens": 0,
            "cached_tokens": 8,
            "cached_tokens_details": {"text_tokens": 8, "audio_tokens": 0, "image_tokens": 0},
        },
        "output_token_details": {"text_tokens": 5, "audio_tokens": 3},
    }


def test_audio_outside_a_replaced_context_is_not_counted(talk: Any) -> None:
    talk.user_says("u", "Hello?")
    talk.send("response.create", response={"input": []})
    talk.backend(ResponseStarted("resp_1"))
    usage = talk.backend(ResponseEnded("resp_1", COMPLETED))[0]["response"]["usage"]
    assert usage["input_token_details"]["audio_tokens"] == 0
