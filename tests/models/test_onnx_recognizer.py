"""onnx-asr's models behind our interface. The library runs for real, on a model of Parakeet's layout made for tones."""

import asyncio
import logging
import shutil
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from models.engine_plan import AsrPlan, EnginePlan
from models.engines.onnx_recognizer import OnnxRecognizer
from models.engines.ort_providers import providers_of, require_provider
from models.engines.ort_session import StoppableRun
from models.inference_worker import InferenceWorker
from models.interfaces import EngineError, SpeechRecognizer, Transcription
from models.loading import load_engines
from models.weights import WeightsStore
from tests.models.tiny_tdt import make_tiny_tdt, speak

SENTENCE = ("▁go", "▁for", "ward", "▁now")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_tdt(tmp_path_factory.mktemp("models") / "tiny-tdt")


@pytest.fixture
async def asr(folder: Path) -> AsyncIterator[OnnxRecognizer]:
    asr = OnnxRecognizer(str(folder), InferenceWorker("asr", 2))
    yield asr
    await asr.aclose()


async def hear(asr: SpeechRecognizer, pcm: bytes, **options: Any) -> Transcription:
    heard = await asr.transcribe(pcm, **options)
    assert heard is not None
    return heard


async def test_a_plan_loads_the_model_in_a_folder_and_it_hears(folder: Path, tmp_path: Path) -> None:
    plan = EnginePlan(asr=AsrPlan("onnx", model=str(folder)))
    engines = await load_engines(plan, store=WeightsStore(tmp_path))
    assert (await hear(engines.asr, speak(*SENTENCE))).text == "go forward now"
    info = next(info for info in engines.infos if info.role == "asr")
    assert (info.name, info.source) == ("tiny-tdt (int8, CPU)", "folder tiny-tdt")
    await engines.aclose()


async def test_tokens_and_how_probable_they_are_add_up_to_the_text(asr: OnnxRecognizer) -> None:
    heard = await hear(asr, speak(*SENTENCE), logprobs=True)
    assert heard.logprobs is not None
    assert [token.token for token in heard.logprobs] == ["go", " for", "ward", " now"]
    assert b"".join(token.utf8 for token in heard.logprobs).decode() == heard.text == "go forward now"
    assert all(-5 < token.logprob < 0 for token in heard.logprobs)


async def test_silence_is_not_decoded_and_noise_is_no_word(asr: OnnxRecognizer) -> None:
    assert await hear(asr, b"") == Transcription("")
    assert await hear(asr, bytes(48_000), logprobs=True) == Transcription("", ())
    assert (await hear(asr, speak())).text == ""
    await hear(
        asr, speak()[:480]
    )  # 10 ms, of which the library alone makes not-a-number (pytest takes warnings for errors)


async def test_long_audio_is_heard_in_pieces_and_comes_out_whole(asr: OnnxRecognizer) -> None:
    pcm = b"".join(speak(*SENTENCE, seed=seed) for seed in range(14))
    assert len(pcm) / 48_000 > 35
    heard = await hear(asr, pcm, logprobs=True)
    assert heard.text == " ".join(["go forward now"] * 14)
    assert heard.logprobs is not None
    assert b"".join(token.utf8 for token in heard.logprobs).decode() == heard.text


async def test_a_look_gives_way_to_a_newer_one_and_never_to_none_when_final(folder: Path) -> None:
    asr = OnnxRecognizer(str(folder), InferenceWorker("asr", 1))
    pcm = speak(*SENTENCE)
    looks = [asyncio.create_task(asr.transcribe(pcm, partial_of="item")) for _ in range(6)]
    final = asyncio.create_task(asr.transcribe(pcm))
    heard = await asyncio.gather(*looks)
    assert heard[-1] == Transcription("go forward now")
    assert None in heard
    assert await final == Transcription("go forward now")
    await asr.aclose()


async def test_a_cancelled_recognition_stops_inside_the_librarys_own_loop(asr: OnnxRecognizer) -> None:
    long = b"".join(speak(*SENTENCE, seed=seed) for seed in range(12))
    run = StoppableRun()
    run.stop()
    with pytest.raises(Exception, match="terminate"):
        asr._current.within(run, lambda: asr._model.adapter.recognize(_floats(long), sample_rate=16_000))
    assert (await hear(asr, speak(*SENTENCE))).text == "go forward now"  # the next job isn't touched


def _floats(pcm: bytes) -> Any:
    from models.resampling import to_float16k

    return to_float16k(pcm)


async def test_cancelling_frees_the_thread(folder: Path) -> None:
    worker = InferenceWorker("asr", 1)
    asr = OnnxRecognizer(str(folder), worker)
    long = b"".join(speak(*SENTENCE, seed=seed) for seed in range(100))
    started = time.monotonic()
    await hear(asr, long)
    whole_s = time.monotonic() - started
    task = asyncio.create_task(asr.transcribe(long))
    await asyncio.sleep(whole_s / 5)
    task.cancel()
    started = time.monotonic()
    assert (await hear(asr, speak(*SENTENCE))).text == "go forward now"
    assert time.monotonic() - started < whole_s / 2
    await asr.aclose()


async def test_full_precision_is_taken_where_there_are_no_small_files_unless_they_were_asked_for(
    tmp_path: Path,
) -> None:
    folder = str(make_tiny_tdt(tmp_path / "plain", suffix=""))
    worker = InferenceWorker("asr", 1)
    assert OnnxRecognizer(folder, worker).description == "plain (fp32, CPU)"
    assert OnnxRecognizer(folder, worker, quantization="fp32").description == "plain (fp32, CPU)"
    with pytest.raises(EngineError, match="has no int8 files: choose others with --asr-quantization"):
        OnnxRecognizer(folder, worker, quantization="int8")
    await worker.aclose()


def refusal(model: str, **options: Any) -> str:
    """Return the one sentence that loading `model` ends with."""
    nothing: Any = None
    with pytest.raises(EngineError) as caught:
        OnnxRecognizer(model, nothing, **options)
    assert "\n" not in caught.value.message
    return f"{caught.value.code}: {caught.value.message}"


def test_what_is_missing_is_said_in_one_sentence(tmp_path: Path, folder: Path) -> None:
    assert refusal(str(tmp_path / "none")).startswith(f"model_missing: There is no folder {tmp_path / 'none'}: give")
    assert refusal("./none").startswith("model_missing: There is no folder ./none")
    assert "onnx-asr knows no model called whisper-9" in refusal("whisper-9")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "has no config.json" in refusal(str(empty))
    (empty / "config.json").write_text('{"model_type": "something-else"}')
    assert "of no type that onnx-asr knows" in refusal(str(empty))
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    (broken / "encoder-model.int8.onnx").write_bytes(b"no graph")
    assert "The model in the folder broken can't be loaded" in refusal(str(broken))


def test_a_hub_that_is_not_there_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import huggingface_hub.constants as hub

    monkeypatch.setattr(hub, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(hub, "HF_HUB_CACHE", str(tmp_path))
    sentence = refusal("")
    assert sentence.startswith("model_missing: The model nemo-parakeet-tdt-0.6b-v3 can't be fetched from the model hub")
    assert "give --asr-model a folder" in sentence


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx_asr.loader", None)
    assert "pip install 'duplex-gateway[onnx-asr]'" in refusal("")


def test_a_device_that_onnxruntime_lacks_is_refused_and_auto_takes_what_there_is(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    import onnxruntime

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    assert providers_of("auto") == providers_of("cpu") == ["CPUExecutionProvider"]
    assert "device_missing: This onnxruntime can't compute on cuda: install" in refusal(str(folder), device="cuda")
    assert "CoreML is part of onnxruntime on macOS only" in refusal(str(folder), device="coreml")
    both = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: both)
    assert providers_of("auto") == providers_of("cuda") == both
    assert providers_of("cpu") == ["CPUExecutionProvider"]


def test_a_device_whose_libraries_are_missing_is_refused_only_where_it_was_asked_for() -> None:
    wanted, used = ["CUDAExecutionProvider", "CPUExecutionProvider"], ["CPUExecutionProvider"]
    require_provider("auto", wanted, used)
    with pytest.raises(EngineError, match="can't compute on cuda"):
        require_provider("cuda", wanted, used)


async def test_a_closed_recognizer_says_so(asr: OnnxRecognizer) -> None:
    await asr.aclose()
    with pytest.raises(EngineError, match="shut down") as caught:
        await asr.transcribe(speak("▁go"))
    assert caught.value.code == "asr_failed"


async def test_a_language_the_model_was_not_trained_on_is_told_of_once(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    english = tmp_path / "nemo-parakeet-tdt-0.6b-v2"
    shutil.copytree(folder, english)
    asr = OnnxRecognizer(str(english), InferenceWorker("asr", 1), language="ja")
    with caplog.at_level(logging.WARNING):
        await hear(asr, speak("▁go"), language="fr-CA")
        await hear(asr, speak("▁go"), language="fr")
        await hear(asr, speak("▁go"), language="en-GB")
    told = [record.getMessage() for record in caplog.records]
    assert [message.split("language ")[1].split(":")[0] for message in told] == ["'ja'", "'fr'"]
    assert "it knows en only; choose another with --asr" in told[0]
    await asr.aclose()
