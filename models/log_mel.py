"""Log-mel features of Whisper's kind: 80 bands, 25 ms windows, a frame every 10 ms.

The definition is Whisper's (Radford et al. 2022) and its published feature extractor's: periodic Hann window, centred
frames with reflected edges, power spectrum, Slaney's mel scale and area-normalised triangles, log10 within 8 decades of
the loudest value, then shifted and scaled to about −1…1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from models.resampling import SPEECH_RATE_HZ

BANDS = 80
HOP_SAMPLES = 160
WINDOW_SAMPLES = 400

_DECADES = 8.0
_QUIETEST = 1e-10
_SHIFT = 4.0

_SLANEY_LINEAR_HZ = 200.0 / 3.0
"""Width of a mel below the break of Slaney's scale (Auditory Toolbox, 1998)."""

_SLANEY_BREAK_HZ = 1000.0
_SLANEY_LOG_STEP = np.log(6.4) / 27.0
"""Above the break, 27 mels span a factor of 6.4 in frequency."""


def _hz_from_mel(mel: NDArray[np.float64]) -> NDArray[np.float64]:
    break_mel = _SLANEY_BREAK_HZ / _SLANEY_LINEAR_HZ
    above = _SLANEY_BREAK_HZ * np.exp(_SLANEY_LOG_STEP * (mel - break_mel))
    return np.where(mel < break_mel, mel * _SLANEY_LINEAR_HZ, above)


def _filterbank() -> NDArray[np.float32]:
    """Return the triangles, float32 [201 frequencies, 80 bands], over 0…8 kHz."""
    nyquist_hz = SPEECH_RATE_HZ / 2
    highest_mel = _SLANEY_BREAK_HZ / _SLANEY_LINEAR_HZ + np.log(nyquist_hz / _SLANEY_BREAK_HZ) / _SLANEY_LOG_STEP
    corners_hz = _hz_from_mel(np.linspace(0.0, highest_mel, BANDS + 2))
    bins_hz = np.linspace(0.0, nyquist_hz, WINDOW_SAMPLES // 2 + 1)[:, None]
    widths_hz = np.diff(corners_hz)
    rising = (bins_hz - corners_hz[:-2]) / widths_hz[:-1]
    falling = (corners_hz[2:] - bins_hz) / widths_hz[1:]
    triangles = np.maximum(0.0, np.minimum(rising, falling))
    return (triangles * 2.0 / (corners_hz[2:] - corners_hz[:-2])).astype(np.float32)


_FILTERBANK = _filterbank()
_WINDOW = np.hanning(WINDOW_SAMPLES + 1)[:-1].astype(np.float32)


def log_mel(audio: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the features, float32 [80, samples // 160], of `audio` (float32 [samples], 16 kHz, more than 200)."""
    padded = np.pad(audio, WINDOW_SAMPLES // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, WINDOW_SAMPLES)[::HOP_SAMPLES]
    frames = frames[: audio.size // HOP_SAMPLES]  # Whisper drops the frame centred on the end
    spectrum = np.fft.rfft(frames * _WINDOW)
    power = (spectrum.real**2 + spectrum.imag**2).astype(np.float32, copy=False)
    levels = np.log10(np.maximum(power @ _FILTERBANK, _QUIETEST))
    levels = np.maximum(levels, levels.max() - _DECADES)
    scaled = ((levels + _SHIFT) / _SHIFT).astype(np.float32)
    return np.ascontiguousarray(scaled.T)
