"""The answer that a server owes by itself: its VAD ended the user's turn, and its response has not begun."""

from __future__ import annotations

from typing import Any

from protocol.backend_events import TokenUsage
from protocol.ids import IdSource
from protocol.usage import response_usage

Payload = dict[str, Any]


class DueAnswer:
    """Follows a server's events (GA). A turn that the client commits is owed nothing until it asks (Realtime GA)."""

    def __init__(self) -> None:
        self._answers = False
        self._due: str | None = None  # the user's item
        self._conversation_id: str | None = None
        self._speaking = False
        self._early = False  # the agent began to answer before the user's turn was over

    @property
    def is_due(self) -> bool:
        """Whether one is."""
        return self._due is not None

    def saw(self, event: Payload, *, by_hand: bool = False) -> None:
        """Note an event. `by_hand`: it answers the client's commit."""
        match event:
            case {
                "type": "session.created" | "session.updated",
                "session": {"audio": {"input": {"turn_detection": detection}}} as session,
            }:
                creates = isinstance(detection, dict) and detection.get("create_response") is not False
                self._answers = creates and session.get("type") != "transcription"
            case {"type": "input_audio_buffer.speech_started"}:
                self._speaking, self._early = True, False
            case {
                "type": "input_audio_buffer.speech_stopped" | "input_audio_buffer.committed" as kind,
                "item_id": str(item),
            }:
                if self._answers and not by_hand and not self._early:
                    self._due = item
                elif self._due == item:
                    self._due = None
                self._speaking, self._early = False, self._early and kind == "input_audio_buffer.speech_stopped"
            case {"type": "conversation.item.deleted", "item_id": str(item)} if item == self._due:
                self._due = None
            case {"type": "input_audio_buffer.cleared"}:
                self._due = None
            case {"type": "response.created", "response": dict(response)}:
                of = response.get("conversation_id", "")
                if of is not None:  # null: beside the conversation
                    self._due, self._early = None, self._speaking
                    self._conversation_id = of if isinstance(of, str) and of else self._conversation_id
            case {"type": "error", "error": {"code": "conversation_already_has_active_response"}}:
                self._due = None  # it will not come
            case _:
                pass

    def fail(self, fault: tuple[str, str], new_id: IdSource) -> list[Payload]:
        """Return what ends a due answer, and forget it: a response that failed before it said anything.

        That is what stock clients are told of an answer that fails (our own sessions do so, too); an `error` event,
        which no command caused, ends the loop of some.
        """
        due, self._due = self._due, None
        if due is None:
            return []
        code, message = fault
        response: Payload = {
            "object": "realtime.response",
            "id": new_id("resp"),
            "status": "in_progress",
            "status_details": None,
            "output": [],
            "conversation_id": self._conversation_id or new_id("conv"),
            "usage": None,
            "metadata": None,
        }
        failed = {
            **response,
            "status": "failed",
            "status_details": {
                "type": "failed",
                "error": {"type": "server_error", "code": code, "message": message},
            },
            "usage": response_usage(TokenUsage(), 0, 0),
        }
        return [
            {"type": "response.created", "event_id": new_id("event"), "response": response},
            {"type": "response.done", "event_id": new_id("event"), "response": failed},
        ]

    def forget(self) -> None:
        """Owe nothing any more."""
        self._due = None
