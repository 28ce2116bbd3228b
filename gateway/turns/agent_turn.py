"""The agent's side: the conversation's response, the turns that wait for theirs, and when the agent speaks."""

from __future__ import annotations

from collections.abc import Callable

from gateway.turns.end_of_turn import AGENT_WORDS
from gateway.turns.idle_prompt import IdlePrompt
from gateway.turns.inputs import CancelRequested, ResponseRequested
from gateway.turns.overlap_watch import OverlapWatch
from gateway.turns.pauses import Pauses
from gateway.turns.playout import VirtualPlayer
from gateway.turns.recognitions import Recognitions
from gateway.turns.response import Output, Phase, Response
from gateway.turns.settings import QUEUED_TURNS, TurnSettings
from gateway.turns.spoken_languages import SpokenLanguages
from gateway.turns.states import Agent, AgentTrigger, next_agent
from gateway.turns.user_turn import UserTurn
from protocol.audio_time import Samples
from protocol.backend_events import CommandRefused, EndReason, EndStatus, EngineFault, PlayoutCut, RefusalKind


class AgentTurn:
    """What the agent is doing. `response` is the conversation's running one.

    `pauses`, `overlaps` and `idle` are told what the agent does, where they have to know.
    """

    def __init__(
        self,
        settings: TurnSettings,
        new_id: Callable[[str], str],
        player: VirtualPlayer,
        recognitions: Recognitions,
        pauses: Pauses,
        overlaps: OverlapWatch,
        idle: IdlePrompt,
        languages: SpokenLanguages,
    ) -> None:
        self.settings = settings
        self.state = Agent.IDLE
        self.response: Response | None = None
        self._started_at: Samples = 0
        self.turns_with_words = 0
        """How many of the user's turns the recogniser has understood."""
        self._turns_answered = 0
        self._waiting: dict[str, set[str]] = {}
        self._last_response: Response | None = None
        self._last_words = ""
        self._new_id = new_id
        self._player = player
        self._recognitions = recognitions
        self._pauses = pauses
        self._overlaps = overlaps
        self._idle = idle
        self._languages = languages

    @property
    def response_id(self) -> str | None:
        """The id of the conversation's running response, or None."""
        return None if self.response is None else self.response.response_id

    @property
    def speaks_on(self) -> bool:
        """Whether a reply has begun to be spoken and more of it may come."""
        return self.response is not None and self.response.audio_sent

    def spoken_over(self, user: UserTurn) -> bool:
        """Return whether the speech that just began can be meant for the response that runs or plays.

        A burst client's speech was recorded before a response that it could not have heard: no barge-in then.
        """
        clock, began = user.clock, self._started_at
        if not clock.is_burst:
            return True
        return not clock.outruns_since(began) and clock.gateway_time(user.onset) >= began

    def last_words(self) -> str:
        """Return what the agent said last."""
        if self._last_response is not None and self._last_response.text:
            self._last_words = self._last_response.text
        return self._last_words[-AGENT_WORDS:]

    def deadline(self, now: Samples) -> Samples | None:
        """Return when the running response wants to be called, or when playout ends (gateway clock), or None."""
        at = None if self.response is None else self.response.deadline(now)
        ends_at = self._player.ends_at if self.state is Agent.SPEAKING else None
        return min((due for due in (at, ends_at) if due is not None), default=None)

    # --- the beginning of a response -------------------------------------------------------------------------------

    def answer_or_queue(self, item_id: str, now: Samples, out: list[Output], *, burst: bool) -> str | None:
        """The turn `item_id`, which the VAD ended, wants its answer, which waits for the words up to that turn.

        Return the id of the response that starts now, or None: with one still running, the turn of a client that sends
        a `burst` waits.
        """
        self.give_way(now, out)
        if self.response is None:
            return self.answer(self._recognitions.item_ids, now, out)
        if burst:
            if len(self._waiting) < QUEUED_TURNS:
                self._waiting[item_id] = self._recognitions.item_ids
        else:
            # As OpenAI: with a response still running the automatic one fails, and no client event is to blame.
            out.append(CommandRefused(RefusalKind.RESPONSE_ACTIVE))
        return None

    def answer(self, awaiting: set[str], now: Samples, out: list[Output]) -> str:
        """Start a response to the user's turns, whose context needs the words of `awaiting`, and return its id."""
        response_id = self._new_id("resp")
        self._start(response_id, self.settings.audio_output, awaiting, now, out, automatic=True)
        return response_id

    def requested(self, request: ResponseRequested, awaiting: set[str], now: Samples, out: list[Output]) -> None:
        """Start the response that the client asks for, or refuse it."""
        self.give_way(now, out)
        if self.response is not None:
            out.append(CommandRefused(RefusalKind.RESPONSE_ACTIVE, request.client_event_id, request.response_id))
            return
        self._start(request.response_id, request.audio, awaiting, now, out, automatic=False)

    def give_way(self, now: Samples, out: list[Output]) -> None:
        """End a response that is whole but for its tools' results: what comes now does not wait for them."""
        if self.response is not None and self.response.phase is Phase.AWAITING_TOOLS:
            self.response.complete(now, out)
            self.follow_response(now, out)

    def _start(
        self, response_id: str, audio: bool, awaiting: set[str], now: Samples, out: list[Output], *, automatic: bool
    ) -> None:
        self.last_words()
        self.response = self._last_response = Response(
            response_id=response_id,
            audio=audio,
            automatic=automatic,
            deadlines=self.settings.deadlines,
            player=self._player,
            new_id=self._new_id,
            languages=self._languages,
            awaiting=awaiting,
        )
        self._started_at = now
        self._move(AgentTrigger.RESPONSE_START, now)
        self.response.start(self.turns_with_words, out)

    # --- the user's words ------------------------------------------------------------------------------------------

    def understood(self, item_id: str, *, words: bool) -> None:
        """The recogniser has heard the item: `words`, or nothing that could be answered."""
        if words:
            self.turns_with_words += 1
        else:
            self._waiting.pop(item_id, None)  # a turn without words gets no response of its own

    def transcript_arrived(self, item_id: str, now: Samples, out: list[Output]) -> None:
        """The words of an item are known, and counted as `understood`."""
        response = self.response
        if response is None or item_id not in response.awaiting:
            return
        unanswered = self.turns_with_words > self._turns_answered
        if response.automatic and not unanswered and response.awaiting == {item_id}:
            # The VAD heard something, the recogniser no words, and no earlier words wait: there is nothing to answer.
            self._end_response(EndStatus.COMPLETED, now, out)
        else:
            response.transcript_arrived(item_id, self.turns_with_words, out)

    def transcript_failed(self, item_id: str, fault: EngineFault, now: Samples, out: list[Output]) -> None:
        """The words of an item will never be known: what needs them fails."""
        self._waiting.pop(item_id, None)
        if self.response is not None and item_id in self.response.awaiting:
            self._end_response(EndStatus.FAILED, now, out, fault=fault)

    # --- the end of a response -------------------------------------------------------------------------------------

    def cancel(self, request: CancelRequested, now: Samples, out: list[Output]) -> None:
        """End the running response at the client's wish, or refuse to."""
        active = self.response_id
        if active is None or request.response_id not in (None, active):
            out.append(CommandRefused(RefusalKind.NO_ACTIVE_RESPONSE, request.client_event_id, request.response_id))
            return
        self._waiting.clear()  # the client wants silence now, and its next response.create to be accepted
        self._end_response(EndStatus.CANCELLED, now, out, reason=EndReason.CLIENT_CANCELLED)

    def barge_in(self, now: Samples, out: list[Output]) -> None:
        """The user takes over: the response ends here, and history keeps what the player had played.

        Turns that waited for their response are left to the next one: its context holds their words.
        """
        self._waiting.clear()
        self.give_way(now, out)
        if self.response is not None:
            self.response.end(EndStatus.CANCELLED, now, out, reason=EndReason.TURN_DETECTED)
            self.response = None
        out.extend(PlayoutCut(cut.item_id, cut.heard) for cut in self._player.flush(now))
        if self.state is not Agent.IDLE:
            self._move(AgentTrigger.CUT, now)

    def _end_response(
        self,
        status: EndStatus,
        now: Samples,
        out: list[Output],
        *,
        reason: EndReason | None = None,
        fault: EngineFault | None = None,
    ) -> None:
        assert self.response is not None
        self.response.end(status, now, out, reason=reason, fault=fault)
        self.follow_response(now, out)

    # --- its state -------------------------------------------------------------------------------------------------

    def settle(self, now: Samples, out: list[Output]) -> None:
        """Let time pass up to `now`: the running response's deadlines and pacing."""
        if self.response is not None:
            self.response.settle(now, out)
            self.follow_response(now, out)

    def settle_playout(self, now: Samples) -> None:
        """While audio plays or waits to play the agent is speaking, and only then."""
        if self.state is not Agent.SPEAKING:
            return
        self._player.settle(now)
        if not self._player.audible(now):
            trigger = AgentTrigger.PLAYOUT_END if self.response is None else AgentTrigger.PLAYOUT_GAP
            self._move(trigger, now)

    def follow_response(self, now: Samples, out: list[Output]) -> None:
        """Keep the agent's state in step with its response; after its end, answer a burst client's next turn."""
        response = self.response
        assert response is not None
        if response.has_output:
            self._turns_answered = max(self._turns_answered, response.turns_covered)
        if response.audio_sent:
            self._overlaps.reply = response
        if response.audio_sent and self._player.audible(now) and self.state is Agent.THINKING:
            self._move(AgentTrigger.FIRST_AUDIO, now)
        if response.phase is not Phase.ENDED:
            return
        self.response = None
        self._move(AgentTrigger.RESPONSE_END, now)
        if self._waiting:
            awaiting = self._waiting.pop(next(iter(self._waiting)))
            self.answer(awaiting & self._recognitions.item_ids, now, out)

    def _move(self, trigger: AgentTrigger, now: Samples) -> None:
        self.state = next_agent(self.state, trigger)
        if self.state is Agent.SPEAKING:
            self._pauses.heard_answer()
        self._idle.agent_became(self.state, now)
