"""Every event and every field of OpenAI's types, so that the support table can forget none.

The types are walked here by code of its own, so that a blind spot of `protocol.shapes` is not shared. A path is dotted,
`[]` stands for any index, and `{…}` names the member of a union by its `type` and `role`:
`session{realtime}.audio.input.turn_detection{server_vad}.threshold`.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from openai.types import realtime as ga
from openai.types.beta import realtime as beta
from pydantic import BaseModel

_TAGS = ("type", "role")
_NONE = type(None)


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a client event. `words`: all values of a closed set; empty where others are possible."""

    path: str
    words: tuple[str, ...] = ()
    nullable: bool = False
    required: bool = False


def _by_type(union: Any) -> dict[str, type[BaseModel]]:
    models = get_args(get_args(union)[0])
    return {get_args(model.model_fields["type"].annotation)[0]: model for model in models}


CLIENT_EVENTS = {"GA": _by_type(ga.RealtimeClientEvent), "beta": _by_type(beta.RealtimeClientEvent)}
SERVER_EVENTS = {"GA": _by_type(ga.RealtimeServerEvent), "beta": _by_type(beta.RealtimeServerEvent)}


def client_fields(dialect: str, event: str) -> list[Field]:
    """Return the fields of a client event but `type`, with `event_id` last."""
    found = list(dict.fromkeys(_fields(CLIENT_EVENTS[dialect][event], "")))
    return sorted(found, key=lambda field: field.path == "event_id")


def server_fields(dialect: str, event: str) -> tuple[str, ...]:
    """Return the top-level fields of a server event."""
    return tuple(_named(SERVER_EVENTS[dialect][event]))


def _named(model: type[BaseModel]) -> dict[str, Any]:
    return {declared.alias or name: declared for name, declared in model.model_fields.items()}


def _members(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) is Annotated:
        return _members(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(inner for member in get_args(annotation) for inner in _members(member))
    return (annotation,)


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _tags(model: type[BaseModel]) -> list[str]:
    """Return the values of `type` and `role` by which a model is told from its neighbours in a union."""
    words = [_words(_named(model)[key].annotation) for key in _TAGS if key in _named(model)]
    return [only[0] for only in words if len(only) == 1]


def _words(annotation: Any) -> tuple[str, ...]:
    members = _members(annotation)
    if any(member in (str, object, Any) or get_origin(member) is dict for member in members):
        return ()
    return tuple(word for member in members if get_origin(member) is Literal for word in get_args(member))


def _fields(model: type[BaseModel], prefix: str) -> Iterator[Field]:
    for name, declared in _named(model).items():
        if name in _TAGS and len(_words(declared.annotation)) == 1:
            continue  # what kind of object it is: told by the path
        yield from _shape(declared.annotation, f"{prefix}{name}", declared.is_required())


def _shape(annotation: Any, path: str, required: bool) -> Iterator[Field]:
    members = _members(annotation)
    models = [member for member in members if _is_model(member)]
    lists = [get_args(member)[0] for member in members if get_origin(member) is list]
    scalars = [member for member in members if member not in (*models, _NONE) and get_origin(member) is not list]
    nullable = _NONE in members
    listed = [inner for inner in lists if not any(map(_is_model, _members(inner)))]
    if scalars or listed:
        words = _words(listed[0]) if listed and not scalars else _words(annotation)
        yield Field(path, words, nullable, required)
    for inner in lists:
        if inner not in listed:
            yield from _shape(inner, f"{path}[]", required)
    for model in models:
        tagged = path
        if len(models) > 1 or (scalars and _tags(model)):
            tagged = f"{path}{{{' '.join(_tags(model)) or model.__name__}}}"
            yield Field(tagged, required=required)
        yield from _fields(model, f"{tagged}.")
