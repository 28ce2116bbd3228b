"""Loads the engines of a plan, all at once, and runs each of them once so that the first user finds them warm."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from models.asr_loading import asr_weights, load_asr
from models.chat_loading import chat_weights, load_chat, with_model
from models.duplex_interface import DuplexModel
from models.engine_plan import AUTO, EnginePlan
from models.engines.scripted import ScriptedVad
from models.interfaces import AUDIO_RATE_HZ, EngineInfo, Engines, VoiceActivityDetector
from models.judge_loading import Endpoint, LoadedJudge, chosen_judges, judge_weights, load_judges
from models.native_loading import load_native
from models.speech_worker import SpeechWorker
from models.tts_loading import load_tts, tts_weights
from models.weights import ProgressCallback, WeightsStore
from models.weights_manifest import TURN_TAKING, Weight, packaged

_BYTES_PER_SAMPLE = 2


async def load_engines(
    plan: EnginePlan, *, store: WeightsStore | None = None, progress: ProgressCallback | None = None
) -> Engines:
    """Return the engines of `plan`, loaded and warm; missing weights are fetched into `store` first.

    `progress` is called from another thread. Raises WeightsError when weights can't be had, ValueError for a base URL,
    or a judge, that is none, EngineError for an engine that can't be loaded as it is set.
    """
    store = store or WeightsStore()
    judges = chosen_judges(plan.judges, real=plan.vad != "scripted" and plan.asr.engine != "scripted")
    plan = replace(plan, chat=await with_model(plan.chat))
    endpoint = None
    if plan.chat.engine == "endpoint":
        endpoint = Endpoint(plan.chat.base_url, plan.chat.model, plan.chat.api_key)
    needed = [
        *vad_weights(plan),
        *asr_weights(plan.asr),
        *tts_weights(plan.tts),
        *chat_weights(plan.chat),
        *judge_weights(judges, endpoint),
    ]
    await asyncio.to_thread(store.fetch, list(dict.fromkeys(needed)), progress=progress)
    worker = SpeechWorker()
    loaded = await _all_or_none(
        worker,
        load_vad(plan, store),
        load_asr(plan.asr, store, worker),
        load_chat(plan.chat, store),
        load_tts(plan.tts, store, worker),
    )
    (vad, vad_info), (asr, asr_info), (chat, chat_info), (tts, tts_info) = loaded
    engines = Engines(vad, asr, chat, tts, (vad_info, asr_info, chat_info, tts_info))
    try:
        native = await load_native(plan.native, progress)
        engines = replace(engines, native=native)  # closed with the others from here on
        judging = await load_judges(judges, store=store, worker=worker, endpoint=endpoint, both=AUTO not in plan.judges)
    except BaseException:
        await engines.aclose()
        raise
    return replace(
        engines,
        infos=_told(plan, engines.infos, judging, native),
        judges=tuple(judge for judge, _ in judging),
        cascade=not plan.native.alone,
    )


def _told(
    plan: EnginePlan,
    infos: tuple[EngineInfo, ...],
    judging: list[LoadedJudge],
    native: DuplexModel | None,
) -> tuple[EngineInfo, ...]:
    """Return what is told of the engines: not of those that only stand in for a cascade."""
    own = () if native is None else (native.info,)
    if plan.native.alone:
        return (*(info for info in infos if info.role == "vad"), *own)
    return (*infos, *(info for _, info in judging), *own)


async def _all_or_none(
    worker: SpeechWorker, *loaders: Awaitable[tuple[Any, EngineInfo]]
) -> list[tuple[Any, EngineInfo]]:
    """Return what all `loaders` load; when one fails, close the others' engines and the worker, and raise its error."""
    results = await asyncio.gather(*loaders, return_exceptions=True)
    failures = [result for result in results if isinstance(result, BaseException)]
    loaded = [result for result in results if not isinstance(result, BaseException)]
    if failures:
        for engine, _ in loaded:
            close: Callable[[], Awaitable[None]] | None = getattr(engine, "aclose", None)
            if close is not None:
                await close()
        await worker.aclose()
        raise failures[0]
    return loaded


def vad_weights(plan: EnginePlan) -> tuple[Weight, ...]:
    """Return the weights that loading the plan's VAD takes from the store."""
    return (TURN_TAKING,) if plan.vad == "silero" else ()


async def load_vad(plan: EnginePlan, store: WeightsStore) -> tuple[VoiceActivityDetector, EngineInfo]:
    """Return the VAD of the plan and what it is. Its weights are in `store`."""
    if plan.vad == "scripted":
        return ScriptedVad(), EngineInfo("vad", "scripted")
    from models.engines.silero_vad import SileroVad

    vad = await asyncio.to_thread(SileroVad, store.path(TURN_TAKING, "silero_vad.onnx"))
    await vad.open().feed(bytes(AUDIO_RATE_HZ // 10 * _BYTES_PER_SAMPLE))
    return vad, packaged("vad", "Silero VAD v6", TURN_TAKING)
