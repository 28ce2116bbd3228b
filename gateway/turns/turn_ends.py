"""Finds the end of the user's turn: in a frame, in what is learned about a pause, or where input has stopped."""

from __future__ import annotations

from typing import NamedTuple

from gateway.turns.pauses import Pauses, is_judged
from gateway.turns.response import Output
from gateway.turns.settings import STALL_AFTER, TurnSettings
from gateway.turns.states import User
from gateway.turns.user_turn import UserTurn
from protocol.audio_time import Samples


class TurnEnd(NamedTuple):
    """The turn is over at `position` (input clock), after `silence` of the `needed`, or because it is too long."""

    position: Samples
    silence: Samples
    needed: Samples


class TurnEnds:
    """One session's. Every method is for turns that the VAD ends: the settings have a detection.

    `agent_silent`: whether nothing of the agent's plays, so that the user's pauses are their own.
    """

    def __init__(self, user: UserTurn, pauses: Pauses) -> None:
        self._user = user
        self._pauses = pauses

    def at_frame(
        self, until: Samples, now: Samples, settings: TurnSettings, out: list[Output], *, agent_silent: bool
    ) -> TurnEnd | None:
        """Follow the pause in the frame that ends at `until`, and return the turn's end if it is there, else None."""
        detection, user = settings.detection, self._user
        assert detection is not None
        silence, recorded = until - user.voiced_until, user.clock.is_recorded(until)
        if not silence:
            self._pauses.voiced(until, out, own=agent_silent)
        elif user.state is User.PAUSED and not recorded:
            self._pauses.silent(user.voiced_until, until, silence, now, settings, out, own=agent_silent)
        needed = detection.silence_duration if recorded else self._pauses.needed(settings)
        position = user.silence_end(until, needed)
        return None if position is None else TurnEnd(position, silence, needed)

    def when_weighed(self, now: Samples, settings: TurnSettings, out: list[Output]) -> TurnEnd | None:
        """More is known about the pause that lasts than before: return the turn's end, or tell why it goes on."""
        user = self._user
        silence, needed = user.silence(now), self._pauses.needed(settings)
        if silence >= needed:
            return TurnEnd(min(user.clock.received, user.voiced_until + needed), silence, needed)
        self._pauses.held(silence, settings, out)
        return None

    def at_stall(self, stalled: Samples, now: Samples, settings: TurnSettings, out: list[Output]) -> TurnEnd | None:
        """Input has been due for `stalled`, which is silence: return the turn's end if that is enough, else None."""
        user = self._user
        if user.state is User.SILENT or stalled < STALL_AFTER:
            return None
        silence = user.clock.received - user.voiced_until + stalled
        if is_judged(settings):
            self._pauses.silent(user.voiced_until, user.clock.received, silence, now, settings, out, own=False)
        needed = self._pauses.needed(settings)
        position = user.stall_end(stalled, needed)
        return None if position is None else TurnEnd(position, silence, needed)
