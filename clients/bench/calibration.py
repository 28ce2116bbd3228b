"""How fast this machine is right now: a fixed piece of work, timed beside each measurement."""

from __future__ import annotations

import os
import time

import numpy as np

ROUNDS = 8
TOLERANCE = 1.5
"""A run whose calibration took longer than this times the best one is measured again."""

_LOOPS = 200_000
_SIZE = 256


def calibrate() -> float:
    """Return the ms that a fixed mix of Python and float32 matrix work takes (median of `ROUNDS`)."""
    matrix = np.random.default_rng(1).standard_normal((_SIZE, _SIZE)).astype(np.float32)
    times_ms = []
    for _ in range(ROUNDS):
        begin_s = time.perf_counter()
        total = 0
        for number in range(_LOOPS):
            total += number & 7
        for _ in range(4):
            matrix = np.tanh(matrix @ matrix)
        times_ms.append((time.perf_counter() - begin_s) * 1000)
    return sorted(times_ms)[ROUNDS // 2]


def load_average() -> float:
    """Return the load of the last minute; 0 where the system doesn't tell."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
