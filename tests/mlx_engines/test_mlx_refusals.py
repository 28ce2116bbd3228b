import json
import sys
from pathlib import Path

import pytest

from models.engine_plan import AsrPlan, EnginePlan, TtsPlan
from models.interfaces import EngineError
from tests.mlx_engines.conftest import Load


async def refusal(load: Load, plan: EnginePlan) -> str:
    with pytest.raises(EngineError) as caught:
        await load(plan)
    assert caught.value.code == "model_missing"
    return caught.value.message


async def test_a_hub_out_of_reach_is_one_sentence(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    assert await refusal(load, EnginePlan(asr=AsrPlan("mlx", "mlx-community/nobody-has-this"))) == (
        "The model mlx-community/nobody-has-this can't be fetched from the model hub (LocalEntryNotFoundError): check "
        "the name and the network, or give --asr-model a folder with the model's files."
    )


async def test_a_folder_that_is_not_there_is_one_sentence(load: Load, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    assert await refusal(load, EnginePlan(tts=TtsPlan("mlx", str(nowhere)))) == (
        f"There is no folder {nowhere}: give --tts-model a folder with a model's files, or a repository of the model "
        "hub."
    )


async def test_a_folder_that_holds_no_model_is_one_sentence(load: Load, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert await refusal(load, EnginePlan(asr=AsrPlan("mlx", str(tmp_path / "empty")))) == (
        "The model in the folder empty can't be loaded (FileNotFoundError): fetch it anew."
    )


async def test_an_architecture_that_mlx_audio_lacks_is_one_sentence(load: Load, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.json").write_text(json.dumps({"model_type": "clay_tablet"}))
    assert await refusal(load, EnginePlan(asr=AsrPlan("mlx", str(tmp_path / "other")))) == (
        "mlx-audio knows no such architecture as that of other: give --asr-model another model."
    )


async def test_a_package_that_a_model_needs_is_named(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "requests", None)  # mlx-vlm, which is here, too, would bring it
    (tmp_path / "pocket").mkdir()
    (tmp_path / "pocket" / "config.json").write_text(json.dumps({"model_type": "pocket_tts"}))
    assert await refusal(load, EnginePlan(tts=TtsPlan("mlx", str(tmp_path / "pocket")))) == (
        "The model pocket needs the package requests, which mlx-audio doesn't bring: pip install it."
    )


async def test_damaged_weights_are_one_sentence(load: Load, parakeet: Path, tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    folder.mkdir()
    (folder / "config.json").write_text((parakeet / "config.json").read_text())
    (folder / "model.safetensors").write_bytes((parakeet / "model.safetensors").read_bytes()[:1000])
    assert (await refusal(load, EnginePlan(asr=AsrPlan("mlx", str(folder))))).startswith(
        "The model in the folder damaged can't be loaded ("
    )


async def test_a_voice_that_fails_at_its_first_word_is_one_sentence(load: Load, kitten: Path, tmp_path: Path) -> None:
    folder = tmp_path / "kitten-without-voices"
    folder.mkdir()
    for name in ("config.json", "model.safetensors"):
        (folder / name).symlink_to(kitten / name)
    with pytest.raises(EngineError) as caught:
        await load(EnginePlan(tts=TtsPlan("mlx", str(folder))))
    assert caught.value.code == "model_failed"
    assert caught.value.message == (
        "The model kitten-without-voices fails at its first try (RuntimeError): give --tts-model another model."
    )


async def test_a_kokoro_without_voices_is_one_sentence(load: Load, kokoro: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mute"
    folder.mkdir()
    for name in ("config.json", "model.safetensors"):
        (folder / name).symlink_to(kokoro / name)
    assert "has no voices/*.safetensors" in await refusal(load, EnginePlan(tts=TtsPlan("mlx", str(folder))))
