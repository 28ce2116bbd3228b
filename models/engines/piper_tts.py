"""A Piper voice (VITS) on onnxruntime: a clause at a time, heard as soon as its first half second is computed."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from models.engines.espeak_phonemes import phonemize
from models.engines.ort_session import StoppableRun, open_session
from models.engines.phoneme_durations import DURATIONS
from models.engines.spoken_part import MAX_SPEED, MIN_SPEED, PartAudio, engine_errors
from models.engines.vits_graph import split_voice
from models.inference_worker import InferenceWorker, Priority
from models.interfaces import SpeechPiece
from models.languages import primary_language

MAX_PHONEMES = 400
"""Longest text synthesised at once, about 25 s of speech: bounds latency and memory. Longer text is cut at a space."""

NOISE_SCALE = 0.0
NOISE_W = 0.0
"""Piper's scales of random variation in sound (voice default 0.667) and rhythm (0.8). At 0 the same text gives the same
samples; the graph's random generators have no seed that a caller could set."""

FRAME_SAMPLES = 256
"""Samples of the voice's own rate that one latent frame becomes (VITS' hop, in all of Piper's qualities)."""

FIRST_WINDOW_FRAMES = 40
WINDOW_FRAMES = 160
"""Frames that become samples at once: 0.5 s first, to be heard soon, then 1.9 s (chosen)."""

CONTEXTS_FRAMES = (10, 14, 20, 32)
"""Frames computed in vain on both sides of a window, so that its samples are those of the whole; the first that does it
is taken. 10 do in Piper's medium quality (tried, 2026-11-30)."""

SAME_WITHIN = 2**-17
"""Samples that differ by less than a quarter of a step of 16 bits are the same."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Part:
    """Phonemes that are synthesised at once; `words` are (end in the text, end in `symbols`) of those that end here."""

    symbols: str
    words: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class _Latents:
    """What the encoder made of a part: `frames` (float32 [1, channels, frames]) and what else the decoder takes.

    `words`: (end in the text, end in samples of the voice's rate) of each word; None if the voice doesn't tell.
    """

    frames: NDArray[np.float32]
    constant: dict[str, NDArray[np.float32]]
    words: tuple[tuple[int, int], ...] | None


class PiperSynthesizer:
    """SpeechSynthesizer over `<voice>.onnx` and `<voice>.onnx.json`. One voice, so every `voice` gets it.

    It tells word times if the voice's graph computes its phonemes' durations under the name that Piper exports today.
    """

    def __init__(self, model: Path, worker: InferenceWorker, *, threads: int = 2) -> None:
        """Load the voice (blocking). Raises ValueError if `model` is no Piper voice."""
        config = json.loads(model.with_name(model.name + ".json").read_text("utf-8"))
        self._worker = worker
        self._rate_hz: int = config["audio"]["sample_rate"]
        self._language: str = config["espeak"]["voice"]
        self.languages = frozenset({primary_language(self._language)})
        self._ids: dict[str, list[int]] = config["phoneme_id_map"]
        graph = split_voice(model.read_bytes())
        self._shared, self._timed = graph.shared, graph.timed
        self._encoder = open_session(graph.encoder, threads=threads)
        self._decoder = open_session(graph.decoder, threads=threads)
        self._context_frames = self._needed_context()

    async def synthesize(
        self, text: str, *, voice: str = "", speed: float = 1.0, first: bool = False, language: str = ""
    ) -> AsyncGenerator[SpeechPiece, None]:
        """Yield the audio of `text`; see SpeechSynthesizer. Text without any sound yields nothing."""
        priority = Priority.TTS_FIRST if first else Priority.TTS_REST
        length_scale = 1.0 / min(max(speed, MIN_SPEED), MAX_SPEED)
        run = StoppableRun()
        said = 0
        with engine_errors():
            parts = await self._worker.run(lambda: self._parts(text), priority=priority)
            for index, part in enumerate(parts):
                urgency = priority if index == 0 else Priority.TTS_REST
                audio = PartAudio(self._rate_hz, said)
                latents = await self._run(partial(self._encode, part, length_scale, run), urgency, run)
                for start, end in _windows(latents.frames.shape[2]):
                    hear = partial(self._pieces, latents, start, end, audio, run)
                    for piece in await self._run(hear, urgency, run):
                        yield piece
                    urgency = Priority.TTS_REST
                said = audio.said

    async def _run(self, job: Callable[[], T], priority: Priority, run: StoppableRun) -> T:
        return await self._worker.run(job, priority=priority, terminate=run.stop)

    async def aclose(self) -> None:
        """Close the worker, for all who share it."""
        await self._worker.aclose()

    def warm_up(self) -> None:
        """Speak a word, so that the first user doesn't pay for first-run allocations."""
        run = StoppableRun()
        for part in self._parts("Ready."):
            latents = self._encode(part, 1.0, run)
            self._decode(latents, 0, latents.frames.shape[2], run)

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

    def _encode(self, part: _Part, length_scale: float, run: StoppableRun) -> _Latents:
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
        found = dict(zip([*self._shared, DURATIONS], self._encoder.run(None, inputs, run.options), strict=False))
        latent, *rest = self._shared
        words = None
        if self._timed:
            frames = np.cumsum(found[DURATIONS].ravel())
            words = tuple((text_end, int(frames[ends[end] - 1]) * FRAME_SAMPLES) for text_end, end in part.words)
        return _Latents(found[latent], {name: found[name] for name in rest}, words)

    def _pieces(
        self, latents: _Latents, start: int, end: int, audio: PartAudio, run: StoppableRun
    ) -> list[SpeechPiece]:
        last = end == latents.frames.shape[2]
        return audio.feed(self._decode(latents, start, end, run), latents.words, last=last)

    def _decode(self, latents: _Latents, start: int, end: int, run: StoppableRun) -> NDArray[np.float32]:
        """Return the samples (float32 [samples], the voice's rate) of frames [start, end), as they are in the whole."""
        before = min(start, self._context_frames)
        window = latents.frames[:, :, start - before : end + self._context_frames]
        (audio,) = self._decoder.run(None, {self._shared[0]: window, **latents.constant}, run.options)
        samples: NDArray[np.float32] = audio.ravel()[before * FRAME_SAMPLES : (before + end - start) * FRAME_SAMPLES]
        return samples

    def _needed_context(self) -> int:
        """Return how many of CONTEXTS_FRAMES this voice needs. Raises ValueError if none is enough."""
        run = StoppableRun()
        self._context_frames = 0
        latents = self._encode(self._parts("One, two, three, four.")[0], 1.0, run)
        count = latents.frames.shape[2]
        whole = self._decode(latents, 0, count, run)
        start, end = count // 2, count // 2 + 1
        wanted = whole[start * FRAME_SAMPLES : end * FRAME_SAMPLES]
        for self._context_frames in CONTEXTS_FRAMES:
            found = self._decode(latents, start, end, run)
            if found.shape == wanted.shape and float(np.abs(found - wanted).max()) < SAME_WITHIN:
                return self._context_frames
        raise ValueError("this is no Piper voice: its decoder sees too far to be run in windows")


def _windows(frames: int) -> Iterator[tuple[int, int]]:
    """Yield the stretches [start, end) of `frames` that are decoded one after the other."""
    start, end = 0, min(FIRST_WINDOW_FRAMES, frames)
    while start < frames:
        yield start, end
        start, end = end, min(end + WINDOW_FRAMES, frames)


def cut_between_words(phonemes: str, limit: int) -> list[str]:
    """Return `phonemes` in parts of at most `limit` symbols, cut at the last space that fits, else inside a word."""
    parts = []
    while len(phonemes) > limit:
        cut = phonemes.rfind(" ", 1, limit + 1)
        cut = cut if cut > 0 else limit
        parts.append(phonemes[:cut])
        phonemes = phonemes[cut:].lstrip(" ")
    return [*parts, phonemes] if phonemes else parts
