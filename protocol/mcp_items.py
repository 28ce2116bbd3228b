"""The items of MCP tools in a conversation and their shape on the wire (Realtime GA: ConversationItem, mcp_*).

They have neither `object` nor `status`. An mcp_call always has the keys `output`, `error` and `approval_request_id`,
null while there is none: agents-js dies without `output`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from protocol import errors


@dataclass(frozen=True, slots=True)
class McpTool:
    """A tool as its server describes it. `annotations` are the server's hints, in the shape of the MCP wire."""

    name: str
    description: str
    input_schema: dict[str, Any]
    annotations: dict[str, Any] | None = None

    @property
    def read_only(self) -> bool:
        """Whether the server says that the tool changes nothing."""
        return bool(self.annotations and self.annotations.get("readOnlyHint"))

    def to_wire(self) -> dict[str, Any]:
        """Return the tool. A description is always there: agents-js drops the whole event without one."""
        wire: dict[str, Any] = {
            "name": self.name,
            "description": self.description,
            "input_schema": self.input_schema,
        }
        if self.annotations is not None:
            wire["annotations"] = self.annotations
        return wire


@dataclass(frozen=True, slots=True)
class McpFailure:
    """Why a listing or a call failed. `code` is JSON-RPC's or HTTP's; a tool's own error has none."""

    kind: Literal["protocol_error", "tool_execution_error", "http_error"]
    message: str
    code: int = 0

    def to_wire(self) -> dict[str, Any]:
        """Return the `error` of an mcp_call."""
        code = {} if self.kind == "tool_execution_error" else {"code": self.code}
        return {"type": self.kind, **code, "message": self.message}


@dataclass(slots=True)
class McpListTools:
    """The tools that a server was found to have."""

    id: str
    server_label: str
    tools: tuple[dict[str, Any], ...] = ()

    def to_wire(self) -> dict[str, Any]:
        """Return the item."""
        return {
            "id": self.id,
            "type": "mcp_list_tools",
            "server_label": self.server_label,
            "tools": list(self.tools),
        }


@dataclass(slots=True)
class McpCall:
    """A call of a server's tool, made by the gateway. `output` and `error` are None until it has ended.

    `arguments` is JSON, as the model wrote it. `waiting` says what it waits for, for the model, until it has ended.
    """

    id: str
    server_label: str
    name: str
    arguments: str
    approval_request_id: str | None = None
    output: str | None = None
    error: dict[str, Any] | None = None
    waiting: str | None = None

    def to_wire(self) -> dict[str, Any]:
        """Return the item."""
        return {
            "id": self.id,
            "type": "mcp_call",
            "server_label": self.server_label,
            "name": self.name,
            "arguments": self.arguments,
            "approval_request_id": self.approval_request_id,
            "output": self.output,
            "error": self.error,
        }

    @property
    def result(self) -> str | None:
        """What the model reads as the result; None if it is not to read of the call at all."""
        if self.error is not None:
            return f"Error: {self.error['message']}"
        return self.waiting if self.output is None else self.output


@dataclass(frozen=True, slots=True)
class McpApprovalRequest:
    """The question whether a call may be made. `arguments` is a JSON object: agents-js parses it unguarded."""

    id: str
    server_label: str
    name: str
    arguments: str

    def to_wire(self) -> dict[str, Any]:
        """Return the item."""
        return {
            "id": self.id,
            "type": "mcp_approval_request",
            "server_label": self.server_label,
            "name": self.name,
            "arguments": self.arguments,
        }


@dataclass(frozen=True, slots=True)
class McpApprovalResponse:
    """The client's answer to an approval request."""

    id: str
    approval_request_id: str
    approve: bool
    reason: str | None = None

    def to_wire(self) -> dict[str, Any]:
        """Return the item."""
        reason = {} if self.reason is None else {"reason": self.reason}
        return {
            "id": self.id,
            "type": "mcp_approval_response",
            "approval_request_id": self.approval_request_id,
            "approve": self.approve,
            **reason,
        }


McpItem = McpListTools | McpCall | McpApprovalRequest | McpApprovalResponse


def call_arguments(text: str) -> dict[str, Any] | None:
    """Return the JSON object in `text`, or None where it is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def mcp_item_from_wire(raw: dict[str, Any], item_id: str, path: str) -> McpItem:
    """Return the MCP item that a client wrote; `raw` has the right types. Raises ProtocolError.

    A client that replays a conversation re-creates its calls and lists. They are records: nothing is run for them.
    """
    match raw["type"]:
        case "mcp_list_tools":
            tools = tuple({key: value for key, value in tool.items() if value is not None} for tool in raw["tools"])
            return McpListTools(item_id, raw["server_label"], tuple({"description": "", **tool} for tool in tools))
        case "mcp_call":
            return McpCall(
                item_id,
                raw["server_label"],
                raw["name"],
                raw["arguments"],
                raw.get("approval_request_id"),
                raw.get("output"),
                raw.get("error"),
            )
        case "mcp_approval_request":
            if call_arguments(raw["arguments"]) is None:
                raise errors.refused_value(f"{path}.arguments", f"Invalid '{path}.arguments': expected a JSON object.")
            return McpApprovalRequest(item_id, raw["server_label"], raw["name"], raw["arguments"])
        case _:
            return McpApprovalResponse(item_id, raw["approval_request_id"], raw["approve"], raw.get("reason"))
