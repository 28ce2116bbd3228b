"""The machine's inputs and outputs as JSON and back: what a recording holds of them.

Of audio only the number of samples is kept: the machine counts samples and never looks at them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any, get_args

import pydantic

from gateway.turns.inputs import Input
from gateway.turns.observations import Observation
from protocol.audio_time import bytes_from_samples, samples_from_bytes
from protocol.backend_events import BackendEvent

_INPUTS: dict[str, type] = {kind.__name__: kind for kind in get_args(Input)}
_TOLD: dict[str, type] = {kind.__name__: kind for union in (BackendEvent, Observation) for kind in get_args(union)}
_AUDIO = "pcm"
_BYTES = "utf8"


class UnknownRecord(Exception):
    """A recorded input that this version doesn't know, or with other fields."""


def to_json(value: object) -> Any:
    """Return a dataclass of the core as JSON values, its class under `type`; sets in order, audio as its samples."""
    match value:
        case None | bool() | int() | float():
            return value
        case Enum():
            return value.value
        case str():
            return value
        case bytes():
            return value.hex()
        case tuple() | list():
            return [to_json(inner) for inner in value]
        case frozenset():
            return sorted(value)
        case Mapping():
            return {str(name): to_json(inner) for name, inner in value.items()}
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
            if _AUDIO in fields:
                fields[_AUDIO] = samples_from_bytes(len(fields[_AUDIO]))
            return {"type": type(value).__name__, **{name: to_json(inner) for name, inner in fields.items()}}
        case _:
            raise TypeError(f"a {type(value).__name__} does not belong into a recording")


def told_from_json(record: Mapping[str, Any]) -> BackendEvent | Observation | None:
    """Return the event or observation that `to_json` wrote; None for an action. Raises UnknownRecord."""
    kind = _TOLD.get(record.get("type", ""))
    return None if kind is None else value_from_json(kind, record)


def input_from_json(record: Mapping[str, Any]) -> Input:
    """Return the input that `to_json` wrote, with silence for audio. Raises UnknownRecord."""
    kind = _INPUTS.get(record.get("type", ""))
    if kind is None:
        raise UnknownRecord(f"input {record.get('type')!r}")
    try:
        message: Input = _adapter(kind).validate_python(_without_types(record))
        return message
    except pydantic.ValidationError as error:
        raise UnknownRecord(f"input {kind.__name__}: {error.errors()[0]['loc']}") from error


def value_from_json(kind: type, record: Mapping[str, Any]) -> Any:
    """Return the dataclass of `kind` that `to_json` wrote. Raises UnknownRecord."""
    try:
        return _adapter(kind).validate_python(_without_types(record))
    except pydantic.ValidationError as error:
        raise UnknownRecord(f"{kind.__name__}: {error.errors()[0]['loc']}") from error


@cache
def _adapter(kind: type) -> pydantic.TypeAdapter[Any]:
    return pydantic.TypeAdapter(kind)


def _without_types(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_types(inner) for inner in value]
    if not isinstance(value, Mapping):
        return value
    fields = {name: _without_types(inner) for name, inner in value.items() if name != "type"}
    if isinstance(fields.get(_AUDIO), int):
        fields[_AUDIO] = bytes(bytes_from_samples(fields[_AUDIO]))
    if isinstance(fields.get(_BYTES), str):
        fields[_BYTES] = bytes.fromhex(fields[_BYTES])
    return fields
