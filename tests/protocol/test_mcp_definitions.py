"""MCP servers as clients define them in `tools`: checked, remembered, and their keys never shown."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.mcp_servers import MAX_SERVERS, McpServer
from protocol.outputs import ListMcpTools
from tests.protocol.mcp_talk import (
    DOWN,
    FUNCTION,
    SEARCH,
    URL,
    WRITE,
    begin,
    end,
    kinds,
    listed,
    names,
    orders,
    server,
)


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
