"""One session between a random client and a random backend, and what must hold after each frame and at the end."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

from protocol import client_events as client
from protocol.backend_events import (
    EndStatus,
    OutputAudio,
    OutputItemEnded,
    OutputTextDelta,
    ResponseEnded,
    ResponseStarted,
)
from protocol.errors import ProtocolError
from protocol.mcp_items import McpFailure
from protocol.outputs import CallMcpTool, ListMcpTools, Output, ServerEvent, ToBackend
from protocol.session import SessionProtocol
from protocol.session_settings import SessionKind
from protocol.wire import Dialect
from protocol.wire_rules import MAX_EVENT_ID
from tests.protocol.conftest import Payload, Talk
from tests.protocol.fuzz.choices import Choices
from tests.protocol.fuzz.client_frames import Known, frame
from tests.protocol.fuzz.random_backend import RandomBackend

SESSIONS: list[tuple[Dialect, SessionKind]] = [
    *[(Dialect.GA, "realtime")] * 4,
    *[(Dialect.BETA, "realtime")] * 3,
    (Dialect.GA, "transcription"),
    (Dialect.BETA, "transcription"),
]

ACKNOWLEDGED: dict[type, tuple[str, ...]] = {
    client.SessionUpdate: ("session.updated", "Configure"),
    client.CommitInputBuffer: ("CommitInput",),
    client.ClearInputBuffer: ("ClearInput",),
    client.RetrieveItem: ("conversation.item.retrieved",),
    client.TruncateItem: ("ItemTruncated", "conversation.item.truncated"),
    client.DeleteItem: ("conversation.item.deleted",),
    client.StopResponse: ("CancelResponse",),
}
"""How events are answered at once: by events, and by commands that the backend answers."""

LISTING = ("conversation.item.added", "mcp_list_tools.in_progress", "ListMcpTools")
"""What a new MCP server adds to that."""


_A_SPOKEN_REPLY = (
    ResponseStarted("resp_a"),
    OutputTextDelta("resp_a", "item_a", "One. Two."),
    OutputAudio("resp_a", "item_a", bytes(96_000)),
    OutputItemEnded("resp_a", "item_a"),
    ResponseEnded("resp_a", EndStatus.COMPLETED),
)


class FuzzedSession:
    """Runs a session on `choices`. `seen` counts what came up, so that a test can tell that much did."""

    def __init__(self, choices: Choices, seen: Counter[str]) -> None:
        self._choices = choices
        self._seen = seen
        dialect, kind = choices.one_of(SESSIONS)
        self.talk = Talk(kind=kind, dialect=dialect)
        self.backend = RandomBackend(choices, answers=kind == "realtime")
        self._known = Known()
        self._event_ids: set[str] = set()
        self._open: set[str] = set()
        self._took(self.talk.open())
        if kind == "realtime" and choices.chance(2):
            for event in _A_SPOKEN_REPLY:
                self._reported(event)

    @property
    def dialect(self) -> str:
        """The dialect as it is by now, by its name in the catalogue."""
        return "GA" if self.talk.wire.dialect is Dialect.GA else "beta"

    def run(self) -> None:
        """Go on until the choices are used up."""
        while not self._choices.exhausted:
            if self._choices.number(5) < 2:
                self._report()
            else:
                self._frame(frame(self._choices, self.dialect, self.talk.session.settings.kind, self._known))

    # --- the backend -------------------------------------------------------------------------------------------------

    def _report(self) -> None:
        if self._choices.chance(4) and self._answer_order():
            return
        for event in self.backend.step():
            self._reported(event)

    def _reported(self, event: Any) -> None:
        before = len(self.talk.outputs)
        payloads = self.talk.backend(event)
        self._took(payloads)
        self._hand_over(before)
        errors = [payload["error"] for payload in payloads if payload["type"] == "error"]
        refused = type(event).__name__ == "CommandRefused"
        assert len(errors) == refused
        if refused:
            assert errors[0]["event_id"] == event.client_event_id

    def _answer_order(self) -> bool:
        """Let an MCP server answer, if one was asked."""
        answer = self.backend.mcp_answer()
        if answer is None:
            return False
        before = len(self.talk.outputs)
        order, result = answer
        session = self.talk.session
        listed = isinstance(order, ListMcpTools)
        take = session.mcp_tools_listed if listed else session.mcp_call_ended
        payloads = self._performed(take(order.item_id, result))
        self._hand_over(before)
        errors = [payload["error"]["event_id"] for payload in payloads if payload["type"] == "error"]
        assert errors == [None] * (listed and isinstance(result, McpFailure) and len(errors))
        return True

    def _hand_over(self, before: int) -> None:
        for output in self.talk.outputs[before:]:
            if isinstance(output, ToBackend):
                self.backend.take(output.command)
            elif isinstance(output, (ListMcpTools, CallMcpTool)):
                self.backend.order(output)

    # --- the client --------------------------------------------------------------------------------------------------

    def _frame(self, sent: str | bytes) -> None:
        before = len(self.talk.outputs)
        try:
            event = self.talk.wire.read(sent)
        except ProtocolError as error:
            payloads = self._performed(self.talk.session.refuse(error))
            assert [payload["type"] for payload in payloads] == ["error"]
        else:
            payloads = self._performed(self.talk.session.receive(event))
        made = self.talk.outputs[before:]
        errors = [payload["error"] for payload in payloads if payload["type"] == "error"]
        if errors:
            assert len(made) == 1, "an event that cannot be obeyed changes nothing"
            assert errors[0]["event_id"] == usable_event_id(sent), sent
            self._seen[f"refused: {errors[0]['code']}"] += 1
        else:
            self._check_acknowledged(event, made)
            self._seen[type(event).__name__] += 1
        self._hand_over(before)

    def _performed(self, outputs: list[Output]) -> list[Payload]:
        payloads = self.talk._taken(outputs)
        self._took(payloads)
        return payloads

    def _check_acknowledged(self, event: client.ClientEvent, made: list[Output]) -> None:
        names = tuple(_name(output) for output in made)
        match event:
            case client.AppendInput():
                assert set(names) <= {"AppendAudio"}
            case client.CreateItem():
                assert names[:2] == ("conversation.item.added", "conversation.item.done")
                assert (
                    set(names[2:]) <= {"RecogniseItem", "ToolResult"} or event.item["type"] == "mcp_approval_response"
                )
            case client.AskForResponse():
                assert names.count("CreateResponse") == 1
                assert set(names[:-1]) <= {"RecogniseItem", *LISTING}
            case _:
                expected = ACKNOWLEDGED[type(event)]
                assert names[: len(expected)] == expected

    # --- what must hold ----------------------------------------------------------------------------------------------

    def _took(self, payloads: list[Payload]) -> None:
        """Check what the client is sent beyond the wire law, which `Talk` checks."""
        for payload in payloads:
            text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
            assert len(text.encode()) < 2**20, f"{payload['type']} has {len(text)} characters"
            assert payload["event_id"] not in self._event_ids
            self._event_ids.add(payload["event_id"])
            match payload["type"]:
                case "response.created":
                    assert payload["response"]["id"] not in self._open
                    self._open.add(payload["response"]["id"])
                case "response.done":
                    self._open.remove(payload["response"]["id"])
                case "response.output_audio.delta" | "response.audio.delta":
                    self._known.spoken.append(payload["item_id"])
                case "conversation.item.added" | "conversation.item.created":
                    self._known.ids.append(payload["item"]["id"])
            outlives = payload.get("item", {}).get("type") == "mcp_call"
            if "response_id" in payload and not outlives:
                assert payload["response_id"] in self._open

    def close(self) -> None:
        """Let the backend do all that it owes; then nothing is left over, and the session still answers."""
        for event in self.backend.rest():
            self._reported(event)
        while self._answer_order():
            pass
        assert not self._open, "every response ends"
        left = leftovers(self.talk.session)
        assert left == {}, left
        self._check_answers()

    def _check_answers(self) -> None:
        kind = self.talk.session.settings.kind
        of_ga: dict[str, Any] = {"type": "session.update", "session": {"type": kind}}
        event = "session.update" if kind == "realtime" else "transcription_session.update"
        update = of_ga if self.dialect == "GA" else {"type": event, "session": {}}
        (updated,) = self.talk.frame(json.dumps(update))
        assert updated["type"].endswith("session.updated"), updated


def _name(output: Output) -> str:
    if isinstance(output, ServerEvent):
        kind: str = output.payload["type"]
        return kind
    return type(output.command).__name__ if isinstance(output, ToBackend) else type(output).__name__


def usable_event_id(sent: str | bytes) -> str | None:
    """Return the event id that an error about this frame must name."""
    if isinstance(sent, bytes):
        return None
    try:
        raw = json.loads(sent, parse_constant=_refuse, parse_float=_finite)
        json.dumps(raw, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    event_id = raw.get("event_id") if isinstance(raw, dict) else None
    return event_id if isinstance(event_id, str) and len(event_id) <= MAX_EVENT_ID else None


def _refuse(word: str) -> float:
    raise ValueError(word)


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(digits)
    return number


def leftovers(session: SessionProtocol) -> dict[str, Any]:
    """Return what a session still remembers of work that is over."""
    items = {item.id for item in session.conversation.items}
    conversation = session.conversation
    kept = {
        "responses asked for": session._asked_for,
        "running responses": session._running,
        "responses that wait for tools": session._awaiting_tools,
        "running calls": session._mcp_calls._running,
        "pending audio": session._pending_audio._waiting,
        "private recordings": session._pending_audio._private,
        "wishes for transcripts": session._input._wanted.keys() - {conversation._announced},  # it may yet be committed
        "transcripts owed": session._input._owed,
        "forgotten items": conversation._forgotten - items,
        "sizes of items": conversation._client_bytes.keys() - items,
        "audio of items": conversation.audio._audio.keys() - items,
        "outgrown items": conversation.audio._outgrown - items,
    }
    return {name: things for name, things in kept.items() if things}
