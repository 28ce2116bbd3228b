"""WAV files as the Realtime API wants audio: mono PCM16 at 24 kHz."""

from __future__ import annotations

import wave
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soxr
from numpy.typing import NDArray

RATE_HZ = 24_000
"""The Realtime API's PCM rate."""

BYTES_PER_MS = RATE_HZ * 2 // 1000

SPEECH_DROP_DB = 35.0
"""How far below the loudest frame a frame may lie and still count as speech (the rule of the project's load client)."""

_FRAME_MS = 10

BENCH_FOLDER = Path("tests/data/speech")
"""Where benches look for speech that they weren't given: the repository's clips, from its root."""

BENCH_CLIPS = ("librivox_0890", "cards_001", "librivox_0920", "librivox_0880", "librivox_0930")
"""Clips recorded in quiet rooms: here the ends of speech by level and by Silero lie within 160 ms of each other. In
`goforward` and `something` the room is loud, and level finds the end of speech 0.4 and 0.7 s late (2026-11-29)."""


class WavError(Exception):
    """A file is not a WAV that can be read. The text is one sentence for the user."""


@dataclass(frozen=True, slots=True)
class Clip:
    """Speech for the wire: `pcm` is mono PCM16 at `RATE_HZ`; speech fills samples `onset` up to `end` of it."""

    name: str
    pcm: bytes
    onset: int
    end: int

    @property
    def samples(self) -> int:
        """Return the length in samples."""
        return len(self.pcm) // 2

    def trimmed(self) -> Clip:
        """Return the clip without what lies before and after its speech."""
        return Clip(self.name, self.pcm[2 * self.onset : 2 * self.end], 0, self.end - self.onset)


def read_clip(path: Path) -> Clip:
    """Return the WAV at `path`, of any rate and number of channels, as mono PCM16 at `RATE_HZ`. Raises WavError."""
    audio, rate_hz = _read(path)
    if rate_hz != RATE_HZ:
        audio = soxr.resample(audio, rate_hz, RATE_HZ).astype(np.float32)
    samples = np.clip(np.round(audio * 32_768.0), -32_768, 32_767).astype("<i2")
    onset, end = speech_span(samples)
    return Clip(path.name, samples.tobytes(), onset, end)


def bench_clips(given: Sequence[Path]) -> list[Clip]:
    """Return the given files, or the repository's, trimmed to their speech. Raises WavError."""
    paths = given or [BENCH_FOLDER / f"{name}.wav" for name in BENCH_CLIPS]
    return [read_clip(path).trimmed() for path in paths]


def _read(path: Path) -> tuple[NDArray[np.float32], int]:
    """Return float32 samples, mono, −1…1, and their rate."""
    try:
        with wave.open(str(path), "rb") as file:
            width, channels, rate_hz = file.getsampwidth(), file.getnchannels(), file.getframerate()
            raw = file.readframes(file.getnframes())
    except FileNotFoundError as error:
        raise WavError(f"There is no file {path}: give the path of a WAV file.") from error
    except (wave.Error, EOFError, OSError) as error:
        raise WavError(f"{path} cannot be read as PCM WAV ({error}): convert it to 16-bit PCM first.") from error
    if not raw:
        raise WavError(f"{path} holds no audio.")
    raw = raw[: len(raw) // (width * channels) * width * channels]
    return _to_float(raw, width).reshape(-1, channels).mean(axis=1), rate_hz


def _to_float(raw: bytes, width: int) -> NDArray[np.float32]:
    if width == 1:  # 8-bit WAV is the one unsigned kind
        return ((np.frombuffer(raw, np.uint8).astype(np.float32) - 128.0) / 128.0).astype(np.float32)
    if width == 3:
        wide = np.zeros((len(raw) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(raw, np.uint8).reshape(-1, 3)
        return (wide.view("<i4").ravel() / 2**31).astype(np.float32)
    return (np.frombuffer(raw, f"<i{width}") / 2.0 ** (8 * width - 1)).astype(np.float32)


def speech_span(samples: NDArray[np.int16]) -> tuple[int, int]:
    """Return where speech starts and ends in samples at `RATE_HZ`: the first and last 10 ms frame near the loudest."""
    frame = RATE_HZ * _FRAME_MS // 1000
    whole = len(samples) // frame
    if whole == 0:
        return 0, len(samples)
    frames = samples[: whole * frame].reshape(whole, frame).astype(np.float64)
    level_db = 20 * np.log10(np.sqrt((frames**2).mean(axis=1)) + 1.0)
    loud = np.flatnonzero(level_db > level_db.max() - SPEECH_DROP_DB)
    return int(loud[0]) * frame, int(loud[-1] + 1) * frame


def write_wav(path: Path, pcm: bytes) -> None:
    """Write mono PCM16 at `RATE_HZ` as a WAV file."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE_HZ)
        file.writeframes(pcm)
