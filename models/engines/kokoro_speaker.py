"""How Kokoro-82M speaks, on whatever computes it: a clause at a time, the first of a long one sooner.

kokoro-onnx knows where long texts are best cut. Its own class reads by an espeak-ng of its own (which mixes texts with
Piper's in one process) and can't be stopped, so that is done here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from models.engines.espeak_phonemes import Phonemes
from models.engines.kokoro_phonemes import kokoro_phonemes
from models.engines.kokoro_voices import reading_letter
from models.engines.spoken_part import MAX_SPEED, MIN_SPEED, PartAudio, engine_errors
from models.engines.voice_map import VoiceMap
from models.inference_worker import InferenceWorker, Priority
from models.interfaces import AUDIO_RATE_HZ, SpeechPiece

FIRST_PHONEMES = 60
"""Longest first part of a reply: about what SpeakableChunks cuts first, 3 s of speech. Chosen; shorter parts begin
sooner but lose the melody of their clause."""

MAX_PHONEMES = 120
"""Longest part of the rest, about 7 s of speech: it is computed while the part before it is heard (chosen)."""

SENTENCE_PAUSE_S = 0.25
CLAUSE_PAUSE_S = 0.1
"""Silence between two parts of a text after a stop or a comma (kokoro-onnx 0.6.1's own, in `create`)."""


class Stoppable(Protocol):
    """One text's computation, which `stop` ends from any thread."""

    def stop(self) -> None:
        """End it soon."""
        ...


RunT = TypeVar("RunT", bound=Stoppable)


@dataclass(frozen=True, slots=True)
class _Part:
    """Phonemes that are synthesised at once, and (end in the text, end in `symbols`) of the words that end in them."""

    symbols: str
    words: tuple[tuple[int, int], ...]


class KokoroSpeaker(ABC, Generic[RunT]):
    """SpeechSynthesizer over Kokoro. It tells word times if the network tells durations.

    `letter`: the language that all voices read, by Kokoro's letter; None: each its own. `vocabulary`: the network's
    symbols. `languages`: what its voices read here.
    """

    def __init__(
        self,
        worker: InferenceWorker,
        voice_map: VoiceMap,
        vocabulary: Mapping[str, int],
        *,
        letter: str | None,
        languages: frozenset[str] | None,
    ) -> None:
        self._worker = worker
        self._voice_map = voice_map
        self._vocabulary = vocabulary
        self._letter = letter
        self.languages = languages

    @abstractmethod
    def _open_run(self) -> RunT:
        """Return what stops the computation of one text."""

    @abstractmethod
    def _compute(
        self, symbols: str, voice: str, speed: float, run: RunT
    ) -> tuple[NDArray[np.float32], NDArray[np.float64] | None]:
        """Return the samples (float32 [samples], 24 kHz) of `symbols`, all of the vocabulary, in a worker's thread.

        And the durations (float64 [symbols + 2], in any unit) of the padding before, the symbols and the padding
        behind; None where the network doesn't tell.
        """

    async def synthesize(
        self, text: str, *, voice: str = "", speed: float = 1.0, first: bool = False, language: str = ""
    ) -> AsyncGenerator[SpeechPiece, None]:
        """Yield the audio of `text`; see SpeechSynthesizer. Text without any sound yields nothing."""
        from kokoro_onnx.chunker import pause_after

        priority = Priority.TTS_FIRST if first else Priority.TTS_REST
        name = self._voice_map.voice(voice, language)
        speed = min(max(speed, MIN_SPEED), MAX_SPEED)
        run = self._open_run()
        said = 0
        with engine_errors():
            letter = self._letter or reading_letter(name, language)
            parts = await self._worker.run(lambda: self._parts(text, letter, first), priority=priority)
            for index, part in enumerate(parts):
                urgency = priority if index == 0 else Priority.TTS_REST
                audio = PartAudio(AUDIO_RATE_HZ, said)
                hear = partial(self._pieces, part, name, speed, audio, run)
                pieces = await self._worker.run(hear, priority=urgency, terminate=run.stop)
                for piece in pieces:
                    yield piece
                said = audio.said
                if index + 1 < len(parts):
                    pause = int(pause_after(part.symbols, SENTENCE_PAUSE_S, CLAUSE_PAUSE_S) / speed * AUDIO_RATE_HZ)
                    if pause:
                        said += pause
                        timed = bool(pieces) and pieces[-1].words is not None
                        yield SpeechPiece(bytes(2 * pause), () if timed else None)

    async def aclose(self) -> None:
        """Close the worker, for all who share it."""
        await self._worker.aclose()

    def warm_up(self) -> None:
        """Speak a word, so that the first user doesn't pay for first-run allocations."""
        name = self._voice_map.voice("")
        for part in self._parts("1.", self._letter or name[:1], True):
            self._speak(part, name, 1.0, self._open_run())

    def _parts(self, text: str, letter: str, first: bool) -> list[_Part]:
        from kokoro_onnx.chunker import split_phonemes

        found = self._known(kokoro_phonemes(text, letter))
        if not any(symbol.isalpha() for symbol in found.symbols):
            return []  # punctuation and emoji only: the voice would breathe
        begin = split_phonemes(found.symbols, FIRST_PHONEMES if first else MAX_PHONEMES)[0]
        rest = found.symbols[len(begin) :].strip()
        parts, at = [], 0
        for symbols in (begin, *(split_phonemes(rest, MAX_PHONEMES) if rest else ())):
            start = found.symbols.index(symbols, at)
            at = start + len(symbols)
            words = tuple((text_end, end - start) for text_end, end in found.words if start < end <= at)
            parts.append(_Part(symbols, words))
        return parts

    def _known(self, found: Phonemes) -> Phonemes:
        """Return `found` without what the model doesn't know and without spaces that would then stand together."""
        symbols, ends = "", [0]
        for symbol in found.symbols:
            if symbol in self._vocabulary and not (symbol == " " and symbols[-1:] in ("", " ")):
                symbols += symbol
            ends.append(len(symbols))
        return Phonemes(symbols.rstrip(), tuple((text_end, ends[end]) for text_end, end in found.words))

    def _pieces(self, part: _Part, voice: str, speed: float, audio: PartAudio, run: RunT) -> list[SpeechPiece]:
        samples, words = self._speak(part, voice, speed, run)
        return audio.feed(samples, words, last=True)

    def _speak(
        self, part: _Part, voice: str, speed: float, run: RunT
    ) -> tuple[NDArray[np.float32], tuple[tuple[int, int], ...] | None]:
        """Return a part's samples (float32 [samples], 24 kHz), and (end in the text, end in samples) of its words."""
        samples, durations = self._compute(part.symbols, voice, speed, run)
        if durations is None or not part.words:
            return samples, None
        ends = np.cumsum(durations)
        scale = samples.size / ends[-1]
        return samples, tuple((text_end, int(ends[end] * scale)) for text_end, end in part.words)
