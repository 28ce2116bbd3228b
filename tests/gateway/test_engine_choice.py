"""Settings, and the plan that engines are loaded by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.engine_choice import engine_plan
from gateway.settings import Settings
from models.engine_plan import KOKORO_ON_HUB


def engines(**settings: Any) -> tuple[str, str, str, str]:
    plan = engine_plan(Settings(**settings))
    return plan.vad, plan.asr.engine, plan.tts.engine, plan.chat.engine


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"profile": "embedded"}, ("silero", "moonshine", "piper", "embedded")),
        ({"profile": "quality"}, ("silero", "onnx", "kokoro", "embedded")),
        ({"profile": "mlx"}, ("silero", "mlx", "mlx", "embedded")),
        ({"profile": "endpoints"}, ("silero", "endpoint", "endpoint", "embedded")),
        ({"profile": "scripted"}, ("scripted", "scripted", "scripted", "scripted")),
        ({"profile": "quality", "asr": "whisper"}, ("silero", "whisper", "kokoro", "embedded")),
        ({"profile": "quality", "tts_base_url": "http://x/v1"}, ("silero", "onnx", "endpoint", "embedded")),
        ({"profile": "scripted", "foreground_base_url": "http://x"}, ("scripted", "scripted", "scripted", "endpoint")),
        ({"profile": "scripted", "foreground_gguf": Path("a")}, ("scripted", "scripted", "scripted", "embedded")),
        ({"profile": "scripted", "vad": "silero"}, ("silero", "scripted", "scripted", "scripted")),
        ({"profile": "embedded", "asr_language": "fr-CA"}, ("silero", "whisper", "piper", "embedded")),
        ({"profile": "embedded", "tts_language": "ja"}, ("silero", "moonshine", "kokoro", "embedded")),
        (
            {"profile": "embedded", "asr_language": "en-GB", "tts_language": "EN"},
            ("silero", "moonshine", "piper", "embedded"),
        ),
        ({"profile": "quality", "asr_language": "fr", "tts_language": "fr"}, ("silero", "onnx", "kokoro", "embedded")),
    ],
)
def test_a_profile_gives_each_role_an_engine_unless_another_is_set(
    settings: dict[str, Any], expected: tuple[str, str, str, str]
) -> None:
    assert engines(**settings) == expected


def test_each_role_gets_its_own_address_key_and_model() -> None:
    values = {
        f"{role}_{name}": f"{role} {name}"
        for role in ("asr", "tts", "foreground")
        for name in ("base_url", "api_key", "model")
    }
    plan = engine_plan(Settings(**values))
    for role, part in (("asr", plan.asr), ("tts", plan.tts), ("foreground", plan.chat)):
        assert (part.base_url, part.api_key, part.model) == (f"{role} base_url", f"{role} api_key", f"{role} model")
        assert "api_key" not in repr(part)


def test_a_profiles_model_of_the_voice_is_for_its_own_engine_only() -> None:
    assert engine_plan(Settings(profile="quality")).tts.model == KOKORO_ON_HUB
    assert engine_plan(Settings(profile="quality", tts_model="mine")).tts.model == "mine"
    assert engine_plan(Settings(profile="quality", tts_base_url="http://x/v1")).tts.model == ""
    assert engine_plan(Settings(profile="quality", tts="mlx")).tts.model == ""


def test_voices_are_pairs_and_a_home_folder_is_written_out() -> None:
    plan = engine_plan(Settings(tts_voices=("marin = af_heart", "x=a=b"), asr_model="~/parakeet"))
    assert plan.tts.voices == (("marin", "af_heart"), ("x", "a=b"))
    assert plan.asr.model == str(Path("~/parakeet").expanduser())
