"""Loads the engines of a profile, all at once, and runs each of them once so that the first user finds them warm."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

from models.engines.scripted import ScriptedChat, ScriptedRecognizer, ScriptedSynthesizer, ScriptedVad, echo
from models.inference_worker import InferenceWorker
from models.interfaces import (
    AUDIO_RATE_HZ,
    ChatModel,
    ChatRequest,
    EngineInfo,
    Engines,
    SpeechRecognizer,
    SpeechSynthesizer,
    VoiceActivityDetector,
)
from models.judge_loading import AUTO, Endpoint, chosen_judges, load_judges
from models.weights import ProgressCallback, WeightsStore
from models.weights_manifest import MOONSHINE_TINY_EN, PIPER_JOE, SMOLLM2, TURN_TAKING, Weight

Profile = Literal["embedded", "scripted"]

SPEECH_THREADS = 2
"""Threads that ASR and TTS share, so that a long synthesis never blocks a transcription (or two, on two cores)."""

_BYTES_PER_SAMPLE = 2


async def load_engines(
    profile: Profile,
    *,
    store: WeightsStore | None = None,
    vad: Literal["silero", "scripted"] | None = None,
    foreground_base_url: str = "",
    foreground_api_key: str = "",
    foreground_model: str = "",
    temperature: float | None = None,
    scripted_reply: str = "",
    judges: Sequence[str] = (AUTO,),
    progress: ProgressCallback | None = None,
) -> Engines:
    """Return the engines of `profile`, loaded and warm; missing weights are fetched into `store` first.

    `foreground_*` put an OpenAI-compatible server in the place of the profile's language model; `temperature`
    (0…2, None: the model's own) holds for either. `vad` overrules the
    profile's: the load bench runs real VAD with everything else scripted. `scripted_reply` is what the scripted
    language model always says, instead of repeating the user. `judges` names the end-of-turn judges (see
    `chosen_judges`). `progress` is called from another thread.

    Raises WeightsError when weights can't be had, ValueError for a base URL, or a judge, that is none.
    """
    store = store or WeightsStore()
    embedded = profile == "embedded"
    silero = (vad or ("silero" if embedded else "scripted")) == "silero"
    own_chat = embedded and not foreground_base_url
    wanted_judges = chosen_judges(judges, embedded=embedded)
    needed = [
        (TURN_TAKING, silero or "audio" in wanted_judges),
        (MOONSHINE_TINY_EN, embedded),
        (PIPER_JOE, embedded),
        (SMOLLM2, own_chat or ("probability" in wanted_judges and not foreground_base_url)),
    ]
    await asyncio.to_thread(store.fetch, [weight for weight, wanted in needed if wanted], progress=progress)

    worker = InferenceWorker("speech", SPEECH_THREADS) if embedded else None
    if foreground_base_url:
        chat = _load_endpoint_chat(foreground_base_url, foreground_api_key, foreground_model, temperature)
    elif own_chat:
        chat = _load_embedded_chat(store, temperature)
    else:
        chat = _ready(
            ScriptedChat([scripted_reply] if scripted_reply else echo),
            EngineInfo("foreground", "scripted"),
        )
    loaded = await _all_or_none(
        worker,
        _load_silero(store) if silero else _ready(ScriptedVad(), EngineInfo("vad", "scripted")),
        _load_moonshine(store, worker) if worker else _ready(ScriptedRecognizer(), EngineInfo("asr", "scripted")),
        chat,
        _load_piper(store, worker) if worker else _ready(ScriptedSynthesizer(), EngineInfo("tts", "scripted")),
    )
    (vad_engine, vad_info), (asr, asr_info), (chat_engine, chat_info), (tts, tts_info) = loaded
    engines = Engines(vad_engine, asr, chat_engine, tts, (vad_info, asr_info, chat_info, tts_info))
    endpoint = Endpoint(foreground_base_url, foreground_model, foreground_api_key) if foreground_base_url else None
    try:
        judging = await load_judges(
            wanted_judges, store=store, worker=worker, endpoint=endpoint, both=AUTO not in judges
        )
    except BaseException:
        await engines.aclose()
        raise
    return replace(
        engines,
        infos=(*engines.infos, *(info for _, info in judging)),
        judges=tuple(judge for judge, _ in judging),
    )


async def _all_or_none(
    worker: InferenceWorker | None, *loaders: Awaitable[tuple[Any, EngineInfo]]
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
        if worker is not None:
            await worker.aclose()
        raise failures[0]
    return loaded


async def _ready(engine: Any, info: EngineInfo) -> tuple[Any, EngineInfo]:
    return engine, info


def _info(role: str, name: str, weight: Weight) -> EngineInfo:
    return EngineInfo(role, name, f"{weight.project}=={weight.version}", weight.licence)


async def _load_silero(store: WeightsStore) -> tuple[VoiceActivityDetector, EngineInfo]:
    from models.engines.silero_vad import SileroVad

    vad = await asyncio.to_thread(SileroVad, store.path(TURN_TAKING, "silero_vad.onnx"))
    await vad.open().feed(bytes(AUDIO_RATE_HZ // 10 * _BYTES_PER_SAMPLE))
    return vad, _info("vad", "Silero VAD v6", TURN_TAKING)


async def _load_moonshine(store: WeightsStore, worker: InferenceWorker) -> tuple[SpeechRecognizer, EngineInfo]:
    from models.engines.moonshine_asr import MoonshineRecognizer

    asr = await asyncio.to_thread(MoonshineRecognizer, store.path(MOONSHINE_TINY_EN), worker)
    await asyncio.to_thread(asr.warm_up)
    return asr, _info("asr", "Moonshine tiny-en", MOONSHINE_TINY_EN)


async def _load_piper(store: WeightsStore, worker: InferenceWorker) -> tuple[SpeechSynthesizer, EngineInfo]:
    from models.engines.piper_tts import PiperSynthesizer

    tts = await asyncio.to_thread(PiperSynthesizer, store.path(PIPER_JOE, "en_US-joe-medium.onnx"), worker)
    await asyncio.to_thread(tts.warm_up)
    return tts, _info("tts", "Piper en_US-joe-medium", PIPER_JOE)


async def _load_embedded_chat(store: WeightsStore, temperature: float | None) -> tuple[ChatModel, EngineInfo]:
    from models.engines.embedded_chat import MODEL_NAME, TEMPERATURE, EmbeddedChat

    chosen = TEMPERATURE if temperature is None else temperature
    model = store.path(SMOLLM2, "SmolLM2-135M-Instruct.Q4_1.gguf")
    chat = await asyncio.to_thread(EmbeddedChat, model, temperature=chosen)
    async for _ in chat.stream(ChatRequest(({"role": "user", "content": "Hello."},), max_output_tokens=1)):
        pass  # warms the model and the client
    return chat, _info("foreground", f"{MODEL_NAME} (demo brain, no tools)", SMOLLM2)


async def _load_endpoint_chat(
    base_url: str, api_key: str, model: str, temperature: float | None
) -> tuple[ChatModel, EngineInfo]:
    from models.engines.openai_chat import OpenAIChat

    chat = await asyncio.to_thread(OpenAIChat, base_url, model, api_key=api_key, temperature=temperature)
    return chat, EngineInfo("foreground", model, chat.server)
