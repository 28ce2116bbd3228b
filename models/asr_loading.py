"""Loads the speech recogniser that a plan names, warm."""

from __future__ import annotations

import asyncio

from models.engine_plan import AsrPlan
from models.engines.scripted import ScriptedRecognizer
from models.interfaces import EngineInfo, SpeechRecognizer
from models.speech_worker import SpeechWorker
from models.weights import WeightsStore
from models.weights_manifest import MOONSHINE_TINY_EN, Weight, packaged

ROLE = "asr"


def asr_weights(plan: AsrPlan) -> tuple[Weight, ...]:
    """Return the weights that loading `plan` takes from the store."""
    return (MOONSHINE_TINY_EN,) if plan.engine == "moonshine" else ()


async def load_asr(plan: AsrPlan, store: WeightsStore, worker: SpeechWorker) -> tuple[SpeechRecognizer, EngineInfo]:
    """Return the recogniser and what it is. Its weights are in `store`."""
    match plan.engine:
        case "scripted":
            return ScriptedRecognizer(), EngineInfo(ROLE, "scripted")
        case "moonshine":
            return await _load_moonshine(store, worker)
        case other:
            raise NotImplementedError(other)


async def _load_moonshine(store: WeightsStore, worker: SpeechWorker) -> tuple[SpeechRecognizer, EngineInfo]:
    from models.engines.moonshine_asr import MoonshineRecognizer

    asr = await asyncio.to_thread(MoonshineRecognizer, store.path(MOONSHINE_TINY_EN), worker.get())
    await asyncio.to_thread(asr.warm_up)
    return asr, packaged(ROLE, "Moonshine tiny-en", MOONSHINE_TINY_EN)
