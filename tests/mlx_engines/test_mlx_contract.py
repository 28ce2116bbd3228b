"""All that we use of MLX and of mlx-audio, by name: a release that lacks one of them fails here, and says which."""

import dataclasses
import importlib
import inspect
from typing import Any

import pytest

ATTRIBUTES = (
    ("mlx.core", "array"),
    ("mlx.core", "clear_cache"),
    ("mlx.core", "clear_streams"),
    ("mlx.core", "float32"),
    ("mlx.core", "load"),
    ("mlx.core", "random.seed"),
    ("mlx.core", "array.astype"),
    ("mlx.core", "array.shape"),
    ("mlx.core", "array.size"),
    ("mlx_audio.stt", "load"),
    ("mlx_audio.tts", "load"),
    ("mlx_audio.stt.models.whisper.tokenizer", "LANGUAGES"),
    ("mlx_audio.stt.models.whisper", "Model.num_languages"),
    ("mlx_audio.stt.models.whisper", "Model.is_multilingual"),
    ("mlx_audio.stt.models.parakeet", "Model.generate"),
    ("mlx_audio.stt.models.nemo.alignment", "AlignedResult"),
    ("mlx_audio.tts.models.kokoro.kokoro", "Model.__call__"),
)

PARAMETERS = {
    "mlx_audio.stt:load": ("model_path",),
    "mlx_audio.tts:load": ("model_path",),
    "mlx_audio.utils:base_load_model": ("model_path", "kwargs"),  # takes model_type
    "mlx_audio.stt.models.parakeet:Model.generate": ("audio",),
    "mlx_audio.stt.models.whisper:Model.generate": ("audio", "language", "hotwords", "verbose"),
    "mlx_audio.stt.models.qwen3_asr:Qwen3ASRModel.generate": ("audio", "language", "hotwords", "verbose"),
    "mlx_audio.stt.models.canary:Model.generate": ("audio", "source_lang", "target_lang", "verbose"),
    "mlx_audio.tts.models.kokoro:Model.__call__": ("phonemes", "ref_s", "speed", "return_output"),
    "mlx_audio.tts.models.qwen3_tts:Model.generate": (
        "text",
        "voice",
        "speed",
        "lang_code",
        "stream",
        "streaming_interval",
        "verbose",
    ),
}

FIELDS = {
    "mlx_audio.stt.models.base:STTOutput": ("text", "language"),
    "mlx_audio.stt.models.nemo.alignment:AlignedResult": ("text",),
    "mlx_audio.stt.models.parakeet.parakeet:TDTDecodingArgs": ("durations",),
    "mlx_audio.stt.models.qwen3_asr:ModelConfig": ("support_languages",),
    "mlx_audio.stt.models.canary:ModelConfig": ("supported_languages",),
    "mlx_audio.tts.models.base:GenerationResult": ("audio", "sample_rate"),
    "mlx_audio.tts.models.kokoro:ModelConfig": ("vocab", "model_path"),
    "mlx_audio.tts.models.kokoro:Model.Output": ("audio", "pred_dur"),
}


def found(module: str, path: str) -> Any:
    value: Any = importlib.import_module(module)
    for name in path.split("."):
        value = getattr(value, name)
    return value


@pytest.mark.parametrize(("module", "path"), ATTRIBUTES)
def test_what_we_use_is_there(module: str, path: str) -> None:
    assert found(module, path) is not None


@pytest.mark.parametrize(("function", "parameter"), [(name, one) for name, all_ in PARAMETERS.items() for one in all_])
def test_what_we_say_is_taken(function: str, parameter: str) -> None:
    assert parameter in inspect.signature(found(*function.split(":"))).parameters


@pytest.mark.parametrize(("result", "field"), [(name, one) for name, all_ in FIELDS.items() for one in all_])
def test_what_we_read_is_told(result: str, field: str) -> None:
    assert field in {known.name for known in dataclasses.fields(found(*result.split(":")))}


def test_voices_and_weights_of_kokoro_are_fetched_together() -> None:
    from mlx_audio.utils import DEFAULT_ALLOW_PATTERNS

    assert "*.safetensors" in DEFAULT_ALLOW_PATTERNS  # of the hub's patterns, a star matches slashes, too
