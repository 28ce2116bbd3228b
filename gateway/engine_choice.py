"""Turns the settings into the plan that the engines are loaded by."""

from __future__ import annotations

import os
from dataclasses import replace

from gateway.settings import Profile, Settings
from models.engine_plan import (
    EMBEDDED,
    ENDPOINTS,
    MLX,
    QUALITY,
    SCRIPTED,
    AsrEngine,
    ChatEngine,
    EnginePlan,
    NativeEngine,
    TtsEngine,
)

PROFILES: dict[Profile, EnginePlan] = {
    "auto": EMBEDDED,  # what can run anywhere, as long as nobody has decided (`profile_choice.py`)
    "embedded": EMBEDDED,
    "quality": QUALITY,
    "mlx": MLX,
    "endpoints": ENDPOINTS,
    "scripted": SCRIPTED,
}


def engine_plan(settings: Settings) -> EnginePlan:
    """Return the plan of the settings' profile, with the engines and options that are set singly.

    A role with a base URL is on that endpoint, whatever the profile says; a language model with a file of its own is
    embedded. Embedded engines that know English only give way to those that know more.
    """
    plan = PROFILES[settings.profile]
    return replace(
        plan,
        vad=plan.vad if settings.vad == "profile" else settings.vad,
        asr=replace(
            plan.asr,
            engine=_asr_engine(settings, plan),
            model=_expanded(settings.asr_model) or plan.asr.model,
            language=settings.asr_language,
            device=settings.device,
            quantization=settings.asr_quantization,
            base_url=settings.asr_base_url,
            api_key=settings.asr_api_key,
        ),
        tts=replace(
            plan.tts,
            engine=_tts_engine(settings, plan),
            model=_expanded(settings.tts_model)
            or (plan.tts.model if _tts_engine(settings, plan) == plan.tts.engine else ""),
            voice=settings.tts_voice,
            voices=tuple(
                (name.strip(), voice.strip())
                for name, _, voice in (pair.partition("=") for pair in settings.tts_voices)
            ),
            language=settings.tts_language,
            device=settings.device,
            base_url=settings.tts_base_url,
            api_key=settings.tts_api_key,
        ),
        chat=replace(
            plan.chat,
            engine=_chat_engine(settings, plan),
            model=settings.foreground_model or plan.chat.model,
            gguf=settings.foreground_gguf,
            temperature=settings.foreground_temperature,
            thinking=settings.foreground_thinking,
            extra_body=settings.foreground_extra_body,
            scripted_reply=settings.scripted_reply,
            base_url=settings.foreground_base_url,
            api_key=settings.foreground_api_key,
        ),
        judges=() if settings.end_of_turn == ("off",) else settings.end_of_turn,
        native=replace(
            plan.native,
            engine=_native_engine(settings, plan),
            model=_expanded(settings.duplex_model),
            tiny=settings.duplex_tiny,
            alone=not settings.cascade,
        ),
    )


def is_english(language: str) -> bool:
    """Say whether a setting's language is English, or none is set."""
    return language.lower().partition("-")[0] in ("", "en", "english")


def _asr_engine(settings: Settings, plan: EnginePlan) -> AsrEngine:
    if settings.asr_base_url:
        return "endpoint"
    if settings.asr != "profile":
        return settings.asr
    return "whisper" if plan.asr.engine == "moonshine" and not is_english(settings.asr_language) else plan.asr.engine


def _tts_engine(settings: Settings, plan: EnginePlan) -> TtsEngine:
    if settings.tts_base_url:
        return "endpoint"
    if settings.tts != "profile":
        return settings.tts
    return "kokoro" if plan.tts.engine == "piper" and not is_english(settings.tts_language) else plan.tts.engine


def _chat_engine(settings: Settings, plan: EnginePlan) -> ChatEngine:
    if settings.foreground_base_url:
        return "endpoint"
    if settings.foreground != "profile":
        return settings.foreground
    return "embedded" if settings.foreground_gguf is not None else plan.chat.engine


def _native_engine(settings: Settings, plan: EnginePlan) -> NativeEngine:
    if settings.duplex_base_url:  # the model is elsewhere: `?model=duplex` is relayed
        return "none"
    return plan.native.engine if settings.duplex == "profile" else settings.duplex


def _expanded(model: str) -> str:
    return os.path.expanduser(model) if model.startswith("~") else model
