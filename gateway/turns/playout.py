"""The virtual player: what the user has heard, estimated from what was sent and when.

One per session. Chunk i starts at max(its send time + delay, end of chunk i−1). The client's own truncates correct it:
they win, and they teach the delay.
"""

from __future__ import annotations

from dataclasses import dataclass

from protocol.audio_time import Samples, samples_from_s

LONGEST_DELAY: Samples = samples_from_s(1)
"""No client buffers more than this before it plays (chosen)."""

LEARNING_RATE = 0.5
"""Weight of a client's newest correction of the delay (chosen: two corrections settle it)."""

KEPT_ITEMS = 64
"""Finished items whose heard time stays known for a late truncate (chosen)."""


@dataclass(slots=True)
class _Stretch:
    """Contiguous audio of one item in the player's queue."""

    item_id: str
    sent_at: Samples
    start: Samples
    samples: Samples

    @property
    def end(self) -> Samples:
        return self.start + self.samples


@dataclass(frozen=True, slots=True)
class Heard:
    """Of `item_id` the user heard `heard` of `sent` samples."""

    item_id: str
    heard: Samples
    sent: Samples


class VirtualPlayer:
    """Plays at 1×, in the order sent."""

    def __init__(self, delay: Samples) -> None:
        self.delay = delay
        self._queue: list[_Stretch] = []
        self._played: dict[str, Samples] = {}
        self._sent: dict[str, Samples] = {}
        self._flushed: dict[str, Samples] = {}
        self._truncated: set[str] = set()
        self._starts: dict[str, Samples] = {}
        self.ended_at: Samples | None = None
        """When audio was last over (gateway clock), played to its end or cut; None before that."""

    @property
    def ends_at(self) -> Samples | None:
        """When the queued audio is over (gateway clock); None if nothing is queued."""
        return self._queue[-1].end if self._queue else None

    def push(self, item_id: str, samples: Samples, now: Samples) -> None:
        """Queue `samples` of `item_id`, sent at `now`; a client that truncated the item plays no more of it."""
        self._sent[item_id] = self._sent.get(item_id, 0) + samples
        if item_id in self._truncated:
            return
        last = self._queue[-1] if self._queue else None
        start = now + self.delay
        self._starts.setdefault(item_id, max(start, last.end) if last is not None else start)
        if last is not None and last.end >= start:
            if last.item_id == item_id:
                last.samples += samples
                return
            start = last.end
        self._queue.append(_Stretch(item_id, now, start, samples))

    def audible(self, now: Samples) -> bool:
        """Return whether audio plays or waits to play at `now`."""
        return bool(self._queue) and now < self._queue[-1].end

    def played_lately(self, at: Samples, within: Samples) -> bool:
        """Return whether something played at `at`, or ended less than `within` before it."""
        if any(s.start <= at < s.end + within for s in self._queue):
            return True
        return self.ended_at is not None and at < self.ended_at + within

    def playing_since(self, at: Samples) -> Samples | None:
        """Return when the item that plays at `at`, or will play next, began; None if nothing does."""
        playing = next((s.item_id for s in self._queue if at < s.end), None)
        return None if playing is None else self._starts[playing]

    def heard(self, item_id: str, now: Samples) -> Samples:
        """Return how much of `item_id` has been played by `now`."""
        playing = sum(min(max(0, now - s.start), s.samples) for s in self._queue if s.item_id == item_id)
        return self._played.get(item_id, 0) + playing

    def playing(self, now: Samples) -> Heard | None:
        """Return the item that plays at `now` and how much of it has been heard; None in silence."""
        for stretch in self._queue:
            if stretch.start <= now < stretch.end:
                item_id = stretch.item_id
                return Heard(item_id, self.heard(item_id, now), self._sent[item_id])
        return None

    def settle(self, now: Samples) -> None:
        """Forget the details of what has been played to its end by `now`."""
        while self._queue and self._queue[0].end <= now:
            done = self._queue.pop(0)
            self.ended_at = done.end
            self._played[done.item_id] = self._played.get(done.item_id, 0) + done.samples
        while len(self._sent) > KEPT_ITEMS and (oldest := next(iter(self._sent))) not in {
            s.item_id for s in self._queue
        }:
            del self._sent[oldest]
            del self._starts[oldest]
            self._played.pop(oldest, None)
            self._flushed.pop(oldest, None)
            self._truncated.discard(oldest)

    def flush(self, now: Samples) -> list[Heard]:
        """Empty the queue, as a client does on `speech_started`; return what was heard of each item that it cut."""
        self.settle(now)
        items = dict.fromkeys(s.item_id for s in self._queue)
        if items:
            self.ended_at = now
        cut = [Heard(item_id, self.heard(item_id, now), self._sent[item_id]) for item_id in items]
        self._queue.clear()
        for entry in cut:
            self._played[entry.item_id] = self._flushed[entry.item_id] = entry.heard
        return cut

    def correct(self, item_id: str, heard: Samples, now: Samples) -> None:
        """Take the client's word: it played `heard` of `item_id` and plays no more of it."""
        sent = self._sent.get(item_id)
        if sent is None:
            return
        heard = min(heard, sent)
        estimate = self._flushed.pop(item_id, None)
        if estimate is None:
            estimate = self.heard(item_id, now)
        if 0 < heard < sent:
            # Only a cut in mid-audio tells when the client began to play: the estimate ran ahead by estimate − heard.
            learned = self.delay + LEARNING_RATE * (estimate - heard)
            self.delay = min(max(int(learned), 0), LONGEST_DELAY)
        self._played[item_id] = heard
        self._truncated.add(item_id)
        rest = [s for s in self._queue if s.item_id != item_id]
        if len(rest) != len(self._queue):
            # What follows moves up: the client dropped the item from its queue.
            end = now
            for stretch in rest:
                if stretch.start > now:
                    stretch.start = max(stretch.sent_at + self.delay, end)
                end = stretch.end
            self._queue = rest
            if not rest:
                self.ended_at = now
