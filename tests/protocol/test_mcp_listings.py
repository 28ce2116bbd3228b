"""The lists of MCP servers' tools: when they are made, shown, kept and waited for (protocol §2.13)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from protocol.backend_events import ContextRequested, EndReason, EndStatus, ResponseStarted
from protocol.client_secrets import client_secret_request
from protocol.commands import CreateResponse, ProvideContext
from protocol.errors import ProtocolError
from protocol.mcp_items import McpTool
from protocol.mcp_listings import KEPT_LISTS, MAX_LISTS
from protocol.mcp_servers import McpServer
from protocol.outputs import ListMcpTools
from tests.protocol.mcp_talk import (
    DOWN,
    FUNCTION,
    SCHEMA,
    SEARCH,
    URL,
    WRITE,
    begin,
    context,
    end,
    kinds,
    listed,
    names,
    orders,
    server,
    with_tools,
)


def test_a_new_server_is_listed_after_session_updated(talk: Any) -> None:
    events = talk.update(tools=[server()])
    assert kinds(events) == ["session.updated", "conversation.item.added", "mcp_list_tools.in_progress"]
    item = events[1]["item"]
    assert item == {"id": item["id"], "type": "mcp_list_tools", "server_label": "docs", "tools": []}
    assert events[2]["item_id"] == item["id"]
    assert orders(talk, ListMcpTools) == [ListMcpTools(item["id"], McpServer("docs", URL))]
    events = listed(talk, SEARCH, WRITE)
    assert kinds(events) == ["mcp_list_tools.completed", "conversation.item.done"]
    assert events[0]["item_id"] == item["id"]
    assert events[1]["previous_item_id"] is None
    assert events[1]["item"]["tools"] == [
        {
            "name": "search",
            "description": "Search the docs.",
            "input_schema": SCHEMA,
            "annotations": {"readOnlyHint": True},
        },
        {"name": "write", "description": "", "input_schema": SCHEMA},
    ]
    assert talk.retrieved(item["id"]) == events[1]["item"]


def test_each_server_gets_an_item_of_its_own(talk: Any) -> None:
    events = talk.update(tools=[server("a"), FUNCTION, server("b", server_url="http://localhost/b")])
    assert [event["item"]["server_label"] for event in events if event["type"] == "conversation.item.added"] == [
        "a",
        "b",
    ]
    first, second = orders(talk, ListMcpTools)
    talk._taken(talk.session.mcp_tools_listed(second.item_id, (WRITE,)))
    talk._taken(talk.session.mcp_tools_listed(first.item_id, (SEARCH,)))
    begin(talk)
    assert names(talk) == ["get_time", "a__search", "b__write"]


def test_a_failed_list_says_why_in_an_error_of_no_event(talk: Any) -> None:
    talk.update(tools=[server()])
    events = listed(talk, failure=DOWN)
    assert kinds(events) == ["mcp_list_tools.failed", "conversation.item.done", "error"]
    assert events[1]["item"]["tools"] == []
    assert events[2]["error"] == {
        "type": "external_connector_error",
        "code": "http_error",
        "message": "Error retrieving tool list from MCP server: 'docs'. The MCP server can't be reached.",
        "param": "tools",
        "event_id": None,
    }
    begin(talk)
    assert names(talk) == []


@pytest.mark.parametrize(
    ("change", "again"),
    [
        ({}, False),
        ({"require_approval": "never"}, False),
        ({"server_description": "d"}, False),
        ({"server_url": "http://localhost/other"}, True),
        ({"authorization": "other"}, True),
        ({"headers": {"X": "1"}}, True),
        ({"allowed_tools": ["search"]}, True),
        ({"server_label": "other"}, True),
    ],
)
def test_a_server_is_listed_again_if_what_decides_on_its_tools_changes(
    talk: Any, change: dict[str, Any], again: bool
) -> None:
    talk.update(tools=[server()])
    listed(talk, SEARCH)
    talk.update(tools=[{**server(), **change}])
    assert len(orders(talk, ListMcpTools)) == 1 + again


def test_a_list_that_is_being_made_is_not_asked_for_twice(talk: Any) -> None:
    talk.update(tools=[server()])
    talk.update(tools=[server()])
    assert len(orders(talk, ListMcpTools)) == 1


def test_a_list_that_failed_is_asked_for_again(talk: Any) -> None:
    talk.update(tools=[server()])
    listed(talk, failure=DOWN)
    talk.update(tools=[server()])
    assert len(orders(talk, ListMcpTools)) == 2
    listed(talk, SEARCH)
    begin(talk)
    assert names(talk) == ["docs__search"]


def test_tools_that_are_no_longer_wanted_are_not_offered(talk: Any) -> None:
    with_tools(talk)
    talk.update(tools=[])
    begin(talk)
    assert names(talk) == []
    end(talk)
    again = talk.update(tools=[server()])
    assert kinds(again) == ["session.updated"]
    begin(talk, "resp_b")
    assert names(talk) == ["docs__search", "docs__write"]


def test_only_allowed_tools_are_shown_and_offered(talk: Any) -> None:
    with_tools(talk, allowed_tools=["write", "missing"])
    assert [tool["name"] for tool in talk.sent("conversation.item.done")[-1]["item"]["tools"]] == ["write"]
    begin(talk)
    assert names(talk) == ["docs__write"]


def test_a_list_beyond_what_is_read_fails(talk: Any) -> None:
    talk.update(tools=[server()])
    events = listed(talk, McpTool("long", "x" * 2**18, {}))
    assert kinds(events) == ["mcp_list_tools.failed", "conversation.item.done", "error"]
    assert "allowed_tools" in events[2]["error"]["message"]


def test_a_late_or_double_answer_changes_nothing(talk: Any) -> None:
    talk.update(tools=[server()])
    item_id = orders(talk, ListMcpTools)[-1].item_id
    listed(talk, SEARCH)
    assert listed(talk, failure=DOWN) == []
    assert talk._taken(talk.session.mcp_tools_listed("item_unknown", ())) == []
    begin(talk)
    assert names(talk) == ["docs__search"]
    assert item_id == orders(talk, ListMcpTools)[-1].item_id


def test_a_session_keeps_a_bounded_number_of_lists(talk: Any) -> None:
    for number in range(KEPT_LISTS + 5):
        talk.update(tools=[server(server_url=f"http://localhost/{number}")])
        listed(talk, SEARCH)
    assert len(talk.session._listings._listings) == KEPT_LISTS
    talk.update(tools=[server(server_url=f"http://localhost/{KEPT_LISTS + 4}")])
    assert len(orders(talk, ListMcpTools)) == KEPT_LISTS + 5


@pytest.mark.parametrize("known", [MAX_LISTS - 1, MAX_LISTS])
def test_a_session_asks_for_a_bounded_number_of_lists(talk: Any, known: int) -> None:
    for number in range(known):
        talk.update(tools=[server(server_url=f"http://localhost/{number}")])
        listed(talk, SEARCH)
    events = talk.update(tools=[server(server_url="http://localhost/new")])
    assert (events[0]["type"] == "error") == (known == MAX_LISTS)
    assert kinds(talk.update(tools=[server(server_url=f"http://localhost/{known - 1}")])) == ["session.updated"]


def test_a_turn_that_starts_while_tools_are_listed_goes_without_them(talk: Any) -> None:
    talk.update(tools=[server()])
    begin(talk)
    assert names(talk) == []
    assert context(talk).server_tools == frozenset()


def test_a_response_with_servers_of_its_own_waits_for_their_lists(talk: Any) -> None:
    talk.user_types("hello")
    events = talk.send("response.create", response={"tools": [server("a"), server("b")]})
    assert kinds(events) == ["conversation.item.added", "mcp_list_tools.in_progress"] * 2
    (command,) = talk.commands(CreateResponse)
    begin(talk, command.response_id)
    assert talk.commands(ProvideContext) == []
    first, second = orders(talk, ListMcpTools)
    talk._taken(talk.session.mcp_tools_listed(first.item_id, (SEARCH,)))
    assert talk.commands(ProvideContext) == []
    talk._taken(talk.session.mcp_tools_listed(second.item_id, DOWN))
    assert names(talk) == ["a__search"]
    end(talk, command.response_id)
    begin(talk, "resp_next")
    assert names(talk) == []  # they were that response's only


def test_a_response_that_was_cancelled_while_its_tools_were_listed_gets_no_context(talk: Any) -> None:
    talk.send("response.create", response={"tools": [server()]})
    (command,) = talk.commands(CreateResponse)
    talk.backend(ResponseStarted(command.response_id), ContextRequested(command.response_id))
    end(talk, command.response_id, EndStatus.CANCELLED, reason=EndReason.CLIENT_CANCELLED)
    listed(talk, SEARCH)
    assert talk.commands(ProvideContext) == []


def test_a_transcription_session_has_no_servers(new_talk: Callable[..., Any]) -> None:
    talk = new_talk(kind="transcription")
    talk.open()
    error = talk.refused("session.update", session={"type": "transcription", "tools": [server()]})
    assert error["code"] == "unknown_parameter"


def test_servers_that_an_ephemeral_key_brings_are_listed_when_the_session_opens(new_talk: Callable[..., Any]) -> None:
    talk = new_talk(initial={"type": "realtime", "tools": [server(authorization="tok")]})
    events = talk.open()
    assert kinds(events) == ["session.created", "conversation.item.added", "mcp_list_tools.in_progress"]
    assert events[0]["session"]["tools"] == [server()]
    listed(talk, SEARCH)
    talk.update(tools=[{"type": "mcp", "server_label": "docs"}])
    assert len(orders(talk, ListMcpTools)) == 1
    begin(talk)
    assert names(talk) == ["docs__search"]


def test_a_key_for_a_server_that_cannot_be_used_is_not_made() -> None:
    with pytest.raises(ProtocolError, match="connectors and tunnels are hosted by OpenAI"):
        client_secret_request({"session": {"type": "realtime", "tools": [server(connector_id="connector_gmail")]}})
