"""Turns the bytes that clients append into the session's samples."""

from __future__ import annotations

import binascii

from protocol import errors
from protocol.audio_format import G711, AudioFormat, G711Decoder
from protocol.audio_time import BYTES_PER_SAMPLE

_EXTENSIBLE = 0xFFFE
_SUBFORMAT_AT = 24
_RIFF_BYTES = 12
_CHUNK_HEADER_BYTES = 8


def decoded_base64(audio: str, param: str) -> bytes:
    """Return the bytes that a client wrote in base64 at `param`. Raises ProtocolError unless it is standard base64."""
    try:
        return binascii.a2b_base64(audio, strict_mode=True)
    except ValueError:  # binascii.Error, or characters outside ASCII
        raise errors.bad_base64(param) from None


class InputPcm:
    """One session's input in the format of the moment: `audio/pcm` at first.

    Joins samples that were split across two appends (RB-10), decodes G.711, takes off WAV headers (RB-11).
    """

    def __init__(self, g711: G711) -> None:
        self._g711 = g711
        self._format = AudioFormat.PCM
        self._decoder: G711Decoder | None = None
        self._odd_byte = b""

    def append(self, audio: bytes) -> bytes:
        """Return the whole samples that `audio` completes. Raises ProtocolError for a WAV of another format."""
        if audio[:4] == b"RIFF" and audio[8:12] == b"WAVE":
            audio = without_wav_header(audio, self._format)
            self.drop_odd_byte()
        if self._decoder is not None:
            return self._decoder.feed(audio)
        audio = self._odd_byte + audio
        whole_bytes = len(audio) - len(audio) % BYTES_PER_SAMPLE
        self._odd_byte = audio[whole_bytes:]
        return audio[:whole_bytes]

    def drop_odd_byte(self) -> None:
        """Forget half a sample: it must not shift what comes after a commit. What a decoder holds goes on sounding."""
        self._odd_byte = b""

    def restart(self) -> None:
        """Forget all that came before: nothing of cleared audio sounds in what comes after it."""
        self._odd_byte = b""
        self._decoder = None if self._format is AudioFormat.PCM else self._g711.decoder(self._format)

    def switch(self, audio_format: AudioFormat) -> None:
        """Take what comes in `audio_format`; naming the format that holds already changes nothing."""
        if audio_format is not self._format:
            self._format = audio_format
            self.restart()


def without_wav_header(audio: bytes, expected: AudioFormat) -> bytes:
    """Return the bytes of the `data` chunk of `audio`, which begins with a RIFF/WAVE header.

    Sizes that streaming encoders leave at 0 or at the maximum mean "until the end". Raises ProtocolError when the
    header tells of anything but mono of the `expected` format.
    """
    at = _RIFF_BYTES
    while at + _CHUNK_HEADER_BYTES <= len(audio):
        name, size_bytes = audio[at : at + 4], int.from_bytes(audio[at + 4 : at + 8], "little")
        at += _CHUNK_HEADER_BYTES
        if name == b"data":
            return audio[at : at + size_bytes] if size_bytes else audio[at:]
        if name == b"fmt ":
            _check_format(audio[at : at + size_bytes], expected)
        at += size_bytes + size_bytes % 2  # RIFF pads chunks to even lengths
    raise errors.wav_of_another_format(expected, "nothing of audio data")


def _check_format(header: bytes, expected: AudioFormat) -> None:
    coding, channels, rate_hz = (int.from_bytes(header[a:b], "little") for a, b in ((0, 2), (2, 4), (4, 8)))
    bits = int.from_bytes(header[14:16], "little")
    if coding == _EXTENSIBLE:  # the coding is the first field of the sub-format; a header cut short means PCM
        coding = int.from_bytes(header[_SUBFORMAT_AT : _SUBFORMAT_AT + 2], "little") or AudioFormat.PCM.wav_coding
    wanted = (expected.wav_coding, 1, expected.rate_hz, 8 * expected.bytes_per_sample)
    if (coding, channels, rate_hz, bits) != wanted:
        found = f"{rate_hz} Hz, {channels} channels, {bits} bits, coding {coding}"
        raise errors.wav_of_another_format(expected, found)
