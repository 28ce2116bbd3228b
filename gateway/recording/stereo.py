"""A session as it sounded: the user on the left, on the right the agent as the virtual player plays it.

One time line, the gateway's. What the user cut off is silent from there on, as it was in the room.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from protocol.audio_time import BYTES_PER_SAMPLE, Samples, bytes_from_samples, samples_from_bytes, samples_from_s

CHANNELS = 2
BYTES_PER_FRAME = CHANNELS * BYTES_PER_SAMPLE

SETTLED_AFTER: Samples = samples_from_s(1)
"""User audio that comes later than this after it was spoken is moved behind what is written (chosen: no live client's
network jitter is larger)."""

LONGEST_LEAD: Samples = samples_from_s(300)
"""User audio further ahead of the clock than this (a long recording sent at once) is left out of the sound (chosen:
14 MB)."""

BLOCK: Samples = samples_from_s(1)
"""Written in blocks of this size (chosen: one write a second)."""

LONGEST_PART: Samples = samples_from_s(60)
"""At most so much is handed out in one piece (chosen: 6 MB)."""

_SILENCE = bytes(LONGEST_PART * BYTES_PER_FRAME)
"""Both sides silent for so long: the same bytes each time, so that an hour without audio takes no memory."""


@dataclass(slots=True)
class _Stretch:
    """Audio of one item (or the user's, with no item) from `start` on the time line."""

    item_id: str
    start: Samples
    pcm: bytes

    @property
    def end(self) -> Samples:
        return self.start + samples_from_bytes(len(self.pcm))


class StereoMix:
    """Puts both sides on one time line and hands out what no later event can change."""

    def __init__(self, playout_delay: Samples) -> None:
        self._delay = playout_delay
        self._written: Samples = 0
        self._user: list[_Stretch] = []
        self._agent: list[_Stretch] = []
        self._user_end: Samples = 0

    def user_audio(self, pcm: bytes, now: Samples) -> None:
        """Place PCM16 (mono, 24 kHz) that the client had spoken by `now`, behind what it said before."""
        start = max(self._user_end, now - samples_from_bytes(len(pcm)), self._written)
        self._user_end = start + samples_from_bytes(len(pcm))
        if self._user_end <= now + LONGEST_LEAD:
            self._user.append(_Stretch("", start, pcm))

    def agent_audio(self, item_id: str, pcm: bytes, now: Samples) -> None:
        """Queue the agent's audio that left at `now`: it plays after the playout delay, behind what plays before it."""
        start = max(now + self._delay, self._agent[-1].end if self._agent else 0)
        self._agent.append(_Stretch(item_id, start, pcm))

    def cut(self, item_id: str, now: Samples) -> None:
        """Silence the rest of `item_id`: the client plays no more of it from `now` on."""
        kept = []
        for stretch in self._agent:
            if stretch.item_id == item_id and stretch.end > now:
                stretch.pcm = stretch.pcm[: bytes_from_samples(max(0, now - stretch.start))]
            if stretch.pcm:
                kept.append(stretch)
        self._agent = kept

    def take(self, now: Samples) -> Iterator[bytes]:
        """Yield the stereo PCM16 that is settled by `now` and was not taken yet, in whole blocks."""
        blocks = max(0, now - SETTLED_AFTER - self._written) // BLOCK
        return self._parts(self._written + blocks * BLOCK)

    def rest(self, now: Samples) -> Iterator[bytes]:
        """Yield all that is left when the session ends at `now`: what would have played later was never heard."""
        last = self._user[-1].end if self._user else 0
        return self._parts(max(now, last, self._written))

    def _parts(self, end: Samples) -> Iterator[bytes]:
        while self._written < end:
            until = min(end, self._written + LONGEST_PART)
            speaks = any(stretch.start < until for stretch in (*self._user, *self._agent))
            if speaks or until - self._written < LONGEST_PART:
                yield self._mixed(until)
            else:
                self._written = until
                yield _SILENCE

    def _mixed(self, end: Samples) -> bytes:
        stereo = np.zeros((end - self._written, CHANNELS), "<i2")
        self._user = self._lay(self._user, stereo[:, 0], end)
        self._agent = self._lay(self._agent, stereo[:, 1], end)
        self._written = end
        return stereo.tobytes()

    def _lay(self, stretches: list[_Stretch], channel: NDArray[np.int16], end: Samples) -> list[_Stretch]:
        """Write what lies before `end` into `channel` and return what lies behind it."""
        left = []
        for stretch in stretches:
            first, last = max(stretch.start, self._written), min(stretch.end, end)
            if last > first:
                samples = np.frombuffer(stretch.pcm, "<i2")
                channel[first - self._written : last - self._written] = samples[
                    first - stretch.start : last - stretch.start
                ]
            if stretch.end > end:
                left.append(stretch)
        return left
