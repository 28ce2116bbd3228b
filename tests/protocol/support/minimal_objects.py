"""The smallest valid object of each member of a union, by the name of its field and its `type` and `role`."""

from __future__ import annotations

from typing import Any

CALL = "call_tea"
SERVER = "shop"
SERVER_URL = "http://127.0.0.1:9/mcp"

_MESSAGES = {
    "system": [{"type": "input_text", "text": "Speak like a pirate."}],
    "user": [{"type": "input_text", "text": "Hello there."}],
    "assistant": [{"type": "output_text", "text": "Good evening."}],
}

ITEMS: dict[str, dict[str, Any]] = {
    **{f"message {role}": {"type": "message", "role": role, "content": content} for role, content in _MESSAGES.items()},
    "function_call": {"type": "function_call", "name": "look_up", "arguments": '{"word": "tea"}', "call_id": CALL},
    "function_call_output": {"type": "function_call_output", "call_id": CALL, "output": "Tea is a plant."},
    "mcp_list_tools": {"type": "mcp_list_tools", "server_label": SERVER, "tools": []},
    "mcp_call": {
        "type": "mcp_call",
        "id": "mcp_1",
        "server_label": SERVER,
        "name": "count",
        "arguments": "{}",
        "output": "Seven.",
    },
    "mcp_approval_request": {
        "type": "mcp_approval_request",
        "id": "mcpr_1",
        "server_label": SERVER,
        "name": "count",
        "arguments": "{}",
    },
    "mcp_approval_response": {
        "type": "mcp_approval_response",
        "id": "mcpa_1",
        "approval_request_id": "mcpr_1",
        "approve": True,
    },
    "item_reference": {"type": "item_reference", "id": "u1"},
}

FUNCTION = {"type": "function", "name": "look_up"}
MCP_SERVER = {"type": "mcp", "server_label": SERVER, "server_url": SERVER_URL}

MINIMAL: dict[str, dict[str, Any]] = {
    **{f"{place}{{{kind}}}": item for kind, item in ITEMS.items() for place in ("item", "input")},
    **{f"session{{{kind}}}": {"type": kind} for kind in ("realtime", "transcription")},
    **{f"format{{{kind}}}": {"type": kind} for kind in ("audio/pcm", "audio/pcmu", "audio/pcma")},
    **{f"turn_detection{{{kind}}}": {"type": kind} for kind in ("server_vad", "semantic_vad")},
    "tools{function}": FUNCTION,
    "tools{mcp}": MCP_SERVER,
    "tool_choice{function}": {"type": "function", "name": "look_up"},
    "tool_choice{mcp}": {"type": "mcp", "server_label": SERVER},
    "truncation{retention_ratio}": {"type": "retention_ratio", "retention_ratio": 1.0},
    "error{protocol_error}": {"type": "protocol_error", "code": -32602, "message": "No."},
    "error{tool_execution_error}": {"type": "tool_execution_error", "message": "No."},
    "error{http_error}": {"type": "http_error", "code": 500, "message": "No."},
}
