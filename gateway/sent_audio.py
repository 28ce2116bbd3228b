"""The agent's own audio on the gateway clock: what plays when, by the virtual player's rule.

Chunk i starts at max(its send time + playout delay, end of chunk i−1), as in `gateway.turns.playout`; here the samples
themselves are kept, since only they can tell the agent's voice in the user's microphone from the user's.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from protocol.audio_time import BYTES_PER_SAMPLE, Samples, samples_from_bytes, samples_from_s

KEPT: Samples = samples_from_s(3)
"""Audio that ended longer ago is forgotten: more than the latest echo that is looked for, and its window."""

LONGEST_QUEUE: Samples = samples_from_s(40)
"""Most audio that may wait to be played: 30 s of synthesis lead and a long chunk. Of a client that is sent more, the
rest is not remembered until it has played what it has; the echo of that rest is not known then."""

AFTER_CUT: Samples = samples_from_s(1)
"""So much of what a flush drops is kept: a client plays on until the flush has reached it (chosen: the virtual player's
own longest delay). Audio that nobody played explains nothing, so that keeping it does no harm."""


@dataclass(slots=True)
class _Chunk:
    item_id: str
    sent_at: Samples
    start: Samples
    pcm: bytes

    @property
    def end(self) -> Samples:
        return self.start + samples_from_bytes(len(self.pcm))


class SentAudio:
    """What a session has sent, by the time at which it plays (gateway clock). Holds references, copies nothing."""

    def __init__(self, playout_delay: Samples) -> None:
        self._delay = playout_delay
        self._chunks: deque[_Chunk] = deque()
        self._ends_at: Samples = 0

    def push(self, item_id: str, pcm: bytes, now: Samples) -> None:
        """Queue `pcm` (PCM16, 24 kHz) of `item_id`, sent at `now`."""
        self.settle(now)
        start = max(now + self._delay, self._ends_at)
        if start - now > LONGEST_QUEUE or not pcm:
            return
        self._chunks.append(_Chunk(item_id, now, start, pcm))
        self._ends_at = self._chunks[-1].end

    def cut(self, now: Samples) -> None:
        """Empty the queue, as the client does when the user cuts in."""
        self._shorten(now + AFTER_CUT)
        self._ends_at = min(self._ends_at, now)

    def drop(self, item_id: str, samples: Samples, now: Samples) -> None:
        """Take back the last `samples` of `item_id`, which never left; what was sent after them moves up."""
        kept: deque[_Chunk] = deque()
        while samples > 0 and self._chunks:
            chunk = self._chunks.pop()
            if chunk.item_id == item_id:
                length = samples_from_bytes(len(chunk.pcm))
                taken = min(samples, length)
                samples -= taken
                chunk.pcm = chunk.pcm[: (length - taken) * BYTES_PER_SAMPLE]
            kept.appendleft(chunk)
        self._ends_at = max((chunk.end for chunk in self._chunks), default=0)
        for chunk in kept:
            if chunk.pcm:
                chunk.start = max(chunk.sent_at + self._delay, self._ends_at)
                self._chunks.append(chunk)
                self._ends_at = chunk.end
        self.settle(now)

    def stop(self, item_id: str, now: Samples) -> None:
        """Take note that the client plays no more of `item_id`: it flushed, unless other audio came after that item."""
        if self._chunks and self._chunks[-1].item_id == item_id:
            self.cut(now)

    def settle(self, now: Samples) -> None:
        """Forget what was played long ago, KEPT before `now`."""
        while self._chunks and self._chunks[0].end < now - KEPT:
            self._chunks.popleft()

    def audible(self, since: Samples, until: Samples) -> bool:
        """Return whether anything plays in [since, until)."""
        return any(chunk.start < until and chunk.end > since for chunk in self._chunks)

    def between(self, start: Samples, end: Samples) -> NDArray[np.int16]:
        """Return what plays in [start, end): int16 [end − start], zeros where nothing does."""
        played = np.zeros(end - start, np.int16)
        for chunk in self._chunks:
            first, last = max(chunk.start, start), min(chunk.end, end)
            if first < last:
                samples = np.frombuffer(chunk.pcm, "<i2", last - first, (first - chunk.start) * BYTES_PER_SAMPLE)
                played[first - start : last - start] = samples
        return played

    def _shorten(self, end: Samples) -> None:
        """Forget all that would play after `end`."""
        while self._chunks and self._chunks[-1].end > end:
            last = self._chunks[-1]
            last.pcm = last.pcm[: max(0, end - last.start) * BYTES_PER_SAMPLE]
            if last.pcm:
                return
            self._chunks.pop()
