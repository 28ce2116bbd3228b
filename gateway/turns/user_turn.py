"""The user's side: the input buffer, and when a turn begins and ends."""

from __future__ import annotations

from gateway.turns.input_clock import InputClock
from gateway.turns.settings import (
    FAINT_SPEECH,
    LONGEST_INPUT,
    MIN_SPEECH,
    SILENT_RETENTION,
    STALL_AFTER,
    VAD_FRAME,
    Detection,
)
from gateway.turns.speech_detector import Heard, SpeechDetector
from gateway.turns.states import User, UserTrigger, next_user
from protocol.audio_time import Samples

_TRIGGERS = {Heard.ONSET: UserTrigger.ONSET, Heard.PAUSE: UserTrigger.PAUSE, Heard.RESUME: UserTrigger.RESUME}

ASR_TAIL: Samples = VAD_FRAME * 4
"""Audio after the last voiced frame that the recogniser gets, 128 ms: final consonants are faint, silence costs time
(chosen)."""


class UserTurn:
    """What the user is doing, and the stretch of input that is theirs so far."""

    def __init__(self) -> None:
        self.clock = InputClock()
        self.state = User.SILENT
        self.item_id = ""
        self.start: Samples = 0
        self.buffer_start: Samples = 0
        self.heard_until: Samples = 0
        """The end of the last VAD frame (input clock)."""
        self._detector = SpeechDetector()
        self._faint_until: Samples = 0

    @property
    def onset(self) -> Samples:
        """Where the running speech began (input clock)."""
        return self._detector.onset

    @property
    def voiced_until(self) -> Samples:
        """The end of the last voiced frame of the running speech (input clock)."""
        return self._detector.voiced_until

    def append(self, samples: Samples, now: Samples, detection: Detection | None) -> None:
        """Count input. Without `detection`, audio that no commit can need any more leaves the buffer."""
        self.clock.advance(samples, now)
        if detection is None:
            self.buffer_start = max(self.buffer_start, self.clock.received - LONGEST_INPUT)

    def hear(self, until: Samples, probability: float, detection: Detection | None) -> Heard:
        """Take a VAD frame and return what it changed. Without `detection` it is only noted that somebody may speak."""
        self.heard_until = until
        if probability >= FAINT_SPEECH:
            self._faint_until = until
        if detection is None:
            return Heard.NOTHING
        change = self._detector.feed(until, probability, detection.threshold)
        if change in _TRIGGERS:
            self.state = next_user(self.state, _TRIGGERS[change])
        if self.state is User.SILENT:
            # Counted from what the VAD has heard: an append may bring minutes of audio before its first frame.
            kept = max(SILENT_RETENTION, detection.prefix_padding + MIN_SPEECH)
            self.buffer_start = max(self.buffer_start, until - kept)
        return change

    def begin(self, item_id: str, detection: Detection) -> None:
        """Open the turn `item_id` at the onset, less the prefix padding, as far as the buffer reaches back."""
        self.item_id = item_id
        self.start = max(self.onset - detection.prefix_padding, self.buffer_start, 0)

    def begin_unannounced(self, item_id: str, until: Samples) -> None:
        """Open the turn `item_id` of a client that ends turns by hand: the frame before `until` may be speech."""
        self.item_id = item_id
        self.start = max(until - VAD_FRAME - Detection().prefix_padding, self.buffer_start)

    def keep_from(self, position: Samples) -> None:
        """Begin the open turn no earlier than at `position`; what came before leaves the buffer."""
        self.start = max(self.start, position)
        self.buffer_start = max(self.buffer_start, self.start)

    def silence(self, now: Samples) -> Samples:
        """Return how long the user has been silent at `now` as endpointing counts it: input that stopped is silence."""
        stalled = self.clock.silent_for(now)
        return self._stalled_silence(stalled) if stalled >= STALL_AFTER else self.heard_until - self.voiced_until

    def _stalled_silence(self, stalled: Samples) -> Samples:
        return self.clock.received - self.voiced_until + stalled

    def silence_end(self, until: Samples, needed: Samples) -> Samples | None:
        """Return where the turn ends if the silence up to `until` reaches `needed`, or if it is too long; else None."""
        if self.state is User.SILENT:
            return None
        end = self.voiced_until + needed
        if self.state is User.PAUSED and until >= end:
            return end
        return until if until - self.start >= LONGEST_INPUT else None

    def stall_end(self, stalled: Samples, needed: Samples) -> Samples | None:
        """Return where the turn ends if it has been silent for `needed`, `stalled` without any input; else None."""
        if self.state is User.SILENT or stalled < STALL_AFTER or self._stalled_silence(stalled) < needed:
            return None
        return min(self.clock.received, self.voiced_until + needed)

    def stall_deadline(self, needed: Samples) -> Samples | None:
        """Return when a stall that lasts makes `needed` of silence (gateway clock); None when nobody speaks."""
        if self.state is User.SILENT or self.clock.due_at is None:
            return None
        missing = needed - (self.clock.received - self.voiced_until)
        return self.clock.due_at + max(STALL_AFTER, missing)

    def holds_speech(self) -> bool:
        """Return whether anything in the buffer could be speech."""
        return self._faint_until > self.buffer_start

    def take(self, end: Samples) -> None:
        """The buffer up to `end` has become an item. Speech that runs on past it starts anew."""
        self.buffer_start = end
        self._close(UserTrigger.TURN_END)

    def drop(self) -> None:
        """Empty the buffer; running speech is forgotten."""
        self.buffer_start = self.clock.received
        self._close(UserTrigger.DROP)

    def leave_to_hand(self) -> None:
        """From now on the client ends turns. Running speech stays in the buffer, to be committed under its id."""
        item_id = self.item_id
        self._close(UserTrigger.DROP)
        self.item_id = item_id

    def forget_overlap(self) -> None:
        """Forget running speech that is no turn, and its input with it: it enters no item."""
        self.buffer_start = max(self.buffer_start, self.voiced_until)
        self._close(UserTrigger.DROP)

    def forget_speech(self) -> None:
        """Forget running speech but keep the buffer: from now on the VAD tells where turns begin."""
        self._close(UserTrigger.DROP)

    def _close(self, trigger: UserTrigger) -> None:
        if self.state is not User.SILENT:
            self.state = next_user(self.state, trigger)
        self._detector.reset()
        self.item_id = ""
