"""Interim looks at the utterance that is going on, for clients that asked for words while the user still speaks."""

from __future__ import annotations

from gateway.turns.actions import TranscribePartial
from gateway.turns.settings import (
    PARTIAL_EARLY_UNTIL,
    PARTIAL_FIRST,
    PARTIAL_LONGEST,
    PARTIAL_STEP,
    PARTIAL_STEP_EARLY,
)
from gateway.turns.stable_transcript import StableTranscript
from protocol.audio_time import Samples


class LiveTranscript:
    """The running utterance's interim transcript, if there is one."""

    def __init__(self) -> None:
        self._item_id = ""
        self._start: Samples = 0
        self._onset: Samples = 0
        self._looked_until: Samples = 0
        self._looking = False
        self._words: StableTranscript | None = None

    def begin(self, item_id: str, start: Samples, onset: Samples) -> None:
        """Follow the utterance `item_id`, heard from `start` and spoken from `onset` on (input clock)."""
        self._item_id, self._start, self._onset = item_id, start, onset
        self._looked_until = onset
        self._looking = False
        self._words = StableTranscript()

    def look(self, until: Samples) -> TranscribePartial | None:
        """Return the look to take now, or None while one is running or the last is too fresh."""
        if self._words is None or self._looking:
            return None
        spoken = until - self._onset
        if self._looked_until == self._onset:
            due = spoken >= PARTIAL_FIRST
        else:
            step = PARTIAL_STEP_EARLY if spoken < PARTIAL_EARLY_UNTIL else PARTIAL_STEP
            due = until - self._looked_until >= step
        if not due or until - self._start > PARTIAL_LONGEST:
            return None
        self._looking = True
        self._looked_until = until
        return TranscribePartial(self._item_id, self._start, until)

    def saw(self, item_id: str, text: str | None) -> str:
        """Take what a look saw (None: nothing) and return the words that are certain now, "" if there are none."""
        if item_id != self._item_id or self._words is None:
            return ""
        self._looking = False
        return "" if text is None else self._words.partial(text)

    def foretell(self, text: str) -> str:
        """Return what the utterance's transcript will be if the recogniser's last word is `text`."""
        return text if self._words is None else self._words.foretell(text)

    def end(self) -> StableTranscript | None:
        """Stop following; return the words told so far, for the final transcript to continue, or None."""
        words, self._words = self._words, None
        self._item_id = ""
        return words
