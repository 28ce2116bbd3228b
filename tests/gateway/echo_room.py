"""A room in which the agent's voice comes back: loudspeaker, air, walls, microphone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gateway.hearing import Hearing
from models.interfaces import VoiceActivityDetector
from protocol.audio_time import SESSION_RATE_HZ, Samples, samples_from_ms
from protocol.backend_events import OutputAudio
from protocol.commands import AppendAudio, SpeechFrame

Sound = NDArray[np.float64]
"""Mono at 24 kHz, −1…1."""

NOISE_DBFS = -60.0
APPEND_MS = 20
PLAYOUT_DELAY: Samples = samples_from_ms(150)


@dataclass(frozen=True)
class Room:
    """`gain_db`: of the whole way. `delay_ms`: of the first sound. `rt60_s` None: no walls.

    `direct_db` None: the direct sound doesn't stand out from the reverberation; else its ratio to it. `clipped`: the
    loudspeaker is overdriven.
    """

    gain_db: float = -30.0
    delay_ms: float = 120.0
    rt60_s: float | None = 0.3
    direct_db: float | None = 0.0
    clipped: bool = True

    def echo(self, voice: Sound, seed: int = 1) -> Sound:
        """Return what the microphone gets of `voice`, the delay before it included."""
        played = _softly_clipped(voice) if self.clipped else voice
        if self.rt60_s is not None:
            played = _convolved(played, self._response(np.random.default_rng(seed)))
        return np.concatenate((np.zeros(round(self.delay_ms * SESSION_RATE_HZ / 1000)), played)) * amplitude(
            self.gain_db
        )

    def _response(self, rng: np.random.Generator) -> Sound:
        """Return decaying noise, and the direct sound before it, of energy 1."""
        assert self.rt60_s is not None
        seconds = np.arange(round(1.2 * self.rt60_s * SESSION_RATE_HZ)) / SESSION_RATE_HZ
        tail = rng.standard_normal(seconds.size) * 10 ** (-3 * seconds / self.rt60_s)
        tail /= np.sqrt((tail**2).sum())
        if self.direct_db is not None:
            tail[0] += amplitude(self.direct_db)
        return np.asarray(tail / np.sqrt((tail**2).sum()))


def amplitude(db: float) -> float:
    return float(10 ** (db / 20))


def silence(duration_ms: int) -> Sound:
    return np.zeros(samples_from_ms(duration_ms))


def hiss(samples: int, level_dbfs: float = NOISE_DBFS, seed: int = 2) -> Sound:
    """Return white noise of that RMS level."""
    return np.random.default_rng(seed).standard_normal(samples) * amplitude(level_dbfs)


def mixed(*sounds: Sound) -> Sound:
    """Return the sum of sounds that begin together, as long as the longest."""
    total = np.zeros(max(sound.size for sound in sounds))
    for sound in sounds:
        total[: sound.size] += sound
    return total


def sound_of(pcm: bytes) -> Sound:
    return np.frombuffer(pcm, "<i2") / 32_768


def pcm_of(sound: Sound) -> bytes:
    return bytes(np.clip(np.rint(sound * 32_768), -32_768, 32_767).astype("<i2").tobytes())


async def heard_frames(
    microphone: Sound,
    agent: Sound,
    vad: VoiceActivityDetector,
    *,
    sent_at_ms: int = 0,
    append_samples: int = samples_from_ms(APPEND_MS),
    chunk_samples: int = 12_000,
    hearing: Hearing | None = None,
) -> list[SpeechFrame]:
    """Return the frames of a microphone that runs from time 0; the agent's audio is sent all at once."""
    hearing = hearing or Hearing(vad, playout_delay=PLAYOUT_DELAY)
    input_pcm, agent_pcm = pcm_of(microphone), pcm_of(agent)
    chunks = [agent_pcm[at : at + 2 * chunk_samples] for at in range(0, len(agent_pcm), 2 * chunk_samples)]
    frames: list[SpeechFrame] = []
    sent = False
    for at in range(0, len(input_pcm), 2 * append_samples):
        piece = input_pcm[at : at + 2 * append_samples]
        now = (at + len(piece)) // 2
        if not sent and now > samples_from_ms(sent_at_ms):
            sent = True
            for chunk in chunks:
                hearing.saw(OutputAudio("resp_1", "item_1", chunk), samples_from_ms(sent_at_ms))
        frames += (await hearing.hear(AppendAudio(piece), now)).frames
    return frames


def _softly_clipped(voice: Sound) -> Sound:
    """Return `voice` with its peaks pressed down by 10 %."""
    peak = np.abs(voice).max()
    drive = 0.57  # tanh(0.57) / 0.57 = 0.904
    return np.asarray(np.tanh(drive * voice / peak) / drive * peak)


def _convolved(one: Sound, other: Sound) -> Sound:
    size = one.size + other.size - 1
    points = 1 << (size - 1).bit_length()
    return np.fft.irfft(np.fft.rfft(one, points) * np.fft.rfft(other, points), points)[:size]
