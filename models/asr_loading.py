"""Loads the speech recogniser that a plan names, warm."""

from __future__ import annotations

import asyncio
from typing import Final

from models.engine_plan import AsrPlan
from models.engines.scripted import ScriptedRecognizer
from models.inference_worker import Priority
from models.interfaces import EngineInfo, SpeechRecognizer
from models.speech_worker import SpeechWorker
from models.weights import WeightsStore
from models.weights_manifest import MOONSHINE_TINY_EN, WHISPER_BASE, Weight, packaged

ROLE: Final = "asr"


def asr_weights(plan: AsrPlan) -> tuple[Weight, ...]:
    """Return the weights that loading `plan` takes from the store."""
    match plan.engine:
        case "moonshine":
            return (MOONSHINE_TINY_EN,)
        case "whisper":
            return (WHISPER_BASE,)
        case _:
            return ()


async def load_asr(plan: AsrPlan, store: WeightsStore, worker: SpeechWorker) -> tuple[SpeechRecognizer, EngineInfo]:
    """Return the recogniser and what it is. Its weights are in `store`, or come from the model hub.

    Raises EngineError where a package, a model or a device is missing, ValueError for a wrong URL.
    """
    match plan.engine:
        case "scripted":
            return ScriptedRecognizer(), EngineInfo(ROLE, "scripted")
        case "moonshine":
            return await _load_moonshine(plan, store, worker)
        case "whisper":
            return await _load_whisper(plan, store, worker)
        case "onnx":
            return await _load_onnx(plan, worker)
        case "endpoint":
            return _load_endpoint(plan)
        case "mlx":
            return await _load_mlx(plan, worker)


async def _load_moonshine(
    plan: AsrPlan, store: WeightsStore, worker: SpeechWorker
) -> tuple[SpeechRecognizer, EngineInfo]:
    from models.engines.moonshine_asr import MoonshineRecognizer

    folder = store.path(MOONSHINE_TINY_EN)
    asr = await asyncio.to_thread(MoonshineRecognizer, folder, worker.get(), language=plan.language)
    await asyncio.to_thread(asr.warm_up)
    return asr, packaged(ROLE, "Moonshine tiny-en, English only", MOONSHINE_TINY_EN)


async def _load_whisper(
    plan: AsrPlan, store: WeightsStore, worker: SpeechWorker
) -> tuple[SpeechRecognizer, EngineInfo]:
    from models.engines.whisper_asr import WhisperRecognizer

    folder = store.path(WHISPER_BASE)
    asr = await asyncio.to_thread(WhisperRecognizer, folder, worker.get(), device=plan.device, language=plan.language)
    await asyncio.to_thread(asr.warm_up)
    return asr, packaged(ROLE, f"Whisper base, {len(asr.languages)} languages ({asr.computes_on})", WHISPER_BASE)


async def _load_onnx(plan: AsrPlan, worker: SpeechWorker) -> tuple[SpeechRecognizer, EngineInfo]:
    from models.engines.onnx_recognizer import OnnxRecognizer

    asr = await asyncio.to_thread(
        OnnxRecognizer,
        plan.model,
        worker.get(),
        quantization=plan.quantization,
        device=plan.device,
        language=plan.language,
    )
    await asyncio.to_thread(asr.warm_up)
    return asr, EngineInfo(ROLE, asr.description, asr.source, asr.licence)


async def _load_mlx(plan: AsrPlan, worker: SpeechWorker) -> tuple[SpeechRecognizer, EngineInfo]:
    from models.engines.mlx_asr import MlxRecognizer
    from models.engines.mlx_runtime import DEFAULT_MODELS, model_info, require_mlx_audio, warm_up

    require_mlx_audio(ROLE)
    model, mlx = plan.model or DEFAULT_MODELS[ROLE], worker.mlx()

    def load() -> MlxRecognizer:
        asr = MlxRecognizer(model, mlx, language=plan.language)
        warm_up(ROLE, model, asr.warm_up)
        return asr

    return await mlx.run(load, priority=Priority.ASR_FINAL), model_info(ROLE, model)


def _load_endpoint(plan: AsrPlan) -> tuple[SpeechRecognizer, EngineInfo]:
    from models.engines.openai_transcriptions import EndpointRecognizer

    asr = EndpointRecognizer(plan.base_url, plan.model, api_key=plan.api_key, language=plan.language)
    return asr, EngineInfo(ROLE, asr.model, asr.server)
