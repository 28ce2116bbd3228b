"""What a language model is offered of MCP servers' tools, under which names, and whose approval their calls need."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.mcp_servers import chat_name, is_allowed, needs_approval
from protocol.outputs import ListMcpTools
from tests.protocol.mcp_talk import (
    FUNCTION,
    SCHEMA,
    SEARCH,
    WRITE,
    begin,
    context,
    listed,
    names,
    orders,
    server,
    with_tools,
)


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
