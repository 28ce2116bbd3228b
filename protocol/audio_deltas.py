"""The audio of one output item on its way out: in the client's format, in deltas of whole samples."""

from __future__ import annotations

from protocol.audio_format import G711, AudioFormat
from protocol.audio_time import Samples, samples_from_bytes

_DELTA_MS = 200
"""Most audio in one delta (chosen): small enough to stop at once, far below 1 MiB."""


class AudioDeltas:
    """Cuts an item's audio into deltas: pairs of bytes on the wire and the session's samples that they stand for.

    The samples of all deltas add up to those given, to the sample, once the item is flushed; an encoder's look-ahead
    counts with the last delta before it.
    """

    def __init__(self, audio_format: AudioFormat, g711: G711) -> None:
        self._format = audio_format
        self._encoder = None if audio_format is AudioFormat.PCM else g711.encoder(audio_format)
        self._limit_bytes = audio_format.rate_hz * audio_format.bytes_per_sample * _DELTA_MS // 1000
        self._uncounted: Samples = 0

    def feed(self, pcm: bytes) -> list[tuple[bytes, Samples]]:
        """Return the deltas that `pcm` (whole samples) completes."""
        self._uncounted += samples_from_bytes(len(pcm))
        return self._cut(pcm if self._encoder is None else self._encoder.feed(pcm))

    def flush(self) -> list[tuple[bytes, Samples]]:
        """Return the item's last deltas."""
        return [] if self._encoder is None else self._cut(self._encoder.flush())

    def _cut(self, audio: bytes) -> list[tuple[bytes, Samples]]:
        deltas = []
        for at in range(0, len(audio), self._limit_bytes):
            piece = audio[at : at + self._limit_bytes]
            last = at + len(piece) == len(audio)
            samples = self._uncounted if last else self._format.samples_in(len(piece))
            self._uncounted -= samples
            deltas.append((piece, samples))
        return deltas
