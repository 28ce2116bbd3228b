"""Kokoro-82M on MLX: read, cut and voiced as on onnxruntime, computed on Apple Silicon's GPU.

mlx-audio's own reader (misaki) needs spaCy, a download at run time, and a package that overwrites this project's
phonemizer; so its network gets our phonemes. Only a network of random weights has run on the machines of this project:
how fast and how good the real one is on MLX is not measured here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.engines.kokoro_speaker import KokoroSpeaker
from models.engines.mlx_runtime import Stop
from models.engines.voice_map import VoiceMap
from models.inference_worker import InferenceWorker
from models.interfaces import EngineError

_VOICE_KEY = "voice"
"""The name of the only tensor, float32 [phonemes, 1, 256], in each of voices/*.safetensors."""


def is_kokoro(model: Any) -> bool:
    """Return whether a model of mlx-audio is Kokoro."""
    return type(model).__module__.startswith("mlx_audio.tts.models.kokoro.")


def voice_names(model: Any) -> tuple[str, ...]:
    """Return the names of the voices that lie beside the weights. Raises EngineError if there are none."""
    names = tuple(sorted(path.stem for path in _voices(model).glob("*.safetensors")))
    if not names:
        raise EngineError(
            "model_missing", "The folder of Kokoro has no voices/*.safetensors: fetch it anew, or correct --tts-model."
        )
    return names


def _voices(model: Any) -> Path:
    return Path(model.config.model_path) / "voices"


class MlxKokoro(KokoroSpeaker[Stop]):
    """SpeechSynthesizer over mlx-audio's Kokoro. It stops between two parts of a text."""

    def __init__(
        self,
        model: Any,
        worker: InferenceWorker,
        voice_map: VoiceMap,
        *,
        letter: str | None = None,
        languages: frozenset[str] | None = None,
    ) -> None:
        """Speak by mlx-audio's `model`, loaded. `languages`: what its voices read here."""
        super().__init__(worker, voice_map, dict(model.vocab), letter=letter, languages=languages)
        self._model = model
        self._styles: dict[str, Any] = {}

    def _open_run(self) -> Stop:
        return Stop()

    def _compute(
        self, symbols: str, voice: str, speed: float, run: Stop
    ) -> tuple[NDArray[np.float32], NDArray[np.float64] | None]:
        import mlx.core as mx

        run.check()
        styles = self._styles_of(voice)
        mx.random.seed(0)  # the noise in its breath: the same text gives the same samples
        output = self._model(symbols, styles[min(len(symbols), styles.shape[0]) - 1], speed, return_output=True)
        samples: NDArray[np.float32] = np.array(output.audio.astype(mx.float32)).ravel()
        durations = None if output.pred_dur is None else np.array(output.pred_dur).astype(np.float64).ravel()
        mx.clear_cache()  # buffers of this text's length are of no use to the next, and the GPU shares memory with all
        return samples, durations

    def _styles_of(self, voice: str) -> Any:
        import mlx.core as mx

        if voice not in self._styles:
            self._styles[voice] = mx.load(str(_voices(self._model) / f"{voice}.safetensors"))[_VOICE_KEY]
        return self._styles[voice]
