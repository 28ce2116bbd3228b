"""Cuts the endless output of a full-duplex model into responses: where each begins, what is in it, where it ends.

The model's own marks come first: it says when it takes the floor (BOS) and when it yields it (EOS). Sound and text fill
in where a model has no such marks or forgets them. Every duration is audio time, and the same for any frame length.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum

from gateway.turns.sound_gate import HANGOVER, SoundGate
from protocol.audio_time import Samples, samples_from_ms, samples_from_s

TEXT_TAIL: Samples = samples_from_ms(800)
"""A response with text and no EOS is over after so much quiet and so long without text: text runs ahead of the voice,
and pauses between sentences are shorter (chosen; other adapters wait as long)."""

LIVENESS: Samples = samples_from_s(3)
"""A response in which nothing is heard for so long is over, whatever it still promises (chosen: a model that thinks
longer in mid-sentence has lost its thread)."""

WORDLESS: Samples = samples_from_s(3)
"""Sound without text is taken for a voice for so long, then for noise, which raises the floor (chosen: no backchannel
is as long, and text runs ahead of the voice by less)."""

PREROLL: Samples = samples_from_ms(160)
"""Output before an opening by sound that belongs to it: soft first consonants (chosen: two frames of 80 ms)."""


class OpenedBy(StrEnum):
    """What told that a response begins."""

    FLOOR = "floor"
    """The model's own mark."""
    TEXT = "text"
    SOUND = "sound"


class ClosedBy(StrEnum):
    """What told that a response is over."""

    FLOOR = "floor"
    """The model's own mark, and quiet."""
    NEXT = "next"
    """The model took the floor anew."""
    QUIET = "quiet"
    BACKCHANNEL = "backchannel"
    """Sound without words, as in "mm-hm"."""
    STALLED = "stalled"
    CUT = "cut"
    """Whoever owns the stream ended it."""


@dataclass(frozen=True, slots=True)
class ModelFrame:
    """One frame of a model's output: `samples` of audio at level `rms` (0…1), and the agent's text in it.

    `takes_floor`, `yields_floor`: the model's own marks.
    """

    samples: Samples
    rms: float
    text: str = ""
    takes_floor: bool = False
    yields_floor: bool = False


@dataclass(frozen=True, slots=True)
class SegmentOpened:
    """A response begins at `start` (output time: samples, counted on from the stream's `begins`); its audio follows."""

    by: OpenedBy
    start: Samples


@dataclass(frozen=True, slots=True)
class SegmentAudio:
    """The output [start, end) belongs to the open response; `voiced`: somebody is heard in it."""

    start: Samples
    end: Samples
    voiced: bool


@dataclass(frozen=True, slots=True)
class SegmentText:
    """More of the open response's text."""

    text: str


@dataclass(frozen=True, slots=True)
class SegmentClosed:
    """The open response is over at `end`. `voiced_until`: where its last sound ended; `spoken`: it had text."""

    by: ClosedBy
    end: Samples
    voiced_until: Samples
    spoken: bool


SegmentOutput = SegmentOpened | SegmentAudio | SegmentText | SegmentClosed


@dataclass(slots=True)
class _Segment:
    start: Samples
    text_at: Samples | None = None
    yielded: bool = False
    heard: bool = False
    voiced_until: Samples = 0
    alive_at: Samples = field(default=0)


class DuplexSegments:
    """One stream's, which `begins` at that output time. At most one response is open; what is between is nobody's."""

    def __init__(self, begins: Samples = 0) -> None:
        self._gate = SoundGate()
        self._now = begins
        self._open: _Segment | None = None
        self._muted_since: Samples | None = None  # or since the last text of what is muted
        self._before: deque[tuple[Samples, Samples]] = deque()  # frames that an opening may reach back to

    @property
    def is_open(self) -> bool:
        """Whether a response is open."""
        return self._open is not None

    @property
    def voiced(self) -> bool:
        """Whether somebody is heard in the newest frame."""
        return self._gate.voiced

    def hear(self, frame: ModelFrame) -> list[SegmentOutput]:
        """Take the next frame and return what follows, in order."""
        out: list[SegmentOutput] = []
        start, self._now = self._now, self._now + frame.samples
        segment = self._open
        self._gate.hear(frame.rms, frame.samples, learn=self._wordless >= WORDLESS)
        if self._muted_since is not None:
            self._unmute(frame)
        if segment is not None and frame.takes_floor:
            if segment.text_at is not None or segment.yielded:
                self._close(ClosedBy.NEXT, start, out)
            elif segment.heard and segment.voiced_until < start:  # a nod that was over, and no sound that led into this
                self._close(ClosedBy.BACKCHANNEL, start, out)
        if self._open is None and self._muted_since is None:
            self._begin(frame, start, out)
        segment = self._open
        if segment is None:
            self._keep(start)
            return out
        if frame.text:
            segment.text_at = segment.alive_at = self._now
            out.append(SegmentText(frame.text))
        if self._gate.voiced:
            segment.heard, segment.voiced_until, segment.alive_at = True, self._now, self._now
        out.append(SegmentAudio(start, self._now, self._gate.voiced))
        segment.yielded = segment.yielded or frame.yields_floor
        if (by := self._over(segment)) is not None:
            self._close(by, self._now, out)
        return out

    def cut(self) -> list[SegmentOutput]:
        """End the open response here. Nothing opens until the model has fallen quiet or says that it begins anew."""
        out: list[SegmentOutput] = []
        if self._open is not None:
            self._close(ClosedBy.CUT, self._now, out)
            self._muted_since = self._now
        return out

    @property
    def _wordless(self) -> Samples:
        """For how long the open response, or the rest of what was cut, has had no text; 0 where nobody speaks."""
        if self._open is None:
            return 0 if self._muted_since is None else self._now - self._muted_since
        return self._now - (self._open.start if self._open.text_at is None else self._open.text_at)

    def _begin(self, frame: ModelFrame, start: Samples, out: list[SegmentOutput]) -> None:
        if frame.takes_floor:
            by = OpenedBy.FLOOR
        elif frame.text:
            by = OpenedBy.TEXT
        elif self._gate.open and not frame.yields_floor:
            by = OpenedBy.SOUND
        else:
            return
        earliest = self._before[0][0] if by is OpenedBy.SOUND and self._before else start
        self._open = _Segment(earliest, voiced_until=start, alive_at=self._now)
        out.append(SegmentOpened(by, earliest))
        if earliest < start:
            out.append(SegmentAudio(earliest, start, voiced=False))
        self._before.clear()

    def _over(self, segment: _Segment) -> ClosedBy | None:
        """Return why the open response is over, None if it goes on."""
        gate = self._gate
        if segment.yielded and (not gate.voiced or self._wordless >= LIVENESS):
            return ClosedBy.FLOOR
        if segment.heard and gate.quiet >= HANGOVER:
            if segment.text_at is None:
                return ClosedBy.BACKCHANNEL
            if gate.quiet >= TEXT_TAIL and self._now - segment.text_at >= TEXT_TAIL:
                return ClosedBy.QUIET
        return ClosedBy.STALLED if self._now - segment.alive_at >= LIVENESS else None

    def _close(self, by: ClosedBy, end: Samples, out: list[SegmentOutput]) -> None:
        assert self._open is not None
        segment, self._open = self._open, None
        self._gate.shut()
        out.append(SegmentClosed(by, end, segment.voiced_until, segment.text_at is not None))

    def _unmute(self, frame: ModelFrame) -> None:
        if frame.takes_floor or frame.yields_floor or self._gate.quiet >= HANGOVER:
            self._muted_since = None
        elif frame.text:
            self._muted_since = self._now

    def _keep(self, start: Samples) -> None:
        """Remember a frame that nobody owns, for an opening by sound."""
        self._before.append((start, self._now))
        while self._before and self._now - self._before[0][0] > PREROLL:
            self._before.popleft()
