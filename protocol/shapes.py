"""Checks JSON values against the `openai` package's own types, strictly, and names the first thing that is wrong.

The types are pydantic models, but two of their traits keep us from asking pydantic itself: they allow unknown keys, and
their unions carry the discriminator as a note that pydantic does not read, so that an error in one member is reported
once for every member. So the models' fields are walked here: `type` (then `role`) chooses the member of a union,
nothing is coerced (true is no integer, "500" is no integer), unknown keys are errors.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pydantic

from protocol import errors
from protocol.errors import ProtocolError

_DISCRIMINATORS = ("type", "role")
_INDEX = re.compile(r"\[\d+\]")
_NONE = type(None)
_WORDS: dict[Any, str] = {
    str: "a string",
    int: "an integer",
    float: "a decimal",
    bool: "a boolean",
    list: "an array",
    dict: "an object",
}


@dataclass(frozen=True, slots=True)
class Rules:
    """What holds beyond the types. Keys are dotted paths with `[]` for any index, such as `session.tools[].name`.

    `bounds`: least and greatest number. `lengths`: most characters. `required`: fields that the types call optional,
    and for which null does not do; `optional`: fields that they call required, though clients leave them out.
    `narrowed`: a type in place of the declared one. `tolerated`: keys that the types do not know.
    """

    bounds: Mapping[str, tuple[float | None, float | None]] = field(default_factory=dict)
    lengths: Mapping[str, int] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    narrowed: Mapping[str, Any] = field(default_factory=dict)
    tolerated: frozenset[str] = frozenset()


NO_RULES = Rules()


def check(value: object, shape: Any, path: str = "", rules: Rules = NO_RULES) -> None:
    """Raise the first problem of `value`, as the error that OpenAI would send."""
    for problem in problems(value, shape, path, rules):
        raise problem


def problems(value: object, shape: Any, path: str = "", rules: Rules = NO_RULES) -> Iterator[ProtocolError]:
    """Yield what is wrong with `value` as a `shape` (a type annotation of the `openai` package)."""
    options = _options(rules.narrowed.get(_general(path), shape))
    if Any in options or object in options or (value is None and _NONE in options):
        return
    if isinstance(value, dict):
        yield from _object_problems(value, options, path, rules)
    elif isinstance(value, list):
        members = [get_args(option)[0] for option in options if get_origin(option) is list]
        if not members:
            yield errors.invalid_type(path, _expected(options), value)
        for index, element in enumerate(value if members else ()):
            yield from problems(element, members[0], f"{path}[{index}]", rules)
    else:
        yield from _scalar_problems(value, options, path, rules)


def _general(path: str) -> str:
    return _INDEX.sub("[]", path) if "[" in path else path


@cache
def _options(shape: Any) -> tuple[Any, ...]:
    """Return the alternatives of a possibly nested union, without the notes on them."""
    if get_origin(shape) is Annotated:
        return _options(get_args(shape)[0])
    if get_origin(shape) in (Union, types.UnionType):
        return tuple(option for member in get_args(shape) for option in _options(member))
    return (shape,)


def _is_model(option: Any) -> bool:
    return isinstance(option, type) and issubclass(option, pydantic.BaseModel)


def _expected(options: tuple[Any, ...]) -> str:
    return " or ".join(dict.fromkeys(_WORDS[_kind(option)] for option in options if option is not _NONE))


def _kind(option: Any) -> Any:
    if get_origin(option) is Literal:
        return type(get_args(option)[0])
    return dict if _is_model(option) else get_origin(option) or option


# --- objects -------------------------------------------------------------------------------------------------------


def _object_problems(
    value: dict[str, Any], options: tuple[Any, ...], path: str, rules: Rules
) -> Iterator[ProtocolError]:
    models = [option for option in options if _is_model(option)]
    mappings = [get_args(option)[1] for option in options if get_origin(option) is dict]
    if models:
        try:
            model = _chosen(models, value, path)
        except ProtocolError as problem:
            yield problem
        else:
            yield from _field_problems(value, model, path, rules)
    elif mappings:
        for key, element in value.items():  # the client's own keys, as long as it likes
            yield from problems(element, mappings[0], _joined(path, errors.shortened(key)), rules)
    else:
        yield errors.invalid_type(path, _expected(options), value)


def _joined(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _chosen(models: list[Any], value: dict[str, Any], path: str) -> Any:
    """Return the union's member that `type`, then `role`, of `value` names; an absent one that is optional fits."""
    for key in _DISCRIMINATORS:
        if len(models) == 1:
            break
        tags = {model: _tags(model, key) for model in models}
        param, given = _joined(path, key), value.get(key)
        if given is None:
            models = [model for model in models if not _required(model, key)][:1]
            if not models:
                raise errors.missing_parameter(param)
        elif not isinstance(given, str):
            raise errors.invalid_type(param, "a string", given)
        else:
            supported = dict.fromkeys(tag for model in models for tag in tags[model])
            models = [model for model in models if given in tags[model]]
            if not models:
                raise errors.invalid_value(param, given, supported)
    return models[0]


@cache
def _fields(model: Any) -> dict[str, Any]:
    """Return a model's fields by their names on the wire."""
    return {declared.alias or name: declared for name, declared in model.model_fields.items()}


@cache
def _tags_and_others(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a model's fields that say of what kind it is, and its others."""
    known = _fields(model)
    return (
        {key: known[key] for key in _DISCRIMINATORS if key in known},
        {key: declared for key, declared in known.items() if key not in _DISCRIMINATORS},
    )


@cache
def _tags(model: Any, key: str) -> tuple[Any, ...]:
    return _literals(_options(_fields(model)[key].annotation)) if key in _fields(model) else ()


def _required(model: Any, key: str) -> bool:
    return key in _fields(model) and bool(_fields(model)[key].is_required())


def _field_problems(value: dict[str, Any], model: Any, path: str, rules: Rules) -> Iterator[ProtocolError]:
    known = _fields(model)
    tags, others = _tags_and_others(model)
    # What kind of object it is comes first: a wrong or missing `type` explains the keys that do not fit.
    yield from _known_field_problems(value, tags, path, rules)
    for key in value:
        if key not in known and _general(param := _joined(path, key)) not in rules.tolerated:
            yield errors.unknown_parameter(param)
    yield from _known_field_problems(value, others, path, rules)


def _known_field_problems(
    value: dict[str, Any], fields: dict[str, Any], path: str, rules: Rules
) -> Iterator[ProtocolError]:
    for key, declared in fields.items():
        if key not in value and not rules.required and not declared.is_required():
            continue  # most fields of most objects
        param = _joined(path, key)
        demanded = _general(param) in rules.required
        if key in value and not (demanded and value[key] is None):
            yield from problems(value[key], declared.annotation, param, rules)
        elif demanded or (declared.is_required() and _general(param) not in rules.optional):
            yield errors.missing_parameter(param)


# --- strings, numbers, booleans ------------------------------------------------------------------------------------


def _literals(options: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(value for option in options if get_origin(option) is Literal for value in get_args(option))


def _scalar_problems(value: Any, options: tuple[Any, ...], path: str, rules: Rules) -> Iterator[ProtocolError]:
    if type(value) in options or (type(value) is int and float in options):
        yield from _limit_problems(value, path, rules)
        return
    literals = [literal for literal in _literals(options) if type(literal) is type(value)]
    if not literals:
        yield errors.invalid_type(path, _expected(options), value)
    elif value not in literals:
        if isinstance(value, int):  # `format.rate`: OpenAI answers with the range error
            yield errors.out_of_range(path, value, min(literals), max(literals))
        else:
            yield errors.invalid_value(path, value, literals)


def _limit_problems(value: Any, path: str, rules: Rules) -> Iterator[ProtocolError]:
    general = _general(path)
    if isinstance(value, str):
        longest = rules.lengths.get(general)
        if longest is not None and len(value) > longest:
            yield errors.string_too_long(path, len(value), longest)
    else:
        minimum, maximum = rules.bounds.get(general, (None, None))
        if (minimum is not None and value < minimum) or (maximum is not None and value > maximum):
            yield errors.out_of_range(path, value, minimum, maximum)
