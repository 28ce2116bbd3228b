"""What `POST /v1/audio/transcriptions` takes, and the shapes of its answers (OpenAI: createTranscription)."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from protocol.errors import ProtocolError, invalid_value, missing_parameter, refused_value, string_too_long

TranscriptFormat = Literal["json", "text", "verbose_json"]
FORMATS: tuple[TranscriptFormat, ...] = ("json", "text", "verbose_json")

MAX_NAME_CHARACTERS = 256
"""Longest name of a model or a language (chosen)."""

MAX_PROMPT_CHARACTERS = 4_096
"""Longest `prompt`, `keywords` included (chosen; Whisper reads the last 224 tokens of it)."""

MAX_AUDIO_S = 1_500
"""Longest audio (OpenAI's own limit for its newer models)."""

_YES_AND_NO = {"true": True, "false": False, "1": True, "0": False}


@dataclass(frozen=True, slots=True)
class TranscriptionRequest:
    """How audio is to be transcribed. `prompt`: words that are likely. `as_events`: in server-sent events."""

    language: str | None
    prompt: str
    format: TranscriptFormat
    logprobs: bool
    as_events: bool


@dataclass(frozen=True, slots=True)
class TranscriptPiece:
    """What was said between two times of the audio. `logprobs` None: not asked for, or not known."""

    start_s: float
    end_s: float
    text: str
    logprobs: tuple[dict[str, Any], ...] | None = None
    language: str = ""


def transcription_request(fields: Sequence[tuple[str, str]]) -> TranscriptionRequest:
    """Return the request in a form's fields, but for its file. Raises ProtocolError.

    Any model's name will do. `temperature`, `chunking_strategy` and what nobody knows are left unread.
    """
    values = dict(fields)
    for name in ("model", "language"):
        if len(values.get(name, "")) > MAX_NAME_CHARACTERS:
            raise string_too_long(name, len(values[name]), MAX_NAME_CHARACTERS)
    if not values.get("model"):
        raise missing_parameter("model")
    wanted = values.get("response_format") or "json"
    if wanted not in FORMATS:
        raise invalid_value("response_format", wanted, FORMATS)
    stream = values.get("stream") or "false"
    if stream.lower() not in _YES_AND_NO:
        raise invalid_value("stream", stream, ("true", "false"))
    for granularity in _listed(fields, "timestamp_granularities"):
        if granularity != "segment":
            raise refused_value(
                "timestamp_granularities", "The times of words are not known here: ask for segments, or leave it out."
            )
    include = _listed(fields, "include")
    for name in include:
        if name != "logprobs":
            raise invalid_value("include", name, ("logprobs",))
    return TranscriptionRequest(
        values.get("language") or None,
        _prompt(values.get("prompt", ""), _listed(fields, "keywords")),
        wanted,
        "logprobs" in include,
        _YES_AND_NO[stream.lower()],
    )


def not_a_wav(what: str) -> ProtocolError:
    """The file is not one that is read here (OpenAI's words; its list of formats is longer)."""
    return ProtocolError(
        "unsupported_format",
        f"Invalid file format: {what}. Supported formats: ['wav'] with PCM or float samples.",
        "file",
    )


def audio_too_short() -> ProtocolError:
    """Less than a tenth of a second (OpenAI's words)."""
    return ProtocolError("audio_too_short", "Audio file is too short. Minimum audio length is 0.1 seconds.", "file")


def audio_too_long() -> ProtocolError:
    """More than `MAX_AUDIO_S` (after OpenAI's words; the code is ours)."""
    return ProtocolError(
        "audio_too_long",
        f"The audio is longer than {MAX_AUDIO_S} seconds, which is the maximum for this model.",
        "file",
    )


def answer(asked: TranscriptionRequest, text: str, pieces: Sequence[TranscriptPiece], audio_s: float) -> dict[str, Any]:
    """Return the JSON answer to a request for `json` or `verbose_json`."""
    usage = {"type": "duration", "seconds": round(audio_s)}
    if asked.format == "verbose_json":
        language = next((piece.language for piece in pieces if piece.language), asked.language or "")
        segments = [_segment(number, piece) for number, piece in enumerate(pieces) if piece.text]
        return {
            "task": "transcribe",
            "language": language,
            "duration": audio_s,
            "text": text,
            "segments": segments,
            "usage": usage,
        }
    body: dict[str, Any] = {"text": text}
    if (tokens := _tokens(pieces)) is not None:
        body["logprobs"] = tokens
    return {**body, "usage": usage}


def delta_event(piece: TranscriptPiece, space: str) -> dict[str, Any]:
    """Return the event that tells a piece, `space` before it."""
    event: dict[str, Any] = {"type": "transcript.text.delta", "delta": space + piece.text}
    if piece.logprobs is not None:
        event["logprobs"] = list(piece.logprobs)
    return event


def done_event(text: str, pieces: Sequence[TranscriptPiece]) -> dict[str, Any]:
    """Return the event that ends a stream, with the whole text."""
    event: dict[str, Any] = {"type": "transcript.text.done", "text": text}
    if (tokens := _tokens(pieces)) is not None:
        event["logprobs"] = tokens
    return event


def _listed(fields: Sequence[tuple[str, str]], name: str) -> list[str]:
    """Return the values of a list, which clients name with brackets or without."""
    return [value for key, value in fields if key in (name, f"{name}[]")]


def _prompt(prompt: str, keywords: Sequence[str]) -> str:
    whole = " ".join(text for text in (prompt, ", ".join(keywords)) if text)
    if len(whole) > MAX_PROMPT_CHARACTERS:
        raise string_too_long("prompt", len(whole), MAX_PROMPT_CHARACTERS)
    return whole


def _tokens(pieces: Sequence[TranscriptPiece]) -> list[dict[str, Any]] | None:
    if not pieces or any(piece.logprobs is None for piece in pieces):
        return None
    return [token for piece in pieces for token in piece.logprobs or ()]


def _segment(number: int, piece: TranscriptPiece) -> dict[str, Any]:
    """Return a segment as Whisper's; what nobody here knows has the value of a segment without doubts."""
    known = [token["logprob"] for token in piece.logprobs or ()]
    data = piece.text.encode()
    return {
        "id": number,
        "seek": round(piece.start_s * 100),
        "start": piece.start_s,
        "end": piece.end_s,
        "text": piece.text,
        "tokens": [],
        "temperature": 0.0,
        "avg_logprob": sum(known) / len(known) if known else 0.0,
        "compression_ratio": len(data) / len(zlib.compress(data)),
        "no_speech_prob": 0.0,
    }
