"""Moonshine tiny-en on onnxruntime: English speech to text, about 30 ms of one core for a second of audio.

The model reads a whole utterance and writes its text token by token (greedy), with a key/value cache. It ends every
text with punctuation, so its full stop says nothing about whether the user is done.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.engines.ort_session import StoppableRun, open_session
from models.engines.recognition_queue import RecognitionQueue
from models.engines.spoken_languages import SpokenLanguages
from models.inference_worker import InferenceWorker
from models.interfaces import TokenLogprob, Transcription
from models.long_audio import is_silent, split_at_quiet_points
from models.resampling import SPEECH_RATE_HZ, to_float16k

TRAILING_SILENCE_S = 0.3
"""Zeros put behind each piece. Where audio ends with the last sound, short words repeat ("Five, five, five…"). 0.25 s
of silence cured all cases tried and took the word error rate of 12 spoken sentences from 5 % to 0 (2026-11-29)."""

MIN_MEAN_LOG_PROBABILITY = -1.0
"""A text less likely than this (mean of its tokens' natural log) is taken as noise: Whisper's own threshold. Here clear
speech has −0.02…−0.25, speech in noise at +10 dB −0.13…−0.37, noise alone −0.03…−2.5, so this
catches part of it (2026-11-29)."""

NOISE_TEXTS = frozenset({"You", "Thank you for watching.", "Thank you for watching!"})
"""What Moonshine wrote on 41 of 49 pieces of white and brown noise and hum (2026-11-29). It ends real words with a
full stop, so a spoken "You." still comes through."""

_MAX_TOKENS_PER_S = 6.5
"""Bound of the output length, about that of Moonshine's reference decoder (6): stops runaway repetition."""

_EXTRA_TOKENS = 8
_START_TOKEN = 1
_END_TOKEN = 2

_Tokens = list[tuple[bytes, float]]
"""Tokens in UTF-8 with their log probabilities; joined they are the text."""


class MoonshineRecognizer:
    """SpeechRecognizer over `encoder_model.ort`, `decoder_model_merged.ort` and `tokenizer.bin` in `folder`.

    English only: any `language` is accepted and treated as English. One thread for each inference; up to as many at
    once as `worker` has threads.
    """

    languages = frozenset({"en"})

    def __init__(self, folder: Path, worker: InferenceWorker, *, language: str = "") -> None:
        """`language`: what is spoken where a client names none; any but English is told of in the log."""
        self._queue = RecognitionQueue(worker)
        self._languages = SpokenLanguages("Moonshine tiny-en", ("en",), own=language)
        self._encoder = open_session(folder / "encoder_model.ort")
        self._decoder = open_session(folder / "decoder_model_merged.ort")
        self._tokens = read_tokens((folder / "tokenizer.bin").read_bytes())
        self._cache_names = [
            output.name.replace("present", "past_key_values") for output in self._decoder.get_outputs()[1:]
        ]
        self._empty_cache = {
            value.name: np.zeros((1, value.shape[1], 0, value.shape[3]), np.float32)
            for value in self._decoder.get_inputs()
            if value.name.startswith("past_key_values")
        }

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
        self._languages.chosen(language)  # for the log
        run = StoppableRun()

        def job() -> Transcription:
            tokens = self._transcribe(to_float16k(pcm), run)
            text = b"".join(token for token, _ in tokens).decode("utf-8", "replace")
            return Transcription(text, _with_text(tokens) if logprobs else None, "en")

        return await self._queue.run(job, stop=run.stop, partial_of=partial_of)

    async def aclose(self) -> None:
        """Close the worker, for all who share it."""
        await self._queue.aclose()

    def warm_up(self) -> None:
        """Decode half a second of faint noise, so that the first user doesn't pay for first-run allocations."""
        noise = np.random.default_rng(0).normal(0.0, 0.01, SPEECH_RATE_HZ // 2).astype(np.float32)
        self._transcribe(noise, StoppableRun())

    def _transcribe(self, audio: NDArray[np.float32], run: StoppableRun) -> _Tokens:
        if is_silent(audio):
            return []
        whole: _Tokens = []
        for piece in split_at_quiet_points(audio):
            tokens = self._decode(piece, run)
            if whole and tokens:
                tokens[0] = (b" " + tokens[0][0], tokens[0][1])
            whole += tokens
        return whole

    def _decode(self, audio: NDArray[np.float32], run: StoppableRun) -> _Tokens:
        audio_s = audio.size / SPEECH_RATE_HZ
        values = np.pad(audio, (0, int(TRAILING_SILENCE_S * SPEECH_RATE_HZ)))[None]
        mask = np.ones(values.shape, np.int64)
        (hidden,) = self._encoder.run(None, {"input_values": values, "attention_mask": mask}, run.options)
        # The decoder wants the mask of raw samples too: it strides by 384 itself; a mask of frames fails beyond 9.2 s.
        fixed = {"encoder_hidden_states": hidden, "encoder_attention_mask": mask}
        cache: dict[str, Any] = dict(self._empty_cache)
        token = _START_TOKEN
        tokens: list[int] = []
        log_probabilities: list[float] = []
        for step in range(int(audio_s * _MAX_TOKENS_PER_S) + _EXTRA_TOKENS):
            inputs = {
                "input_ids": np.array([[token]], np.int64),
                "use_cache_branch": np.array([step > 0]),
                **fixed,
                **cache,
            }
            logits, *new_cache = self._decoder.run(None, inputs, run.options)
            for name, value in zip(self._cache_names, new_cache, strict=True):
                if step == 0 or ".decoder." in name:  # the encoder's part is computed once, by the first step
                    cache[name] = value
            scores = logits[0, -1]
            token = int(scores.argmax())
            log_probabilities.append(-float(np.log(np.exp(scores - scores[token]).sum())))
            if token == _END_TOKEN:
                break
            tokens.append(token)
        if sum(log_probabilities) / (len(tokens) + 1) < MIN_MEAN_LOG_PROBABILITY:
            return []
        said = stripped(
            [
                (self._tokens[token].replace("▁".encode(), b" "), log_probability)
                for token, log_probability in zip(tokens, log_probabilities, strict=False)  # the end has one as well
                if _END_TOKEN < token < len(self._tokens)
            ]
        )
        return [] if b"".join(token for token, _ in said).decode("utf-8", "replace") in NOISE_TEXTS else said


def stripped(tokens: _Tokens) -> _Tokens:
    """Return `tokens` without the blanks at the text's ends; tokens of nothing else leave."""
    tokens = list(tokens)
    while tokens and not tokens[0][0].lstrip():
        del tokens[0]
    while tokens and not tokens[-1][0].rstrip():
        del tokens[-1]
    if tokens:
        tokens[0] = (tokens[0][0].lstrip(), tokens[0][1])
        tokens[-1] = (tokens[-1][0].rstrip(), tokens[-1][1])
    return tokens


def _with_text(tokens: _Tokens) -> tuple[TokenLogprob, ...]:
    return tuple(TokenLogprob(utf8.decode("utf-8", "replace"), logprob, utf8) for utf8, logprob in tokens)


def read_tokens(table: bytes) -> list[bytes]:
    """Return the texts of all tokens of Moonshine's `tokenizer.bin`: length-prefixed (1 or 2 bytes) byte strings."""
    tokens = []
    position = 0
    while position < len(table):
        length = table[position]
        position += 1
        if length >= 128:  # two bytes: low seven bits, then the rest in units of 128
            length = length - 128 + 128 * table[position]
            position += 1
        tokens.append(table[position : position + length])
        position += length
    return tokens
