"""Kokoro-82M on onnxruntime, in many languages. kokoro-onnx knows the model: its vocabulary, how exports differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.engine_plan import Device
from models.engines.kokoro_speaker import KokoroSpeaker
from models.engines.kokoro_voices import KokoroVoices
from models.engines.ort_providers import providers_of, require_provider
from models.engines.ort_session import StoppableRun, open_session
from models.engines.phoneme_durations import with_output
from models.engines.voice_map import VoiceMap
from models.inference_worker import InferenceWorker

DURATIONS = "/encoder/Clip_output_0"
"""The value of kokoro-onnx' v1.0 exports that holds how many frames each phoneme takes, float32 [1, phonemes + 2]."""

TOLD_DURATIONS = "duration"
"""The output that tells the same in newer exports."""

_TEXT_PADDING = 0
"""The symbol before and after each text."""


class KokoroSynthesizer(KokoroSpeaker[StoppableRun]):
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
        vocabulary: dict[str, int] = embedded_vocab(self._session) or DEFAULT_VOCAB
        super().__init__(worker, voice_map, vocabulary, letter=letter, languages=languages)
        audio, *others = [output.name for output in self._session.get_outputs()]
        self._durations = next((name for name in others if name in (DURATIONS, TOLD_DURATIONS)), "")
        self._outputs = [audio, *([self._durations] if self._durations else [])]

    def _open_run(self) -> StoppableRun:
        return StoppableRun()

    def _compute(
        self, symbols: str, voice: str, speed: float, run: StoppableRun
    ) -> tuple[NDArray[np.float32], NDArray[np.float64] | None]:
        ids = [_TEXT_PADDING, *(self._vocabulary[symbol] for symbol in symbols), _TEXT_PADDING]
        inputs = {
            self._tokens_input: np.array([ids], self._dtypes[self._tokens_input]),
            "style": self._voices.style(voice, len(symbols)).astype(self._dtypes["style"]),
            "speed": np.array([self._model_speed(speed)], self._dtypes["speed"]),
        }
        audio, *durations = self._session.run(self._outputs, inputs, run.options)
        samples = np.asarray(audio, np.float32).ravel()
        return samples, np.asarray(durations[0], np.float64).ravel() if durations else None

    def _model_speed(self, speed: float) -> float:
        """Return what the graph takes for `speed`: some exports know whole numbers only."""
        return max(1, round(speed)) if self._dtypes["speed"].kind in "iu" else speed
