"""Whether the client's audio is what is being said now, was held up on its way, or is a recording. Pure."""

from __future__ import annotations

from enum import StrEnum

from gateway.turns.input_clock import InputClock
from gateway.turns.settings import STALL_AFTER
from protocol.audio_time import Samples, samples_from_s

LIVE_AFTER: Samples = samples_from_s(2)
"""A client that has sent its audio in real time for so long has a microphone (chosen: as long as a burst's lead)."""


class Pace(StrEnum):
    """What a piece of the client's audio is."""

    LIVE = "live"
    LATE = "late"
    """A microphone's, all at once behind a gap: the network held it up."""
    RECORDED = "recorded"


class InputPace:
    """One session's. After a gap a file and what the network held up look alike: what was before it tells."""

    def __init__(self) -> None:
        self.clock = InputClock()
        self._run_began: Samples = 0
        self._has_microphone = False

    @property
    def has_begun(self) -> bool:
        """Whether any audio has come."""
        return self.clock.due_at is not None

    def take(self, samples: Samples, now: Samples) -> Pace:
        """Count `samples` that arrived at `now`, and return what they are."""
        begins = self.clock.received
        if not self.has_begun or self.clock.silent_for(now) >= STALL_AFTER:
            self._run_began = now
        self.clock.advance(samples, now)
        if self.clock.is_recorded(begins):
            return Pace.LATE if self._has_microphone else Pace.RECORDED
        self._has_microphone = self._has_microphone or now - self._run_began >= LIVE_AFTER
        return Pace.LIVE
