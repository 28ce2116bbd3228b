"""How loud a stretch of audio is."""

from __future__ import annotations

from math import sqrt

import numpy as np

_FULL_SCALE = 32_768.0


def rms_level(pcm: bytes) -> float:
    """Return the RMS level of PCM16 audio, 0…1 of full scale; 0 for none."""
    samples = np.frombuffer(pcm, "<i2").astype(np.float32)
    return sqrt(float(samples @ samples) / samples.size) / _FULL_SCALE if samples.size else 0.0
