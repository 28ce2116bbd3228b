"""The input clock: samples received, and how they map to the gateway's time."""

from __future__ import annotations

from gateway.turns.settings import BURST_LEAD, STALL_AFTER
from protocol.audio_time import Samples, samples_from_ms, samples_from_s

PACE_WINDOW: Samples = samples_from_s(1)
"""The client's pace is judged over its last one or two windows of this length (chosen: longer than network jitter)."""

SMALL_APPEND: Samples = samples_from_ms(200)
LONGEST_GAP: Samples = samples_from_s(1)
"""A live client that appends n at a time is due again after n. Up to 200 ms that is within the patience of a stall; for
larger appends the gap is not a stall, as long as it is at most a second (chosen: nobody talks through larger ones)."""


class InputClock:
    """Counts input and maps input positions to gateway time.

    The smallest `now − position` since the input last stalled belongs to the audio that travelled fastest; it maps any
    position to the time at which that sound happened. A burst client's audio maps to the past: it was recorded before
    it was sent.
    """

    def __init__(self) -> None:
        self.received: Samples = 0
        self.due_at: Samples | None = None
        """When the next audio is due (gateway clock): at the last arrival, or later after a large append."""
        self._anchor: Samples = 0
        self._offset: Samples = 0
        self._run_began: Samples = 0
        self._window_began: Samples = 0
        self._window_offsets: tuple[Samples, Samples] = (0, 0)

    def advance(self, samples: Samples, now: Samples) -> None:
        """Count `samples` that arrived at `now`."""
        anew = self.due_at is None or now - self.due_at >= STALL_AFTER
        before = now - self.received
        self.received += samples
        self.due_at = now if samples <= SMALL_APPEND else now + min(samples, LONGEST_GAP)
        offset = now - self.received
        if anew:
            self._anchor = before
            self._offset = offset
            self._window_offsets = offset, offset
            self._run_began = self._window_began = now
            return
        if now - self._window_began >= PACE_WINDOW:
            self._window_began = now
            self._window_offsets = self._window_offsets[1], self._offset
        if offset < self._offset:
            self._offset = offset

    @property
    def lead(self) -> Samples:
        """How far the client's audio has run ahead of the clock since the input last stalled."""
        return self._anchor - self._offset

    @property
    def is_burst(self) -> bool:
        """Whether the client sends recorded audio faster than real time."""
        return self.lead > BURST_LEAD

    @property
    def _outruns(self) -> bool:
        """Whether over the last window or two the client's audio came faster than real time."""
        return self._window_offsets[0] - self._offset > STALL_AFTER

    def outruns_since(self, at: Samples) -> bool:
        """Return whether the client has sent recorded audio faster than real time since before `at`, and still does.

        The position of such audio tells nothing about when it was spoken, except that it was not now.
        """
        return self._run_began <= at and self._outruns

    def is_recorded(self, position: Samples) -> bool:
        """Return whether the sound at `position` belongs to a burst that goes on beyond it.

        Time on such audio says nothing about time at the gateway. The end of a burst is followed by real silence.
        """
        return self.is_burst and (self.received - position > LONGEST_GAP or self._outruns)

    def gateway_time(self, position: Samples) -> Samples:
        """Return the gateway time at which the sound at input `position` happened, as near as can be known."""
        return position + self._offset

    def position_at(self, at: Samples) -> Samples:
        """Return the input position of the sound that happened at the gateway time `at`, as near as can be known."""
        return at - self._offset

    def silent_for(self, now: Samples) -> Samples:
        """Return how long audio has been due; 0 before the first."""
        return 0 if self.due_at is None else max(0, now - self.due_at)
