"""A Piper voice (VITS) on onnxruntime: speech at about 20 times real time on two cores, a clause at a time."""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.engines.espeak_phonemes import phonemize
from models.engines.ort_session import StoppableRun, open_session
from models.engines.phoneme_durations import DURATIONS, with_durations
from models.inference_worker import InferenceWorker, Priority, WorkerClosedError, WorkerOverloadedError
from models.interfaces import AUDIO_RATE_HZ, EngineError, SpeechPiece, WordTime
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


@dataclass(frozen=True, slots=True)
class _Part:
    """Phonemes that are synthesised at once; `words` are (end in the text, end in `symbols`) of those that end here."""

    symbols: str
    words: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class _Spoken:
    """A part's audio; `words` are (end in the text, end in samples), None if the voice doesn't tell."""

    pcm: bytes
    words: tuple[tuple[int, int], ...] | None


class PiperSynthesizer:
    """SpeechSynthesizer over `<voice>.onnx` and `<voice>.onnx.json`. One voice, so every `voice` gets it.

    It tells word times if the voice's graph lets its phonemes' durations be seen, as those that Piper exports do.
    """

    def __init__(self, model: Path, worker: InferenceWorker, *, threads: int = 2) -> None:
        config = json.loads(model.with_name(model.name + ".json").read_text("utf-8"))
        self._worker = worker
        self._rate_hz: int = config["audio"]["sample_rate"]
        self._language: str = config["espeak"]["voice"]
        self._ids: dict[str, list[int]] = config["phoneme_id_map"]
        self._session = open_session(with_durations(model.read_bytes()), threads=threads)
        self._timed = DURATIONS in [output.name for output in self._session.get_outputs()]

    async def synthesize(
        self, text: str, *, voice: str = "", speed: float = 1.0, first: bool = False
    ) -> AsyncGenerator[SpeechPiece, None]:
        """Yield the audio of `text`; see SpeechSynthesizer. Text without any sound yields nothing."""
        priority = Priority.TTS_FIRST if first else Priority.TTS_REST
        length_scale = 1.0 / min(max(speed, MIN_SPEED), MAX_SPEED)
        run = StoppableRun()
        said = 0
        try:
            parts = await self._worker.run(lambda: self._parts(text), priority=priority)
            for index, part in enumerate(parts):
                spoken = await self._worker.run(
                    lambda part=part: self._speak(part, length_scale, run),  # type: ignore[misc]  # mypy infers no default
                    priority=priority if index == 0 else Priority.TTS_REST,
                    terminate=run.stop,
                )
                for piece in _pieces(spoken, said):
                    yield piece
                said += len(spoken.pcm) // _BYTES_PER_SAMPLE
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
        for part in self._parts("Ready."):
            self._speak(part, 1.0, StoppableRun())

    def _parts(self, text: str) -> list[_Part]:
        found = phonemize(text, language=self._language)
        known = [symbol in self._ids for symbol in found.symbols]
        symbols = "".join(symbol for symbol, is_known in zip(found.symbols, known, strict=True) if is_known)
        if not any(symbol.isalpha() for symbol in symbols):
            return []  # punctuation and emoji only: the voice would breathe
        parts, at = [], 0
        words = [(text_end, sum(known[:end])) for text_end, end in found.words]
        for part in cut_between_words(symbols, MAX_PHONEMES):
            start = symbols.index(part, at)
            at = start + len(part)
            parts.append(_Part(part, tuple((text_end, end - start) for text_end, end in words if start < end <= at)))
        return parts

    def _speak(self, part: _Part, length_scale: float, run: StoppableRun) -> _Spoken:
        pad = self._ids["_"]
        ids = [*self._ids["^"], *pad]
        ends = [len(ids)]  # after so many symbols, how many ids
        for symbol in part.symbols:
            ids += [*self._ids[symbol], *pad]
            ends.append(len(ids))
        ids += self._ids["$"]
        inputs: dict[str, Any] = {
            "input": np.array([ids], np.int64),
            "input_lengths": np.array([len(ids)], np.int64),
            "scales": np.array([NOISE_SCALE, length_scale, NOISE_W], np.float32),
        }
        audio, *durations = (output.ravel() for output in self._session.run(None, inputs, run.options))
        kept = loud_range(audio, self._rate_hz)
        pcm = pcm24k_from_float(audio[kept.start : kept.stop], self._rate_hz)
        if not self._timed:
            return _Spoken(pcm, None)
        frames = np.cumsum(durations[0])
        scale = AUDIO_RATE_HZ / self._rate_hz
        words = []
        for text_end, end in part.words:
            at = audio.size * frames[ends[end] - 1] / frames[-1] - kept.start
            words.append((text_end, min(max(0, math.ceil(at * scale)), len(pcm) // _BYTES_PER_SAMPLE)))
        return _Spoken(pcm, tuple(words))


def _pieces(spoken: _Spoken, offset: int) -> Iterator[SpeechPiece]:
    """Yield a part's audio in pieces with the words that end in each; `offset` samples of the text came before it."""
    size = int(PIECE_S * AUDIO_RATE_HZ)
    words = deque(spoken.words or ())
    for start in range(0, len(spoken.pcm) // _BYTES_PER_SAMPLE, size):
        pcm = spoken.pcm[start * _BYTES_PER_SAMPLE : (start + size) * _BYTES_PER_SAMPLE]
        ended = []
        while words and words[0][1] <= start + size:
            text_end, audio_end = words.popleft()
            ended.append(WordTime(text_end, offset + audio_end))
        yield SpeechPiece(pcm, None if spoken.words is None else tuple(ended))


def cut_between_words(phonemes: str, limit: int) -> list[str]:
    """Return `phonemes` in parts of at most `limit` symbols, cut at the last space that fits, else inside a word."""
    parts = []
    while len(phonemes) > limit:
        cut = phonemes.rfind(" ", 1, limit + 1)
        cut = cut if cut > 0 else limit
        parts.append(phonemes[:cut])
        phonemes = phonemes[cut:].lstrip(" ")
    return [*parts, phonemes] if phonemes else parts


def loud_range(audio: NDArray[np.float32], rate_hz: int) -> range:
    """Return which samples of `audio` to keep: at most `KEPT_SILENCE_S` below `SILENCE_LEVEL` at each end."""
    loud = np.flatnonzero(np.abs(audio) > SILENCE_LEVEL)
    if loud.size == 0:
        return range(0)
    kept = int(KEPT_SILENCE_S * rate_hz)
    return range(max(0, int(loud[0]) - kept), min(audio.size, int(loud[-1]) + 1 + kept))
