"""A full-duplex model that can't be had: one sentence that says what to do, before anything is fetched."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import platform
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from gateway.settings import table
from models import native_files, native_loading
from models.engine_plan import EnginePlan, NativePlan
from models.engines.moshi import MODEL as MOSHI
from models.engines.moshi import Moshi
from models.engines.voicechat import MODEL as VOICECHAT
from models.interfaces import EngineError
from models.loading import load_engines
from models.native_files import NativeFiles, find_files, voicechat_problem
from models.native_loading import load_native
from models.weights import WeightsStore

FILES = NativeFiles("VoiceChat", ("mlx_vlm", "mlx-vlm"), VOICECHAT, ("*",), voicechat_problem, 3_000_000)
WORKING_SET = "max_recommended_working_set_size"
"""What Metal says that the GPU can hold, by MLX's name."""


def sentence(act: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(EngineError) as caught:
        act()
    assert len(re.findall(r"\.( |$)", caught.value.message)) == 1, "one sentence"
    return caught.value.code, caught.value.message


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Stand in for MLX on Apple Silicon, with 32 GB of memory, of which the GPU takes 22."""
    core: Any = ModuleType("mlx.core")
    core.gpu, core.cpu, core.clear_streams = "gpu", "cpu", lambda: None
    machine = SimpleNamespace(kind="gpu", memory=32_000_000_000, info={WORKING_SET: 22_000_000_000})
    core.device_info = lambda: machine.info
    core.default_device = lambda: SimpleNamespace(type=machine.kind)
    package: Any = ModuleType("mlx")
    package.core = core
    monkeypatch.setitem(sys.modules, "mlx", package)
    monkeypatch.setitem(sys.modules, "mlx.core", core)
    monkeypatch.setattr(native_files, "memory_bytes", lambda: machine.memory)
    return machine


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder as VoiceChat's is published, in two parts of 1 MB."""
    path = tmp_path / "voicechat"
    path.mkdir()
    (path / "config.json").write_text(json.dumps({"model_type": "nemotron_voicechat"}))
    parts = [f"model-0000{number}-of-00002.safetensors" for number in (1, 2)]
    (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": dict(zip("ab", parts, strict=True))}))
    for part in parts:
        (path / part).write_bytes(bytes(1_000_000))
    return path


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (("darwin", "arm64"), r"needs the package {package}: pip install 'duplex-gateway\[duplex\]'\.$"),
        (("linux", "x86_64"), r"needs the package {package}: pip install 'duplex-gateway\[duplex\]'\.$"),
        (
            ("darwin", "x86_64"),
            r"needs a Mac with Apple Silicon, and this is .*: take the engine scripted, or serve it",
        ),
        (("win32", "AMD64"), r"needs a Mac with Apple Silicon, and this is .*: take the engine scripted, or serve it"),
    ],
)
@pytest.mark.parametrize("tiny", [False, True])
@pytest.mark.parametrize(("engine", "package"), [("voicechat", "mlx-vlm"), ("moshi", "mlx-audio")])
def test_without_the_package_it_is_named(
    engine: Any,
    package: str,
    tiny: bool,
    machine: tuple[str, str],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "platform", machine[0])
    monkeypatch.setattr(platform, "machine", lambda: machine[1])
    code, message = sentence(lambda: asyncio.run(load_native(NativePlan(engine, tiny=tiny))))
    assert code == "duplex_not_installed"
    assert re.search(words.format(package=package), message), message


def test_a_machine_without_a_gpu_for_mlx_is_told_of_tiny(gpu: SimpleNamespace) -> None:
    gpu.kind = "cpu"
    code, message = sentence(lambda: find_files(FILES, "", None))
    assert code == "duplex_no_gpu"
    entry = next(entry for entry in table() if entry.name == "duplex_tiny")
    assert f"give duplex-server --tiny, or serve {entry.flag} ({entry.env}=1), to run the same code" in message


def test_a_whole_folder_is_taken(gpu: SimpleNamespace, folder: Path) -> None:
    assert find_files(FILES, str(folder), None) == folder


@pytest.mark.parametrize("told", [True, False])
def test_weights_and_a_conversation_that_the_gpu_cannot_hold_are_refused(
    gpu: SimpleNamespace, folder: Path, told: bool
) -> None:
    if told:
        gpu.info = {WORKING_SET: 5_000_000}
    else:
        gpu.info, gpu.memory = {}, 6_666_668  # of which three quarters are counted
    assert find_files(FILES, str(folder), None) == folder
    gpu.info, gpu.memory = ({WORKING_SET: 4_999_999} if told else {}), 6_666_664
    code, message = sentence(lambda: find_files(FILES, str(folder), None))
    assert code == "duplex_too_large"
    assert f"a smaller conversion, such as {VOICECHAT}" in message


def test_what_a_model_takes_is_said_as_it_is_refused(
    gpu: SimpleNamespace, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_loading, "require_package", lambda *_given: None)
    gpu.info = {WORKING_SET: 3_000_000_000}
    _, message = sentence(lambda: asyncio.run(load_native(NativePlan("voicechat", str(folder)))))
    assert "0.0 GB of weights and 4.0 GB for a conversation (computed), and the GPU here can hold 3.0 GB" in message


@pytest.mark.parametrize("name", ["./nowhere", "~/nowhere", "/nowhere/at/all", "two words/model", "a/b/c"])
def test_a_folder_that_is_not_there_is_named(gpu: SimpleNamespace, name: str) -> None:
    code, message = sentence(lambda: find_files(FILES, name, None))
    assert code == "duplex_not_loaded"
    assert message.startswith(f"There is no folder {name}: give DUPLEX_MODEL")


def damaged(folder: Path, what: str) -> None:
    match what:
        case "has no config.json":
            (folder / "config.json").unlink()
        case "has a damaged config.json":
            (folder / "config.json").write_text("{")
        case "holds a model of another architecture (moshi)":
            (folder / "config.json").write_text('{"model_type": "moshi"}')
        case "holds a model of another architecture (None)":
            (folder / "config.json").write_text("[]")
        case "has a damaged model.safetensors.index.json":
            (folder / "model.safetensors.index.json").write_text('{"weight_map": 3}')
        case "lacks model-00002-of-00002.safetensors":
            (folder / "model-00002-of-00002.safetensors").unlink()
        case "lacks model.safetensors":
            (folder / "model.safetensors.index.json").unlink()


@pytest.mark.parametrize(
    "what",
    [
        "has no config.json",
        "has a damaged config.json",
        "holds a model of another architecture (moshi)",
        "holds a model of another architecture (None)",
        "has a damaged model.safetensors.index.json",
        "lacks model-00002-of-00002.safetensors",
        "lacks model.safetensors",
    ],
)
def test_what_is_wrong_with_a_folder_is_said(gpu: SimpleNamespace, folder: Path, what: str) -> None:
    damaged(folder, what)
    code, message = sentence(lambda: find_files(FILES, str(folder), None))
    assert code == "duplex_not_loaded"
    assert f"which {what}: give it a folder with the files of {VOICECHAT}" in message


def test_a_folder_of_moshis_is_told_from_others(
    gpu: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_loading, "require_package", lambda *_given: None)

    def message() -> str:
        return sentence(lambda: asyncio.run(load_native(NativePlan("moshi", str(tmp_path)))))[1]

    assert "which has none of model.safetensors, model.q4.safetensors, model.q8.safetensors: " in message()
    (tmp_path / "model.q4.safetensors").touch()
    assert f"which lacks tokenizer_spm_32k_3.model: give it a folder with the files of {MOSHI}" in message()


@pytest.mark.parametrize(
    ("source", "voice", "licence"),
    [
        ("kyutai/moshiko-mlx-q4", "moshiko", "CC-BY-4.0"),
        ("kyutai/moshika-mlx-q8", "moshika", "CC-BY-4.0"),
        ("/models/Moshika-mlx-bf16", "moshika", ""),
        ("my/duplex", "moshi", ""),
        ("", "moshiko", ""),
    ],
)
async def test_moshis_voice_is_that_of_its_weights(source: str, voice: str, licence: str) -> None:
    model = Moshi("Moshi", source)
    assert model.abilities.voices == (voice,)
    assert model.info.licence == licence
    await model.aclose()


async def test_engines_that_were_loaded_before_are_closed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from models.engines.scripted import ScriptedChat

    closed = []

    async def aclose(self: ScriptedChat) -> None:
        closed.append(self)

    monkeypatch.setattr(ScriptedChat, "aclose", aclose, raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EngineError):
        await load_engines(EnginePlan(native=NativePlan("voicechat", tiny=True)), store=WeightsStore(tmp_path))
    assert len(closed) == 1
