"""Frames that a client might send: valid ones of every type, spoiled ones, and what is no event at all."""

from __future__ import annotations

import base64
import io
import json
import types
import wave
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from protocol.beta.client_rules import BETA_RULES
from protocol.client_shapes import CLIENT_RULES
from protocol.session_settings import SessionKind
from protocol.shapes import Rules
from tests.protocol.fuzz.choices import Choices
from tests.protocol.support.beta_probes import BETA_PROBES
from tests.protocol.support.catalogue import CLIENT_EVENTS
from tests.protocol.support.event_probes import EVENT_PROBES
from tests.protocol.support.probing import Probe, fields_of_event
from tests.protocol.support.session_probes import SESSION_PROBES

Json = dict[str, Any]


def wav_of(pcm: bytes) -> bytes:
    """Return a WAV file of 24 kHz PCM16."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setparams((1, 2, 24_000, 0, "NONE", ""))
        writer.writeframes(pcm)
    return file.getvalue()


@dataclass
class Known:
    """The ids that a client has seen: of all items, and of those of the agent's speech."""

    ids: list[str] = field(default_factory=list)
    spoken: list[str] = field(default_factory=list)


_RULES = {"GA": CLIENT_RULES, "beta": BETA_RULES}
_NONE = type(None)
WAV = wav_of(bytes(480))
AUDIO = [base64.b64encode(audio).decode() for audio in (bytes(960), bytes(9_601), b"\x01", b"", WAV, WAV[:50])]
IDS = ["item_x", "u1", "u2", "x" * 32, "root", "", "resp_1", "resp_2", "a1", "call_x", "conv_1"]
TEXTS = ["Hello.", "", "\N{THUMBS UP SIGN}", "\x00\x1f", "\u202e evil", "x" * 600, "auto", "none", "a.b[0]", "'; drop"]
INTEGERS = [0, 1, 5, 100, 500, 1_000, 4_096, 24_000, -1, 2**31, 2**53 + 1, -(10**30)]
DECIMALS = [0.5, 0.0, 1.0, 0.25, 1.5, -0.0, 1e-300, 1e300, 0.1]
ODD = [None, True, 0, -1, 1.5, "", "x", [], {}, [[]], {"type": "message"}, 10**400, "audio/pcm", [None] * 3]
_LIVE = ("item_id", "previous_item_id", "response_id")
KEYS = ["type", "id", "session", "item", "response", "audio", "role", "content", "event_id", "nonsense", "", "a.b", "é"]


def frame(choices: Choices, dialect: str, kind: SessionKind, known: Known) -> str | bytes:
    """Return a frame; `known` is what the session has shown so far."""
    match choices.number(20):
        case 0 | 1 | 2 | 3:
            return _dumped(_from_corpus(choices, dialect, kind), choices)
        case 4 | 5 | 6 | 7 | 8:
            return _dumped(_from_types(choices, dialect, known), choices)
        case 9 | 10 | 11 | 12 | 13:
            return _dumped(_with_live_ids(_from_corpus(choices, dialect, kind), choices, known), choices)
        case 14 | 15 | 16:
            event = _from_corpus(choices, dialect, kind) if choices.chance(2) else _from_types(choices, dialect, known)
            for _ in range(1 + choices.number(3)):
                event = _spoiled(event, choices)
            return _dumped(event, choices)
        case 17:
            other: SessionKind = "transcription" if kind == "realtime" else "realtime"
            return _dumped(_from_corpus(choices, choices.one_of(["beta", "GA"]), other), choices)
        case 18:
            return _spoiled_text(_dumped(_from_corpus(choices, dialect, kind), choices), choices)
        case _:
            return _no_event(choices)


def _dumped(event: Any, choices: Choices) -> str:
    if isinstance(event, dict) and not choices.chance(4):
        event = {**event, "event_id": f"evt_{choices.number(256)}"}
    return json.dumps(event, ensure_ascii=choices.chance(2))


# --- valid events ----------------------------------------------------------------------------------------------------


@cache
def corpus(dialect: str, kind: SessionKind) -> dict[str, tuple[str, ...]]:
    """Return the events of the support table's probes by their type: valid ones, every field among them."""
    probes: list[Probe] = BETA_PROBES if dialect == "beta" else [*SESSION_PROBES, *EVENT_PROBES]
    events: dict[str, dict[str, None]] = {}
    for probe in probes:
        if probe.kind == kind or not probe.event.endswith("session.update"):
            texts = [json.dumps({"type": probe.event, **fields_of_event(probe, value)}) for value in probe.values]
            events.setdefault(probe.event, {}).update(dict.fromkeys(texts))
    return {event: tuple(texts) for event, texts in events.items()}


def _from_corpus(choices: Choices, dialect: str, kind: SessionKind) -> Json:
    by_type = corpus(dialect, kind)
    often = [event for event in by_type if event.endswith((".create", ".update"))]
    event: Json = json.loads(choices.one_of(by_type[choices.one_of([*by_type, *often * 2])]))
    return event


def _with_live_ids(value: Any, choices: Choices, known: Known) -> Any:
    """Put ids that exist in the session in place of those of the corpus."""
    if isinstance(value, dict):
        if value.get("type") == "conversation.item.truncate" and known.spoken:
            heard_ms = choices.one_of([0, 10, 20, 1_000, 100_000])
            return {**value, "item_id": choices.one_of(known.spoken[-3:]), "audio_end_ms": heard_ms}
        return {
            key: choices.one_of(known.ids[-8:]) if key in _LIVE and known.ids else _with_live_ids(inner, choices, known)
            for key, inner in value.items()
        }
    return [_with_live_ids(inner, choices, known) for inner in value] if isinstance(value, list) else value


def _from_types(choices: Choices, dialect: str, known: Known) -> Json:
    kinds = list(CLIENT_EVENTS[dialect])
    kind = choices.one_of(kinds)
    event = _object(CLIENT_EVENTS[dialect][kind], "", choices, _RULES[dialect], known)
    return {"type": kind, **{key: value for key, value in event.items() if key not in ("type", "event_id")}}


@cache
def _members(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) is Annotated:
        return _members(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(inner for member in get_args(annotation) for inner in _members(member))
    return (annotation,)


def _object(model: type[BaseModel], path: str, choices: Choices, rules: Rules, known: Known) -> Json:
    found: Json = {}
    for name, declared in model.model_fields.items():
        key = declared.alias or name
        at = f"{path}.{key}" if path else key
        if declared.is_required() or key in ("type", "role", "content") or choices.chance(5):
            found[key] = _value(declared.annotation, at, choices, rules, known)
    return found


def _value(annotation: Any, path: str, choices: Choices, rules: Rules, known: Known) -> Any:
    members = _members(rules.narrowed.get(path, annotation))
    if _NONE in members and choices.chance(12):
        return None
    wanted = [member for member in members if member is not _NONE]
    member = choices.one_of(wanted)
    if isinstance(member, type) and issubclass(member, BaseModel):
        return _object(member, path, choices, rules, known)
    origin = get_origin(member)
    if origin is Literal:
        return choices.one_of(get_args(member))
    if origin is list:
        inner = get_args(member)[0]
        return [_value(inner, f"{path}[]", choices, rules, known) for _ in range((1, 0, 1, 2)[choices.number(4)])]
    if origin is dict:
        return {choices.one_of(TEXTS): choices.one_of(TEXTS) for _ in range(choices.number(3))}
    return _scalar(member, path, choices, rules, known)


def _scalar(member: Any, path: str, choices: Choices, rules: Rules, known: Known) -> Any:
    key = path.rpartition(".")[2]
    low, high = rules.bounds.get(path, (None, None))
    if member is bool:
        return choices.chance(2)
    if member is str:
        if key == "audio":
            return choices.one_of(AUDIO)
        if key.endswith("id"):
            return choices.one_of(known.ids) if known.ids and not choices.chance(3) else choices.one_of(IDS)
        return choices.one_of(TEXTS)
    if member in (int, float) and low is not None and not choices.chance(6):
        span = int((high if high is not None else 2_000) - low)
        return int(low) + choices.number(span + 1) if member is int else min(low + 0.05 * choices.number(20), high or 1)
    if member is int:
        return choices.one_of(INTEGERS)
    return choices.one_of(DECIMALS) if member is float else choices.one_of(ODD)


# --- spoiled ones ----------------------------------------------------------------------------------------------------


def _spoiled(event: Any, choices: Choices) -> Any:
    """Return `event` with one thing wrong, at any depth."""
    if isinstance(event, dict) and event:
        key = choices.one_of(list(event))
        rest = {name: inner for name, inner in event.items() if name != key}
        match choices.number(12):
            case 0:
                return rest
            case 1:
                return {**event, choices.one_of(KEYS): choices.one_of(ODD)}
            case 2:
                return {**rest, choices.one_of(KEYS): event[key]}
            case 3:
                return {**event, key: choices.one_of(ODD)}
            case 4:
                return {**event, key: _stretched(event[key], choices)}
            case 5:
                return {**event, key: [event[key]] * choices.number(4)}
            case _:
                return {**event, key: _spoiled(event[key], choices)}
    if isinstance(event, list) and event:
        at = choices.number(len(event))
        return [*event[:at], _spoiled(event[at], choices), *event[at + 1 :]]
    return _stretched(event, choices)


def _stretched(value: Any, choices: Choices) -> Any:
    match value:
        case bool() | None:
            return choices.one_of(ODD)
        case int() | float():
            return choices.one_of([-value, value * 1_000, "7", 10**30, -1e308, value == 1])
        case str():
            long = [value * 40, value + "\\", value[:-1], f"\x00{value}", value.upper(), f" {value}", "é" * 33]
            return choices.one_of([*long, f"{value}==", value.encode().hex(), "x" * 300_000, 7])
        case list():
            return choices.one_of([value * 3, [], {"0": value}, [*value, None], [value]])
        case _:
            return choices.one_of([[value], {**value, "type": "nonsense"}, {"x": value}, None, "{}"])


def _spoiled_text(text: str, choices: Choices) -> str:
    """Return JSON that is none any more, or that reads in two ways."""
    middle = len(text) // 2
    head, tail = text[:-1], text[-1:]
    return choices.one_of(
        [
            text[:middle],
            text + "}",
            f"\ufeff{text}",
            f'{head}, "type": "session.update"{tail}',
            f'{head}, "event_id": "evt_twice"{tail}',
            f'{head}, "event_id": null{tail}',
            f'{head}, "event_id": "{"x" * 600}"{tail}',
            f'{head}, "event_id": 7{tail}',
            f'{head}, "item_id": "\\ud800"{tail}',
            f'{head}, "event_id": "\\udfff\\ud83d"{tail}',
            f'{head}, "audio_end_ms": NaN{tail}',
            f'{head}, "audio_end_ms": -Infinity{tail}',
            f'{head}, "audio_end_ms": 1e999{tail}',
            f'{head}, "audio_end_ms": {"9" * 5_000}{tail}',
            f'{head}, "metadata": {"[" * 70}{"]" * 70}{tail}',
            f'{head}, "metadata": {"[" * 3_000}{"]" * 3_000}{tail}',
            f'{head}, "item": {"{" + chr(34) + "a" + chr(34) + ":"}{tail}',
            text.replace('"', "'"),
            text.replace(" ", "\n\t"),
            text.replace("e", "\\u0065", 3),
        ]
    )


def _no_event(choices: Choices) -> str | bytes:
    raw = choices.raw(1 + choices.number(40))
    return choices.one_of(
        [
            raw.decode("latin-1"),
            raw,
            "",
            "null",
            "[]",
            "7",
            '"session.update"',
            "{}",
            '{"type": null}',
            '{"type": 7, "event_id": "evt_7"}',
            '{"type": "session.updated", "event_id": "evt_8"}',
            '{"type": "__proto__", "event_id": {}}',
            "[" * 100_000,
        ]
    )
