"""Calls of MCP servers' tools: in a response, beyond it, and with the client's approval (protocol §2.13)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from protocol.backend_events import (
    EndReason,
    EndStatus,
    FunctionCallArgumentsDelta,
    FunctionCallStarted,
    OutputTextDelta,
)
from protocol.commands import CreateResponse
from protocol.mcp_calls import MAX_CALLS
from protocol.mcp_items import McpFailure
from protocol.mcp_servers import McpServer
from protocol.outputs import CallMcpTool
from tests.protocol.mcp_talk import (
    URL,
    answered,
    begin,
    calls,
    context,
    end,
    kinds,
    orders,
    released,
    server,
    with_tools,
)

ITEM = {
    "id": "item_c",
    "type": "mcp_call",
    "server_label": "docs",
    "name": "search",
    "arguments": '{"city": "Oslo"}',
    "approval_request_id": None,
    "output": None,
    "error": None,
}
OPENING = [
    "response.output_item.added",
    "conversation.item.added",
    "response.mcp_call_arguments.delta",
    "response.mcp_call_arguments.done",
]
ENDING = ["conversation.item.done", "response.output_item.done"]


def approve(talk: Any, request_id: str, *, yes: bool = True, **fields: Any) -> list[dict[str, Any]]:
    item = {"type": "mcp_approval_response", "approval_request_id": request_id, "approve": yes, **fields}
    events: list[dict[str, Any]] = talk.send("conversation.item.create", item=item)
    return events


def results(talk: Any) -> list[str]:
    """Return what the model of a new response reads as results of calls."""
    begin(talk, "resp_next")
    end(talk, "resp_next")
    return [message["content"] for message in context(talk).messages if message["role"] == "tool"]


# --- without approval ----------------------------------------------------------------------------------------------


def test_a_call_opens_whole_runs_and_ends_in_order(talk: Any) -> None:
    with_tools(talk)
    begin(talk)
    events = calls(talk)
    assert kinds(events) == [*OPENING, "response.mcp_call.in_progress"]
    assert events[0]["item"] == {**ITEM, "arguments": ""}
    assert events[1]["item"] == {**ITEM, "arguments": ""}
    assert events[2]["delta"] == events[3]["arguments"] == ITEM["arguments"]
    assert {event.get("output_index", 0) for event in events} == {0}
    assert orders(talk, CallMcpTool) == [CallMcpTool("item_c", McpServer("docs", URL), "search", {"city": "Oslo"})]
    assert talk.retrieved("item_c") == ITEM  # agents-js asks on in_progress
    assert released(talk) == []
    events = answered(talk, "It rains.")
    assert kinds(events) == ["response.mcp_call.completed", *ENDING]
    whole = {**ITEM, "output": "It rains."}
    assert events[1]["item"] == events[2]["item"] == whole
    assert events[1]["previous_item_id"] == talk.sent("conversation.item.added")[-1]["previous_item_id"]
    assert released(talk) == ["item_c"]
    response = end(talk)
    assert response["status"] == "completed"
    assert response["output"] == [whole]


def test_a_call_may_end_after_its_response(talk: Any) -> None:
    with_tools(talk)
    begin(talk)
    calls(talk)
    assert end(talk)["output"] == [ITEM]
    events = answered(talk, "It rains.")
    assert kinds(events) == ["response.mcp_call.completed", *ENDING]
    assert events[2]["response_id"] == "resp_a"
    assert events[2]["output_index"] == 0


def test_the_client_asks_for_what_follows_as_at_openai(talk: Any) -> None:
    with_tools(talk)
    begin(talk)
    calls(talk)
    answered(talk, "It rains.")
    before = len(talk.sent("response.created"))
    end(talk)
    assert len(talk.sent("response.created")) == before
    assert results(talk) == ["It rains."]


@pytest.mark.parametrize(
    "failure",
    [
        McpFailure("tool_execution_error", "The database is down."),
        McpFailure("protocol_error", "Unknown tool.", -32602),
        McpFailure("http_error", "Http status code: 401 (Unauthorized)", 401),
    ],
)
def test_a_call_that_failed_says_why_to_the_client_and_the_model(talk: Any, failure: McpFailure) -> None:
    with_tools(talk)
    begin(talk)
    calls(talk)
    events = answered(talk, failure)
    assert kinds(events) == ["response.mcp_call.failed", *ENDING]
    code = {} if failure.kind == "tool_execution_error" else {"code": failure.code}
    assert events[1]["item"] == {**ITEM, "error": {"type": failure.kind, **code, "message": failure.message}}
    assert end(talk)["status"] == "completed"
    assert results(talk) == [f"Error: {failure.message}"]


def test_a_call_without_arguments_has_an_empty_object(talk: Any) -> None:
    with_tools(talk)
    begin(talk)
    events = calls(talk, arguments="")
    assert events[2]["delta"] == events[3]["arguments"] == "{}"
    assert orders(talk, CallMcpTool)[-1].arguments == {}


@pytest.mark.parametrize("approval", ["never", "always"])
@pytest.mark.parametrize("arguments", ['{"city": "Os', "[1]", '"Oslo"'])
def test_arguments_that_are_no_object_fail_and_ask_nobody(talk: Any, arguments: str, approval: str) -> None:
    with_tools(talk, require_approval=approval)
    begin(talk)
    events = calls(talk, arguments=arguments)
    assert kinds(events) == [*OPENING, "response.mcp_call.failed", *ENDING]
    error = events[-1]["item"]["error"]
    assert (error["type"], error["code"]) == ("protocol_error", -32602)
    assert orders(talk, CallMcpTool) == []
    assert released(talk) == ["item_c"]


def test_a_call_that_was_broken_off_never_was(talk: Any) -> None:
    with_tools(talk)
    begin(talk)
    assert (
        talk.backend(
            FunctionCallStarted("resp_a", "item_c", "call_1", "docs__search"),
            FunctionCallArgumentsDelta("resp_a", "item_c", '{"city'),
        )
        == []
    )
    response = end(talk, status=EndStatus.CANCELLED, reason=EndReason.TURN_DETECTED)
    assert response["output"] == []
    assert orders(talk, CallMcpTool) == []
    assert talk.session.conversation.get("item_c") is None


def test_a_call_outlives_a_cancelled_response(talk: Any) -> None:
    with_tools(talk)
    begin(talk)
    calls(talk)
    response = end(talk, status=EndStatus.CANCELLED, reason=EndReason.CLIENT_CANCELLED)
    assert response["output"] == [ITEM]
    assert kinds(answered(talk, "It rains.")) == ["response.mcp_call.completed", *ENDING]
    assert results(talk) == ["It rains."]


def test_calls_stand_beside_words_and_functions_of_the_same_response(talk: Any) -> None:
    function = {"type": "function", "name": "get_time", "parameters": {"type": "object"}}
    with_tools(talk)
    talk.update(tools=[function, server(require_approval="never")])
    begin(talk)
    talk.backend(OutputTextDelta("resp_a", "item_m", "Let me see."))
    calls(talk, item_id="item_x")
    calls(talk, "get_time", "{}", item_id="item_y")
    calls(talk, "docs__write", item_id="item_z")
    answered(talk, "third", "item_z")
    answered(talk, "first", "item_x")
    response = end(talk)
    assert [item["type"] for item in response["output"]] == ["message", "mcp_call", "function_call", "mcp_call"]
    indices = {event["item"]["id"]: event["output_index"] for event in talk.sent("response.output_item.added")}
    assert indices == {"item_m": 0, "item_x": 1, "item_y": 2, "item_z": 3}
    item = {"type": "function_call_output", "call_id": "call_1", "output": "second"}
    talk.send("conversation.item.create", item=item)
    begin(talk, "resp_next")
    told = context(talk).messages
    position = next(index for index, message in enumerate(told) if message.get("tool_calls"))
    assert [call["function"]["name"] for call in told[position]["tool_calls"]] == [
        "docs__search",
        "get_time",
        "docs__write",
    ]
    assert [message["content"] for message in told[position + 1 :]] == ["first", "second", "third"]


@pytest.mark.parametrize("count", [MAX_CALLS, MAX_CALLS + 1])
def test_a_response_makes_a_bounded_number_of_calls(talk: Any, count: int) -> None:
    with_tools(talk)
    begin(talk)
    for number in range(count):
        calls(talk, item_id=f"item_c{number}")
    assert len(orders(talk, CallMcpTool)) == MAX_CALLS
    assert released(talk) == [f"item_c{number}" for number in range(MAX_CALLS, count)]
    assert len(end(talk)["output"]) == count


def test_the_model_is_told_that_a_call_still_runs(talk: Any) -> None:
    with_tools(talk)
    begin(talk)
    calls(talk)
    end(talk)
    assert results(talk) == ["The call is still running."]
    answered(talk, "It rains.")
    assert results(talk) == ["It rains."]


def test_a_name_that_was_not_offered_is_a_clients_function(talk: Any) -> None:
    with_tools(talk)
    begin(talk)
    events = calls(talk, "docs__unknown")
    assert events[0]["item"]["type"] == "function_call"


def test_a_call_belongs_to_the_server_that_was_offered_when_its_response_began(talk: Any) -> None:
    with_tools(talk)
    begin(talk)
    talk.update(tools=[server(server_url="http://localhost/other", require_approval="never")])
    calls(talk)
    assert orders(talk, CallMcpTool)[-1].server.url == URL


def test_a_late_or_double_answer_is_dropped(talk: Any) -> None:
    with_tools(talk)
    begin(talk)
    calls(talk)
    answered(talk, "It rains.")
    assert answered(talk, "It pours.", "item_c") == []
    assert answered(talk, "?", "item_unknown") == []
    assert talk.retrieved("item_c")["output"] == "It rains."


def test_an_out_of_band_response_calls_without_the_conversation(talk: Any) -> None:
    with_tools(talk)
    talk.send("response.create", response={"conversation": "none"})
    response_id = talk.commands(CreateResponse)[-1].response_id
    begin(talk, response_id, out_of_band=True)
    events = calls(talk, response_id=response_id)
    events += answered(talk, "It rains.")
    assert "conversation.item.added" not in kinds(events)
    assert "conversation.item.done" not in kinds(events)
    assert end(talk, response_id)["output"] == [{**ITEM, "output": "It rains."}]
    assert results(talk) == []


# --- with approval -------------------------------------------------------------------------------------------------


def asked(talk: Any, **definition: Any) -> str:
    """Let a response make a call that needs approval; return the request's id."""
    with_tools(talk, require_approval="always", **definition)
    begin(talk)
    events = calls(talk)
    assert kinds(events) == [*OPENING, "response.output_item.added", "conversation.item.added", *ENDING]
    return str(events[4]["item"]["id"])


def test_a_call_that_needs_approval_asks_for_it_and_its_response_ends(talk: Any) -> None:
    request_id = asked(talk)
    request = {
        "id": request_id,
        "type": "mcp_approval_request",
        "server_label": "docs",
        "name": "search",
        "arguments": ITEM["arguments"],
    }
    assert orders(talk, CallMcpTool) == []
    assert released(talk) == ["item_c"]  # nothing to wait for
    response = end(talk)
    assert response["output"] == [{**ITEM, "approval_request_id": request_id}, request]
    added = talk.sent("response.output_item.added")[-1]
    assert (added["item"], added["output_index"]) == (request, 1)
    assert talk.retrieved(request_id) == request


def test_an_approved_call_runs_outside_its_response(talk: Any) -> None:
    request_id = asked(talk)
    end(talk)
    events = approve(talk, request_id, reason="go on")
    assert kinds(events) == ["conversation.item.added", "conversation.item.done", "response.mcp_call.in_progress"]
    item = events[0]["item"]
    assert item == {
        "id": item["id"],
        "type": "mcp_approval_response",
        "approval_request_id": request_id,
        "approve": True,
        "reason": "go on",
    }
    assert events[2]["item_id"] == "item_c"
    assert orders(talk, CallMcpTool)[-1].arguments == {"city": "Oslo"}
    events = answered(talk, "It rains.")
    assert kinds(events) == ["response.mcp_call.completed", *ENDING]
    assert events[1]["item"] == {**ITEM, "approval_request_id": request_id, "output": "It rains."}
    assert results(talk) == ["It rains."]


def test_an_approval_may_come_while_its_response_still_speaks(talk: Any) -> None:
    request_id = asked(talk)
    approve(talk, request_id)
    answered(talk, "It rains.")
    response = end(talk)
    assert response["output"][0]["output"] == "It rains."


def test_a_denied_call_ends_and_the_model_is_told(talk: Any) -> None:
    request_id = asked(talk)
    end(talk)
    events = approve(talk, request_id, yes=False, reason="Not today.")
    assert kinds(events) == ["conversation.item.added", "conversation.item.done", "response.mcp_call.failed", *ENDING]
    error = {"type": "tool_execution_error", "message": "The user did not approve the call. Not today."}
    assert events[3]["item"] == {**ITEM, "approval_request_id": request_id, "error": error}
    assert orders(talk, CallMcpTool) == []
    assert results(talk) == [f"Error: {error['message']}"]


def test_the_model_is_told_that_a_call_waits_for_approval(talk: Any) -> None:
    asked(talk)
    end(talk)
    assert results(talk) == ["The call waits for the user's approval."]


@pytest.mark.parametrize("yes", [True, False])
def test_an_approval_is_given_once(talk: Any, yes: bool) -> None:
    request_id = asked(talk)
    end(talk)
    approve(talk, request_id, yes=yes)
    before = len(talk.sent("conversation.item.added"))
    item = {"type": "mcp_approval_response", "approval_request_id": request_id, "approve": True}
    error = talk.refused("conversation.item.create", item=item)
    assert error["code"] == "item_create_duplicate_approval_response"
    assert error["param"] == "item.approval_request_id"
    assert len(talk.sent("conversation.item.added")) == before
    assert len(orders(talk, CallMcpTool)) == yes


def test_an_approval_of_nothing_is_refused(talk: Any) -> None:
    talk.user_types("hello", id="item_u")
    for request_id in ("mcpr_unknown", "item_u"):
        item = {"type": "mcp_approval_response", "id": "mine", "approval_request_id": request_id, "approve": True}
        error = talk.refused("conversation.item.create", item=item)
        assert error["code"] == "item_create_invalid_approval_request_id"
        assert error["message"] == f"Error adding item: the approval request with id '{request_id}' does not exist."


def test_an_approval_that_cannot_be_added_approves_nothing(talk: Any) -> None:
    request_id = asked(talk)
    item = {"type": "mcp_approval_response", "id": "item_c", "approval_request_id": request_id, "approve": True}
    assert talk.refused("conversation.item.create", item=item)["code"] == "item_create_duplicate_item_id"
    assert orders(talk, CallMcpTool) == []
    approve(talk, request_id, id=f"mcp_approval_{request_id}")  # as in OpenAI's guide
    assert len(orders(talk, CallMcpTool)) == 1


def test_each_call_asks_for_itself(talk: Any) -> None:
    with_tools(talk, require_approval={"never": {"tool_names": ["search"]}})
    begin(talk)
    calls(talk, item_id="item_x")
    calls(talk, "docs__write", item_id="item_y")
    calls(talk, "docs__write", item_id="item_z")
    response = end(talk)
    assert [item["type"] for item in response["output"]] == [
        "mcp_call",
        "mcp_call",
        "mcp_approval_request",
        "mcp_call",
        "mcp_approval_request",
    ]
    second, third = (item["id"] for item in response["output"] if item["type"] == "mcp_approval_request")
    assert [order.item_id for order in orders(talk, CallMcpTool)] == ["item_x"]
    approve(talk, third)
    assert [order.item_id for order in orders(talk, CallMcpTool)] == ["item_x", "item_z"]
    approve(talk, second, yes=False)
    assert [order.item_id for order in orders(talk, CallMcpTool)] == ["item_x", "item_z"]


# --- replayed conversations ----------------------------------------------------------------------------------------

TOOL = {"name": "search", "input_schema": {"type": "object"}, "annotations": None, "description": None}
REPLAYED = [
    (
        {"id": "l", "type": "mcp_list_tools", "server_label": "docs", "tools": [TOOL]},
        {"tools": [{"name": "search", "input_schema": {"type": "object"}, "description": ""}]},
    ),
    ({**ITEM, "id": "c", "output": "It rains."}, {}),
    ({**ITEM, "id": "f", "error": {"type": "http_error", "code": 500, "message": "m"}}, {}),
    ({"id": "r", "type": "mcp_approval_request", "server_label": "docs", "name": "search", "arguments": "{}"}, {}),
    ({"id": "a", "type": "mcp_approval_response", "approval_request_id": "r", "approve": True}, {}),
]


def test_a_client_may_replay_the_items_of_mcp(talk: Any) -> None:
    for item, changed in REPLAYED:
        added, done = talk.send("conversation.item.create", item=item)
        assert added["item"] == done["item"] == {**item, **changed}
    assert orders(talk, CallMcpTool) == []  # a replay runs nothing
    assert results(talk) == ["It rains.", "Error: m"]


def test_a_replayed_request_is_answered_once_too(talk: Any) -> None:
    talk.send("conversation.item.create", item=REPLAYED[3][0])
    talk.send("conversation.item.create", item=REPLAYED[4][0])
    error = talk.refused("conversation.item.create", item={**REPLAYED[4][0], "id": "b"})
    assert error["code"] == "item_create_duplicate_approval_response"


def test_a_replayed_call_without_a_result_is_left_out(talk: Any) -> None:
    talk.send("conversation.item.create", item={**ITEM, "id": "c"})
    assert results(talk) == []


def test_mcp_items_may_be_a_responses_own_input(talk: Any) -> None:
    talk.send("response.create", response={"input": [item for item, _ in REPLAYED]})
    response_id = talk.commands(CreateResponse)[-1].response_id
    begin(talk, response_id)
    told = [message["content"] for message in context(talk).messages if message["role"] == "tool"]
    assert told == ["It rains.", "Error: m"]


def test_calls_are_counted_where_the_context_is_cut(talk: Any) -> None:
    talk.update(
        truncation={"type": "retention_ratio", "retention_ratio": 1.0, "token_limits": {"post_instructions": 50}}
    )
    talk.send("conversation.item.create", item={**ITEM, "id": "c", "output": "x" * 400})
    talk.user_types("hello")
    assert results(talk) == []
    assert json.dumps(context(talk).messages[-1]["content"]) == '"hello"'
