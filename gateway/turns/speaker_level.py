"""How loud this speaker is, learned from their own turns."""

from __future__ import annotations

from gateway.turns.settings import SILENT_DBFS

FRAMES_TO_KNOW = 16
"""Voiced frames before the level is believed: half a second of speech (chosen)."""

FRAMES_REMEMBERED = 256
"""The mean forgets with this time constant: eight seconds of voiced frames, a few turns (chosen)."""


class SpeakerLevel:
    """The slow mean of the levels of a speaker's voiced frames."""

    def __init__(self) -> None:
        self._mean_dbfs = 0.0
        self._frames = 0

    def learn(self, level_dbfs: float) -> None:
        """Take a voiced frame of the speaker's own turn; one whose level nobody measured teaches nothing."""
        if level_dbfs <= SILENT_DBFS:
            return
        self._frames = min(self._frames + 1, FRAMES_REMEMBERED)
        self._mean_dbfs += (level_dbfs - self._mean_dbfs) / self._frames

    def above(self, level_dbfs: float) -> float | None:
        """Return how far `level_dbfs` lies above the speaker's own level in dB; None if either is not known."""
        if self._frames < FRAMES_TO_KNOW or level_dbfs <= SILENT_DBFS:
            return None
        return level_dbfs - self._mean_dbfs
