"""What this process's cascade can do, as `GET /v1/models` tells it to people and to gateways that relay to it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict
from typing import Any

from gateway.backends.cascade import CascadeBackend
from gateway.serving import MAX_FRAME_BYTES
from gateway.settings import Settings
from gateway.turns.settings import LONGEST_INPUT
from models.interfaces import Engines
from models.languages import languages_of
from protocol.audio_format import AudioFormat
from protocol.audio_time import SESSION_RATE_HZ


def cascade_capabilities(settings: Settings, engines: Engines | None) -> dict[str, Any]:
    """Return the `capabilities` of every model name that the cascade stands for; `engines` None: not loaded yet.

    Those of `backends.interface.Capabilities` by the same names. `tools` false: the language model calls none of its
    own accord. `languages`: primary subtags (BCP 47) that are understood and spoken, null: any, or nobody knows.
    """
    told = asdict(CascadeBackend.capabilities)
    if engines is not None and getattr(engines.chat, "calls_tools", True) is False:
        told["tools"] = False
    by_role: defaultdict[str, list[str]] = defaultdict(list)
    for info in engines.infos if engines is not None else ():
        by_role[info.role].append(info.name)
    return {
        "backend": "cascade",
        "ready": engines is not None,
        **told,
        "session_types": ["realtime", "transcription"],
        "input_modalities": ["text", "audio", "image"],
        "output_modalities": ["text", "audio"],
        "audio_formats": [form.to_wire() for form in AudioFormat],
        "turn_detection": ["server_vad", "semantic_vad", None],
        "engines": dict(by_role),
        "languages": {"input": _languages(engines, "asr"), "output": _languages(engines, "tts")},
        "limits": {
            "sessions": settings.max_sessions,
            "session_s": settings.session_limit_s,
            "event_bytes": MAX_FRAME_BYTES,
            "turn_s": LONGEST_INPUT // SESSION_RATE_HZ,
            "context_tokens": settings.foreground_context_tokens,
        },
    }


def _languages(engines: Engines | None, role: str) -> list[str] | None:
    bound = None if engines is None else languages_of(getattr(engines, role))
    return None if bound is None else sorted(bound)
