"""The silence after the agent's words: when the agent is to speak up because nobody does.

The timeout runs from the end of the playout of the last response (Realtime GA: `idle_timeout_ms`), while the user is
silent and none of their words are still on their way.
"""

from __future__ import annotations

from gateway.turns.recognitions import Recognitions
from gateway.turns.settings import Detection
from gateway.turns.states import Agent, User
from gateway.turns.user_turn import UserTurn
from protocol.audio_time import Samples


class IdlePrompt:
    """One session's."""

    def __init__(self, user: UserTurn, recognitions: Recognitions) -> None:
        self._user = user
        self._recognitions = recognitions
        self._idle_since: Samples | None = None

    def agent_became(self, agent: Agent, now: Samples) -> None:
        """The agent's state has changed."""
        self._idle_since = now if agent is Agent.IDLE else None

    def user_spoke(self) -> None:
        """The user has taken the floor: there is no silence to end before the agent's next words."""
        self._idle_since = None

    def deadline(self, detection: Detection | None) -> Samples | None:
        """Return when the agent is to speak up because nobody does (gateway clock), or None."""
        if detection is None or detection.idle_timeout is None or self._idle_since is None:
            return None
        if self._user.state is not User.SILENT or self._recognitions:
            return None
        return self._idle_since + detection.idle_timeout

    def take_silence(self, detection: Detection) -> tuple[Samples, Samples]:
        """The deadline is there: return the silence [start, end) that becomes an item (input clock)."""
        assert detection.idle_timeout is not None
        self._idle_since = None
        end = self._user.clock.received
        return max(end - detection.idle_timeout, self._user.buffer_start), end
