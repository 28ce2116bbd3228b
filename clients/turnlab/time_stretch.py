"""Makes a word longer without changing its pitch, as speakers do before they pause."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_WINDOW = 720
_HOP = _WINDOW // 2
"""Overlapping windows of 30 ms at 24 kHz: two periods of a low voice."""

_SEARCH = 240
"""How far (10 ms, one period of a low voice) a window may move to continue the wave before it."""


def stretched(audio: NDArray[np.float64], factor: float) -> NDArray[np.float64]:
    """Return `audio` (24 kHz) `factor` times as long (≥ 1), by WSOLA: windows move to where they fit each other."""
    length = round(audio.size * factor)
    if length <= audio.size or audio.size < _WINDOW + _SEARCH:
        return audio
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(_WINDOW) / _WINDOW)
    output, weight = np.zeros(length + _WINDOW), np.zeros(length + _WINDOW)
    padded = np.concatenate((audio, np.zeros(_WINDOW + _SEARCH)))
    taken = 0
    for at in range(0, length, _HOP):
        wanted = min(round(at / factor), audio.size - 1)
        if at:
            natural = padded[taken + _HOP : taken + _HOP + _WINDOW]
            taken = _most_alike(padded, wanted, natural)
        output[at : at + _WINDOW] += window * padded[taken : taken + _WINDOW]
        weight[at : at + _WINDOW] += window
    result: NDArray[np.float64] = output[:length] / np.maximum(weight[:length], 1e-3)
    return result


def _most_alike(audio: NDArray[np.float64], wanted: int, natural: NDArray[np.float64]) -> int:
    first = max(0, wanted - _SEARCH)
    region = audio[first : wanted + _SEARCH + natural.size]
    likeness = np.correlate(region, natural, "valid")
    return first + int(np.argmax(likeness))
