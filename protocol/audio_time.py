"""The session's time: integer samples at 24 kHz, and the only place where they become milliseconds, seconds or bytes.

24 kHz is the rate of the Realtime API's `audio/pcm` format. At that rate 10 ms is 240 samples, Silero's 32 ms
frame is 768 and an 80 ms frame of a duplex model is 1920, all of them exact.
"""

from __future__ import annotations

SESSION_RATE_HZ = 24_000
"""Sample rate of a session (Realtime GA: `audio/pcm` accepts 24000 only)."""

BYTES_PER_SAMPLE = 2
"""PCM16, mono."""

SAMPLES_PER_MS = SESSION_RATE_HZ // 1000

Samples = int
"""A position or a duration in samples at `SESSION_RATE_HZ`. Positions on the input clock count the samples received;
positions on the gateway clock count the time since the session began."""


def samples_from_ms(duration_ms: int) -> Samples:
    """Return the samples in `duration_ms` whole milliseconds."""
    return duration_ms * SAMPLES_PER_MS


def samples_from_s(duration_s: float) -> Samples:
    """Return the samples in `duration_s` seconds, rounded down."""
    return int(duration_s * SESSION_RATE_HZ)


def ms_from_samples(samples: Samples) -> int:
    """Return whole milliseconds, rounded down: times on the wire are integers and never claim unheard audio."""
    return samples // SAMPLES_PER_MS


def s_from_samples(samples: Samples) -> float:
    """Return seconds."""
    return samples / SESSION_RATE_HZ


def samples_from_bytes(length_bytes: int) -> Samples:
    """Return the whole PCM16 samples in `length_bytes`."""
    return length_bytes // BYTES_PER_SAMPLE


def bytes_from_samples(samples: Samples) -> int:
    """Return the bytes that `samples` PCM16 samples take."""
    return samples * BYTES_PER_SAMPLE
