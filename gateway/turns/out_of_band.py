"""Responses beside the conversation (Realtime: `response.create` with `conversation: "none"`).

They run in parallel to the conversation's own response and to each other. The user's speech does not interrupt them,
what they say is no part of the conversation's playout, and only a cancel that names them ends them early.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gateway.turns.inputs import ResponseRequested
from gateway.turns.playout import VirtualPlayer
from gateway.turns.response import Output, Phase, Response, ResponseInput
from gateway.turns.settings import Deadlines
from gateway.turns.spoken_languages import SpokenLanguages
from protocol.audio_time import Samples
from protocol.backend_events import CommandRefused, EndReason, EndStatus, EngineFault, RefusalKind

PARALLEL_RESPONSES = 16
"""Out-of-band responses that may run at a time in one session (chosen); a further one is refused."""


class OutOfBandResponses:
    """The running out-of-band responses of one session."""

    def __init__(self, new_id: Callable[[str], str], languages: SpokenLanguages) -> None:
        self._new_id = new_id
        self._languages = languages
        self._running: dict[str, Response] = {}

    def __contains__(self, response_id: object) -> bool:
        """Whether a response of that id runs."""
        return response_id in self._running

    def start(
        self, request: ResponseRequested, awaiting: Iterable[str], deadlines: Deadlines, turns: int, out: list[Output]
    ) -> None:
        """Start a response whose context needs the words of the items `awaiting`, or refuse one too many."""
        if len(self._running) >= PARALLEL_RESPONSES:
            kind = RefusalKind.TOO_MANY_RESPONSES
            out.append(CommandRefused(kind, request.client_event_id, request.response_id))
            return
        response = Response(
            response_id=request.response_id,
            audio=request.audio,
            automatic=False,
            deadlines=deadlines,
            player=VirtualPlayer(0),  # its own, so that synthesis is paced but the conversation's playout isn't moved
            new_id=self._new_id,
            languages=self._languages,
            awaiting=set(awaiting),
            out_of_band=True,
        )
        self._running[request.response_id] = response
        response.start(turns, out)

    def receive(self, message: ResponseInput, now: Samples, out: list[Output]) -> None:
        """Take an engine's result; nothing follows if its response is over."""
        response = self._running.get(message.response_id)
        if response is not None:
            response.receive(message, now, out)
            self._forget_ended()

    def settle(self, now: Samples, out: list[Output]) -> None:
        """Let time pass up to `now`."""
        for response in list(self._running.values()):
            response.settle(now, out)
        self._forget_ended()

    def deadline(self, now: Samples) -> Samples | None:
        """Return when the next of them wants to be called (gateway clock), or None."""
        due = [response.deadline(now) for response in self._running.values()]
        return min((at for at in due if at is not None), default=None)

    def transcript_arrived(self, item_id: str, turns: int, out: list[Output]) -> None:
        """The words of a user item are known."""
        for response in self._running.values():
            if item_id in response.awaiting:
                response.transcript_arrived(item_id, turns, out)

    def transcript_failed(self, item_id: str, fault: EngineFault, now: Samples, out: list[Output]) -> None:
        """The words of a user item will never be known: what needs them fails."""
        for response in list(self._running.values()):
            if item_id in response.awaiting:
                response.end(EndStatus.FAILED, now, out, fault=fault)
        self._forget_ended()

    def cancel(self, response_id: str, now: Samples, out: list[Output]) -> None:
        """End a running response at the client's wish."""
        self._running[response_id].end(EndStatus.CANCELLED, now, out, reason=EndReason.CLIENT_CANCELLED)
        self._forget_ended()

    def _forget_ended(self) -> None:
        ended = [key for key, response in self._running.items() if response.phase is Phase.ENDED]
        for response_id in ended:
            del self._running[response_id]
