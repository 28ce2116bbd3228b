"""The user's voice over the agent's, at the session's border: when does the agent give way, when is it quiet?

One definition for all backends. An overlap begins with the first voiced frame of an utterance during which the agent is
heard. The agent *yields* when its backend ends the speech for the user's sake; *stop* is when the user has heard the
last of it. An agent that goes on has neither; one that was stopped by its client (a cancel, an emptied player) has not
yielded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from gateway.audible_output import AudibleOutput
from protocol.audio_time import Samples, samples_from_ms

UTTERANCE_GAP: Samples = samples_from_ms(300)
"""Voice after so much quiet is another utterance (chosen: pauses between words are shorter)."""

LEAST_VOICE: Samples = samples_from_ms(64)
"""Shorter sounds overlap nothing: two VAD frames, as for an onset."""

DECIDED_AFTER: Samples = samples_from_ms(1_000)
"""An agent that is still heard so long after the user's voice goes on (chosen: verdicts take half of it)."""

LAST_WORD: Samples = samples_from_ms(500)
"""How long a client may take to say what its player played (chosen: a round trip)."""

KEPT_OVERLAPS = 32
"""Overlaps whose figures are kept per session (chosen)."""


class OverlapOutcome(StrEnum):
    """How an overlap ended."""

    YIELDED = "yielded"
    """The backend ended the agent's speech for the user's sake."""
    STOPPED = "stopped"
    """The client did."""
    ENDED = "ended"
    """The agent had said all that it wanted to."""
    WENT_ON = "went_on"
    """The agent talked on over the user."""


@dataclass(slots=True)
class Overlap:
    """An overlap from `onset` on (gateway clock), over the agent's `response_id`; `voiced`: how much of it was voice.

    `echoed`: how much of that was the agent's own. `voice_end`: when the user's utterance ended.
    """

    onset: Samples
    response_id: str
    item_id: str
    voiced: Samples = 0
    echoed: Samples = 0
    voice_end: Samples = 0
    outcome: OverlapOutcome | None = None
    yielded_at: Samples | None = None
    stopped_at: Samples | None = None

    @property
    def yielded_after(self) -> Samples | None:
        """From the user's onset until the agent had given way; None if it did not by itself."""
        return None if self.yielded_at is None else max(0, self.yielded_at - self.onset)

    @property
    def stopped_after(self) -> Samples | None:
        """From the user's onset until the user had heard the last of the agent; None if the agent was not stopped."""
        return None if self.stopped_at is None else max(0, self.stopped_at - self.onset)


class Overlaps:
    """One session's. `on_overlap` gets each once all is known of it."""

    def __init__(self, output: AudibleOutput, on_overlap: Callable[[Overlap, Samples], None]) -> None:
        self.all: deque[Overlap] = deque(maxlen=KEPT_OVERLAPS)
        self._output = output
        self._on_overlap = on_overlap
        self._onset: Samples = 0
        self._voiced: Samples = 0
        self._echoed: Samples = 0
        self._voice_end: Samples = -UTTERANCE_GAP
        self._looked = False
        self._open: Overlap | None = None

    def voice(self, start: Samples, end: Samples, running: str, now: Samples, *, echo: bool = False) -> None:
        """A voice was heard in [start, end) (gateway clock), while the response `running` speaks, "" if none does.

        `echo`: it seems to be the agent's own. For a moment that is often a mistake, so that what is mostly echo is
        left out at its end.
        """
        over_echo = not echo and self._echoed == self._voiced >= LEAST_VOICE
        if over_echo or start - self._voice_end >= UTTERANCE_GAP:
            self._onset, self._voiced, self._echoed, self._looked = start, 0, 0, False
        self._voiced += end - start
        self._echoed += (end - start) * echo
        self._voice_end = end
        if self._open is not None and self._open.onset == self._onset:
            self._open.voiced, self._open.echoed, self._open.voice_end = self._voiced, self._echoed, end
        if self._looked or self._voiced < LEAST_VOICE or self._echoed == self._voiced:
            return
        self._looked = True
        speech = self._output.at(self._onset)
        if speech is None:
            return
        if self._open is not None:
            self._close(self._in_the_end(self._open, running), now)
        self._open = Overlap(self._onset, speech.response_id, speech.item_id, self._voiced, self._echoed, end)

    def gave_way(self, now: Samples) -> None:
        """The backend ended its speech for the user's sake; the player is about to be emptied."""
        overlap = self._open
        if overlap is None or overlap.outcome is not None:
            return
        speech = self._output.last_of(overlap.response_id)
        if speech is not None and speech.end > now:
            overlap.outcome, overlap.yielded_at, overlap.stopped_at = OverlapOutcome.YIELDED, now, now
        elif speech is not None and speech.sent_at > overlap.onset:  # it fell silent before it was said to be over
            overlap.outcome, overlap.yielded_at, overlap.stopped_at = (
                OverlapOutcome.YIELDED,
                speech.sent_at,
                speech.end,
            )
        else:
            overlap.outcome = OverlapOutcome.ENDED

    def client_cancelled(self, response_id: str) -> None:
        """The client ended a response: what it had been sent plays on, unless it says otherwise."""
        overlap = self._open
        if overlap is None or overlap.outcome is not None or overlap.response_id != response_id:
            return
        overlap.outcome = OverlapOutcome.STOPPED
        speech = self._output.last_of(response_id)
        overlap.stopped_at = None if speech is None else speech.end

    def client_stopped(self, item_id: str, when: Samples) -> None:
        """The client's player stopped an item at `when`: its word is the last."""
        overlap = self._open
        if overlap is None or overlap.item_id != item_id or overlap.outcome is OverlapOutcome.ENDED:
            return
        overlap.outcome = overlap.outcome or OverlapOutcome.STOPPED
        overlap.stopped_at = max(overlap.onset, when)

    def settle(self, running: str, now: Samples) -> None:
        """Let time pass up to `now`; `running` is the response that still speaks."""
        overlap = self._open
        if overlap is None:
            return
        if overlap.outcome is not None:
            if now >= max(overlap.voice_end, overlap.stopped_at or 0) + LAST_WORD:
                self._close(self._in_the_end(overlap, running), now)
            return
        speech = self._output.last_of(overlap.response_id)
        if overlap.response_id != running and (speech is None or speech.end <= now):
            overlap.outcome = OverlapOutcome.ENDED
        elif now - overlap.voice_end >= DECIDED_AFTER:
            self._close(OverlapOutcome.WENT_ON, now)

    def _in_the_end(self, overlap: Overlap, running: str) -> OverlapOutcome:
        """Return how an overlap ended, now that the user is silent again, or speaks anew, or is gone.

        Another server may tell of their voice, on which its client empties the player, and talk on.
        """
        outcome = overlap.outcome or OverlapOutcome.WENT_ON
        speech = self._output.last_of(overlap.response_id)
        if outcome is not OverlapOutcome.YIELDED or overlap.response_id != running or speech is None:
            return outcome
        if overlap.yielded_at is None or speech.sent_at <= overlap.yielded_at:
            return outcome
        overlap.yielded_at = overlap.stopped_at = None
        return OverlapOutcome.WENT_ON

    def close(self, running: str, now: Samples) -> None:
        """The session is over; `running` is the response that still speaks."""
        if self._open is not None:
            self._close(self._in_the_end(self._open, running), now)

    def forget(self, response_id: str) -> None:
        """What was heard of a response was a backchannel: nobody can be kept from the floor by one."""
        if self._open is not None and self._open.response_id == response_id:
            self._open = None

    def _close(self, outcome: OverlapOutcome, now: Samples) -> None:
        overlap, self._open = self._open, None
        assert overlap is not None
        if 2 * overlap.echoed > overlap.voiced:
            return  # nobody but the agent itself
        overlap.outcome = outcome
        self.all.append(overlap)
        self._on_overlap(overlap, now)
