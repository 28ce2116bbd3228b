"""Turns the settings into the plan that the engines are loaded by."""

from __future__ import annotations

from dataclasses import replace

from gateway.settings import Settings
from models.engine_plan import EMBEDDED, SCRIPTED, EnginePlan

PROFILES = {"embedded": EMBEDDED, "scripted": SCRIPTED}


def engine_plan(settings: Settings) -> EnginePlan:
    """Return the plan of the settings' profile, with the engines and options that are set singly.

    A role with a base URL is on that endpoint, whatever the profile says.
    """
    plan = PROFILES[settings.profile]
    asr, tts, chat = settings.asr, settings.tts, settings.foreground
    return replace(
        plan,
        vad=plan.vad if settings.vad == "profile" else settings.vad,
        asr=replace(
            plan.asr,
            engine="endpoint" if settings.asr_base_url else plan.asr.engine if asr == "profile" else asr,
            model=settings.asr_model or plan.asr.model,
            language=settings.asr_language,
            device=settings.device,
            quantization=settings.asr_quantization,
            base_url=settings.asr_base_url,
            api_key=settings.asr_api_key,
        ),
        tts=replace(
            plan.tts,
            engine="endpoint" if settings.tts_base_url else plan.tts.engine if tts == "profile" else tts,
            model=settings.tts_model or plan.tts.model,
            voice=settings.tts_voice,
            voices=tuple((name, voice) for name, _, voice in (pair.partition("=") for pair in settings.tts_voices)),
            language=settings.tts_language,
            device=settings.device,
            base_url=settings.tts_base_url,
            api_key=settings.tts_api_key,
        ),
        chat=replace(
            plan.chat,
            engine="endpoint" if settings.foreground_base_url else plan.chat.engine if chat == "profile" else chat,
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
    )
