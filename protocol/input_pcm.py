"""Turns the bytes that clients append into whole PCM16 samples."""

from __future__ import annotations

from protocol import errors
from protocol.audio_time import BYTES_PER_SAMPLE, SESSION_RATE_HZ

_PCM = 1
_EXTENSIBLE = 0xFFFE
_RIFF_BYTES = 12
_CHUNK_HEADER_BYTES = 8
_FORMAT_BYTES = 16


class InputPcm:
    """Joins samples that were split across two appends (RB-10) and takes off WAV headers (RB-11)."""

    def __init__(self) -> None:
        self._odd_byte = b""

    def append(self, audio: bytes) -> bytes:
        """Return the whole samples that `audio` completes. Raises ProtocolError for a WAV of another format."""
        if audio[:4] == b"RIFF" and audio[8:12] == b"WAVE":
            audio = without_wav_header(audio)
            self.drop_odd_byte()
        audio = self._odd_byte + audio
        whole_bytes = len(audio) - len(audio) % BYTES_PER_SAMPLE
        self._odd_byte = audio[whole_bytes:]
        return audio[:whole_bytes]

    def drop_odd_byte(self) -> None:
        """Forget half a sample: it must not shift what comes after a commit or a clear."""
        self._odd_byte = b""


def without_wav_header(audio: bytes) -> bytes:
    """Return the bytes of the `data` chunk of `audio`, which begins with a RIFF/WAVE header.

    Sizes that streaming encoders leave at 0 or at the maximum mean "until the end". Raises ProtocolError when the
    header tells of anything but PCM16, mono, 24 kHz.
    """
    at = _RIFF_BYTES
    while at + _CHUNK_HEADER_BYTES <= len(audio):
        name, size_bytes = audio[at : at + 4], int.from_bytes(audio[at + 4 : at + 8], "little")
        at += _CHUNK_HEADER_BYTES
        if name == b"data":
            return audio[at : at + size_bytes] if size_bytes else audio[at:]
        if name == b"fmt ":
            _check_format(audio[at : at + _FORMAT_BYTES])
        at += size_bytes + size_bytes % 2  # RIFF pads chunks to even lengths
    raise errors.not_raw_pcm("nothing of audio data")


def _check_format(header: bytes) -> None:
    coding, channels, rate_hz = (int.from_bytes(header[a:b], "little") for a, b in ((0, 2), (2, 4), (4, 8)))
    bits = int.from_bytes(header[14:16], "little")
    if coding not in (_PCM, _EXTENSIBLE) or (channels, rate_hz, bits) != (1, SESSION_RATE_HZ, 8 * BYTES_PER_SAMPLE):
        raise errors.not_raw_pcm(f"{rate_hz} Hz, {channels} channels, {bits} bits, coding {coding}")
