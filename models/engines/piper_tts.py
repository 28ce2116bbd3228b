"""A Piper voice (VITS) on onnxruntime: speech at about 20 times real time on two cores, a clause at a time."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.engines.espeak_phonemes import phonemize
from models.engines.ort_session import StoppableRun, open_session
from models.inference_worker import InferenceWorker, Priority, WorkerClosedError, WorkerOverloadedError
from models.interfaces import AUDIO_RATE_HZ, EngineError
from models.resampling import pcm24k_from_float

MAX_PHONEMES = 400
"""Longest text synthesised at once, about 25 s of speech: bounds latency and memory. Longer text is cut at a space."""

NOISE_SCALE = 0.0
NOISE_W = 0.0
"""Piper's scales of random variation in sound (voice default 0.667) and rhythm (0.8). At 0 the same text gives the same
samples; the graph's random generators have no seed that a caller could set."""

PIECE_S = 0.5
"""Longest piece handed out, so that a reply can be cut near the point where it stopped."""

SILENCE_LEVEL = 10 ** (-50 / 20)
"""Below this (−50 dBFS) the noise before and after the words counts as silence (chosen; joe's floor is near −65)."""

KEPT_SILENCE_S = 0.04
"""Silence kept at both ends: trims what VITS adds, keeps soft consonants."""

MIN_SPEED, MAX_SPEED = 0.25, 1.5
"""The Realtime API's range of `speed`."""

_BYTES_PER_SAMPLE = 2


class PiperSynthesizer:
    """SpeechSynthesizer over `<voice>.onnx` and `<voice>.onnx.json`. One voice, so every `voice` gets it."""

    def __init__(self, model: Path, worker: InferenceWorker, *, threads: int = 2) -> None:
        config = json.loads(model.with_name(model.name + ".json").read_text("utf-8"))
        self._worker = worker
        self._rate_hz: int = config["audio"]["sample_rate"]
        self._language: str = config["espeak"]["voice"]
        self._ids: dict[str, list[int]] = config["phoneme_id_map"]
        self._session = open_session(model, threads=threads)

    async def synthesize(
        self, text: str, *, voice: str = "", speed: float = 1.0, first: bool = False
    ) -> AsyncGenerator[bytes, None]:
        """Yield the audio of `text`; see SpeechSynthesizer. Text without any sound yields nothing."""
        priority = Priority.TTS_FIRST if first else Priority.TTS_REST
        length_scale = 1.0 / min(max(speed, MIN_SPEED), MAX_SPEED)
        run = StoppableRun()
        try:
            parts = await self._worker.run(lambda: self._phoneme_parts(text), priority=priority)
            for index, part in enumerate(parts):
                pcm = await self._worker.run(
                    lambda part=part: self._speak(part, length_scale, run),  # type: ignore[misc]  # mypy infers no default
                    priority=priority if index == 0 else Priority.TTS_REST,
                    terminate=run.stop,
                )
                piece_bytes = int(PIECE_S * AUDIO_RATE_HZ) * _BYTES_PER_SAMPLE
                for start in range(0, len(pcm), piece_bytes):
                    yield pcm[start : start + piece_bytes]
        except WorkerOverloadedError as error:
            raise EngineError("tts_overloaded", "The speech synthesiser is overloaded: too many sessions.") from error
        except WorkerClosedError as error:
            raise EngineError("tts_failed", "The speech synthesiser is shut down.") from error
        except Exception as error:
            raise EngineError("tts_failed", "The speech synthesiser failed on this text.") from error

    async def aclose(self) -> None:
        """Close the worker, for all who share it."""
        await self._worker.aclose()

    def warm_up(self) -> None:
        """Speak a word, so that the first user doesn't pay for first-run allocations."""
        for part in self._phoneme_parts("Ready."):
            self._speak(part, 1.0, StoppableRun())

    def _phoneme_parts(self, text: str) -> list[str]:
        phonemes = "".join(symbol for symbol in phonemize(text, language=self._language) if symbol in self._ids)
        if not any(symbol.isalpha() for symbol in phonemes):
            return []  # punctuation and emoji only: the voice would breathe
        return cut_between_words(phonemes, MAX_PHONEMES)

    def _speak(self, phonemes: str, length_scale: float, run: StoppableRun) -> bytes:
        pad = self._ids["_"]
        ids = [*self._ids["^"], *pad]
        for symbol in phonemes:
            ids += [*self._ids[symbol], *pad]
        ids += self._ids["$"]
        inputs: dict[str, Any] = {
            "input": np.array([ids], np.int64),
            "input_lengths": np.array([len(ids)], np.int64),
            "scales": np.array([NOISE_SCALE, length_scale, NOISE_W], np.float32),
        }
        (audio,) = self._session.run(None, inputs, run.options)
        return pcm24k_from_float(trim_silence(audio.ravel(), self._rate_hz), self._rate_hz)


def cut_between_words(phonemes: str, limit: int) -> list[str]:
    """Return `phonemes` in parts of at most `limit` symbols, cut at the last space that fits, else inside a word."""
    parts = []
    while len(phonemes) > limit:
        cut = phonemes.rfind(" ", 1, limit + 1)
        cut = cut if cut > 0 else limit
        parts.append(phonemes[:cut])
        phonemes = phonemes[cut:].lstrip(" ")
    return [*parts, phonemes] if phonemes else parts


def trim_silence(audio: NDArray[np.float32], rate_hz: int) -> NDArray[np.float32]:
    """Return `audio` with at most `KEPT_SILENCE_S` below `SILENCE_LEVEL` at each end; of silence, nothing."""
    loud = np.flatnonzero(np.abs(audio) > SILENCE_LEVEL)
    if loud.size == 0:
        return audio[:0]
    kept = int(KEPT_SILENCE_S * rate_hz)
    return audio[max(0, int(loud[0]) - kept) : int(loud[-1]) + 1 + kept]
