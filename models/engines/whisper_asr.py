"""Whisper base on CTranslate2: speech to text in 99 languages, which it can also detect.

CTranslate2 is called directly. Its usual front end would add FFmpeg and a tokenizer to read files and prompts; here the
audio is decoded already, the features are ours (`models/log_mel.py`), and tokens are read by GPT-2's byte table.

Whisper was trained on windows of 30 s, and computing one takes the same time however little is said. It reads shorter
windows too, as long as silence follows the words; see `MIN_WINDOW_S`.
"""

from __future__ import annotations

import json
import os
import threading
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.engine_plan import Device
from models.engines.recognised_tokens import joined
from models.engines.recognition_queue import RecognitionQueue
from models.engines.spoken_languages import SpokenLanguages
from models.engines.whisper_tokens import text_tokens
from models.inference_worker import InferenceWorker
from models.interfaces import EngineError, TokenLogprob, Transcription
from models.log_mel import log_mel
from models.long_audio import is_silent, split_at_quiet_points
from models.resampling import SPEECH_RATE_HZ, to_float16k
from models.speech_worker import SPEECH_THREADS
from models.word_spaces import word_space

WINDOW_S = 30.0
"""What Whisper was trained on."""

MIN_WINDOW_S = 10.0
"""Shortest window. With 10 s, 14 clips of 1 to 4 s in seven languages had a character error rate of 11.8 % instead of
9.8 %, twelve English ones the same word error rate (7 %), and an utterance took 0.4 s instead of 1.3 s of one core;
windows without silence behind the words made texts repeat without end (2026-11-29)."""

MARGIN_S = 3.0
"""Silence behind the words within the window: 3 s and 5 s were the same on 15 English readings of 9…23 s."""

MIN_MEAN_LOGPROB = -1.0
NO_SPEECH_PROBABILITY = 0.6
"""Whisper's own thresholds: a text that is less likely than the first, where no speech is likelier than the second, is
none (openai/whisper, `transcribe`)."""

REPETITIVE = 2.4
"""Whisper's own: a text that zlib makes smaller by more than this repeats itself. It is decoded again in a whole
window; one that then goes on to the bound of its length is what noise sounds like to Whisper, and dropped."""

_TOKENS_PER_S = 16
"""Bound of the output length: languages whose letters are tokens (Hindi, Thai) need about 10."""

_EXTRA_TOKENS = 16
_MOST_TOKENS = 220
"""Whisper's own: half its context of 448."""


class Stopped(Exception):
    """Nobody waits for this recognition any more."""


class WhisperRecognizer:
    """SpeechRecognizer over `model.bin`, `config.json` and `vocabulary.txt` in `folder`.

    Up to as many recognitions at once as the shared worker has threads. A cancelled one ends with its present step, of
    which there are three for each 30 s of audio.
    """

    def __init__(self, folder: Path, worker: InferenceWorker, *, device: Device = "auto", language: str = "") -> None:
        """`language`: what is spoken where the client names none, "": detected. Raises EngineError."""
        try:
            import ctranslate2
        except ImportError as error:
            raise EngineError(
                "engine_missing",
                "The recogniser `whisper` needs the package ctranslate2: pip install 'duplex-gateway[whisper]'.",
            ) from error
        self._queue = RecognitionQueue(worker)
        self._storage = ctranslate2.StorageView
        self.computes_on = _device(device, ctranslate2.get_cuda_device_count())
        self._model: Any = ctranslate2.models.Whisper(
            str(folder),
            device=self.computes_on.lower(),
            compute_type="int8" if self.computes_on == "CPU" else "float16",
            inter_threads=SPEECH_THREADS,
            intra_threads=max(1, min(4, (os.cpu_count() or 1) // 2)),
        )
        vocabulary = (folder / "vocabulary.txt").read_text("utf-8").split("\n")
        ids = json.loads((folder / "config.json").read_text("utf-8"))["lang_ids"]
        self.languages = tuple(vocabulary[number].strip("<|>") for number in ids)
        self._languages = SpokenLanguages("Whisper base", self.languages, own=language)

    async def transcribe(
        self,
        pcm: bytes,
        *,
        language: str | None = None,
        prompt: str = "",
        partial_of: str | None = None,
        logprobs: bool = False,
    ) -> Transcription | None:
        """Return the words of `pcm`; see SpeechRecognizer. Prompts aren't used: they would need Whisper's tokenizer."""
        stopped = threading.Event()
        spoken = self._languages.chosen(language)

        def job() -> Transcription:
            return self._transcribe(to_float16k(pcm), spoken, logprobs, stopped)

        return await self._queue.run(job, stop=stopped.set, partial_of=partial_of)

    async def aclose(self) -> None:
        """Close the worker, for all who share it."""
        await self._queue.aclose()

    def warm_up(self) -> None:
        """Decode half a second of faint noise, so that the first user doesn't pay for first-run allocations."""
        noise = np.random.default_rng(0).normal(0.0, 0.01, SPEECH_RATE_HZ // 2).astype(np.float32)
        self._transcribe(noise, "", False, threading.Event())

    def _transcribe(
        self, audio: NDArray[np.float32], language: str, logprobs: bool, stopped: threading.Event
    ) -> Transcription:
        if is_silent(audio):
            return Transcription("", () if logprobs else None, language)
        pieces: list[tuple[TokenLogprob, ...]] = []
        for piece in split_at_quiet_points(audio):
            tokens, language = self._recognise(piece, language, logprobs, stopped)
            pieces.append(tokens)
        whole = joined(pieces, word_space(language))
        text = b"".join(token.utf8 for token in whole).decode("utf-8", "replace")
        return Transcription(text, whole if logprobs else None, language)

    def _recognise(
        self, audio: NDArray[np.float32], language: str, logprobs: bool, stopped: threading.Event
    ) -> tuple[tuple[TokenLogprob, ...], str]:
        """Return what is said in at most 30 s of audio, and in which language."""
        audio_s = audio.size / SPEECH_RATE_HZ
        window_s = min(WINDOW_S, max(MIN_WINDOW_S, audio_s + MARGIN_S))
        tokens, spoken = self._decode(audio, window_s, language, logprobs, stopped)
        if _repeats(tokens):
            tokens, spoken = self._decode(audio, WINDOW_S, language, logprobs, stopped)
            if _repeats(tokens) and len(tokens) >= _longest_text(audio_s) - 1:
                tokens = ()
        return tokens, spoken

    def _decode(
        self, audio: NDArray[np.float32], window_s: float, language: str, logprobs: bool, stopped: threading.Event
    ) -> tuple[tuple[TokenLogprob, ...], str]:
        window = np.zeros(int(window_s * SPEECH_RATE_HZ), np.float32)
        window[: audio.size] = audio[: window.size]
        encoded = self._model.encode(self._storage.from_array(log_mel(window)[None]))
        _go_on(stopped)
        if not language:
            found: str = self._model.detect_language(encoded)[0][0][0]
            language = found.strip("<|>")
            _go_on(stopped)
        (result,) = self._model.generate(
            encoded,
            [["<|startoftranscript|>", f"<|{language}|>", "<|transcribe|>", "<|notimestamps|>"]],
            beam_size=1,
            max_length=2 * _longest_text(audio.size / SPEECH_RATE_HZ),  # CTranslate2 keeps one half for the prompt
            return_scores=True,
            return_no_speech_prob=True,
            return_logits_vocab=logprobs,
        )
        _go_on(stopped)
        if result.scores[0] < MIN_MEAN_LOGPROB and result.no_speech_prob > NO_SPEECH_PROBABILITY:
            return (), language
        ids = result.sequences_ids[0]
        scores = [_logprob(step, token) for step, token in zip(result.logits[0], ids, strict=False)] if logprobs else ()
        return text_tokens(result.sequences[0], ids, scores), language


def _device(device: Device, cuda_devices: int) -> str:
    """Return what CTranslate2 computes on for the setting `device`. Raises EngineError (device_missing)."""
    if device == "cuda" and not cuda_devices:
        raise EngineError(
            "device_missing",
            "CTranslate2 finds no CUDA device: install NVIDIA's driver and CUDA libraries, or set --device auto.",
        )
    if device == "coreml":
        raise EngineError(
            "device_missing", "Whisper can't compute on CoreML here: set --device auto or cpu, or choose --asr mlx."
        )
    return "CUDA" if cuda_devices and device != "cpu" else "CPU"


def _go_on(stopped: threading.Event) -> None:
    if stopped.is_set():
        raise Stopped


def _longest_text(audio_s: float) -> int:
    """Return how many tokens may be said in `audio_s`."""
    return min(_MOST_TOKENS, int(audio_s * _TOKENS_PER_S) + _EXTRA_TOKENS)


def _repeats(tokens: tuple[TokenLogprob, ...]) -> bool:
    text = b"".join(token.utf8 for token in tokens)
    return bool(text) and len(text) / len(zlib.compress(text)) > REPETITIVE


def _logprob(step: Any, token: int) -> float:
    """Return the natural log probability of `token` among the logits of its step."""
    logits = np.array(step, np.float32).reshape(-1)
    return float(logits[token] - logits.max() - np.log(np.exp(logits - logits.max()).sum()))
