"""Tells a voice from the silence around it by level alone, where silence is never digital: codecs hiss, models hum.

All durations are audio time, so that a model's frame may be of any length. Levels are RMS of full scale 1.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass

from protocol.audio_time import Samples, samples_from_ms, samples_from_s

OPEN_RATIO = 3.0
"""How much louder than the floor a voice begins, 9.5 dB (chosen; published adapters of such models use the same)."""

CLOSE_RATIO = 1.8
"""Below this much over the floor, 5 dB, a frame is quiet (chosen with OPEN_RATIO: hysteresis)."""

HANGOVER: Samples = samples_from_ms(500)
"""So much quiet ends a voice: pauses between words are shorter (chosen)."""

FLOOR_WINDOW: Samples = samples_from_s(10)
FLOOR_SHARE = 0.1
"""The floor is the level that a tenth of the last 10 s of silence stays below. The quietest frame instead would open on
silence whose level varies by a third, and never close (tried on scripted levels)."""

LEAST_FLOOR = 1e-3 / OPEN_RATIO
"""Floor of digital silence and of whatever is quieter, so that nothing below −60 dBFS is ever a voice (chosen)."""

KNOWN_AFTER: Samples = samples_from_ms(400)
"""Before so much silence was heard the floor is a guess (chosen: five frames of 80 ms)."""

LOUD = 1e-2
"""Until the floor is known only a level from −40 dBFS on is a voice (chosen: far above any codec's hiss)."""


@dataclass(frozen=True, slots=True)
class _Level:
    rms: float
    samples: Samples


class SoundGate:
    """One stream's. `open`: somebody speaks, or spoke less than HANGOVER ago. `voiced`: in the newest frame."""

    def __init__(self) -> None:
        self.open = False
        self.voiced = False
        self.quiet: Samples = 0
        """Since the last voiced frame."""
        self._window: deque[_Level] = deque()
        self._sorted: list[float] = []
        self._known: Samples = 0
        self._armed = True

    @property
    def floor(self) -> float:
        """The level of silence as far as it is known."""
        if self._known < KNOWN_AFTER:
            return LOUD / OPEN_RATIO
        return max(LEAST_FLOOR, self._sorted[int(FLOOR_SHARE * (len(self._sorted) - 1))])

    def hear(self, rms: float, samples: Samples, *, learn: bool = True) -> None:
        """Take a frame. `learn`: what seems a voice may yet be noise that came to stay, and raises the floor."""
        floor = self.floor
        loud = rms > floor * OPEN_RATIO
        self.voiced = rms > floor * CLOSE_RATIO and (self.open or loud)
        if not loud:
            self._armed = True
        if self.voiced:
            self.quiet = 0
            self.open = self.open or (loud and self._armed)
        else:
            self.quiet += samples
            if self.quiet >= HANGOVER:
                self.open = False
        if not self.voiced or learn:
            self._remember(_Level(rms, samples))

    def shut(self) -> None:
        """End the voice here. It opens again only for sound that begins anew, not for the tail of this one."""
        self.open = False
        self._armed = False

    def _remember(self, level: _Level) -> None:
        self._window.append(level)
        insort(self._sorted, level.rms)
        self._known += level.samples
        while self._known > FLOOR_WINDOW:
            oldest = self._window.popleft()
            self._known -= oldest.samples
            del self._sorted[bisect_left(self._sorted, oldest.rms)]
