"""Sample-rate and sample-format conversion between the engines and the border rate of 24 kHz PCM16.

Two kinds, for two needs. The VAD decides turns, so its 24 → 16 kHz path must not depend on how audio was cut into
chunks and must not shift time: `SpeechDownsampler` is ours, stateful and exact. Everything else is converted once,
whole, with soxr.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

BORDER_RATE_HZ = 24_000
"""Rate of the PCM16 that crosses the border of `models` (the Realtime API's)."""

SPEECH_RATE_HZ = 16_000
"""Rate that Silero, Moonshine and Smart Turn are trained on."""

LOOKAHEAD_SAMPLES = 35
"""24 kHz samples past a block's end that its last output needs (1.5 ms); follows from `_HALF_TAPS`."""

_HALF_TAPS = 72
"""Taps on each side of the centre, at 48 kHz. With `_KAISER_BETA` the stopband (≥ 8 kHz) lies below −70 dB."""

_CUTOFF_HZ = 7_250.0
"""−6 dB point: midway between the passband edge 6.5 kHz and the new Nyquist rate 8 kHz."""

_KAISER_BETA = 6.76
"""Kaiser's formula, 0.1102 (A − 8.7), for a stopband of A = 70 dB."""

_BLOCK_IN = 48
_BLOCK_OUT = 32
"""48 samples at 24 kHz become 32 at 16 kHz; 16 such blocks are one VAD frame."""

_COEFFICIENT_BITS = 20
"""Coefficients are integers of this scale. Products of 16 and 20 bits, summed over 119 taps, stay below 2⁵³, so float64
sums are exact in any order, and the output is the same to the bit whatever the chunking or the BLAS."""

_PAST = _HALF_TAPS // 2
_WINDOW = _PAST + _BLOCK_IN + LOOKAHEAD_SAMPLES
_SPAN = -(-_WINDOW // _BLOCK_IN)
"""Blocks of input, counted from the window's start, that one block of output draws on."""

_PCM_SCALE = 32_768.0


def _polyphase_matrix() -> NDArray[np.float64]:
    """Return the filter as float64 [48, 3 · 32] of integers: what a block of input adds to each of 3 blocks of output.

    As a filter it is [3 · 48, 32]: input row i is sample i − `_PAST` of a block, output n sits at input time 1.5 n.
    """
    taps = np.arange(-_HALF_TAPS, _HALF_TAPS + 1)
    prototype = np.sinc(2 * _CUTOFF_HZ / 48_000 * taps) * np.kaiser(taps.size, _KAISER_BETA)
    distance_48k = 3 * np.arange(_BLOCK_OUT)[None, :] - 2 * (np.arange(_SPAN * _BLOCK_IN)[:, None] - _PAST)
    inside = np.abs(distance_48k) <= _HALF_TAPS
    matrix = np.where(inside, prototype[np.clip(distance_48k + _HALF_TAPS, 0, taps.size - 1)], 0.0)
    matrix /= matrix.sum(axis=0)  # each phase passes DC with gain 1
    return np.hstack(np.split(np.round(matrix * 2**_COEFFICIENT_BITS), _SPAN))


_MATRIX = _polyphase_matrix()
_OUTPUT_SCALE = 1.0 / (2**_COEFFICIENT_BITS * _PCM_SCALE)


class SpeechDownsampler:
    """24 → 16 kHz for one stream: linear phase, delay taken off, bit-identical output for any chunking.

    Output sample n lies at input time 1.5 n. It is flat to 6.5 kHz (±0.1 dB). The output comes in blocks of 32 samples,
    each as soon as its 48 input samples and `LOOKAHEAD_SAMPLES` more are there.
    """

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer: NDArray[np.int16] = np.zeros(_PAST, np.int16)

    def feed(self, pcm: bytes) -> NDArray[np.float32]:
        """Return the output (float32 [samples], −1…1) that `pcm` (PCM16, whole samples, any number) completes."""
        buffer = np.concatenate((self._buffer, np.frombuffer(pcm, "<i2")))
        blocks = max(0, (buffer.size - _WINDOW) // _BLOCK_IN + 1)
        self._buffer = buffer[blocks * _BLOCK_IN :].copy()
        if blocks == 0:
            return np.empty(0, np.float32)
        padded = np.zeros((blocks + _SPAN - 1, _BLOCK_IN))  # beyond the window's end the filter is zero
        used = min(buffer.size, padded.size)
        padded.reshape(-1)[:used] = buffer[:used]
        shares = padded @ _MATRIX
        output = shares[:blocks, :_BLOCK_OUT].copy()
        for part in range(1, _SPAN):
            output += shares[part : part + blocks, part * _BLOCK_OUT : (part + 1) * _BLOCK_OUT]
        output *= _OUTPUT_SCALE
        speech: NDArray[np.float32] = output.astype(np.float32).reshape(-1)
        return speech


def to_float16k(pcm: bytes) -> NDArray[np.float32]:
    """Return a whole utterance (PCM16, 24 kHz) as float32 [samples], mono, −1…1, at 16 kHz."""
    import soxr

    samples = np.frombuffer(pcm, "<i2").astype(np.float32) / np.float32(_PCM_SCALE)
    if samples.size == 0:
        return samples
    return np.asarray(soxr.resample(samples, BORDER_RATE_HZ, SPEECH_RATE_HZ), np.float32)


def pcm24k_from_float(audio: NDArray[np.floating[Any]], rate_hz: int) -> bytes:
    """Return a whole piece of audio (float [samples], mono, −1…1, at `rate_hz`) as PCM16 at 24 kHz."""
    import soxr

    samples = np.asarray(audio, np.float32)
    if rate_hz != BORDER_RATE_HZ and samples.size:
        samples = np.asarray(soxr.resample(samples, rate_hz, BORDER_RATE_HZ), np.float32)
    return pcm_from_float(samples)


class PcmResampler:
    """One stream of float audio (mono, −1…1, at `rate_hz`) to PCM16 at 24 kHz, the same however it is cut."""

    def __init__(self, rate_hz: int) -> None:
        import soxr

        self._stream = None
        if rate_hz != BORDER_RATE_HZ:
            self._stream = soxr.ResampleStream(rate_hz, BORDER_RATE_HZ, 1, dtype="float32")

    def feed(self, audio: NDArray[np.float32], *, last: bool = False) -> bytes:
        """Return the PCM that `audio` completes; with `last` all that is left, after which no more can come."""
        return pcm_from_float(audio if self._stream is None else self._stream.resample_chunk(audio, last=last))


def pcm_from_float(audio: NDArray[np.floating[Any]]) -> bytes:
    """Return float audio (−1…1) as PCM16; louder samples saturate instead of wrapping."""
    samples: NDArray[np.int16] = np.clip(np.rint(audio * _PCM_SCALE), -32_768, 32_767).astype("<i2")
    return samples.tobytes()
