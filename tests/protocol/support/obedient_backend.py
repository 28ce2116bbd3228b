"""A backend that does at once what the session asks of it, and a client and a user who go on talking.

Deterministic, so that two sessions differ only in what a probe changed. It says and does as much as possible: what a
setting is for must come up.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from protocol.backend_events import (
    BackendEvent,
    CommandRefused,
    ContextRequested,
    EndReason,
    EndStatus,
    FunctionCallArgumentsDelta,
    FunctionCallStarted,
    InputCleared,
    InputCommitted,
    InputTranscriptCompleted,
    InputTranscriptDelta,
    OutputAudio,
    OutputItemEnded,
    OutputSpoken,
    OutputTextDelta,
    RefusalKind,
    ResponseEnded,
    ResponseStarted,
    SpeechStarted,
    SpeechStopped,
    TokenLogprob,
)
from protocol.commands import (
    CancelResponse,
    ClearInput,
    CommitInput,
    Configure,
    CreateResponse,
    ProvideContext,
    RecogniseItem,
    WithholdContext,
)
from protocol.mcp_items import McpApprovalRequest, McpFailure, McpTool
from protocol.outputs import CallMcpTool, ListMcpTools, ServerEvent, ToBackend
from tests.protocol.conftest import Payload, Talk

SECOND = 24_000
SERVER_TOOLS = (
    McpTool("count", "Counts.", {"type": "object"}, {"readOnlyHint": True}),
    McpTool("sell", "Sells.", {"type": "object"}),
)
"""What every MCP server has."""

LOGPROBS = (TokenLogprob("How", -0.25, b"How"),)
BROKEN = McpFailure("tool_execution_error", "Sold out.")

WORDS = "One, two, three."


class ObedientBackend:
    """Answers the commands in `talk.outputs`. `patient`: responses go on until cancelled. `failing`: MCP calls do."""

    def __init__(self, talk: Talk, *, patient: bool = False) -> None:
        self.talk = talk
        self.patient = patient
        self.failing = False
        self._seen = 0
        self._speaks = True
        self._items = 0
        self._running: str | None = None
        self._spoken: dict[str, bool] = {}

    # --- the client --------------------------------------------------------------------------------------------------

    def frame(self, frame: str) -> list[Payload]:
        """Send a client's frame and let the backend do what follows. Return all that was sent."""
        return [*self.talk.frame(frame), *self.obey()]

    def send(self, kind: str, **fields: Any) -> list[Payload]:
        """Send a client event that must be accepted."""
        answers = [*self.talk.send(kind, **fields), *self.obey()]
        assert not [answer for answer in answers if answer["type"] == "error"], answers
        return answers

    def says(self, *events: BackendEvent) -> None:
        """Report what happened by itself."""
        self.talk.backend(*events)
        self.obey()

    # --- the backend -------------------------------------------------------------------------------------------------

    def obey(self) -> list[Payload]:
        """Answer all that was not answered yet. Return what that made the session send."""
        sent: list[Payload] = []
        session = self.talk.session
        while self._seen < len(self.talk.outputs):
            output = self.talk.outputs[self._seen]
            self._seen += 1
            match output:
                case ToBackend(command):
                    sent += self.talk.backend(*self._answer(command))
                case ListMcpTools(item_id):
                    sent += self.talk._taken(session.mcp_tools_listed(item_id, SERVER_TOOLS))
                case CallMcpTool(item_id):
                    sent += self.talk._taken(session.mcp_call_ended(item_id, BROKEN if self.failing else "Seven."))
                case _:
                    pass
        return sent

    def _answer(self, command: Any) -> list[BackendEvent]:
        match command:
            case Configure():
                self._speaks = command.audio_output
                return []
            case CommitInput():
                return self._user_item(self._new_item())
            case ClearInput():
                return [InputCleared()]
            case RecogniseItem(item_id):
                return [InputTranscriptCompleted(item_id, "What a recording says.", SECOND)]
            case CreateResponse():
                return self._started(command.response_id, command.audio)
            case ProvideContext(response_id, context):
                return self._generated(response_id, sorted(context.server_tools))
            case WithholdContext(response_id, fault):
                return [ResponseEnded(response_id, EndStatus.FAILED, 0, fault=fault)]
            case CancelResponse(response_id, client_event_id):
                if self._running is None or response_id not in (None, self._running):
                    return [CommandRefused(RefusalKind.NO_ACTIVE_RESPONSE, client_event_id, response_id)]
                ended = ResponseEnded(self._running, EndStatus.CANCELLED, 0, EndReason.CLIENT_CANCELLED)
                self._running = None
                return [ended]
            case _:
                return []

    def _new_item(self) -> str:
        self._items += 1
        return f"made{self._items}"

    def _user_item(self, item_id: str) -> list[BackendEvent]:
        return [
            InputCommitted(item_id, 0, SECOND),
            InputTranscriptDelta(item_id, "How", LOGPROBS),
            InputTranscriptCompleted(item_id, "How are you?", SECOND, LOGPROBS),
        ]

    def _started(self, response_id: str, speaks: bool) -> list[BackendEvent]:
        self._spoken[response_id] = speaks
        return [ResponseStarted(response_id), ContextRequested(response_id)]

    def _generated(self, response_id: str, server_tools: list[str]) -> list[BackendEvent]:
        """Return words, and a call of every function that there is."""
        item_id = self._new_item()
        events: list[BackendEvent] = [OutputTextDelta(response_id, item_id, WORDS)]
        if self._spoken[response_id]:
            events += [OutputAudio(response_id, item_id, bytes(2 * SECOND))]
            events += [OutputSpoken(response_id, item_id, len(WORDS), SECOND)]
        if self.patient:
            self._running = response_id
            return events
        events.append(OutputItemEnded(response_id, item_id))
        for name in ("look_up", *server_tools):
            call_id = self._new_item()
            events += [
                FunctionCallStarted(response_id, call_id, f"call_of_{call_id}", name),
                FunctionCallArgumentsDelta(response_id, call_id, "{}"),
                OutputItemEnded(response_id, call_id),
            ]
        return [*events, ResponseEnded(response_id, EndStatus.COMPLETED, 0)]

    # --- what comes after --------------------------------------------------------------------------------------------

    def user_turn(self) -> None:
        """The user speaks and, in a conversation, is answered."""
        item_id = self._new_item()
        self.talk.append(bytes(2 * SECOND))
        self.says(SpeechStarted(item_id, 0), SpeechStopped(item_id, SECOND), *self._user_item(item_id))
        if self.talk.session.settings.kind == "realtime":
            self.says(*self._started(self._new_item(), self._speaks))

    def goes_on(self) -> None:
        """Two turns, by voice and by hand, every call approved: whatever a setting or an item changes, shows."""
        self.user_turn()
        self._approve()
        if self.talk.session.settings.kind == "realtime":
            self.patient = False
            self.send("response.create")
        self.send("input_audio_buffer.commit")

    def _approve(self) -> None:
        for item in self.talk.session.conversation.items:
            if isinstance(item, McpApprovalRequest):
                answer = {"type": "mcp_approval_response", "approval_request_id": item.id, "approve": True}
                self.talk.send("conversation.item.create", item=answer)
                self.obey()

    def goes_on_for_long(self) -> None:
        """More turns than a small language model holds."""
        for _ in range(4):
            self.user_turn()

    # --- what happened -----------------------------------------------------------------------------------------------

    def record(self, since: int) -> Iterator[tuple[str, Any]]:
        """Yield all that the session did: commands and other orders by their name, events as they were sent."""
        for output in self.talk.outputs[since:]:
            if isinstance(output, ServerEvent):
                for payload in self.talk.wire.write(output):
                    yield payload["type"], {key: value for key, value in payload.items() if key != "type"}
            elif isinstance(output, ToBackend):
                yield type(output.command).__name__, output.command
            else:
                yield type(output).__name__, dataclasses.asdict(output)
