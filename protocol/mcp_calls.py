"""Calls of MCP servers' tools, and the client's approval of them (protocol §2.13).

A call enters its response when its arguments are whole: an mcp_call has no status by which clients could tell one that
was broken off. From then on it lives beside the response: it may wait for the client's approval, and it ends when its
server has answered, before or after `response.done`. As at OpenAI the client then asks for the response that uses the
results; none is started for it.
"""

from __future__ import annotations

from protocol import errors
from protocol.commands import ToolCallEnded
from protocol.conversation import Conversation
from protocol.mcp_items import McpApprovalRequest, McpApprovalResponse, McpCall, McpFailure, call_arguments
from protocol.mcp_listings import OfferedTool
from protocol.output_items import OutputItem
from protocol.outputs import CallMcpTool, Output, ServerEvent, ToBackend
from protocol.server_events import ServerEvents

_INVALID_PARAMS = -32602
"""JSON-RPC 2.0: invalid method parameters."""

MAX_CALLS = 16
"""Most MCP calls in one response (chosen): `response.done` shows all of their results in one event."""

RUNNING = "The call is still running."
AWAITING_APPROVAL = "The call waits for the user's approval."
DENIED = "The user did not approve the call."
"""What the model reads instead of a result."""


class OutputMcpCall(OutputItem):
    """An mcp_call. `arguments` None: what the model wrote is no JSON object."""

    def __init__(
        self,
        item: McpCall,
        tool: OfferedTool,
        response_id: str,
        index: int,
        events: ServerEvents,
        conversation: Conversation | None,
    ) -> None:
        super().__init__(item, response_id, index, events, conversation)
        self.open = False  # its end is its server's, not its response's
        self.call = item
        self.tool = tool
        self.response_id = response_id
        self.arguments = call_arguments(item.arguments)

    def begin(self) -> list[ServerEvent]:
        """Return the opening of the item and its arguments, whole. agents-js wants `obfuscation` in the delta."""
        arguments, self.call.arguments = self.call.arguments, ""
        events = list(self._begun())
        self.call.arguments = arguments
        return [
            *events,
            self._event("response.mcp_call_arguments.delta", delta=arguments, obfuscation=""),
            self._event("response.mcp_call_arguments.done", arguments=arguments),
        ]

    def running(self) -> ServerEvent:
        """Return the event of a call that is on its way."""
        return self._make("response.mcp_call.in_progress", item_id=self.item.id, output_index=self._index)

    def end(self, outcome: str | McpFailure) -> list[ServerEvent]:
        """Return the end of the call and of its item."""
        failed = isinstance(outcome, McpFailure)
        if isinstance(outcome, McpFailure):
            self.call.error = outcome.to_wire()
        else:
            self.call.output = outcome
        kind = f"response.mcp_call.{'failed' if failed else 'completed'}"
        return [self._make(kind, item_id=self.item.id, output_index=self._index), *self._ended()]


class OutputApprovalRequest(OutputItem):
    """An mcp_approval_request, which is whole from its beginning."""

    def begin(self) -> list[ServerEvent]:
        """Return all of the item's events."""
        self.open = False
        return [*self._begun(), *self._ended()]


class McpCalls:
    """The calls of one session that have not ended."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._running: dict[str, OutputMcpCall] = {}
        self._unapproved: dict[str, OutputMcpCall] = {}
        self._answered: set[str] = set()

    def run(self, call: OutputMcpCall) -> list[Output]:
        """Have a call made; one without usable arguments fails at once."""
        if call.arguments is None:
            words = "The arguments are not a JSON object."
            return self._ended(call, McpFailure("protocol_error", words, _INVALID_PARAMS))
        call.call.waiting = RUNNING
        self._running[call.call.id] = call
        return [call.running(), CallMcpTool(call.call.id, call.tool.server, call.tool.name, call.arguments)]

    def refuse(self, call: OutputMcpCall) -> list[Output]:
        """End a call that is one too many."""
        words = f"At most {MAX_CALLS} calls are made in one response."
        return self._ended(call, McpFailure("tool_execution_error", words))

    def ask(self, call: OutputMcpCall, request_id: str) -> list[Output]:
        """Let a call wait for the answer to the approval request; its response does not wait with it."""
        call.call.waiting = AWAITING_APPROVAL
        self._unapproved[request_id] = call
        return [ToBackend(ToolCallEnded(call.response_id, call.call.id))]

    def check(self, answer: McpApprovalResponse) -> None:
        """Raise ProtocolError for the answer to a request that was never made, or that has its answer."""
        request_id = answer.approval_request_id
        if request_id in self._unapproved:
            return
        if request_id in self._answered or self._is_answered(request_id):
            raise errors.approval_already_given(request_id)
        if not isinstance(self._conversation.get(request_id), McpApprovalRequest):
            raise errors.unknown_approval_request(request_id)

    def _is_answered(self, request_id: str) -> bool:
        answers = [item for item in self._conversation.items if isinstance(item, McpApprovalResponse)]
        return any(answer.approval_request_id == request_id for answer in answers)

    def approval_given(self, answer: McpApprovalResponse) -> list[Output]:
        """Make the call that was approved; end the one that was denied. A request that a client wrote asks nothing."""
        call = self._unapproved.pop(answer.approval_request_id, None)
        if call is None:
            return []
        self._answered.add(answer.approval_request_id)
        if answer.approve:
            return self.run(call)
        return self._ended(call, McpFailure("tool_execution_error", f"{DENIED} {answer.reason or ''}".rstrip()))

    def ended(self, item_id: str, outcome: str | McpFailure) -> list[Output]:
        """Take a server's answer; nothing if no call of that id runs."""
        call = self._running.pop(item_id, None)
        return [] if call is None else self._ended(call, outcome)

    def _ended(self, call: OutputMcpCall, outcome: str | McpFailure) -> list[Output]:
        return [*call.end(outcome), ToBackend(ToolCallEnded(call.response_id, call.call.id))]
