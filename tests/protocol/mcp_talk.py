"""What tests of MCP tools say and see, in short."""

from __future__ import annotations

from typing import Any

from protocol.backend_events import (
    ContextRequested,
    EndStatus,
    FunctionCallArgumentsDelta,
    FunctionCallStarted,
    OutputItemEnded,
    ResponseEnded,
    ResponseStarted,
)
from protocol.commands import ProvideContext, ToolCallEnded
from protocol.mcp_items import McpFailure, McpTool
from protocol.outputs import CallMcpTool, ListMcpTools

SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "default": None}}}
SEARCH = McpTool("search", "Search the docs.", SCHEMA, {"readOnlyHint": True})
WRITE = McpTool("write", "", SCHEMA)
URL = "http://localhost:9000/mcp"


def server(label: str = "docs", **fields: Any) -> dict[str, Any]:
    return {"type": "mcp", "server_label": label, "server_url": URL, **fields}


def orders(talk: Any, kind: type) -> list[Any]:
    """Return what the shell was asked to do so far."""
    return [output for output in talk.outputs if isinstance(output, kind)]


def listed(talk: Any, *tools: McpTool, failure: McpFailure | None = None) -> list[dict[str, Any]]:
    """Answer the newest order to list a server's tools."""
    result = tools if failure is None else failure
    events: list[dict[str, Any]] = talk._taken(
        talk.session.mcp_tools_listed(orders(talk, ListMcpTools)[-1].item_id, result)
    )
    return events


def with_tools(talk: Any, *tools: McpTool, **definition: Any) -> None:
    """Give the session a server with these tools, which need no approval unless `definition` says so."""
    talk.update(tools=[server(**{"require_approval": "never", **definition})])
    listed(talk, *(tools or (SEARCH, WRITE)))


def begin(talk: Any, response_id: str = "resp_a", *, out_of_band: bool = False) -> list[dict[str, Any]]:
    """Start a response and give it its context."""
    events: list[dict[str, Any]] = talk.backend(
        ResponseStarted(response_id, out_of_band), ContextRequested(response_id)
    )
    return events


def calls(
    talk: Any,
    name: str = "docs__search",
    arguments: str = '{"city": "Oslo"}',
    *,
    response_id: str = "resp_a",
    item_id: str = "item_c",
) -> list[dict[str, Any]]:
    """Let the model of a running response call a function, its arguments in two pieces."""
    half = len(arguments) // 2
    events: list[dict[str, Any]] = talk.backend(
        FunctionCallStarted(response_id, item_id, "call_1", name),
        FunctionCallArgumentsDelta(response_id, item_id, arguments[:half]),
        FunctionCallArgumentsDelta(response_id, item_id, arguments[half:]),
        OutputItemEnded(response_id, item_id),
    )
    return events


def end(
    talk: Any, response_id: str = "resp_a", status: EndStatus = EndStatus.COMPLETED, **fields: Any
) -> dict[str, Any]:
    """End a response; return its response.done."""
    events = talk.backend(ResponseEnded(response_id, status, **fields))
    response: dict[str, Any] = next(event["response"] for event in events if event["type"] == "response.done")
    return response


def answered(talk: Any, outcome: str | McpFailure, item_id: str | None = None) -> list[dict[str, Any]]:
    """Answer the newest order to call a tool, or that for `item_id`."""
    item_id = item_id or orders(talk, CallMcpTool)[-1].item_id
    events: list[dict[str, Any]] = talk._taken(talk.session.mcp_call_ended(item_id, outcome))
    return events


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def context(talk: Any) -> Any:
    """Return what the model was told last."""
    return talk.commands(ProvideContext)[-1].context


def released(talk: Any) -> list[str]:
    """Return the calls for which their responses need not wait any more."""
    return [command.item_id for command in talk.commands(ToolCallEnded)]


FUNCTION = {"type": "function", "name": "get_time", "description": "The time.", "parameters": SCHEMA}
DOWN = McpFailure("http_error", "The MCP server can't be reached.", 502)


def names(talk: Any) -> list[str]:
    """Return the names of the functions that the model is offered."""
    return [tool["function"]["name"] for tool in context(talk).tools]
