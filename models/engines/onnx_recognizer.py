"""Speech to text by any model that the library onnx-asr knows: NVIDIA's Parakeet and Canary, Whisper, GigaAM, Vosk.

Models come from the model hub by name, or from a folder that holds one. Of these, only a model of the same layout with
made-up weights has run on the machines of this project (see the tests): speed and accuracy of the real ones are not
measured here.
"""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.engine_plan import Device
from models.engines.onnx_asr_models import OnnxAsrModel, load_model
from models.engines.ort_session import StoppableRun
from models.engines.recognised_tokens import fitted, joined
from models.engines.recognition_queue import RecognitionQueue
from models.engines.spoken_languages import SpokenLanguages
from models.engines.stoppable_sessions import CurrentRun, make_stoppable
from models.inference_worker import InferenceWorker
from models.interfaces import TokenLogprob, Transcription
from models.long_audio import is_silent, split_at_quiet_points
from models.resampling import SPEECH_RATE_HZ, to_float16k
from models.word_spaces import word_space

THREADS = max(1, min(4, (os.cpu_count() or 1) // 2))
"""Threads of one inference: half the cores, as two recognitions may run at once; beyond four an encoder of 0.6 billion
parameters gains little (chosen)."""

SHORTEST_S = 0.5
"""Shorter audio is filled up with silence: features are normalised over time, which needs some time (chosen)."""

_LANGUAGE_TOKEN = re.compile(r"<\|([a-z]{2,3})\|>")


class OnnxRecognizer:
    """SpeechRecognizer over one model of onnx-asr. Up to as many recognitions at once as `worker` has threads."""

    def __init__(
        self,
        model: str,
        worker: InferenceWorker,
        *,
        quantization: str = "",
        device: Device = "auto",
        language: str = "",
    ) -> None:
        """Load `model` (a name or a folder, "": Parakeet TDT 0.6B v3), from the hub's cache or the hub if need be.

        `language`: what is spoken where the client names none, "": detected. Raises EngineError.
        """
        self._queue = RecognitionQueue(worker)
        self._model: OnnxAsrModel = load_model(model, quantization, device, THREADS)
        self._current = CurrentRun()
        make_stoppable(self._model.adapter.asr, self._current)
        tokens = getattr(self._model.adapter.asr, "_tokens", {})  # of models that are told the language by a token
        codes = [found[1] for token in tokens if (found := _LANGUAGE_TOKEN.fullmatch(str(token)))]
        self._takes_language = bool(codes)
        self._languages = SpokenLanguages(self._model.name, codes or self._model.languages, own=language)
        self.languages = self._languages.known
        self._timed = self._model.adapter.with_timestamps()

    @property
    def description(self) -> str:
        """Return what it is, for people: the model, which of its files, and where it computes."""
        return self._model.description

    @property
    def source(self) -> str:
        """Return where its weights are from: the hub's repository, or the name of a folder."""
        return self._model.source

    @property
    def licence(self) -> str:
        """Return the licence of its weights, "" where nobody here knows it."""
        return self._model.licence

    async def transcribe(
        self,
        pcm: bytes,
        *,
        language: str | None = None,
        prompt: str = "",
        partial_of: str | None = None,
        logprobs: bool = False,
    ) -> Transcription | None:
        """Return the words of `pcm`; see SpeechRecognizer. None of these models takes a prompt."""
        run = StoppableRun()
        spoken = self._languages.chosen(language)

        def job() -> Transcription:
            return self._current.within(run, lambda: self._transcribe(to_float16k(pcm), spoken, logprobs))

        return await self._queue.run(job, stop=run.stop, partial_of=partial_of)

    async def aclose(self) -> None:
        """Close the worker, for all who share it."""
        await self._queue.aclose()

    def warm_up(self) -> None:
        """Decode a second of faint noise, so that the first user doesn't pay for first-run allocations."""
        noise = np.random.default_rng(0).normal(0.0, 0.01, SPEECH_RATE_HZ).astype(np.float32)
        self._transcribe(noise, self._languages.chosen(None), logprobs=False)

    def _transcribe(self, audio: NDArray[np.float32], language: str, logprobs: bool) -> Transcription:
        if is_silent(audio):
            return Transcription("", () if logprobs else None, language)
        options: dict[str, Any] = {"language": language} if language and self._takes_language else {}
        pieces = [self._recognise(piece, logprobs, options) for piece in split_at_quiet_points(audio)]
        space = word_space(language)
        text = space.join(said for said, _ in pieces if said)
        known = [tokens for _, tokens in pieces if tokens is not None]
        whole = joined(known, space) if logprobs and len(known) == len(pieces) else None
        return Transcription(text, whole, language)

    def _recognise(
        self, audio: NDArray[np.float32], logprobs: bool, options: dict[str, Any]
    ) -> tuple[str, tuple[TokenLogprob, ...] | None]:
        lacking = int(SHORTEST_S * SPEECH_RATE_HZ) - audio.size
        if lacking > 0:
            audio = np.pad(audio, (0, lacking))
        if not logprobs:
            return str(self._model.adapter.recognize(audio, sample_rate=SPEECH_RATE_HZ, **options)).strip(), None
        heard = self._timed.recognize(audio, sample_rate=SPEECH_RATE_HZ, **options)
        text = heard.text.strip()
        if heard.tokens is None or heard.logprobs is None:
            return text, None
        return text, fitted(heard.tokens, heard.logprobs, text)
