"""MCP servers in a session's tools: definitions, lists, and what the model is offered (protocol §2.13)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from protocol.backend_events import ContextRequested, EndReason, EndStatus, ResponseStarted
from protocol.client_secrets import client_secret_request
from protocol.commands import CreateResponse, ProvideContext
from protocol.errors import ProtocolError
from protocol.mcp_items import McpFailure, McpTool
from protocol.mcp_listings import KEPT_LISTS, MAX_LISTS
from protocol.mcp_servers import MAX_SERVERS, McpServer, chat_name, is_allowed, needs_approval
from protocol.outputs import ListMcpTools
from tests.protocol.mcp_talk import (
    SCHEMA,
    SEARCH,
    URL,
    WRITE,
    begin,
    context,
    end,
    kinds,
    listed,
    orders,
    server,
    with_tools,
)

FUNCTION = {"type": "function", "name": "get_time", "description": "The time.", "parameters": SCHEMA}
DOWN = McpFailure("http_error", "The MCP server can't be reached.", 502)


def names(talk: Any) -> list[str]:
    return [tool["function"]["name"] for tool in context(talk).tools]


# --- listing -------------------------------------------------------------------------------------------------------


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


# --- definitions ---------------------------------------------------------------------------------------------------


def test_keys_are_never_shown(talk: Any) -> None:
    secret = "tok_very_secret"
    tool = server(headers={"X-Key": secret}, authorization=secret, allowed_tools=None, require_approval="never")
    (updated, *_) = talk.update(tools=[tool, FUNCTION])
    assert updated["session"]["tools"] == [server(require_approval="never"), FUNCTION]
    (order,) = orders(talk, ListMcpTools)
    assert order.server.http_headers() == {"X-Key": secret, "Authorization": f"Bearer {secret}"}
    assert secret not in repr(order)
    listed(talk, failure=DOWN)
    begin(talk)
    end(talk)
    assert secret not in repr([output for output in talk.outputs if output is not order])


def test_a_server_without_a_token_gets_the_clients_headers_only() -> None:
    assert McpServer("s", URL, None, (("X", "1"),)).http_headers() == {"X": "1"}


@pytest.mark.parametrize("token", ["Bearer tok", "bearer tok", " Bearer tok"])
def test_a_token_that_says_bearer_is_sent_as_it_is(token: str) -> None:
    headers = McpServer("s", URL, token).http_headers()
    assert headers["Authorization"].lower() == "bearer tok"


@pytest.mark.parametrize("place", ["session", "response"])
@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"server_url": None, "connector_id": "connector_gmail"}, "invalid_value", "[0].connector_id"),
        ({"connector_id": "connector_gmail"}, "invalid_value", "[0].connector_id"),
        ({"server_url": None, "tunnel_id": "t"}, "invalid_value", "[0].tunnel_id"),
        ({"server_url": None}, "missing_required_parameter", "[0].server_url"),
        ({"server_url": "ftp://localhost/mcp"}, "invalid_value", "[0].server_url"),
        ({"server_url": "localhost/mcp"}, "invalid_value", "[0].server_url"),
        ({"server_url": "http:///mcp"}, "invalid_value", "[0].server_url"),
        ({"server_url": "http://localhost:99999/"}, "invalid_value", "[0].server_url"),
        ({"server_url": "http://local host/"}, "invalid_value", "[0].server_url"),
        ({"server_url": "http://[::1/mcp"}, "invalid_value", "[0].server_url"),
        ({"authorization": "a", "headers": {"authorization": "b"}}, "invalid_value", "[0].headers"),
        ({"headers": {"X Key": "b"}}, "invalid_value", "[0].headers"),
        ({"headers": {"X-Key": "b\r\nHost: evil"}}, "invalid_value", "[0].headers"),
        ({"authorization": "a\nb"}, "invalid_value", "[0].authorization"),
    ],
)
def test_a_definition_that_cannot_be_used_refuses_the_whole_event(
    talk: Any, place: str, fields: dict[str, Any], code: str, param: str
) -> None:
    tools = [{**server(), **fields}]
    if place == "session":
        error = talk.refused("session.update", session={"type": "realtime", "instructions": "x", "tools": tools})
    else:
        error = talk.refused("response.create", response={"tools": tools})
    assert (error["code"], error["param"]) == (code, f"{place}.tools{param}")
    assert "Host: evil" not in error["message"]
    assert talk.session.settings.tools == ()
    assert talk.session.settings.instructions != "x"


def test_a_label_may_stand_once_in_one_list(talk: Any) -> None:
    error = talk.refused("session.update", session={"type": "realtime", "tools": [server(), FUNCTION, server()]})
    assert (error["code"], error["param"]) == ("invalid_value", "session.tools[2].server_label")


@pytest.mark.parametrize("count", [MAX_SERVERS, MAX_SERVERS + 1])
def test_a_session_has_at_most_so_many_servers(talk: Any, count: int) -> None:
    tools = [server(f"s{number}") for number in range(count)]
    events = talk.update(tools=tools)
    assert (events[0]["type"] == "error") == (count > MAX_SERVERS)


def test_a_label_alone_means_its_earlier_definition(talk: Any) -> None:
    talk.update(tools=[server(authorization="tok", allowed_tools=["search"])])
    listed(talk, SEARCH, WRITE)
    talk.update(tools=[])
    (updated,) = talk.update(tools=[{"type": "mcp", "server_label": "docs", "require_approval": "never"}])
    assert updated["session"]["tools"] == [server(allowed_tools=["search"], require_approval="never")]
    begin(talk)
    assert names(talk) == ["docs__search"]
    end(talk)
    talk.send(
        "response.create", response={"tools": [{"type": "mcp", "server_label": "docs", "allowed_tools": ["write"]}]}
    )
    assert orders(talk, ListMcpTools)[-1].server == McpServer("docs", URL, "tok")


def test_the_oldest_definitions_are_forgotten(talk: Any) -> None:
    for number in range(2 * MAX_SERVERS + 1):
        talk.update(tools=[server(f"s{number}")])
    first, second = ({"type": "mcp", "server_label": label} for label in ("s0", "s1"))
    talk.refused("session.update", session={"type": "realtime", "tools": [first]})
    assert kinds(talk.update(tools=[second]))[0] == "session.updated"


def test_a_refused_update_defines_nothing(talk: Any) -> None:
    talk.refused("session.update", session={"type": "realtime", "tools": [server(), server()]})
    error = talk.refused(
        "session.update", session={"type": "realtime", "tools": [{"type": "mcp", "server_label": "docs"}]}
    )
    assert error["code"] == "missing_required_parameter"


# --- what the model is offered -------------------------------------------------------------------------------------


def test_a_servers_tool_is_offered_as_a_function(talk: Any) -> None:
    with_tools(talk, SEARCH)
    begin(talk)
    assert context(talk).tools == (
        {
            "type": "function",
            "function": {"name": "docs__search", "description": "Search the docs.", "parameters": SCHEMA},
        },
    )
    assert context(talk).server_tools == {"docs__search"}


def test_functions_and_servers_may_share_names(talk: Any) -> None:
    functions = [{**FUNCTION, "name": "search"}, {**FUNCTION, "name": "a__search"}]
    talk.update(tools=[*functions, server("a"), server("b")])
    for order in orders(talk, ListMcpTools):
        talk._taken(talk.session.mcp_tools_listed(order.item_id, (SEARCH,)))
    begin(talk)
    offered = names(talk)
    assert len(set(offered)) == 4
    assert offered[:2] == ["search", "a__search"]
    assert context(talk).server_tools == set(offered[2:])


@pytest.mark.parametrize(
    ("label", "tool"),
    [
        ("docs", "search"),
        ("my docs", "search"),
        ("my_docs", "se/arch"),
        ("d" * 60, "search"),
        ("d" * 60, "search2"),
        ("é", "ü"),
    ],
)
def test_names_fit_chat_completions_and_keep_tools_apart(label: str, tool: str) -> None:
    name = chat_name(label, tool)
    assert len(name) <= 64
    assert name.isascii()
    assert name.replace("_", "").replace("-", "").isalnum()
    others = [("my_docs", "search"), ("d" * 60, "search3"), ("é", "ö")]
    assert name not in [chat_name(*other) for other in others]


@pytest.mark.parametrize(
    ("tool_choice", "expected", "offered"),
    [
        ("auto", "auto", ["get_time", "docs__search", "docs__write"]),
        ("required", "required", ["get_time", "docs__search", "docs__write"]),
        (
            {"type": "function", "name": "get_time"},
            {"type": "function", "function": {"name": "get_time"}},
            ["get_time", "docs__search", "docs__write"],
        ),
        (
            {"type": "mcp", "server_label": "docs", "name": "write"},
            {"type": "function", "function": {"name": "docs__write"}},
            ["get_time", "docs__search", "docs__write"],
        ),
        ({"type": "mcp", "server_label": "docs"}, "required", ["docs__search", "docs__write"]),
        ({"type": "mcp", "server_label": "other"}, "auto", ["get_time", "docs__search", "docs__write"]),
        ({"type": "mcp", "server_label": "docs", "name": "gone"}, "auto", ["get_time", "docs__search", "docs__write"]),
        ({"type": "function", "name": "gone"}, "auto", ["get_time", "docs__search", "docs__write"]),
    ],
)
def test_a_tool_choice_may_name_a_server_or_its_tool(
    talk: Any, tool_choice: Any, expected: Any, offered: list[str]
) -> None:
    (updated, *_) = talk.update(tools=[FUNCTION, server()], tool_choice=tool_choice)
    assert updated["session"]["tool_choice"] == tool_choice
    listed(talk, SEARCH, WRITE)
    begin(talk)
    assert context(talk).tool_choice == expected
    assert names(talk) == offered


@pytest.mark.parametrize(
    ("allowed", "search", "write"),
    [
        (None, True, True),
        ([], False, False),
        (["search"], True, False),
        ({"tool_names": ["write"]}, False, True),
        ({"read_only": True}, True, False),
        ({"read_only": False}, False, True),
        ({"read_only": True, "tool_names": ["write"]}, False, False),
        ({}, False, False),
    ],
)
def test_allowed_tools_is_a_list_or_a_filter(allowed: Any, search: bool, write: bool) -> None:
    definition = server(allowed_tools=allowed)
    assert (is_allowed(definition, SEARCH), is_allowed(definition, WRITE)) == (search, write)


@pytest.mark.parametrize(
    ("rule", "search", "write"),
    [
        (None, True, True),
        ("always", True, True),
        ("never", False, False),
        ({}, True, True),
        ({"never": {"tool_names": ["search"]}}, False, True),
        ({"never": {"read_only": True}}, False, True),
        ({"always": {"tool_names": ["write"]}}, False, True),
        ({"always": {"read_only": False}}, False, True),
        ({"always": {"tool_names": ["write"]}, "never": {"tool_names": ["search"]}}, False, True),
        ({"always": {"tool_names": ["write"]}, "never": {"tool_names": ["other"]}}, True, True),
        ({"always": {"tool_names": ["search"]}, "never": {"tool_names": ["search"]}}, True, True),
        ({"never": {}}, True, True),
    ],
)
def test_approval_is_needed_unless_the_definition_says_otherwise(rule: Any, search: bool, write: bool) -> None:
    definition = server(require_approval=rule)
    assert (needs_approval(definition, SEARCH), needs_approval(definition, WRITE)) == (search, write)
