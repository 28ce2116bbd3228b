"""From speech probabilities to speech and pauses: hysteresis, in samples."""

from __future__ import annotations

from enum import Enum

from gateway.turns.settings import HYSTERESIS, MIN_SPEECH, VAD_FRAME
from protocol.audio_time import Samples


class Heard(Enum):
    """What a VAD frame changed."""

    NOTHING = 0
    ONSET = 1
    PAUSE = 2
    RESUME = 3


class SpeechDetector:
    """Finds speech onset and pauses in a stream of VAD frames.

    Speech begins once frames at or above the threshold, which may dip by the hysteresis, add up to MIN_SPEECH in a row.
    It pauses at the first frame below threshold − hysteresis and resumes at the first at or above the threshold.
    """

    def __init__(self) -> None:
        self.onset: Samples = 0
        self.voiced_until: Samples = 0
        self._in_speech = False
        self._paused = False
        self._run_start: Samples | None = None

    def reset(self) -> None:
        """Forget the running speech."""
        self._in_speech = self._paused = False
        self._run_start = None

    def feed(self, until: Samples, probability: float, threshold: float) -> Heard:
        """Take the frame that ends at `until` and return what it changed."""
        voiced = probability >= threshold
        faint = probability >= max(threshold - HYSTERESIS, 0.01)
        if self._in_speech:
            return self._during_speech(until, voiced, faint)
        if voiced and self._run_start is None:
            self._run_start = until - VAD_FRAME
        elif not faint:
            self._run_start = None
        if self._run_start is None or until - self._run_start < MIN_SPEECH:
            return Heard.NOTHING
        self.onset = self._run_start
        self.voiced_until = until
        self._in_speech = True
        self._run_start = None
        return Heard.ONSET

    def _during_speech(self, until: Samples, voiced: bool, faint: bool) -> Heard:
        if voiced or (faint and not self._paused):
            self.voiced_until = until
            if self._paused:
                self._paused = False
                return Heard.RESUME
            return Heard.NOTHING
        if self._paused:
            return Heard.NOTHING
        self._paused = True
        return Heard.PAUSE
