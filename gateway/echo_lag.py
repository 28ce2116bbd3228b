"""How late does the agent's voice come back? The lag at which the audio sent resembles the input most.

The resemblance is measured in bands of the spectrum, each against its own energy, and averaged: two strangers' vowels
can look alike in one band, but only an echo does in all. Within a band the energy of the correlation is collected over
as long as a room smears a sound.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.interfaces import VAD_FRAME_SAMPLES
from protocol.audio_time import SESSION_RATE_HZ, Samples, samples_from_ms

WINDOW: Samples = 15 * VAD_FRAME_SAMPLES
"""Input in which the lag is sought: 480 ms (chosen: the first echo must be known within half a second)."""

SENT_SPAN: Samples = 49_152
"""Sent audio in which the lag is sought: 2.05 s, a quick length for FFTs."""

EARLIEST: Samples = -samples_from_ms(200)
"""The earliest lag. The client may play 150 ms before our estimate, which adds a playout delay of that length."""

_DECIMATION = 3
_BANDS = 8
_BAND_HZ = 450
_LOWEST_HZ = 200
"""Bands of 450 Hz from 200 to 3800 Hz."""

_POINTS = 1024
"""Points of a band's envelope over the whole span: one per 2 ms."""

_STEP: Samples = SENT_SPAN // _POINTS

_SMEAR_POINTS = 12
"""24 ms, in which a room with a reverberation time of 0.4 s delivers more than half of a sound's energy."""

_QUIET = 0.2
"""Share of the loudest stretch's energy that is added to every stretch: next to silence everything is alike (chosen
from 0.01, 0.05 and 0.2 for the fewest false lags, 2026-11-29)."""


_CONTRAST = 3.0
"""An echo is so much more alike at its own lag than at the usual one (of 99 % of echoes: 7 times or more; chosen). A
tone is alike at all, and so tells nothing."""


def likeliest_lag(heard: NDArray[np.int16], sent: NDArray[np.int16]) -> tuple[Samples, float]:
    """Return the lag at which `sent` resembles `heard` most, and the likeness.

    That is 0.1 to 0.3 by chance, up to 1 for an echo, 0 for tones. `heard` is the last `WINDOW` samples of the input,
    `sent` the `SENT_SPAN` samples of the agent's audio that play up to `-EARLIEST` after the input's end. The lag is
    exact to 1 ms.
    """
    bands = _bands(heard, sent)
    window_points = len(heard) // _STEP
    lags = _POINTS - window_points
    product = _energy(np.fft.ifft(np.conj(bands[0]) * bands[1], axis=1))[:, :lags]
    sent_energy = _running_sum(_energy(np.fft.ifft(bands[1], axis=1)), window_points)[:, :lags]
    heard_energy = _energy(bands[0]).sum(axis=1, keepdims=True) / _POINTS
    norm = heard_energy * (sent_energy + _QUIET * sent_energy.max(axis=1, keepdims=True)) + 1.0
    width_hz = SESSION_RATE_HZ / _STEP
    likeness = (product / norm).mean(axis=0) * (_BAND_HZ / width_hz)
    collected = _running_sum(likeness, _SMEAR_POINTS)
    best = int(collected.argmax())
    played = sent_energy.sum(axis=0)[: len(collected)]
    usual = float(np.median(collected[played >= _QUIET * played.max()]))
    if collected[best] < _CONTRAST * usual:
        return 0, 0.0
    onset = best + int(likeness[best : best + _SMEAR_POINTS].argmax())
    return SENT_SPAN + EARLIEST - len(heard) - onset * _STEP, float(collected[best])


def _bands(heard: NDArray[np.int16], sent: NDArray[np.int16]) -> NDArray[np.complex64]:
    """Return the spectra of both (complex [2, bands, points]), each band moved down to 0 Hz."""
    both = np.zeros((2, SENT_SPAN // _DECIMATION), np.float32)
    both[0, : len(heard) // _DECIMATION] = _at_8khz(heard)
    both[1] = _at_8khz(sent)
    spectra = np.fft.rfft(both, axis=1)
    bin_hz = SESSION_RATE_HZ / SENT_SPAN
    first, width = round(_LOWEST_HZ / bin_hz), round(_BAND_HZ / bin_hz)
    bands = np.zeros((2, _BANDS, _POINTS), np.complex64)
    bands[:, :, :width] = spectra[:, first : first + _BANDS * width].reshape(2, _BANDS, width)
    return bands


def _at_8khz(samples: NDArray[np.int16]) -> NDArray[np.float32]:
    """Return every third sum of six neighbours: what aliases from above 4 kHz is at least 13 dB down."""
    triples: NDArray[np.float32] = samples.reshape(-1, _DECIMATION).sum(axis=1, dtype=np.float32)
    triples[1:] += triples[:-1].copy()
    return triples


def _energy(values: NDArray[Any]) -> NDArray[np.float64]:
    energy: NDArray[np.float64] = np.abs(values).astype(np.float64) ** 2
    return energy


def _running_sum(values: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """Return the sums of `width` neighbours along the last axis, by the position of their first."""
    summed = np.cumsum(np.concatenate((np.zeros((*values.shape[:-1], 1)), values), axis=-1), axis=-1)
    sums: NDArray[np.float64] = summed[..., width:] - summed[..., :-width]
    return sums
