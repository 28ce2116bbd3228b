"""A backend that keeps the promises of `protocol.backend_events`, and else does whatever chance says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from protocol.backend_events import (
    BackendEvent,
    CommandRefused,
    ContextForeseen,
    ContextRequested,
    EndReason,
    EndStatus,
    EngineFault,
    FunctionCallArgumentsDelta,
    FunctionCallStarted,
    InputCleared,
    InputCommitted,
    InputTimedOut,
    InputTranscriptCompleted,
    InputTranscriptDelta,
    InputTranscriptFailed,
    OutputAudio,
    OutputItemEnded,
    OutputSpoken,
    OutputTextDelta,
    PlayoutCut,
    RefusalKind,
    ResponseEnded,
    ResponseStarted,
    SpeechStarted,
    SpeechStopped,
)
from protocol.commands import CancelResponse, ClearInput, CommitInput, CreateResponse, ProvideContext, RecogniseItem
from protocol.mcp_items import McpFailure
from protocol.outputs import CallMcpTool, ListMcpTools
from tests.protocol.fuzz.choices import Choices
from tests.protocol.support.obedient_backend import SERVER_TOOLS

FAULT = EngineFault("engine_failed", "It broke.")
WORDS = ["Well. ", "é", "\x00", " ", "a" * 3_000]
CALL_IDS = ["call_0", "call_0", "", "x" * 60, "call_a"]
ARGUMENTS = ["{}", '{"a": ', "1}", "nonsense"]


@dataclass
class _Running:
    beside: bool
    messages: dict[str, int] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    characters: dict[str, int] = field(default_factory=dict)


class RandomBackend:
    """Takes commands with `take`; `step` returns what it reports next, `rest` all that it owes.

    `answers`: the session is a conversation, in which the gateway starts responses by itself.
    """

    def __init__(self, choices: Choices, *, answers: bool) -> None:
        self.choices = choices
        self._answers = answers
        self.owed: list[Any] = []
        self.untranscribed: list[str] = []
        self.orders: list[ListMcpTools | CallMcpTool] = []
        self.running: dict[str, _Running] = {}
        self._server_tools: list[str] = []
        self.ended: list[tuple[str, str]] = []
        self._speaking: str | None = None
        self._input = 0
        self._count = 0

    def _new(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}_b{self._count}"

    def take(self, command: Any) -> None:
        """Take a command; those that want an answer are answered later."""
        if isinstance(command, (CommitInput, ClearInput, CreateResponse, CancelResponse)):
            self.owed.append(command)
        elif isinstance(command, ProvideContext):
            self._server_tools = sorted(command.context.server_tools)
        elif isinstance(command, RecogniseItem):
            self.untranscribed.append(command.item_id)

    def order(self, order: ListMcpTools | CallMcpTool) -> None:
        """Take an order for an MCP server."""
        self.orders.append(order)

    def mcp_answer(self) -> tuple[ListMcpTools | CallMcpTool, Any] | None:
        """Return an order and its result, if one waits."""
        if not self.orders:
            return None
        order = self.orders.pop(self.choices.number(len(self.orders)))
        done: Any = SERVER_TOOLS if isinstance(order, ListMcpTools) else "Seven."
        return order, McpFailure("http_error", "Gone.", 502) if self.choices.chance(4) else done

    @property
    def talking(self) -> str | None:
        """The conversation's running response."""
        return next((key for key, one in self.running.items() if not one.beside), None)

    def step(self) -> list[BackendEvent]:
        """Return what happens next, perhaps nothing."""
        match self.choices.number(9):
            case 0 | 1:
                return self._answer(self.owed.pop(0)) if self.owed else []
            case 2:
                return self._hear()
            case 3:
                return self._recognise()
            case 4:
                if not self._answers or self.talking is not None or self.choices.chance(2):
                    return self._late()
                return self._start(self._new("resp"), beside=False)
            case 5 | 6 | 7:
                return self._say()
            case _:
                return self._end(self.choices.one_of(list(self.running))) if self.running else []

    def rest(self) -> list[BackendEvent]:
        """Return the end of all that is under way."""
        events: list[BackendEvent] = []
        while self.owed:
            events += self._answer(self.owed.pop(0))
        for response_id in list(self.running):
            events += self._end(response_id)
        while self.untranscribed:
            events += self._recognise(done=True)
        return events

    def _answer(self, command: Any) -> list[BackendEvent]:
        match command:
            case CommitInput(event_id):
                if self.choices.chance(3):
                    return [CommandRefused(RefusalKind.INPUT_TOO_SHORT, event_id, buffered=17)]
                return self._commit()
            case ClearInput():
                self._speaking = None
                return [InputCleared()]
            case CreateResponse():
                busy = self.talking is not None and not command.out_of_band
                if busy or self.choices.chance(8):
                    kind = RefusalKind.RESPONSE_ACTIVE if busy else RefusalKind.TOO_MANY_RESPONSES
                    return [CommandRefused(kind, command.client_event_id, command.response_id)]
                return self._start(command.response_id, beside=command.out_of_band)
            case CancelResponse(response_id, event_id):
                target = response_id or self.talking
                if target is None or target not in self.running:
                    return [CommandRefused(RefusalKind.NO_ACTIVE_RESPONSE, event_id, response_id)]
                return self._end(target, ResponseEnded(target, EndStatus.CANCELLED, 0, EndReason.CLIENT_CANCELLED))
            case _:
                raise AssertionError(command)

    def _hear(self) -> list[BackendEvent]:
        if self._speaking is None:
            self._speaking = self._new("item")
            return [SpeechStarted(self._speaking, self._input)]
        if self._answers and self.choices.chance(3):
            return [ContextForeseen(self._new("spec"), self.choices.one_of(["Hi there.", "Hi"]))]
        if self.choices.chance(2):
            return [SpeechStopped(self._speaking, self._input + 4_800), *self._commit()]
        return [InputTimedOut(self._speaking, self._input, self._input + 9_600), *self._commit()]

    def _commit(self) -> list[BackendEvent]:
        item_id, start = self._speaking or self._new("item"), self._input
        self._speaking = None
        self._input += 4_800
        self.untranscribed.append(item_id)
        return [InputCommitted(item_id, start, self._input)]

    def _recognise(self, *, done: bool = False) -> list[BackendEvent]:
        if not self.untranscribed:
            return []
        if not done and self.choices.chance(2):
            return [InputTranscriptDelta(self.choices.one_of(self.untranscribed), self.choices.one_of(["Hi", ""]))]
        item_id = self.untranscribed.pop(self.choices.number(len(self.untranscribed)))
        if self.choices.chance(4):
            return [InputTranscriptFailed(item_id, FAULT)]
        return [InputTranscriptCompleted(item_id, self.choices.one_of(["Hi there.", ""]), 4_800)]

    def _start(self, response_id: str, *, beside: bool) -> list[BackendEvent]:
        self.running[response_id] = _Running(beside)
        return [ResponseStarted(response_id, beside), ContextRequested(response_id)]

    def _say(self) -> list[BackendEvent]:
        if not self.running:
            return []
        response_id = self.choices.one_of(list(self.running))
        response = self.running[response_id]
        if not response.messages or self.choices.chance(6):
            response.messages[self._new("item")] = 0
        item_id = list(response.messages)[-1]
        match self.choices.number(8):
            case 0 | 1:
                return [OutputTextDelta(response_id, item_id, self.choices.one_of(WORDS))]
            case 2 | 3:
                samples = self.choices.one_of([480, 0, 24_000, 4_801])
                response.messages[item_id] += samples
                return [OutputAudio(response_id, item_id, bytes(2 * samples))]
            case 4:
                return [OutputSpoken(response_id, item_id, self.choices.number(9), response.messages[item_id])]
            case 5:
                response.calls.append(self._new("item"))
                name = self.choices.one_of(["look_up", *self._server_tools, *self._server_tools, ""])
                return [FunctionCallStarted(response_id, response.calls[-1], self.choices.one_of(CALL_IDS), name)]
            case 6 if response.calls:
                return [FunctionCallArgumentsDelta(response_id, response.calls[-1], self.choices.one_of(ARGUMENTS))]
            case _:
                return [OutputItemEnded(response_id, self.choices.one_of([item_id, *response.calls]))]

    def _end(self, response_id: str, ended: ResponseEnded | None = None) -> list[BackendEvent]:
        response = self.running.pop(response_id)
        self.ended += [(response_id, item_id) for item_id in response.messages]
        ended = ended or self.choices.one_of(
            [
                ResponseEnded(response_id, EndStatus.COMPLETED),
                ResponseEnded(response_id, EndStatus.CANCELLED, 480, EndReason.TURN_DETECTED),
                ResponseEnded(response_id, EndStatus.INCOMPLETE, 0, EndReason.CONTENT_FILTER),
                ResponseEnded(response_id, EndStatus.FAILED, fault=FAULT),
            ]
        )
        return [ended]

    def _late(self) -> list[BackendEvent]:
        """Work of a response that is over, and what the user heard of it."""
        if not self.ended:
            return []
        response_id, item_id = self.choices.one_of(self.ended)
        return [OutputTextDelta(response_id, item_id, "late"), PlayoutCut(item_id, 240 * self.choices.number(9))]
