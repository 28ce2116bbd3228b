"""Loads the speech synthesiser that a plan names, warm."""

from __future__ import annotations

import asyncio

from models.engine_plan import TtsPlan
from models.engines.scripted import ScriptedSynthesizer
from models.interfaces import EngineInfo, SpeechSynthesizer
from models.speech_worker import SpeechWorker
from models.weights import WeightsStore
from models.weights_manifest import PIPER_JOE, Weight, packaged

ROLE = "tts"


def tts_weights(plan: TtsPlan) -> tuple[Weight, ...]:
    """Return the weights that loading `plan` takes from the store."""
    return (PIPER_JOE,) if plan.engine == "piper" else ()


async def load_tts(plan: TtsPlan, store: WeightsStore, worker: SpeechWorker) -> tuple[SpeechSynthesizer, EngineInfo]:
    """Return the synthesiser and what it is. Its weights are in `store`."""
    match plan.engine:
        case "scripted":
            return ScriptedSynthesizer(), EngineInfo(ROLE, "scripted")
        case "piper":
            return await _load_piper(store, worker)
        case other:
            raise NotImplementedError(other)


async def _load_piper(store: WeightsStore, worker: SpeechWorker) -> tuple[SpeechSynthesizer, EngineInfo]:
    from models.engines.piper_tts import PiperSynthesizer

    tts = await asyncio.to_thread(PiperSynthesizer, store.path(PIPER_JOE, "en_US-joe-medium.onnx"), worker.get())
    await asyncio.to_thread(tts.warm_up)
    return tts, packaged(ROLE, "Piper en_US-joe-medium", PIPER_JOE)
