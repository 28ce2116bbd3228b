"""When a conversation with a full-duplex model is begun, and when it is begun anew with what was said so far.

Such a model reads its prompt once and cannot hold a conversation of any length. Pure: the shell asks, and opens.
"""

from __future__ import annotations

from enum import StrEnum

from protocol.audio_time import Samples, samples_from_ms, samples_from_s

SETTLED_AFTER: Samples = samples_from_ms(300)
"""So long after the client's last setting the prompt is read (chosen: SDKs send several updates and items at once, and
wait for an answer in between; on a local network that is some 10 ms)."""

RETRY_AFTER: tuple[Samples, ...] = (0, samples_from_s(1), samples_from_s(5))
"""Waits before a failed model is tried again by itself, one after each failure in a row (chosen). After that it is the
user's turns that try, no more often than the last of these."""

HEALTHY_AFTER: Samples = samples_from_s(30)
"""A conversation that lasted so long counts as a success (chosen)."""

RENEW_FROM_SHARE = 0.8
"""From this share of its longest time on a conversation is begun anew as soon as nobody minds (chosen: of ten minutes
two are left to find a second of quiet)."""

LAST_MOMENT: Samples = samples_from_s(2)
"""So long before its longest time it is begun anew in any case (chosen)."""

REST: Samples = samples_from_s(1)
"""A pause in which nobody is owed an answer counts as quiet after this (chosen)."""

LONG_REST: Samples = samples_from_s(5)
"""A user who has got no answer for so long gets none any more (chosen: models answer within 3.2 s or not at all)."""


class Why(StrEnum):
    """Why a conversation with the model begins."""

    BEGUN = "begun"
    """The session's first."""
    CHANGED = "changed"
    """What it is to have read is not what it has read."""
    TOO_LONG = "too_long"
    FAILED = "failed"


class DuplexRenewal:
    """One session's. `longest`: the model's longest conversation, None: any. Times are the gateway clock."""

    def __init__(self, longest: Samples | None = None) -> None:
        self.why = Why.BEGUN
        """Why the next conversation begins, or the running one began."""
        self.attempts = 0
        """Failures in a row."""
        self._longest = longest
        self._opens_at: Samples | None = SETTLED_AFTER
        self._last_attempt: Samples = 0
        self._stale = False
        self._is_open = False
        self._length: Samples = 0

    @property
    def opens_at(self) -> Samples | None:
        """When the next conversation is to be opened; None: once somebody asks for it."""
        return self._opens_at

    @property
    def is_stale(self) -> bool:
        """Whether the model has read, or is reading, what is not it any more."""
        return self._stale

    @property
    def length(self) -> Samples:
        """How long the running conversation is."""
        return self._length

    # --- what happens ----------------------------------------------------------------------------------------------

    def set_up(self, now: Samples, *, stale: bool) -> None:
        """The client has set something up. `stale`: what the model was to read has changed by it."""
        if self._is_open:
            self._stale = self._stale or stale
        elif self.why is Why.BEGUN:
            self._opens_at = now + SETTLED_AFTER

    def asked(self, now: Samples) -> None:
        """The client or the user waits for the model."""
        if self._is_open:
            return
        if self.why is Why.BEGUN:
            self._opens_at = now
        elif self._opens_at is None:
            self._opens_at = max(now, self._last_attempt + RETRY_AFTER[-1])

    def opening(self, now: Samples) -> None:
        """The model is being given its prompt."""
        self._is_open, self._stale, self._length = True, False, 0
        self._last_attempt = now

    def stepped(self, samples: Samples) -> None:
        """The conversation has gone on for so long."""
        self._length += samples
        if self._length >= HEALTHY_AFTER:
            self.attempts = 0

    def failed(self, now: Samples) -> None:
        """The model has failed, as it opened or later."""
        self._is_open = False
        self.why = Why.FAILED
        self.attempts += 1
        self._opens_at = now + RETRY_AFTER[self.attempts - 1] if self.attempts <= len(RETRY_AFTER) else None

    def ended(self, why: Why, now: Samples) -> None:
        """The conversation was ended, to be begun anew."""
        self._is_open = False
        self.why = why
        self._opens_at = now

    # --- what is decided -------------------------------------------------------------------------------------------

    def due(self, rests: Samples, *, begun: bool, owed: bool, awaited: bool) -> Why | None:
        """Return why the running conversation is to be ended now, None if it goes on.

        `rests`: for how long nobody has said anything. `begun`: something has been said. `owed`: the user waits for an
        answer. `awaited`: the client has asked for a response, which is to know of every change.
        """
        quiet = rests >= (LONG_REST if owed else REST)
        if self._stale and (quiet or not begun or (awaited and rests > 0)):
            return Why.CHANGED
        if self._longest is None:
            return None
        soon = self._length >= self._longest * RENEW_FROM_SHARE
        return Why.TOO_LONG if soon and quiet or self._length >= self._longest - LAST_MOMENT else None
