"""Speech to text by mlx-audio, on Apple Silicon's GPU: Parakeet, Whisper, Qwen3-ASR and its other recognisers.

Only models of random weights have run on the machines of this project: how fast and how good the real ones are is not
measured here.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.engines.mlx_languages import language_names, told_language
from models.engines.mlx_runtime import Stop, load_model
from models.engines.recognition_queue import RecognitionQueue
from models.engines.spoken_languages import SpokenLanguages
from models.inference_worker import InferenceWorker
from models.interfaces import Transcription
from models.long_audio import is_silent, split_at_quiet_points
from models.resampling import SPEECH_RATE_HZ, to_float16k
from models.word_spaces import word_space

SHORTEST_S = 0.5
"""Shorter audio is filled up with silence: Parakeet's features are normalised over time, which needs some (chosen)."""


class MlxRecognizer:
    """SpeechRecognizer over one model of mlx-audio. It tells no log probabilities, as mlx-audio doesn't.

    A recognition stops between two pieces of long audio, one by a TDT model (Parakeet) between two of its steps.
    """

    def __init__(self, model: str, worker: InferenceWorker, *, language: str = "") -> None:
        """Load `model`, a name or a folder, in the worker's thread. Raises EngineError.

        `language`: what is spoken where the client names none, "": detected.
        """
        self._queue = RecognitionQueue(worker)
        self._model = load_model("asr", model)
        self._takes = frozenset(inspect.signature(self._model.generate).parameters)
        name = Path(model).name
        self._names = language_names(self._model, name)
        self._languages = SpokenLanguages(name, self._names, own=language)
        self.languages = self._languages.known
        self._running = Stop()
        if isinstance(getattr(self._model, "durations", None), list):
            self._model.durations = _Steps(self._model.durations, self)

    async def transcribe(
        self,
        pcm: bytes,
        *,
        language: str | None = None,
        prompt: str = "",
        partial_of: str | None = None,
        logprobs: bool = False,
    ) -> Transcription | None:
        """Return the words of `pcm`; see SpeechRecognizer."""
        stop = Stop()
        spoken = self._languages.chosen(language)

        def job() -> Transcription:
            self._running = stop
            return self._transcribe(to_float16k(pcm), spoken, prompt)

        return await self._queue.run(job, stop=stop.stop, partial_of=partial_of)

    async def aclose(self) -> None:
        """Close the worker, for all who share it."""
        await self._queue.aclose()

    def warm_up(self) -> None:
        """Decode a second of noise. Call it in the worker's thread."""
        noise = np.random.default_rng(0).normal(0.0, 0.01, SPEECH_RATE_HZ).astype(np.float32)
        self._transcribe(noise, self._languages.chosen(None), "")

    def check(self) -> None:
        """Raise StoppedError if the recognition that runs was cancelled."""
        self._running.check()

    def _transcribe(self, audio: NDArray[np.float32], language: str, prompt: str) -> Transcription:
        if is_silent(audio):
            return Transcription("", None, language)
        texts = []
        for piece in split_at_quiet_points(audio):
            self.check()
            text, detected = self._recognise(piece, language, prompt)
            language = language or detected
            texts.append(text)
        return Transcription(word_space(language).join(text for text in texts if text), None, language)

    def _recognise(self, audio: NDArray[np.float32], language: str, prompt: str) -> tuple[str, str]:
        """Return a piece's text and the language that the model detected in it, "" if it doesn't say."""
        import mlx.core as mx

        lacking = int(SHORTEST_S * SPEECH_RATE_HZ) - audio.size
        if lacking > 0:
            audio = np.pad(audio, (0, lacking))
        name = language if self._names is None else self._names.get(language, "")
        told = {
            "verbose": False,
            "language": name,
            "source_lang": name,  # Canary's, which would else take all for English, and translate what isn't
            "target_lang": name,
            "hotwords": [prompt] if prompt else [],
        }
        options = {option: value for option, value in told.items() if option in self._takes and value not in ("", [])}
        heard = self._model.generate(mx.array(audio), **options)
        mx.clear_cache()  # buffers of this audio's length are of no use to the next, and the GPU shares memory with all
        return str(heard.text).strip(), told_language(getattr(heard, "language", None))


class _Steps(list[int]):
    """The durations that a TDT model chooses from. Its decoder looks one up at each step: there it can be stopped."""

    def __init__(self, durations: list[int], recognizer: MlxRecognizer) -> None:
        super().__init__(durations)
        self._recognizer = recognizer

    def __getitem__(self, index: Any) -> Any:
        self._recognizer.check()
        return super().__getitem__(index)
