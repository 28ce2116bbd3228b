"""Kokoro-82M on onnxruntime, in many languages: a clause at a time, the first of a long one sooner.

kokoro-onnx knows the model: its vocabulary, how exports differ, where long texts are best cut. Its own class reads by
an espeak-ng of its own (which mixes texts with Piper's in one process) and can't be stopped, so that is done here.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.engine_plan import Device
from models.engines.espeak_phonemes import Phonemes
from models.engines.kokoro_phonemes import kokoro_phonemes
from models.engines.kokoro_voices import KokoroVoices, reading_letter
from models.engines.ort_providers import providers_of, require_provider
from models.engines.ort_session import StoppableRun, open_session
from models.engines.phoneme_durations import with_output
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

DURATIONS = "/encoder/Clip_output_0"
"""The value of kokoro-onnx' v1.0 exports that holds how many frames each phoneme takes, float32 [1, phonemes + 2]."""

TOLD_DURATIONS = "duration"
"""The output that tells the same in newer exports."""

_TEXT_PADDING = 0
"""The symbol before and after each text."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Phonemes that are synthesised at once, and (end in the text, end in `symbols`) of the words that end in them."""

    symbols: str
    words: tuple[tuple[int, int], ...]


class KokoroSynthesizer:
    """SpeechSynthesizer over an ONNX export of Kokoro-82M and its voices.

    It tells word times if the graph computes durations under a known name. `letter`: the language that all voices
    read, by Kokoro's letter; None: each its own.
    """

    def __init__(
        self,
        model: Path,
        voices: KokoroVoices,
        worker: InferenceWorker,
        voice_map: VoiceMap,
        *,
        letter: str | None = None,
        languages: frozenset[str] | None = None,
        device: Device = "cpu",
        threads: int = 2,
    ) -> None:
        """Load the model (blocking). `languages`: what its voices read here.

        Raises ValueError if it is no Kokoro, EngineError if the device isn't there.
        """
        from kokoro_onnx.config import DEFAULT_VOCAB
        from kokoro_onnx.session import embedded_vocab, input_dtypes

        self._voices = voices
        self._worker = worker
        self._voice_map = voice_map
        self._letter = letter
        self.languages = languages
        content = model.read_bytes()
        if DURATIONS.encode() in content:
            content = with_output(content, DURATIONS)
        wanted = providers_of(device)
        self._session = open_session(content, threads=threads, providers=wanted)
        require_provider(device, wanted, self._session.get_providers())
        self._dtypes: dict[str, Any] = input_dtypes(self._session)
        tokens = [name for name in ("input_ids", "tokens") if name in self._dtypes]
        if not tokens or not {"style", "speed"} <= self._dtypes.keys():
            raise ValueError("this is no Kokoro model: it doesn't take tokens, a style and a speed")
        self._tokens_input = tokens[0]
        self._vocabulary: dict[str, int] = embedded_vocab(self._session) or DEFAULT_VOCAB
        audio, *others = [output.name for output in self._session.get_outputs()]
        self._durations = next((name for name in others if name in (DURATIONS, TOLD_DURATIONS)), "")
        self._outputs = [audio, *([self._durations] if self._durations else [])]

    async def synthesize(
        self, text: str, *, voice: str = "", speed: float = 1.0, first: bool = False, language: str = ""
    ) -> AsyncGenerator[SpeechPiece, None]:
        """Yield the audio of `text`; see SpeechSynthesizer. Text without any sound yields nothing."""
        from kokoro_onnx.chunker import pause_after

        priority = Priority.TTS_FIRST if first else Priority.TTS_REST
        name = self._voice_map.voice(voice, language)
        speed = min(max(speed, MIN_SPEED), MAX_SPEED)
        run = StoppableRun()
        said = 0
        with engine_errors():
            letter = self._letter or reading_letter(name, language)
            parts = await self._worker.run(lambda: self._parts(text, letter, first), priority=priority)
            for index, part in enumerate(parts):
                urgency = priority if index == 0 else Priority.TTS_REST
                speak = partial(self._speak, part, name, speed, run)
                samples, words = await self._worker.run(speak, priority=urgency, terminate=run.stop)
                audio = PartAudio(AUDIO_RATE_HZ, said)
                for piece in audio.feed(samples, words, last=True):
                    yield piece
                said = audio.said
                if index + 1 < len(parts):
                    pause = int(pause_after(part.symbols, SENTENCE_PAUSE_S, CLAUSE_PAUSE_S) / speed * AUDIO_RATE_HZ)
                    if pause:
                        said += pause
                        yield SpeechPiece(bytes(2 * pause), None if words is None else ())

    async def aclose(self) -> None:
        """Close the worker, for all who share it."""
        await self._worker.aclose()

    def warm_up(self) -> None:
        """Speak a word, so that the first user doesn't pay for first-run allocations."""
        name = self._voice_map.voice("")
        for part in self._parts("1.", self._letter or name[:1], True):
            self._speak(part, name, 1.0, StoppableRun())

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

    def _speak(
        self, part: _Part, voice: str, speed: float, run: StoppableRun
    ) -> tuple[NDArray[np.float32], tuple[tuple[int, int], ...] | None]:
        """Return a part's samples (float32 [samples], 24 kHz), and (end in the text, end in samples) of its words."""
        ids = [_TEXT_PADDING, *(self._vocabulary[symbol] for symbol in part.symbols), _TEXT_PADDING]
        inputs = {
            self._tokens_input: np.array([ids], self._dtypes[self._tokens_input]),
            "style": self._voices.style(voice, len(part.symbols)).astype(self._dtypes["style"]),
            "speed": np.array([self._model_speed(speed)], self._dtypes["speed"]),
        }
        audio, *durations = self._session.run(self._outputs, inputs, run.options)
        samples = np.asarray(audio, np.float32).ravel()
        if not durations or not part.words:
            return samples, None
        frames = np.cumsum(np.asarray(durations[0], np.float64).ravel())
        scale = samples.size / frames[-1]
        return samples, tuple((text_end, int(frames[end] * scale)) for text_end, end in part.words)

    def _model_speed(self, speed: float) -> float:
        """Return what the graph takes for `speed`: some exports know whole numbers only."""
        return max(1, round(speed)) if self._dtypes["speed"].kind in "iu" else speed
