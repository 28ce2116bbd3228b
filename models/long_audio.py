"""Audio before a recogniser reads it: whether there is anything, and where audio that is too long is cut."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from models.resampling import SPEECH_RATE_HZ

MAX_PIECE_S = 30.0
"""Longest audio decoded at once: Whisper's window, and about what other models are trained on."""

SILENCE_PEAK = 4 / 32_768
"""Audio that never exceeds this (4 steps of 16 bits, −78 dBFS) is digital silence and is not decoded."""

_CUT_SEARCH_S = 10.0
_CUT_WINDOW_S = 0.1


def is_silent(audio: NDArray[np.float32]) -> bool:
    """Return whether `audio` (float32 [samples], −1…1) is digital silence, or nothing at all."""
    return audio.size == 0 or float(np.abs(audio).max()) <= SILENCE_PEAK


def split_at_quiet_points(
    audio: NDArray[np.float32], rate_hz: int = SPEECH_RATE_HZ, *, longest_s: float = MAX_PIECE_S
) -> list[NDArray[np.float32]]:
    """Return `audio` in pieces of at most `longest_s` (10 or more), each cut where its last 10 s are quietest."""
    longest = int(longest_s * rate_hz)
    search = int(_CUT_SEARCH_S * rate_hz)
    window = int(_CUT_WINDOW_S * rate_hz)
    pieces = []
    while audio.size > longest:
        tail = audio[longest - search : longest].reshape(-1, window)
        quietest = int((tail**2).sum(axis=1).argmin())
        cut = longest - search + quietest * window + window // 2
        pieces.append(audio[:cut])
        audio = audio[cut:]
    return [*pieces, audio]
