"""What `POST /v1/audio/speech` takes: the text, whose voice, how fast and in which format (OpenAI: createSpeech)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from protocol.errors import (
    ProtocolError,
    invalid_type,
    invalid_value,
    missing_parameter,
    out_of_range,
    refused_value,
    string_too_long,
)

MAX_INPUT_CHARACTERS = 4_096
"""Longest `input` (OpenAI's own limit)."""

MAX_NAME_CHARACTERS = 256
"""Longest name of a model or a voice (chosen)."""

MIN_SPEED, MAX_SPEED = 0.25, 1.5
"""Range of `speed`: the Realtime API's, which the engines have. OpenAI's own ends at 4 here."""

SpeechFormat = Literal["wav", "pcm"]
FORMATS: tuple[SpeechFormat, ...] = ("wav", "pcm")
_COMPRESSED = ("mp3", "opus", "aac", "flac")
_STREAMS = ("audio", "sse")


@dataclass(frozen=True, slots=True)
class SpeechRequest:
    """A text to be spoken. `as_events`: in server-sent events instead of bare audio."""

    text: str
    voice: str
    speed: float
    format: SpeechFormat
    as_events: bool


def speech_request(body: Mapping[str, Any]) -> SpeechRequest:
    """Return the request in a JSON body. Raises ProtocolError.

    Without `response_format` it is WAV, as OpenAI's default (MP3) is not made here. `instructions` and what nobody
    knows are left unread; any model's name will do.
    """
    _text(body, "model", MAX_NAME_CHARACTERS)
    text = _text(body, "input", MAX_INPUT_CHARACTERS)
    stream = body.get("stream_format") or "audio"
    if stream not in _STREAMS:
        raise invalid_value("stream_format", stream, _STREAMS)
    return SpeechRequest(text, _voice(body), _speed(body), _format(body), stream == "sse")


def _text(body: Mapping[str, Any], name: str, longest: int, value: object = None) -> str:
    value = body.get(name) if value is None else value
    if value is None:
        raise missing_parameter(name)
    if not isinstance(value, str):
        raise invalid_type(name, "a string", value)
    if not value.strip():
        raise refused_value(name, f"Invalid '{name}': empty string. Expected a string with minimum length 1.")
    if len(value) > longest:
        raise string_too_long(name, len(value), longest)
    return value


def _voice(body: Mapping[str, Any]) -> str:
    """Return the voice's name; a custom voice is an object with an `id`."""
    voice = body.get("voice")
    return _text(body, "voice", MAX_NAME_CHARACTERS, voice.get("id", "") if isinstance(voice, dict) else None)


def _speed(body: Mapping[str, Any]) -> float:
    speed = body.get("speed")
    if speed is None:
        return 1.0
    if isinstance(speed, bool) or not isinstance(speed, int | float):
        raise invalid_type("speed", "a decimal number", speed)
    if not MIN_SPEED <= speed <= MAX_SPEED:
        raise out_of_range("speed", float(speed), MIN_SPEED, MAX_SPEED)
    return float(speed)


def _format(body: Mapping[str, Any]) -> SpeechFormat:
    wanted = body.get("response_format")
    if wanted is None:
        return "wav"
    if wanted in _COMPRESSED:
        raise _not_made_here(wanted)
    if wanted not in FORMATS:
        raise invalid_value("response_format", wanted, FORMATS)
    return cast(SpeechFormat, wanted)


def _not_made_here(wanted: str) -> ProtocolError:
    return refused_value(
        "response_format", f"Invalid value: '{wanted}'. This gateway makes no compressed audio: ask for 'wav' or 'pcm'."
    )
