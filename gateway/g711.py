"""G.711 (µ-law and A-law, 8 kHz) to the session's PCM16 at 24 kHz and back, for streams in any chunks.

The codes come from tables that follow ITU-T G.711. The standard library's `audioop` computes the same, but it left
Python with 3.13.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from models.telephone_band import TelephoneDownsampler, TelephoneUpsampler
from protocol.audio_format import AudioFormat

_SLICE_BYTES = 2**16
"""Most of an append that is converted at once: 8 s. Ten megabytes of it would take a gigabyte of working memory."""

_ULAW_BIAS = 132
_ULAW_CLIP = 32_635
_ALAW_MASK = 0x55


class G711Codec:
    """The gateway's `protocol.audio_format.G711`."""

    def decoder(self, audio_format: AudioFormat) -> G711Decoder:
        """Return a decoder of one stream of `audio_format`, which is no PCM."""
        return G711Decoder(audio_format)

    def encoder(self, audio_format: AudioFormat) -> G711Encoder:
        """Return an encoder of one stream of `audio_format`, which is no PCM."""
        return G711Encoder(audio_format)


class G711Decoder:
    """One stream of user audio. Content is 2.75 ms late, for the sake of an exact count."""

    def __init__(self, audio_format: AudioFormat) -> None:
        self._samples = decoding_table(audio_format)
        self._upsampler = TelephoneUpsampler()

    def feed(self, audio: bytes) -> bytes:
        """Return exactly three samples of PCM16 at 24 kHz for each byte."""
        codes = np.frombuffer(audio, np.uint8)
        slices = [codes[at : at + _SLICE_BYTES] for at in range(0, codes.size, _SLICE_BYTES)]
        return b"".join(self._upsampler.feed(self._samples[part]).tobytes() for part in slices)


class G711Encoder:
    """One stream of the agent's audio. A byte leaves once 2.75 ms more of audio than its own are in."""

    def __init__(self, audio_format: AudioFormat) -> None:
        self._codes = encoding_table(audio_format)
        self._downsampler = TelephoneDownsampler()

    def feed(self, pcm: bytes) -> bytes:
        """Return the bytes that `pcm` (PCM16, 24 kHz, whole samples) completes."""
        return self._coded(self._downsampler.feed(np.frombuffer(pcm, "<i2")))

    def flush(self) -> bytes:
        """Return the stream's last bytes: with them it has one for every three samples, rounded up."""
        return self._coded(self._downsampler.flush())

    def _coded(self, samples: NDArray[np.int16]) -> bytes:
        return self._codes[samples.view(np.uint16)].tobytes()


@cache
def decoding_table(audio_format: AudioFormat) -> NDArray[np.int16]:
    """Return the PCM16 sample of each of the 256 codes (int16 [256])."""
    codes = np.arange(256, dtype=np.int32)
    if audio_format is AudioFormat.PCMU:
        codes ^= 0xFF
        segment, step = (codes >> 4) & 7, codes & 15
        magnitude = (((step << 3) + _ULAW_BIAS) << segment) - _ULAW_BIAS
        negative = codes & 0x80 != 0
    else:
        codes ^= _ALAW_MASK
        segment, step = (codes >> 4) & 7, codes & 15
        magnitude = np.where(segment == 0, (step << 4) + 8, ((step << 4) + 264) << np.maximum(segment - 1, 0))
        negative = codes & 0x80 == 0
    return np.where(negative, -magnitude, magnitude).astype(np.int16)


@cache
def encoding_table(audio_format: AudioFormat) -> NDArray[np.uint8]:
    """Return the code of each PCM16 sample, by its bits as an unsigned number (uint8 [65536])."""
    samples = np.arange(2**16, dtype=np.uint16).view(np.int16).astype(np.int32)
    if audio_format is AudioFormat.PCMU:
        magnitude = np.minimum(np.abs(samples), _ULAW_CLIP) + _ULAW_BIAS
        segment = _highest_bit(magnitude) - 7
        codes = (segment << 4) | ((magnitude >> (segment + 3)) & 15)
        codes = np.where(samples < 0, codes | 0x80, codes) ^ 0xFF
    else:
        magnitude = np.where(samples < 0, ~samples, samples) >> 4
        segment = np.maximum(_highest_bit(np.maximum(magnitude, 1)) - 3, 0)
        codes = (segment << 4) | ((magnitude >> np.maximum(segment - 1, 0)) & 15)
        codes = np.where(samples < 0, codes, codes | 0x80) ^ _ALAW_MASK
    return codes.astype(np.uint8)


def _highest_bit(numbers: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the position of the highest bit that is set in each of `numbers`, which are above 0."""
    return np.frexp(numbers.astype(np.float64))[1] - 1
