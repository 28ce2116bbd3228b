"""Takes the silence off both ends of a stream of speech."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SILENCE_LEVEL = 10 ** (-50 / 20)
"""Below this (−50 dBFS) the noise before and after the words counts as silence (chosen; joe's floor is near −65)."""

KEPT_SILENCE_S = 0.04
"""Silence kept at both ends: trims what a voice adds, keeps soft consonants."""


class SilenceTrimmer:
    """Trims one stream at `rate_hz`. `dropped`: how many samples it has left out before the first that it gave."""

    def __init__(self, rate_hz: int) -> None:
        self.dropped = 0
        self._kept = int(KEPT_SILENCE_S * rate_hz)
        self._heard = False
        self._held: NDArray[np.float32] = np.empty(0, np.float32)

    def feed(self, audio: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return what is certain to stay, now that `audio` (float32 [samples], −1…1) has come.

        What may yet turn out to be the silence at the end is held back, and a little of what is loud.
        """
        held = np.concatenate((self._held, audio))
        loud = _loud(held)
        if not self._heard:
            start = max(0, int(loud[0]) - self._kept) if loud.size else max(0, held.size - self._kept)
            self.dropped += start
            held, loud = held[start:], loud - start
            self._heard = loud.size > 0
        end = max(0, int(loud[-1]) + 1 - self._kept) if loud.size else 0
        self._held = held[end:]
        return held[:end]

    def finish(self) -> NDArray[np.float32]:
        """Return the rest, without the silence at the end. It is never empty unless all was silence."""
        loud = _loud(self._held)
        return self._held[: int(loud[-1]) + 1 + self._kept] if loud.size else self._held[:0]


def _loud(audio: NDArray[np.float32]) -> NDArray[np.intp]:
    return np.flatnonzero(np.abs(audio) > SILENCE_LEVEL)
