"""Loads the speech synthesiser that a plan names, warm."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Final, TypeVar

from models.engine_plan import KOKORO_ON_HUB, TtsPlan
from models.engines.scripted import ScriptedSynthesizer
from models.engines.voice_map import OPENAI_FEMALE, OPENAI_MALE, VoiceMap, check_voices
from models.inference_worker import Priority
from models.interfaces import EngineError, EngineInfo, SpeechSynthesizer
from models.languages import primary_language
from models.speech_worker import SpeechWorker
from models.weights import WeightsStore
from models.weights_manifest import KOKORO_INT8, KOKORO_VOICE_NAMES, KOKORO_VOICES, PIPER_JOE, Weight, packaged

ROLE: Final = "tts"

PIPER_VOICE = "en_US-joe-medium"

_WORD = re.compile(r"[\w.-]*")

T = TypeVar("T")


def tts_weights(plan: TtsPlan) -> tuple[Weight, ...]:
    """Return the weights that loading `plan` takes from the store."""
    match plan.engine:
        case "piper":
            return (PIPER_JOE,)
        case "kokoro" if not plan.model:
            return (KOKORO_INT8, KOKORO_VOICES)
        case _:
            return ()


async def load_tts(plan: TtsPlan, store: WeightsStore, worker: SpeechWorker) -> tuple[SpeechSynthesizer, EngineInfo]:
    """Return the synthesiser and what it is. Its weights are in `store`.

    Raises EngineError, with one sentence, if the plan asks for a voice, a language or a model that isn't there;
    ValueError for a base URL that is none.
    """
    match plan.engine:
        case "scripted":
            return ScriptedSynthesizer(), EngineInfo(ROLE, "scripted")
        case "piper":
            return await _load_piper(plan, store, worker)
        case "kokoro":
            return await _load_kokoro(plan, store, worker)
        case "mlx":
            return await _load_mlx(plan, worker)
        case "endpoint":
            return await _load_endpoint(plan)


async def _load_piper(plan: TtsPlan, store: WeightsStore, worker: SpeechWorker) -> tuple[SpeechSynthesizer, EngineInfo]:
    from models.engines.piper_tts import PiperSynthesizer

    check_voices(plan, {PIPER_VOICE}, "the packaged Piper voice")
    if plan.language and plan.language.lower().split("-")[0] != "en":
        raise EngineError(
            "tts_language",
            f"The packaged Piper voice speaks English, not {plan.language!r}: choose --tts kokoro or an endpoint.",
        )
    tts = await asyncio.to_thread(PiperSynthesizer, store.path(PIPER_JOE, f"{PIPER_VOICE}.onnx"), worker.get())
    await asyncio.to_thread(tts.warm_up)
    return tts, packaged(ROLE, f"Piper {PIPER_VOICE}", PIPER_JOE)


async def _load_kokoro(
    plan: TtsPlan, store: WeightsStore, worker: SpeechWorker
) -> tuple[SpeechSynthesizer, EngineInfo]:
    from models.engines.kokoro_tts import KokoroSynthesizer
    from models.engines.kokoro_voices import KokoroVoices
    from models.kokoro_files import kokoro_files

    if plan.model:
        model, voices_path = await asyncio.to_thread(kokoro_files, plan.model)
        voices = _readable(lambda: KokoroVoices(voices_path), voices_path)
        licence = "Apache-2.0" if plan.model == KOKORO_ON_HUB else ""
        info = EngineInfo(ROLE, f"Kokoro-82M {model.stem}", plan.model, licence)
    else:
        model = store.path(KOKORO_INT8, "kokoro-v1.0.int8.onnx")
        voices = KokoroVoices(store.path(KOKORO_VOICES, "voices.f32"), KOKORO_VOICE_NAMES)
        info = packaged(ROLE, "Kokoro-82M v1.0 int8", KOKORO_INT8)
        info = replace(info, source=f"{info.source}, {packaged(ROLE, '', KOKORO_VOICES).source}")
    letter, voice_map = kokoro_voice_map(plan, voices.names)
    device = (
        "cpu" if "int8" in model.stem or "quantized" in model.stem else plan.device
    )  # their operators are the CPU's

    def load() -> KokoroSynthesizer:
        tts = KokoroSynthesizer(
            model,
            voices,
            worker.get(),
            voice_map,
            letter=letter,
            languages=kokoro_languages(plan, letter),
            device=device,
        )
        tts.warm_up()
        return tts

    tts = await asyncio.to_thread(_readable, load, model)
    return tts, replace(info, name=f"{info.name}, {voice_map.voice('marin')}")


def kokoro_voice_map(plan: TtsPlan, names: tuple[str, ...]) -> tuple[str | None, VoiceMap]:
    """Return the letter of the language that all of Kokoro's voices read (None: each its own) and the map of voices.

    Raises EngineError if the plan's language or voices can't be spoken here.
    """
    from models.engines.kokoro_phonemes import missing_extra
    from models.engines.kokoro_voices import LANGUAGES, language_letter, standing_voices

    check_voices(plan, names, "Kokoro")
    letter = language_letter(plan.language) if plan.language else None
    if plan.language and letter is None:
        raise EngineError(
            "tts_language",
            f"Kokoro doesn't speak {plan.language!r}: set TTS_LANGUAGE to one of {', '.join(LANGUAGES.values())}, or "
            "TTS_BASE_URL to a server that does.",
        )
    chosen = [plan.voice, *(voice for _, voice in plan.voices)]
    for spoken in [letter] if letter else [voice[:1] for voice in chosen if voice]:
        if extra := missing_extra(spoken or ""):
            raise EngineError(
                "tts_language",
                f"Kokoro reads {LANGUAGES[spoken or '']} with the help of a package that is not installed: pip install "
                f"'duplex-gateway[{extra}]', or choose another TTS_VOICE or TTS_LANGUAGE.",
            )
    standing = standing_voices(letter or "a", names) or dict.fromkeys(("marin",), names[0])
    own = {name for name in names if letter or not missing_extra(name[:1])}
    in_language = _nothing if letter else lambda language: _standing_in(language, names)
    return letter, VoiceMap(plan, own=own, standing=standing, default=standing["marin"], in_language=in_language)


def kokoro_languages(plan: TtsPlan, letter: str | None) -> frozenset[str]:
    """Return the languages that Kokoro reads here, as primary subtags: the plan's only, if it names one or a voice."""
    from models.engines.kokoro_phonemes import missing_extra
    from models.engines.kokoro_voices import LANGUAGES

    fixed = letter or plan.voice[:1]
    tags = [tag for at, tag in LANGUAGES.items() if (at == fixed if fixed else not missing_extra(at))]
    return frozenset(map(primary_language, tags))


def _standing_in(language: str, names: Collection[str]) -> Mapping[str, str]:
    """Return which of Kokoro's voices `names` stand for OpenAI's in a text of `language`; {} if none can read it."""
    from models.engines.kokoro_phonemes import missing_extra
    from models.engines.kokoro_voices import language_letter, standing_voices

    letter = language_letter(language)
    return {} if letter is None or missing_extra(letter) else standing_voices(letter, names)


def _nothing(_language: str) -> Mapping[str, str]:
    return {}


async def _load_mlx(plan: TtsPlan, worker: SpeechWorker) -> tuple[SpeechSynthesizer, EngineInfo]:
    from models.engines.mlx_kokoro import MlxKokoro, is_kokoro, voice_names
    from models.engines.mlx_runtime import DEFAULT_MODELS, load_model, model_info, require_mlx_audio, warm_up
    from models.engines.mlx_tts import MlxSynthesizer

    require_mlx_audio(ROLE)
    model, mlx = plan.model or DEFAULT_MODELS[ROLE], worker.mlx()
    info = model_info(ROLE, model)

    def load() -> tuple[MlxKokoro | MlxSynthesizer, EngineInfo]:
        loaded = load_model(ROLE, model)
        if is_kokoro(loaded):
            letter, voice_map = kokoro_voice_map(plan, voice_names(loaded))
            kokoro = MlxKokoro(loaded, mlx, voice_map, letter=letter, languages=kokoro_languages(plan, letter))
            warm_up(ROLE, model, kokoro.warm_up)
            return kokoro, replace(info, name=f"{info.name}, {voice_map.voice('marin')}")
        tts = MlxSynthesizer(loaded, mlx, plan)
        warm_up(ROLE, model, tts.warm_up)
        return tts, info

    return await mlx.run(load, priority=Priority.TTS_REST)


def _readable(load: Callable[[], T], path: Path) -> T:
    try:
        return load()
    except EngineError:
        raise
    except Exception as error:  # onnxruntime's and numpy's own, for files that are damaged or something else
        raise EngineError(
            "tts_model", f"{path.name} can't be used as a part of Kokoro ({type(error).__name__}): correct TTS_MODEL."
        ) from error


async def _load_endpoint(plan: TtsPlan) -> tuple[SpeechSynthesizer, EngineInfo]:
    from models.engines.openai_tts import EndpointSynthesizer
    from models.engines.speech_server import offered_model, offered_voices

    unknown = VoiceMap(plan, own=None, standing={})
    tts = EndpointSynthesizer(plan.base_url, plan.model, unknown, api_key=plan.api_key)
    try:
        if not plan.model:
            tts.model = await offered_model(tts.client, tts.headers)
        if listed := await offered_voices(tts.client, tts.headers):
            tts.voice_map = server_voice_map(plan, listed, f"the server {tts.server}")
    except BaseException:
        await tts.aclose()
        raise
    return tts, EngineInfo(ROLE, tts.model, tts.server)


def server_voice_map(plan: TtsPlan, listed: tuple[str, ...], server: str) -> VoiceMap:
    """Return the map of voices for a server that lists its own. Raises EngineError if the plan names others.

    Blends such as "af_heart+af_bella" are left to the server.
    """
    from models.engines.kokoro_voices import GERMAN, language_letter, standing_voices

    plain = replace(
        plan,
        voice=plan.voice if _WORD.fullmatch(plan.voice) else "",
        voices=tuple(pair for pair in plan.voices if _WORD.fullmatch(pair[1])),
    )
    check_voices(plain, {*listed, *OPENAI_FEMALE, *OPENAI_MALE}, server)
    standing = standing_voices(language_letter(plan.language or "en") or "a", listed)
    if not standing:  # no Kokoro: nobody knows how they sound
        standing = dict(zip((*OPENAI_FEMALE, *OPENAI_MALE), cycle(listed), strict=False))

    def in_language(language: str) -> Mapping[str, str]:
        letter = language_letter(language)
        return {} if plan.language or letter in (None, GERMAN) else standing_voices(letter or "", listed)

    return VoiceMap(plan, own=listed, standing=standing, default=standing["marin"], in_language=in_language)
