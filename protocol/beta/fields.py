"""Which beta field is which GA field: sessions, responses, and the paths in errors (protocol §3: Beta → GA).

Every table is read in both directions. Of what both dialects can say nothing is lost either way; what only GA can say
(an idle timeout, another tool than a function) is left out of what a beta client sees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from protocol.audio_time import SESSION_RATE_HZ
from protocol.beta.items import items_to_beta, items_to_ga

DEFAULT_TEMPERATURE = 0.8
"""What a beta session and response show where nobody set a temperature (OpenAI's beta types)."""

DEFAULT_VOICE = "alloy"
"""The voice of a beta session (OpenAI's beta reference); `marin` came with GA."""

SPOKEN = ["text", "audio"]
"""Beta's modalities of speech, in the order of its reference. Its transcript is the text."""

Convert = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its beta name, its dotted GA path, and what turns a value other than null from one into the other.

    `word`: beta says in one word what is an object in GA, so that no path leads further.
    """

    beta: str
    ga: str
    to_ga: Convert = lambda value: value
    to_beta: Convert = lambda value: value
    word: bool = False


Table = tuple[Field, ...]


def nested(flat: Mapping[str, Any], table: Table) -> dict[str, Any]:
    """Return the GA object for the fields of `flat`, a beta object. Absent fields stay absent, null stays null."""
    ga: dict[str, Any] = {}
    for field in table:
        if field.beta in flat:
            *parents, name = field.ga.split(".")
            place = ga
            for parent in parents:
                place = place.setdefault(parent, {})
            value = flat[field.beta]
            place[name] = None if value is None else field.to_ga(value)
    return ga


def flattened(ga: Mapping[str, Any], table: Table) -> dict[str, Any]:
    """Return the beta object for the fields of `ga`, a GA object. Absent fields stay absent, null stays null."""
    flat: dict[str, Any] = {}
    for field in table:
        *parents, name = field.ga.split(".")
        place: Any = ga
        for parent in parents:
            place = place.get(parent) or {}
        if name in place:
            flat[field.beta] = None if place[name] is None else field.to_beta(place[name])
    return flat


# --- values --------------------------------------------------------------------------------------------------------

_FORMAT_TYPES = {"pcm16": "audio/pcm", "g711_ulaw": "audio/pcmu", "g711_alaw": "audio/pcma"}
_FORMAT_WORDS = {ga: beta for beta, ga in _FORMAT_TYPES.items()}


def _format_to_ga(word: str) -> dict[str, Any]:
    kind = _FORMAT_TYPES[word]
    return {"type": kind, "rate": SESSION_RATE_HZ} if word == "pcm16" else {"type": kind}


def _format_to_beta(audio_format: Mapping[str, Any]) -> str:
    return _FORMAT_WORDS[audio_format["type"]]


def _modalities_to_ga(modalities: list[str]) -> list[str]:
    return ["audio"] if "audio" in modalities else modalities


def _modalities_to_beta(modalities: list[str]) -> list[str]:
    return list(SPOKEN) if "audio" in modalities else modalities


def _tool_choice_to_ga(choice: str | Mapping[str, Any]) -> str | dict[str, Any]:
    """Return the choice; a function is named as in GA, or as the beta types' docstring has it, one level deeper."""
    if isinstance(choice, str):
        return choice
    return {"type": "function", "name": choice.get("name") or (choice.get("function") or {}).get("name")}


def _tool_choice_to_beta(choice: str | Mapping[str, Any]) -> str | Mapping[str, Any]:
    return choice if isinstance(choice, str) or choice["type"] == "function" else "auto"


_OF_THE_OTHER_MODE = {
    "server_vad": ("eagerness",),
    "semantic_vad": ("threshold", "prefix_padding_ms", "silence_duration_ms"),
}


def _turn_detection_to_ga(detection: Mapping[str, Any]) -> dict[str, Any]:
    """Return the detection without what beta says to be "used only for" the other mode: its types have both in one."""
    unused = _OF_THE_OTHER_MODE[detection["type"]]
    return {key: value for key, value in detection.items() if key not in unused}


def _functions(tools: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [tool for tool in tools if tool["type"] == "function"]


def _without(*keys: str) -> Convert:
    return lambda value: {key: inner for key, inner in value.items() if key not in keys}


# --- tables --------------------------------------------------------------------------------------------------------

_MODALITIES = Field("modalities", "output_modalities", _modalities_to_ga, _modalities_to_beta)
_VOICE = Field("voice", "audio.output.voice")
_OUTPUT_FORMAT = Field("output_audio_format", "audio.output.format", _format_to_ga, _format_to_beta, word=True)
_TOOLS = Field("tools", "tools", to_beta=_functions)
_TOOL_CHOICE = Field("tool_choice", "tool_choice", _tool_choice_to_ga, _tool_choice_to_beta)
_TEMPERATURE = Field("temperature", "temperature")
_REQUESTED_TOKENS = Field("max_response_output_tokens", "max_output_tokens")
_OURS = Field("gateway", "gateway")
_INPUT: Table = (
    Field("input_audio_format", "audio.input.format", _format_to_ga, _format_to_beta, word=True),
    Field("input_audio_transcription", "audio.input.transcription", to_beta=_without("languages", "keywords", "delay")),
    Field("input_audio_noise_reduction", "audio.input.noise_reduction", to_beta=_without("strength")),
    Field("include", "include"),
)

SESSION: Table = (
    Field("model", "model"),
    _MODALITIES,
    Field("instructions", "instructions"),
    _VOICE,
    *_INPUT,
    _OUTPUT_FORMAT,
    Field("turn_detection", "audio.input.turn_detection", _turn_detection_to_ga, _without("idle_timeout_ms")),
    _TOOLS,
    _TOOL_CHOICE,
    _TEMPERATURE,
    _REQUESTED_TOKENS,
    Field("speed", "audio.output.speed"),
    Field("tracing", "tracing"),
    _OURS,
)
"""A session. GA's `prompt`, `truncation`, `parallel_tool_calls` and `reasoning` have no beta name."""

TRANSCRIPTION_SESSION: Table = (
    *_INPUT,
    Field(
        "turn_detection",
        "audio.input.turn_detection",
        _turn_detection_to_ga,
        _without("idle_timeout_ms", "create_response", "interrupt_response"),
    ),
    _OURS,
)
"""A transcription session. It makes no responses, so its turn detection shows no word of them."""

RESPONSE_CREATE: Table = (
    Field("conversation", "conversation"),
    Field("input", "input", items_to_ga, items_to_beta),
    Field("instructions", "instructions"),
    _MODALITIES,
    _VOICE,
    _OUTPUT_FORMAT,
    _TOOLS,
    _TOOL_CHOICE,
    _TEMPERATURE,
    _REQUESTED_TOKENS,
    Field("metadata", "metadata"),
)
"""The overrides of a response.create."""

RESPONSE: Table = (
    *(Field(same, same) for same in ("id", "object", "status", "status_details")),
    Field("output", "output", items_to_ga, items_to_beta),
    *(Field(same, same) for same in ("conversation_id", "usage", "metadata", "max_output_tokens")),
    _MODALITIES,
    _VOICE,
    _OUTPUT_FORMAT,
    _TEMPERATURE,
)
"""The response object of response.created and response.done."""

BETA_ONLY = frozenset(field.beta for field in SESSION if field.beta != field.ga) | {_TEMPERATURE.beta}
"""Top-level session fields that tell a beta client: GA has them elsewhere or not at all."""


# --- paths ---------------------------------------------------------------------------------------------------------

_PATHS = {"session": SESSION, "response": RESPONSE_CREATE}


def beta_path(path: str) -> str:
    """Return the beta path for a GA path, such as `session.voice` for `session.audio.output.voice`.

    A path that both dialects share, or that beta doesn't have, stays as it is.
    """
    if path == "session.type":  # beta tells the kind of a session by the event's type
        return "type"
    root, _, rest = path.partition(".")
    for field in _PATHS.get(root, ()):
        if rest == field.ga or rest.startswith((f"{field.ga}.", f"{field.ga}[")):
            return f"{root}.{field.beta}" + ("" if field.word else rest[len(field.ga) :])
    return path


def ga_path(path: str) -> str:
    """Return the GA path for a beta path: the inverse of `beta_path`, where a word stands for the whole object."""
    root, _, rest = path.partition(".")
    for field in _PATHS.get(root, ()):
        if rest == field.beta or rest.startswith((f"{field.beta}.", f"{field.beta}[")):
            return f"{root}.{field.ga}{rest[len(field.beta) :]}"
    return path
