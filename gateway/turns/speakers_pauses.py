"""How long this speaker pauses within a turn, learned while they speak."""

from __future__ import annotations

from protocol.audio_time import Samples, samples_from_ms, samples_from_s

TYPICAL_PAUSE: Samples = samples_from_ms(500)
"""Mean of the pauses of 0.2–5 s within a turn, by the power law that fits eot-bench (`end_of_turn.PAUSE_TAIL`)."""

LONGEST_LEARNED: Samples = samples_from_s(5)
"""Longer silences are no pauses within a turn (eot-bench's own bound)."""

KEPT = 0.9
"""Share of the mean that stays when a pause is learned (the field's dynamic endpointing: α 0.9)."""

SLOWEST = 2.0
"""A speaker's pauses count as at most twice as long as usual (chosen)."""

FALSE_END_WITHIN: Samples = samples_from_s(2)
"""A user who speaks again this soon after their last words, having heard no answer, had not finished (chosen: beyond
the time an answer takes to come, nobody knows whether they go on or repeat)."""


class SpeakersPauses:
    """The exponential mean of one speaker's pauses within turns."""

    def __init__(self) -> None:
        self.mean: float = float(TYPICAL_PAUSE)

    def learn(self, pause: Samples) -> None:
        """A pause within a turn lasted this long; beyond LONGEST_LEARNED it is none."""
        if pause <= LONGEST_LEARNED:
            self.mean = KEPT * self.mean + (1 - KEPT) * pause

    @property
    def pace(self) -> float:
        """How much longer than usual this speaker pauses, 1…SLOWEST. Shorter pauses are no reason to cut in."""
        return min(max(self.mean / TYPICAL_PAUSE, 1.0), SLOWEST)
