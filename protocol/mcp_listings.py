"""The lists of the session's MCP servers: asked for once, shown as items, offered to the model (protocol §2.13).

A server is listed when it first stands in `tools`, when its definition changes, and again when a list that failed is
asked for anew. Only tools that are listed by then are offered in a response.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from protocol import errors
from protocol.conversation import Conversation
from protocol.mcp_items import McpFailure, McpListTools, McpTool
from protocol.mcp_servers import McpServer, chat_name, is_allowed, marked_name, needs_approval, server_of
from protocol.outputs import ListMcpTools, Output
from protocol.server_events import ServerEvents

MAX_LIST_CHARACTERS = 256 * 1024
"""Longest list of tools (chosen): it is sent in one event, and the language model reads all of it in each response."""

MAX_LISTS = 256
"""Most lists that one session asks for (chosen): each is an item of the conversation."""

KEPT_LISTS = 64
"""Lists that a session keeps (chosen); the oldest that is not being made leaves."""


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A server's tool as one response may use it."""

    server: McpServer
    name: str
    approval: bool


@dataclass(frozen=True, slots=True)
class Offer:
    """What one response may call.

    `tools` are flat function tools; `server_tools` tells which of their names are servers' tools. `tool_choice` names a
    function, or is "auto" and the like.
    """

    tools: tuple[dict[str, Any], ...] = ()
    tool_choice: str | dict[str, Any] = "auto"
    server_tools: Mapping[str, OfferedTool] = field(default_factory=dict)


@dataclass(slots=True)
class _Listing:
    item: McpListTools
    previous: str | None
    definition: Mapping[str, Any]
    tools: tuple[McpTool, ...] | None = None
    failed: bool = False

    @property
    def pending(self) -> bool:
        return self.tools is None and not self.failed


class McpListings:
    """The lists of one session, by definition."""

    def __init__(self, events: ServerEvents, conversation: Conversation) -> None:
        self._events = events
        self._conversation = conversation
        self._listings: dict[str, _Listing] = {}
        self._asked_for = 0

    def check(self, tools: Iterable[Mapping[str, Any]], path: str) -> None:
        """Raise ProtocolError if the servers in `tools`, which stand at `path`, would be too many lists."""
        new = [definition for definition in _servers(tools) if self._is_unknown(definition)]
        if self._asked_for + len(new) > MAX_LISTS:
            raise errors.too_many_lists(MAX_LISTS, path)

    def _is_unknown(self, definition: Mapping[str, Any]) -> bool:
        known = self._listings.get(_key(definition))
        return known is None or known.failed

    def begin(self, tools: Iterable[Mapping[str, Any]]) -> list[Output]:
        """Begin to list every server in `tools` whose tools are not known."""
        outputs: list[Output] = []
        for definition in _servers(tools):
            key = _key(definition)
            if not self._is_unknown(definition):
                self._listings[key] = self._listings.pop(key)  # as the newest
                continue
            self._asked_for += 1
            item = McpListTools(self._events.new_id("item"), definition["server_label"])
            previous = self._conversation.add(item)
            self._listings.pop(key, None)
            self._listings[key] = _Listing(item, previous, definition)
            outputs += [
                self._events("conversation.item.added", previous_item_id=previous, item=item.to_wire()),
                self._events("mcp_list_tools.in_progress", item_id=item.id),
                ListMcpTools(item.id, server_of(definition)),
            ]
        settled = [key for key, listing in self._listings.items() if not listing.pending]
        for key in settled[: max(0, len(self._listings) - KEPT_LISTS)]:
            del self._listings[key]
        return outputs

    def ended(self, item_id: str, result: tuple[McpTool, ...] | McpFailure) -> list[Output]:
        """Show a list, or why there is none: the item cannot say it, so that an `error` follows it."""
        listing = next((known for known in self._listings.values() if known.item.id == item_id), None)
        if listing is None or not listing.pending:
            return []
        if not isinstance(result, McpFailure):
            result = _usable(tuple(tool for tool in result if is_allowed(listing.definition, tool)))
        failure = result if isinstance(result, McpFailure) else None
        if isinstance(result, McpFailure):
            listing.failed = True
        else:
            listing.tools = result
            listing.item.tools = tuple(tool.to_wire() for tool in result)
        item = listing.item
        outputs: list[Output] = [
            self._events("mcp_list_tools.failed" if failure else "mcp_list_tools.completed", item_id=item.id),
            self._events("conversation.item.done", previous_item_id=listing.previous, item=item.to_wire()),
        ]
        if failure is not None:
            outputs.append(self._events.error(errors.tools_not_listed(item.server_label, failure.message)))
        return outputs

    def pending(self, tools: Iterable[Mapping[str, Any]]) -> bool:
        """Whether a server in `tools` is being listed."""
        listings = [self._listings.get(_key(definition)) for definition in _servers(tools)]
        return any(listing.pending for listing in listings if listing is not None)

    def offer(self, tools: Iterable[Mapping[str, Any]], tool_choice: str | Mapping[str, Any]) -> Offer:
        """Return what a response with these `tools` may call as of now."""
        tools = tuple(tools)
        flat = [dict(tool) for tool in tools if tool["type"] != "mcp"]
        taken = {tool["name"] for tool in flat}
        server_tools: dict[str, OfferedTool] = {}
        for definition in _servers(tools):
            server = server_of(definition)
            listing = self._listings.get(_key(definition))
            for tool in (listing.tools or ()) if listing is not None else ():
                name = chat_name(server.label, tool.name)
                if name in taken:  # by a client's function
                    name = marked_name(name, f"{server.label}/{tool.name}")
                taken.add(name)
                flat.append({"name": name, "description": tool.description, "parameters": tool.input_schema})
                server_tools[name] = OfferedTool(server, tool.name, needs_approval(definition, tool))
        if isinstance(tool_choice, str) or tool_choice["type"] != "mcp":
            choice = tool_choice if isinstance(tool_choice, str) else dict(tool_choice)
            return Offer(tuple(flat), choice, server_tools)
        return _chosen(tuple(flat), server_tools, tool_choice)


def _chosen(flat: tuple[dict[str, Any], ...], tools: dict[str, OfferedTool], choice: Mapping[str, Any]) -> Offer:
    """Return the offer in which the model must call the server's tool, or any tool of the server, that was chosen.

    A choice of what is not listed means "auto", as with functions.
    """
    wanted = choice.get("name")
    names = [
        name
        for name, tool in tools.items()
        if tool.server.label == choice["server_label"] and wanted in (None, tool.name)
    ]
    if not names:
        return Offer(flat, "auto", tools)
    if wanted is not None:
        return Offer(flat, {"type": "function", "name": names[0]}, tools)
    return Offer(
        tuple(tool for tool in flat if tool["name"] in names), "required", {name: tools[name] for name in names}
    )


def _servers(tools: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [tool for tool in tools if tool["type"] == "mcp"]


def _key(definition: Mapping[str, Any]) -> str:
    """Return what decides on a list: where the server is, what it is sent, which of its tools are wanted."""
    parts = ("server_label", "server_url", "authorization", "headers", "allowed_tools")
    return json.dumps([definition.get(part) for part in parts], sort_keys=True)


def _usable(tools: tuple[McpTool, ...]) -> tuple[McpTool, ...] | McpFailure:
    length = sum(len(json.dumps(tool.to_wire())) for tool in tools)
    if length <= MAX_LIST_CHARACTERS:
        return tools
    return McpFailure(
        "protocol_error",
        f"Its tools' descriptions have {length} characters and at most {MAX_LIST_CHARACTERS} are read; "
        "name the tools that you need in 'allowed_tools'.",
    )
