"""The stretch of user audio that a session may still need, addressed by position on the input clock."""

from __future__ import annotations

from protocol.audio_time import Samples, bytes_from_samples, samples_from_bytes, samples_from_s

_TRIM_STEP: Samples = samples_from_s(2)
"""Audio is dropped from the front in steps of this size: moving bytes 50 times a second costs more than it frees."""


class InputAudio:
    """PCM16 at 24 kHz from some position up to the newest sample."""

    def __init__(self) -> None:
        self._pcm = bytearray()
        self._start: Samples = 0

    @property
    def end(self) -> Samples:
        """The position after the newest sample."""
        return self._start + samples_from_bytes(len(self._pcm))

    def append(self, pcm: bytes) -> None:
        """Add audio at the end."""
        self._pcm += pcm

    def between(self, start: Samples, end: Samples) -> bytes:
        """Return the audio [start, end), as far as it is still here."""
        first = bytes_from_samples(max(0, start - self._start))
        return bytes(self._pcm[first : bytes_from_samples(max(0, end - self._start))])

    def forget_before(self, position: Samples) -> None:
        """Allow audio before `position` to be dropped."""
        surplus = position - self._start
        if surplus >= _TRIM_STEP:
            del self._pcm[: bytes_from_samples(surplus)]
            self._start = position
