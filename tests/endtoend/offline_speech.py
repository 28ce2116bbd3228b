"""Speech without a gateway: a voice to speak to it with, and an ear for what it answers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import aclosing
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

import numpy as np

from clients.wav_audio import RATE_HZ, Clip, speech_span
from models.engine_plan import EMBEDDED, ChatPlan
from models.interfaces import Engines, WordTime
from models.loading import load_engines

T = TypeVar("T")

PEAK = 10 ** (-6 / 20)
_CLOSED_PORT = "http://127.0.0.1:9/v1"


class OfflineSpeech:
    """The embedded profile's voice and recogniser on an event loop of their own. Its calls block."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._engines: Engines = self._run(
            load_engines(replace(EMBEDDED, chat=ChatPlan("endpoint", base_url=_CLOSED_PORT)))
        )
        self.say = cache(self._say)

    def recognise(self, pcm: bytes) -> str:
        """Return the words in `pcm`."""
        heard = self._run(self._engines.asr.transcribe(pcm))
        return heard.text if heard else ""

    def word_times(self, text: str) -> tuple[list[WordTime], int]:
        """Return when the voice says that the words of `text` end, and how many samples all of it takes."""

        async def synthesise() -> tuple[list[WordTime], int]:
            times: list[WordTime] = []
            samples = 0
            async with aclosing(self._engines.tts.synthesize(text)) as pieces:
                async for piece in pieces:
                    times += piece.words or ()
                    samples += len(piece.pcm) // 2
            return times, samples

        return self._run(synthesise())

    def _say(self, text: str) -> Clip:
        """Return `text` as speech: peak −6 dBFS, edges trimmed to 10 ms frames."""

        async def synthesise() -> bytes:
            async with aclosing(self._engines.tts.synthesize(text)) as pieces:
                return b"".join([piece.pcm async for piece in pieces])

        samples = np.frombuffer(self._run(synthesise()), "<i2").astype(np.float64)
        scaled = np.round(samples * (PEAK * 32_767 / np.abs(samples).max())).astype("<i2")
        onset, end = speech_span(scaled)
        return Clip(text, scaled[onset:end].tobytes(), 0, end - onset)

    def close(self) -> None:
        self._run(self._engines.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(120)


def noise(ms: int, level_dbfs: float, *, seed: int = 1) -> bytes:
    """Return white noise of that RMS level."""
    rng = np.random.default_rng(seed)
    samples = rng.standard_normal(RATE_HZ * ms // 1000) * 32_768 * 10 ** (level_dbfs / 20)
    return bytes(np.clip(np.round(samples), -32_768, 32_767).astype("<i2").tobytes())


def hum(ms: int, level_dbfs: float, *, hz: float = 50.0) -> bytes:
    """Return a tone of that RMS level."""
    phase = 2 * np.pi * hz * np.arange(RATE_HZ * ms // 1000) / RATE_HZ
    return bytes(np.round(np.sin(phase) * 2**0.5 * 32_768 * 10 ** (level_dbfs / 20)).astype("<i2").tobytes())


def longest_quiet_ms(pcm: bytes, *, below_dbfs: float = -45.0) -> float:
    """Return the longest stretch below that level inside the audio, without its edges."""
    samples = np.frombuffer(pcm, "<i2").astype(np.float64) / 32_768
    frame = RATE_HZ // 100
    frames = samples[: len(samples) // frame * frame].reshape(-1, frame)
    loud = np.flatnonzero(20 * np.log10(np.sqrt((frames**2).mean(axis=1)) + 1e-9) >= below_dbfs)
    return float(np.diff(loud).max(initial=1) - 1) * 10
