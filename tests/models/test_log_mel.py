import math

import numpy as np
import pytest
from numpy.typing import NDArray

from models.log_mel import BANDS, HOP_SAMPLES, WINDOW_SAMPLES, log_mel

RATE_HZ = 16_000


def mel_from_hz(frequency_hz: float) -> float:
    """Slaney's scale as its author wrote it: linear below 1 kHz, 27 steps to a factor of 6.4 above."""
    if frequency_hz < 1000.0:
        return 3.0 * frequency_hz / 200.0
    return 15.0 + 27.0 * math.log(frequency_hz / 1000.0) / math.log(6.4)


def hz_from_mel(mel: float) -> float:
    return 200.0 * mel / 3.0 if mel < 15.0 else 1000.0 * math.exp((mel - 15.0) * math.log(6.4) / 27.0)


def slow_log_mel(audio: NDArray[np.float32]) -> NDArray[np.float64]:
    """Whisper's features straight from the definition: a plain Fourier sum for each frame, a loop over the bands."""
    half = WINDOW_SAMPLES // 2
    padded = np.concatenate((audio[half:0:-1], audio, audio[-2 : -half - 2 : -1])).astype(np.float64)
    times = np.arange(WINDOW_SAMPLES)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * times / WINDOW_SAMPLES)
    kernel = np.exp(-2j * np.pi * np.outer(np.arange(half + 1), times) / WINDOW_SAMPLES)
    top = mel_from_hz(RATE_HZ / 2)
    corners = [hz_from_mel(top * index / (BANDS + 1)) for index in range(BANDS + 2)]
    levels = np.empty((BANDS, audio.size // HOP_SAMPLES))
    for frame in range(levels.shape[1]):
        start = frame * HOP_SAMPLES
        power = np.abs(kernel @ (window * padded[start : start + WINDOW_SAMPLES])) ** 2
        for band in range(BANDS):
            low, middle, high = corners[band : band + 3]
            energy = 0.0
            for index in range(half + 1):
                frequency_hz = index * RATE_HZ / WINDOW_SAMPLES
                rise, fall = (frequency_hz - low) / (middle - low), (high - frequency_hz) / (high - middle)
                energy += max(0.0, min(rise, fall)) * 2.0 / (high - low) * power[index]
            levels[band, frame] = math.log10(max(1e-10, energy))
    return (np.maximum(levels, levels.max() - 8.0) + 4.0) / 4.0


def test_the_features_are_those_of_the_definition() -> None:
    noise = np.random.default_rng(7)
    tone = np.sin(2 * np.pi * 440.0 * np.arange(4_000) / RATE_HZ)
    audio = np.concatenate((np.zeros(1_200), tone * 0.3, noise.normal(0.0, 0.05, 2_810))).astype(np.float32)
    found = log_mel(audio)
    assert found.shape == (BANDS, audio.size // HOP_SAMPLES)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, slow_log_mel(audio), atol=2e-4)


@pytest.mark.parametrize("frequency_hz", [200.0, 1_000.0, 3_000.0, 7_000.0])
def test_a_tone_is_loudest_in_its_own_band(frequency_hz: float) -> None:
    tone = np.sin(2 * np.pi * frequency_hz * np.arange(RATE_HZ) / RATE_HZ).astype(np.float32)
    loudest = int(log_mel(tone)[:, 50].argmax())
    corners = [hz_from_mel(mel_from_hz(RATE_HZ / 2) * index / (BANDS + 1)) for index in range(BANDS + 2)]
    assert corners[loudest] - 20.0 <= frequency_hz <= corners[loudest + 2] + 20.0


def test_eight_seconds_are_800_frames_and_silence_is_finite() -> None:
    found = log_mel(np.zeros(8 * RATE_HZ, np.float32))
    assert found.shape == (80, 800)
    assert np.isfinite(found).all()
