"""What the protocol's session hands to its shell, in one ordered list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from protocol.audio_time import Samples
from protocol.commands import Command
from protocol.mcp_servers import McpServer


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event for the client, in GA shape, `event_id` included.

    `audio_of` names the response whose audio this is (an audio delta), so that a cancelled response's queued audio can
    be dropped; None for every other event. `samples` is how much audio it carries.
    """

    payload: dict[str, Any]
    audio_of: str | None = None
    samples: Samples = 0


@dataclass(frozen=True, slots=True)
class DiscardAudio:
    """Drop the audio deltas of `response_id` that still wait to be sent; they come before the events that follow.

    What was dropped is told to `SessionProtocol.audio_unsent`.
    """

    response_id: str


@dataclass(frozen=True, slots=True)
class DiscardItemAudio:
    """Drop the audio deltas of the item `item_id` that still wait to be sent, though its response may be over.

    What was dropped is told to `SessionProtocol.audio_unsent`.
    """

    item_id: str


@dataclass(frozen=True, slots=True)
class ToBackend:
    """A command for the backend."""

    command: Command


@dataclass(frozen=True, slots=True)
class ListMcpTools:
    """List a server's tools; answered by `SessionProtocol.mcp_tools_listed`. `item_id`: the item that shows them."""

    item_id: str
    server: McpServer


@dataclass(frozen=True, slots=True)
class CallMcpTool:
    """Call a server's tool; answered by `SessionProtocol.mcp_call_ended`. `item_id`: the item of the call."""

    item_id: str
    server: McpServer
    tool: str
    arguments: dict[str, Any]


Output = ServerEvent | DiscardAudio | DiscardItemAudio | ToBackend | ListMcpTools | CallMcpTool
