"""Watches the turn for which an answer is being written already: whether it may begin, and whether it still fits."""

from __future__ import annotations

from gateway.turns.agent_turn import AgentTurn
from gateway.turns.inputs import ContextProvided
from gateway.turns.observations import DropReason
from gateway.turns.recognitions import Recognitions
from gateway.turns.response import Output, Phase, Response
from gateway.turns.settings import TurnSettings
from gateway.turns.speculation import Speculation
from gateway.turns.states import Agent
from gateway.turns.user_turn import UserTurn
from protocol.audio_time import Samples


class SpeculationWatch:
    """One session's."""

    def __init__(self, speculation: Speculation, user: UserTurn, agent: AgentTurn, recognitions: Recognitions) -> None:
        self._speculation = speculation
        self._user = user
        self._agent = agent
        self._recognitions = recognitions

    def begin(self, item_id: str, words: str, now: Samples, settings: TurnSettings, out: list[Output]) -> None:
        """The utterance `item_id` has paused, may be over, and consists of `words`: let its answer be written already.

        Only where the commit will start the response that it is for, with nothing in its way and no words missing.
        """
        detection = settings.detection
        if not settings.speculation or detection is None or not detection.create_response:
            return
        user = self._user
        if self._agent.state is not Agent.IDLE or self._recognitions or user.clock.is_burst:
            return  # a burst client's turn is past already: there is no time to win
        self._speculation.begin(item_id, user.voiced_until, words, now, settings.deadlines, out)

    def context_provided(self, response: Response, provided: ContextProvided, now: Samples, out: list[Output]) -> None:
        """Let the response adopt what was written before from the very same context, or ask for its own."""
        speculation = self._speculation
        if speculation.answering == response.response_id and response.phase is Phase.AWAITING_CONTEXT:
            if speculation.has_begun(provided.foreseen):
                response.adopt(provided, speculation.adopt(out), now, out)
                return
            speculation.drop(DropReason.CONTEXT_CHANGED, out)
        response.receive(provided, now, out)

    def check(self, out: list[Output]) -> None:
        """Drop the speculative answer as soon as no response can adopt it any more."""
        item_id, answering = self._speculation.item_id, self._speculation.answering
        if item_id is None:
            return
        if answering:
            if answering != self._agent.response_id:
                self._speculation.drop(DropReason.CANCELLED, out)
        elif self._user.item_id != item_id:
            self._speculation.drop(DropReason.CANCELLED, out)
        elif self._user.voiced_until != self._speculation.voiced_until:
            self._speculation.drop(DropReason.RESUMED, out)
        elif self._agent.state is not Agent.IDLE:
            self._speculation.drop(DropReason.SUPERSEDED, out)
        elif self._recognitions:
            self._speculation.drop(DropReason.CONTEXT_CHANGED, out)
