"""Sounds that people make and rooms have, at 24 kHz, as samples from a fixed seed (turn-taking.md §5.2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

RATE_HZ = 24_000

Sound = NDArray[np.float64]
"""Samples within ±32767."""


def at_level(sound: Sound, dbfs: float) -> Sound:
    """Return `sound` with its loudest tenth at `dbfs` RMS."""
    loud = np.sort(np.abs(sound))[-len(sound) // 10 :]
    return sound * (32768 * 10 ** (dbfs / 20) / np.sqrt(np.mean(loud**2)))


def cough(seed: int) -> Sound:
    """Return a burst of breath, its tail, and a voiced end."""
    rng = np.random.default_rng(seed)
    burst = rng.standard_normal(RATE_HZ // 20) * 0.5
    count = int((0.15 + 0.1 * rng.random()) * RATE_HZ)
    tail = rng.standard_normal(count) * 0.3 * np.exp(-3 * np.arange(count) / count)
    length = RATE_HZ // 10
    phase = np.cumsum(2 * np.pi * (140 - 30 * np.arange(length) / length) / RATE_HZ)
    voice = sum((np.sin(phase * n) / n for n in range(1, 12)), np.zeros(length)) * 0.2 * np.hanning(length)
    return np.convolve(np.concatenate([burst, tail, voice]), np.ones(4) / 4, "same")


def door_slam(seed: int) -> Sound:
    """Return a low thump with a little noise that dies away."""
    rng = np.random.default_rng(seed)
    t = np.arange(int(0.3 * RATE_HZ)) / RATE_HZ
    thump = np.sin(2 * np.pi * 80 * t) + 0.5 * np.sin(2 * np.pi * 150 * t) + 0.2 * rng.standard_normal(t.size)
    return thump * np.exp(-15 * t)


def hummed_mm_hm(pitch_hz: float) -> Sound:
    """Return two nasal hums with a breath between them, the second one rising: no synthesiser says "mm-hm"."""
    rng = np.random.default_rng(0)
    parts = [_hum(0.15, pitch_hz, pitch_hz * 0.875, rng), rng.normal(0, 0.03, int(0.06 * RATE_HZ))]
    return np.concatenate([*parts, _hum(0.22, pitch_hz * 1.08, pitch_hz * 1.25, rng)])


def _hum(length_s: float, from_hz: float, to_hz: float, rng: np.random.Generator) -> Sound:
    count = int(length_s * RATE_HZ)
    pitch = np.linspace(from_hz, to_hz, count)
    phase = np.cumsum(2 * np.pi * pitch / RATE_HZ)
    sound = np.zeros(count)
    for harmonic in range(1, 40):
        at_hz = harmonic * pitch.mean()
        formants = np.exp(-(((at_hz - 250) / 150) ** 2)) + 0.12 * np.exp(-(((at_hz - 1100) / 250) ** 2))
        gain = formants + 0.08 * np.exp(-(((at_hz - 2200) / 350) ** 2)) + 0.01
        sound += gain * np.sin(harmonic * phase + rng.random())
    edge = np.minimum(np.arange(count), np.arange(count)[::-1]) / (0.03 * RATE_HZ)
    return sound * np.minimum(1, edge)
