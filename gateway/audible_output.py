"""Where the agent's output is audible, and when the user hears it: one player at 1×, one gate, whatever the backend.

Made audio is looked at as it passes. It counts once the socket took it, from when the player comes to it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field

import numpy as np

from protocol.audio_time import Samples, samples_from_bytes, samples_from_ms, samples_from_s

AUDIBLE_DBFS = -45.0
"""Output counts as heard from this level on (turn-taking metrics: agent speech is above −45 dBFS)."""

GATE_WINDOW: Samples = samples_from_ms(10)
"""Window of the audibility gate."""

WORD_GAP: Samples = samples_from_ms(500)
"""Quiet inside of speech: pauses between words are shorter (chosen; the gate of full-duplex models has the same)."""

KEPT_AFTER: Samples = samples_from_s(5)
"""How long what was heard stays known (chosen: a client's word on it, and late input, come sooner)."""

KEPT_ITEMS = 32
KEPT_SPANS = 256
"""Items, and audible stretches of one response that wait for the socket (chosen; the oldest leave first)."""

_AUDIBLE_RMS = 32768.0 * 10.0 ** (AUDIBLE_DBFS / 20.0)


def audible_spans(pcm: bytes) -> list[tuple[Samples, Samples]]:
    """Return where `pcm` (PCM16) is audible, in whole gate windows, each stretch once; the last window may be short."""
    if not pcm:
        return []
    samples = np.frombuffer(pcm, dtype="<i2").astype(np.float32)
    whole = len(samples) - len(samples) % GATE_WINDOW
    windows = samples[:whole].reshape(-1, GATE_WINDOW) if whole else samples.reshape(1, -1)
    least = windows.shape[1] * _AUDIBLE_RMS**2
    spans: list[tuple[Samples, Samples]] = []
    for number, energy in enumerate(np.einsum("ws,ws->w", windows, windows).tolist()):
        if energy < least:
            continue
        start, end = number * GATE_WINDOW, min(len(samples), (number + 1) * GATE_WINDOW)
        if spans and spans[-1][1] == start:
            start = spans.pop()[0]
        spans.append((start, end))
    return spans


@dataclass(slots=True)
class Stretch:
    """Speech in the user's ear from `start` to `end` (gateway clock), its last sample sent at `sent_at`."""

    response_id: str
    item_id: str
    start: Samples
    end: Samples
    sent_at: Samples


@dataclass(slots=True)
class _Made:
    item_id: str = ""
    made: Samples = 0
    sent: Samples = 0
    spans: deque[tuple[Samples, Samples]] = field(default_factory=lambda: deque(maxlen=KEPT_SPANS))


class AudibleOutput:
    """One session's."""

    def __init__(self) -> None:
        self._made: OrderedDict[str, _Made] = OrderedDict()
        self._starts: OrderedDict[str, Samples] = OrderedDict()
        self._heard: deque[Stretch] = deque()

    def made(self, response_id: str, item_id: str, pcm: bytes) -> list[tuple[Samples, Samples]]:
        """Take audio of a response as it was made; return where in that response it is audible."""
        made = self._made.get(response_id)
        if made is None:
            made = self._made[response_id] = _Made()
            if len(self._made) > KEPT_ITEMS:
                self._made.popitem(last=False)
        made.item_id = item_id
        found = [(made.made + start, made.made + end) for start, end in audible_spans(pcm)]
        made.spans.extend(found)
        made.made += samples_from_bytes(len(pcm))
        return found

    def sent(self, response_id: str, samples: Samples, start: Samples, now: Samples) -> None:
        """The socket took `samples` of a response at `now`; the player comes to them at `start`."""
        made = self._made.get(response_id)
        if made is None:
            return
        if made.item_id not in self._starts:
            self._starts[made.item_id] = start - made.sent
            if len(self._starts) > KEPT_ITEMS:
                self._starts.popitem(last=False)
        begins, made.sent = made.sent, made.sent + samples
        while made.spans and made.spans[0][0] < made.sent:
            first, last = made.spans.popleft()
            if last > made.sent:
                made.spans.appendleft((made.sent, last))
            self._play(made.item_id, response_id, start + first - begins, start + min(last, made.sent) - begins, now)
        while self._heard and self._heard[0].end < now - KEPT_AFTER:
            self._heard.popleft()

    def _play(self, item_id: str, response_id: str, start: Samples, end: Samples, now: Samples) -> None:
        last = self._heard[-1] if self._heard else None
        if last is not None and last.response_id == response_id and start - last.end < WORD_GAP:
            last.end, last.sent_at = end, now
        else:
            self._heard.append(Stretch(response_id, item_id, start, end, now))

    def at(self, when: Samples) -> Stretch | None:
        """Return the agent's speech that is heard at `when`, None in silence."""
        return next((stretch for stretch in self._heard if stretch.start <= when < stretch.end), None)

    def last_of(self, response_id: str) -> Stretch | None:
        """Return the newest speech of a response."""
        return next((stretch for stretch in reversed(self._heard) if stretch.response_id == response_id), None)

    def flush(self, now: Samples) -> None:
        """The player was emptied: what was to come is never heard."""
        self._cut(list(self._heard), now)

    def stop_item(self, item_id: str, heard: Samples, now: Samples) -> Samples | None:
        """The client's player stopped `item_id` after `heard` samples; return when that was, None for others' items."""
        begun = self._starts.get(item_id)
        if begun is None:
            return None
        when = min(begun + heard, now)
        self._cut([stretch for stretch in self._heard if stretch.item_id == item_id], when)
        return when

    def _cut(self, stretches: list[Stretch], when: Samples) -> None:
        for stretch in stretches:
            stretch.end = min(stretch.end, when)
        self._heard = deque(stretch for stretch in self._heard if stretch.end > stretch.start)
