"""What this process's backends can do, as `GET /v1/models` tells it to people and to gateways that relay to it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from gateway.backends.cascade import CascadeBackend
from gateway.backends.interface import Capabilities
from gateway.backends.native import capabilities_of
from gateway.engine_choice import engine_plan
from gateway.serving import MAX_FRAME_BYTES
from gateway.session_request import CASCADE, DUPLEX
from gateway.settings import Settings
from gateway.turns.settings import LONGEST_INPUT
from models.duplex_interface import DuplexModel
from models.interfaces import Engines
from models.languages import languages_of
from protocol.audio_format import AudioFormat
from protocol.audio_time import SESSION_RATE_HZ

NATIVE = "native"
"""The role of a full-duplex model."""

_NOT_KNOWN_YET = Capabilities(
    interruptible=False,
    truncatable=False,
    manual_response=False,
    text_input=False,
    mutable_instructions=False,
    tools=False,
    backchannels=True,
    frame_ms=80,
)
"""Of a model that is not loaded: what can be promised of any."""


def cascade_capabilities(settings: Settings, engines: Engines | None) -> dict[str, Any]:
    """Return the `capabilities` of every model name that the cascade stands for; `engines` None: not loaded yet.

    Those of `backends.interface.Capabilities` by the same names. `tools` false: the language model calls none of its
    own accord. `languages`: primary subtags (BCP 47) that are understood and spoken, null: any, or nobody knows.
    """
    told = asdict(CascadeBackend.capabilities)
    if engines is not None and getattr(engines.chat, "calls_tools", True) is False:
        told["tools"] = False
    return {
        "backend": CASCADE,
        "ready": engines is not None,
        **told,
        "session_types": ["realtime", "transcription"],
        "input_modalities": ["text", "audio", "image"],
        "output_modalities": ["text", "audio"],
        "audio_formats": [form.to_wire() for form in AudioFormat],
        "turn_detection": ["server_vad", "semantic_vad", None],
        "engines": _engines(engines, lambda role: role != NATIVE),
        "languages": {"input": _languages(engines, "asr"), "output": _languages(engines, "tts")},
        "limits": {
            "sessions": settings.max_sessions,
            "session_s": settings.session_limit_s,
            "event_bytes": MAX_FRAME_BYTES,
            "turn_s": LONGEST_INPUT // SESSION_RATE_HZ,
            "context_tokens": settings.foreground_context_tokens,
        },
    }


def duplex_capabilities(settings: Settings, model: DuplexModel | None, engines: Engines | None) -> dict[str, Any]:
    """Return the `capabilities` of the native full-duplex model; `model` None: not loaded yet.

    `limits.conversation_s`: it begins its conversation anew by then, with what was said so far; null: never.
    `transcribes`: it writes what it hears. `marks`: it says by itself when it takes and yields the floor.
    """
    told = asdict(_NOT_KNOWN_YET if model is None else capabilities_of(model))
    abilities = None if model is None else model.abilities
    languages = None if abilities is None or not abilities.languages else sorted(abilities.languages)
    return {
        "backend": DUPLEX,
        "ready": model is not None,
        **told,
        "transcribes": abilities is not None and abilities.hears_words,
        "marks": abilities is not None and abilities.marks,
        "session_types": ["realtime"],
        "input_modalities": ["audio"],
        "output_modalities": ["text", "audio"],
        "audio_formats": [form.to_wire() for form in AudioFormat],
        "turn_detection": ["server_vad", "semantic_vad", None],
        "voices": [] if abilities is None else list(abilities.voices),
        "engines": _engines(engines, lambda role: role in (NATIVE, "vad")),
        "languages": {"input": languages, "output": languages},
        "limits": {
            "sessions": min(settings.max_sessions, full_duplex_sessions(settings, model) or settings.max_sessions),
            "session_s": settings.session_limit_s,
            "event_bytes": MAX_FRAME_BYTES,
            "conversation_s": None if abilities is None else abilities.longest_s,
        },
    }


def full_duplex_sessions(settings: Settings, model: DuplexModel | None) -> int | None:
    """Return how many sessions `model` serves at a time, None: any number; another server's model counts by itself."""
    if model is None:
        return None
    return settings.duplex_sessions or model.abilities.at_once


def models_served(settings: Settings, engines: Engines | None) -> dict[str, dict[str, Any]]:
    """Return our own model names with their capabilities, the default first: those that are served, or will be.

    Other names that mean something (another server's) may be added to the table.
    """
    table: dict[str, dict[str, Any]] = {}
    cascade = settings.cascade if engines is None else engines.cascade
    if cascade:
        table[CASCADE] = cascade_capabilities(settings, engines)
    model = None if engines is None else engines.native
    if model is not None or (engines is None and engine_plan(settings).native.engine != "none"):
        table[DUPLEX] = duplex_capabilities(settings, model, engines)
    return table


def _engines(engines: Engines | None, wanted: Callable[[str], bool]) -> dict[str, list[str]]:
    by_role: defaultdict[str, list[str]] = defaultdict(list)
    for info in engines.infos if engines is not None else ():
        if wanted(info.role):
            by_role[info.role].append(info.name)
    return dict(by_role)


def _languages(engines: Engines | None, role: str) -> list[str] | None:
    bound = None if engines is None else languages_of(getattr(engines, role))
    return None if bound is None else sorted(bound)
