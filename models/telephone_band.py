"""Sample-rate conversion between the telephone's 8 kHz and the border's 24 kHz, for streams in any chunks.

Both ways use one linear-phase filter: flat to 3.4 kHz, −6 dB at 3.8 kHz, below −69 dB from 4.2 kHz on (ITU-T G.712 asks
for less). soxr is not used: it delivers in bursts, and here the number of samples must follow from the number received.
The output is the same to the bit whatever the chunking, for the reason told in `models.resampling`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

TELEPHONE_RATE_HZ = 8_000
"""Rate of G.711."""

RATIO = 3
"""Samples at the border rate of 24 kHz for each sample at `TELEPHONE_RATE_HZ`."""

DELAY_SAMPLES = 66
"""The filter's delay at 24 kHz: 2.75 ms. With Kaiser's formula a stopband of −70 dB 400 Hz off the cutoff needs 65."""

_CUTOFF_HZ = 3_800.0
"""−6 dB point: midway between the band's edge of 3.4 kHz and 4.2 kHz."""

_KAISER_BETA = 6.76
"""Kaiser's formula, 0.1102 (A − 8.7), for a stopband of A = 70 dB."""

_COEFFICIENT_BITS = 20
"""Coefficients are integers of this scale: products of 16 and 20 bits, summed over 133 taps, stay below 2⁵³, so float64
sums are exact in any order."""

_TAPS = 2 * DELAY_SAMPLES + 1
_PHASE_TAPS = -(-_TAPS // RATIO)
_PAST = _PHASE_TAPS - 1


def _prototype() -> NDArray[np.float64]:
    """Return the filter as float64 [3 · 45] at 24 kHz, zeros behind its 133 taps."""
    at = np.arange(-DELAY_SAMPLES, DELAY_SAMPLES + 1)
    taps = np.sinc(2 * _CUTOFF_HZ / (RATIO * TELEPHONE_RATE_HZ) * at) * np.kaiser(_TAPS, _KAISER_BETA)
    return np.pad(taps, (0, RATIO * _PHASE_TAPS - _TAPS))


def _integers(taps: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return `taps` scaled to pass DC with gain 1, as integers of `_COEFFICIENT_BITS`."""
    scaled: NDArray[np.float64] = np.round(taps / taps.sum() * 2**_COEFFICIENT_BITS)
    return scaled


_UP = [_integers(_prototype()[phase::RATIO]) for phase in range(RATIO)]
_DOWN = [_integers(_prototype())[phase::RATIO] for phase in range(RATIO)]


def _to_int16(sums: NDArray[np.float64]) -> NDArray[np.int16]:
    samples: NDArray[np.int16] = np.clip(np.rint(sums / 2**_COEFFICIENT_BITS), -32_768, 32_767).astype("<i2")
    return samples


class TelephoneUpsampler:
    """8 → 24 kHz for one stream: at once exactly three samples for each sample, `DELAY_SAMPLES` late in content.

    The delay stays in: taking it off would make the number of samples lag behind what was received.
    """

    __slots__ = ("_past",)

    def __init__(self) -> None:
        self._past: NDArray[np.int16] = np.zeros(_PAST, np.int16)

    def feed(self, samples: NDArray[np.int16]) -> NDArray[np.int16]:
        """Return three times as many samples (int16 [samples]) as were given."""
        buffer = np.concatenate((self._past, samples))
        self._past = buffer[buffer.size - _PAST :].copy()
        output = np.empty((samples.size, RATIO))
        if samples.size:
            for phase, taps in enumerate(_UP):
                output[:, phase] = np.convolve(buffer, taps, "valid")
        return _to_int16(output).reshape(-1)


class TelephoneDownsampler:
    """24 → 8 kHz for one stream: output sample n lies at input sample 3 n, the delay is taken off.

    A sample comes out once `DELAY_SAMPLES` more than its own are in; `flush` gives those that still wait.
    """

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer: NDArray[np.int16] = np.zeros(DELAY_SAMPLES, np.int16)

    def feed(self, samples: NDArray[np.int16]) -> NDArray[np.int16]:
        """Return the samples (int16 [samples]) that `samples` complete."""
        buffer = np.concatenate((self._buffer, samples))
        count = max(0, (buffer.size - _TAPS) // RATIO + 1)
        self._buffer = buffer[count * RATIO :].copy()
        output = np.zeros(count)
        if count:
            padded = np.pad(buffer, (0, RATIO))  # the prototype's last taps are zeros, but they want samples
            for phase, taps in enumerate(_DOWN):
                output += np.correlate(padded[phase::RATIO][: count + _PAST], taps, "valid")
        return _to_int16(output)

    def flush(self) -> NDArray[np.int16]:
        """Return what is left of the stream, a third of its samples (rounded up) in all, and begin a new one."""
        rest = self.feed(np.zeros(DELAY_SAMPLES, np.int16))
        self._buffer = np.zeros(DELAY_SAMPLES, np.int16)
        return rest
