"""The user's audio on its way to a full-duplex model: cut into its frames, bounded where the model is too slow.

A model that needs longer for a frame than the frame lasts falls behind for ever. Silence that waits is then left out
first, and what is too old after that; both are counted, since the model did not hear them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from gateway.turns.input_pace import Pace
from protocol.audio_time import Samples, bytes_from_samples, samples_from_bytes, samples_from_ms, samples_from_s

SKIP_SILENCE_FROM: Samples = samples_from_ms(400)
"""From so much audio in the queue on, frames without voice are left out (chosen: half the time in which a person misses
an answer)."""

SKIP_HELD_SILENCE_FROM: Samples = samples_from_ms(160)
"""The same while nobody takes frames: what waits then is behind for good where the model just keeps real time
(chosen: two frames of 80 ms before a voice)."""

LONGEST_BACKLOG: Samples = samples_from_s(2)
"""More than this never waits: the oldest goes (chosen: an answer to what was said longer ago is none)."""

LONGEST_BURST: Samples = samples_from_s(60)
"""A client that sends recorded audio faster than real time may have so much of it wait: a model that is fast enough
catches up, and nothing of a recording is to be lost (chosen)."""

LONGEST_HELD: Samples = samples_from_s(10)
"""So much may wait while the model reads its prompt, or where the network held it up: what the user said is not lost
(chosen; a model that is slower than its author's machine reads for longer than people wait)."""


@dataclass(slots=True)
class Dropped:
    """Samples that the model never heard: `silent` ones, and those that were too `old`."""

    silent: Samples = 0
    old: Samples = 0


@dataclass(frozen=True, slots=True)
class _Frame:
    """A frame that begins at `start` of the input. `kept`: it is not left out as silence."""

    pcm: bytes
    start: Samples
    voiced: bool
    own_voice: bool
    kept: bool


class FrameQueue:
    """One session's. `frame`: the model's."""

    def __init__(self, frame: Samples) -> None:
        self.dropped = Dropped()
        self._frame = frame
        self._frames: deque[_Frame] = deque()
        self._rest = bytearray()
        self._voiced = False
        self._own_voice = False
        self._cut_until: Samples = 0  # of all input
        self._padded: Samples = 0  # silence that was given since
        self._longest = LONGEST_BACKLOG
        self._held = False
        self.gave_voice = False
        """Whether a frame with a voice in it has been taken."""
        self.gave_own_voice = False
        """Whether in the frame that was taken last the agent's own voice is heard, and no other."""

    @property
    def waiting(self) -> Samples:
        """How much audio waits in whole frames."""
        return len(self._frames) * self._frame

    @property
    def behind(self) -> Samples:
        """How much of the input the model has not come to, what was left out included.

        Negative: it has heard so much silence beyond all input.
        """
        return self._cut_until - self._frames[0].start if self._frames else -self._padded

    def put(self, pcm: bytes, *, voiced: bool, own_voice: bool = False, pace: Pace = Pace.LIVE) -> None:
        """Add audio. `voiced`: the VAD heard a voice in it; `own_voice`: the agent's, and no other.

        Of a recording nothing is left out. What comes live behind one, or late, loses its silence alone and waits as
        long as it must.
        """
        self._rest += pcm
        self._padded = 0
        self._own_voice = own_voice or (self._own_voice and not voiced)
        self._voiced = self._voiced or voiced
        size = bytes_from_samples(self._frame)
        while len(self._rest) >= size:
            kept = self._voiced or pace is Pace.RECORDED
            self._frames.append(
                _Frame(bytes(self._rest[:size]), self._cut_until, self._voiced, self._voiced and self._own_voice, kept)
            )
            self._cut_until += self._frame
            del self._rest[:size]
            self._voiced = voiced and bool(self._rest)
        if pace is Pace.RECORDED:
            self._longest = LONGEST_BURST
        else:
            self._longest = max(self._longest, LONGEST_HELD if pace is Pace.LATE else 0)
            self._skip_silence()
        while self.waiting > self._longest:
            self._frames.popleft()
            self.dropped.old += self._frame

    def _skip_silence(self) -> None:
        enough = SKIP_HELD_SILENCE_FROM if self._held else SKIP_SILENCE_FROM
        if self.waiting < enough:
            return
        kept: deque[_Frame] = deque()
        left_out = 0
        for frame in self._frames:
            if not frame.kept and self.waiting - left_out * self._frame >= enough:
                left_out += 1
            else:
                kept.append(frame)
        self._frames = kept
        self.dropped.silent += left_out * self._frame

    def hold(self) -> None:
        """Nobody takes frames for a while, until one is taken again: more may wait."""
        self._longest, self._held = max(LONGEST_HELD, self._longest), True

    def take(self) -> bytes | None:
        """Return the oldest frame, None if there is no whole one."""
        self._longest = max(LONGEST_BACKLOG, min(self._longest, self.waiting))  # what waits is not too old now: not yet
        self._held = self._held and self._longest > LONGEST_BACKLOG
        if not self._frames:
            return None
        frame = self._frames.popleft()
        self.gave_voice = self.gave_voice or frame.voiced
        self.gave_own_voice = frame.own_voice
        return frame.pcm

    def take_padded(self) -> bytes:
        """Return the oldest frame, or what there is of one, filled up with silence: the client has sent too little."""
        frame = self.take()
        if frame is not None:
            return frame
        self.gave_voice = self.gave_voice or self._voiced
        self.gave_own_voice = False
        rest, self._rest, self._voiced = bytes(self._rest), bytearray(), False
        left = self._frame - samples_from_bytes(len(rest))
        self._cut_until += self._frame - left
        self._padded += left
        return rest + bytes(bytes_from_samples(left))

    def clear(self) -> None:
        """Drop all that waits."""
        self._frames.clear()
        self._cut_until += samples_from_bytes(len(self._rest))
        self._rest.clear()
        self._voiced = False
