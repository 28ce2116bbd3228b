"""A response on the wire: from the backend's neutral events to OpenAI's, in OpenAI's order (Realtime GA: response.*).

Exactly one response.created and one response.done per response, the *.done chain of every open item before the latter
and nothing of the response after it; but a call of an MCP server may outlive it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from protocol.audio_deltas import AudioDeltas
from protocol.audio_format import G711
from protocol.backend_events import (
    EndStatus,
    FunctionCallArgumentsDelta,
    FunctionCallStarted,
    OutputAudio,
    OutputItemEnded,
    OutputSpoken,
    OutputTextDelta,
    ResponseEnded,
)
from protocol.conversation import Conversation
from protocol.mcp_calls import MAX_CALLS, McpCalls, OutputApprovalRequest, OutputMcpCall
from protocol.mcp_items import McpApprovalRequest, McpCall
from protocol.mcp_listings import Offer, OfferedTool
from protocol.output_items import OutputCall, OutputMessage
from protocol.outputs import DiscardAudio, Output
from protocol.response_parameters import ResponseParameters
from protocol.server_events import ServerEvents
from protocol.speech import SpeechPart
from protocol.usage import response_usage
from protocol.wire_rules import MAX_ITEM_ID


@dataclass(slots=True)
class _ServerCall:
    """A call of a server's tool that the model is writing."""

    tool: OfferedTool
    arguments: str = ""


class RunningResponse:
    """One response between its ResponseStarted and its ResponseEnded. `offer`: what its model was told it may call."""

    def __init__(
        self,
        response_id: str,
        parameters: ResponseParameters,
        events: ServerEvents,
        conversation: Conversation,
        g711: G711,
        mcp_calls: McpCalls,
    ) -> None:
        self.parameters = parameters
        self.offer = Offer()
        self._mcp_calls = mcp_calls
        self._server_calls: dict[str, _ServerCall] = {}
        self._id = response_id
        self._events = events
        self._conversation = None if parameters.out_of_band else conversation
        self._conversation_id = None if parameters.out_of_band else conversation.id
        self._g711 = g711
        self._items: dict[str, OutputMessage | OutputCall | OutputMcpCall | OutputApprovalRequest] = {}
        self._user_audio = 0 if parameters.input is not None else conversation.user_audio

    def started(self) -> list[Output]:
        """Return response.created, which shows the client's metadata (LiveKit waits for it)."""
        return [self._events("response.created", response=self._wire("in_progress", None, None))]

    def text_delta(self, event: OutputTextDelta) -> list[Output]:
        """Return the delta, after the opening of its item if it is the first of it."""
        if not event.delta:
            return []
        outputs, message = self._message(event.item_id)
        return [*outputs, *(message.text(event.delta) if message else [])]

    def audio(self, event: OutputAudio) -> list[Output]:
        """Return the audio in deltas, after the opening of its item if it is the first of it."""
        if not event.pcm:
            return []
        outputs, message = self._message(event.item_id)
        return [*outputs, *(message.audio(event.pcm) if message else [])]

    def spoken(self, event: OutputSpoken) -> list[Output]:
        """Note the mark; it isn't told on the wire."""
        item = self._items.get(event.item_id)
        if isinstance(item, OutputMessage):
            item.spoken(event.text_end, event.audio_end)
        return []

    def call_started(self, event: FunctionCallStarted) -> list[Output]:
        """Open a function call; one of a server's tool opens when it is whole."""
        tool = self.offer.server_tools.get(event.name)
        if tool is not None:
            self._server_calls[event.item_id] = _ServerCall(tool)
            return []
        call = OutputCall(event.item_id, self._call_id(event.call_id), event.name, *self._place())
        self._items[event.item_id] = call
        return [*call.begin()]

    def _call_id(self, given: str) -> str:
        """Return the model's id of a call, or a new one where that is empty, taken or too long for clients.

        Language model servers write "call_0" in every reply, or 46 characters; nobody but the client needs the id.
        """
        taken = self._conversation is not None and self._conversation.has_call(given)
        usable = given and len(given) <= MAX_ITEM_ID and not taken
        return given if usable else self._events.new_id("call")

    def arguments_delta(self, event: FunctionCallArgumentsDelta) -> list[Output]:
        """Return more of a call's arguments."""
        if event.item_id in self._server_calls:
            self._server_calls[event.item_id].arguments += event.delta
            return []
        item = self._items.get(event.item_id)
        return [*item.arguments(event.delta)] if isinstance(item, OutputCall) and item.open and event.delta else []

    def item_ended(self, event: OutputItemEnded) -> list[Output]:
        """Return the *.done chain of an item that gets no more; one that was cut is incomplete (protocol §2.16)."""
        call = self._server_calls.pop(event.item_id, None)
        if call is not None:
            return self._server_call(event.item_id, call)
        item = self._items.get(event.item_id)
        if isinstance(item, OutputMessage | OutputCall) and item.open:
            return [*item.end(whole=True, cut=event.cut)]
        return []

    def _server_call(self, item_id: str, written: _ServerCall) -> list[Output]:
        """Return the opening of an MCP call that is whole, and what follows: it is made, or its approval asked for."""
        tool, arguments = written.tool, written.arguments or "{}"
        item = McpCall(item_id, tool.server.label, tool.name, arguments)
        call = OutputMcpCall(item, tool, *self._place())
        self._items[item_id] = call
        if sum(isinstance(other, OutputMcpCall) for other in self._items.values()) > MAX_CALLS:
            return [*call.begin(), *self._mcp_calls.refuse(call)]
        if not tool.approval or call.arguments is None:  # what cannot be called needs nobody's approval
            return [*call.begin(), *self._mcp_calls.run(call)]
        item.approval_request_id = self._events.new_id("mcpr")
        asked = McpApprovalRequest(item.approval_request_id, item.server_label, item.name, arguments)
        request = OutputApprovalRequest(asked, *self._place())
        self._items[asked.id] = request
        return [*call.begin(), *request.begin(), *self._mcp_calls.ask(call, asked.id)]

    def _place(self) -> tuple[str, int, ServerEvents, Conversation | None]:
        """Return where in the response the next item stands."""
        return self._id, len(self._items), self._events, self._conversation

    def ended(self, event: ResponseEnded) -> list[Output]:
        """Return what closes the response; a cancelled one's unsent audio is dropped first, and its items stay open
        for no one: they are incomplete.
        """
        cancelled = event.status is EndStatus.CANCELLED
        outputs: list[Output] = [DiscardAudio(self._id)] if cancelled else []
        for item in self._items.values():
            if isinstance(item, OutputMessage | OutputCall) and item.open:
                outputs += item.end(whole=False, flush=not cancelled)
        usage = response_usage(event.usage, self._user_audio, self._agent_audio())
        response = self._wire(event.status.value, _status_details(event), usage)
        # No limits are kept here, so none are told: the list is empty.
        return [
            *outputs,
            self._events("response.done", response=response),
            self._events("rate_limits.updated", rate_limits=[]),
        ]

    def _message(self, item_id: str) -> tuple[list[Output], OutputMessage | None]:
        """Return the open message and what opens it; no message where the backend writes to one that is closed."""
        item = self._items.get(item_id)
        if item is None:
            deltas = AudioDeltas(self.parameters.settings.output_format, self._g711) if self.parameters.speaks else None
            message = OutputMessage(item_id, deltas, *self._place())
            self._items[item_id] = message
            return [*message.begin()], message
        return [], item if isinstance(item, OutputMessage) and item.open else None

    def _agent_audio(self) -> int:
        messages = [item for item in self._items.values() if isinstance(item, OutputMessage)]
        return sum(message.part.audio_sent for message in messages if isinstance(message.part, SpeechPart))

    def _wire(self, status: str, details: dict[str, Any] | None, usage: dict[str, Any] | None) -> dict[str, Any]:
        return {
            "object": "realtime.response",
            "id": self._id,
            "status": status,
            "status_details": details,
            "output": [item.item.to_wire() for item in self._items.values()],
            "conversation_id": self._conversation_id,
            "usage": usage,
            **self.parameters.to_wire(),
        }


def _status_details(event: ResponseEnded) -> dict[str, Any] | None:
    """Return why a response ended early; strict clients accept no other reasons than OpenAI's four."""
    if event.status is EndStatus.COMPLETED:
        return None
    if event.fault is not None:
        error = {"type": "server_error", "code": event.fault.code, "message": event.fault.message}
        return {"type": event.status.value, "error": error}
    return {"type": event.status.value, **({"reason": event.reason.value} if event.reason else {})}
