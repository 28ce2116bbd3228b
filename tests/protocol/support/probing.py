"""Runs a probe: two whole sessions that differ in one field, and what differs in what the session then does.

A field has its effect where the commands to the backend, what the language model is told, or the events that follow
differ from those of the same session without the field. What merely shows the field back is no effect. Nothing about a
field's verdict is written by hand; a probe only says which values to send, and in which session.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import Any
from zlib import crc32

from protocol.session_settings import SessionDefaults, SessionKind
from protocol.wire import Dialect
from tests.protocol.conftest import Talk
from tests.protocol.support.minimal_objects import MINIMAL
from tests.protocol.support.obedient_backend import ObedientBackend


class _Nothing(Enum):
    ABSENT = "the field is left out"
    NO_EVENT = "the event is not sent"


ABSENT, NO_EVENT = _Nothing.ABSENT, _Nothing.NO_EVENT
"""What stands in place of a value."""

CLIENT_EVENT_ID = "evt_probe"

Setup = Callable[[ObedientBackend], None]


@dataclass(frozen=True)
class Probe:
    """How to see what one field does.

    `values` are sent one after the other, each in a session of its own, and compared with `instead` (by default the
    field is left out). They stand at the place `at`, by default `path`; at an empty one they are all the event's
    fields. `beside` are other fields of the object that holds the value, `around` completes the event. `setup` is what
    happened in the session before, `then` what the client does afterwards. `shown`: to be shown is what the field is
    for. `why` says why a field has no effect here, or is refused.
    """

    event: str
    path: str
    values: tuple[Any, ...]
    instead: Any = ABSENT
    at: str | None = None
    beside: dict[str, Any] = field(default_factory=dict)
    around: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    setup: Setup | None = None
    then: Setup | None = None
    defaults: SessionDefaults | None = None
    shown: bool = False
    why: str = ""
    kind: SessionKind = "realtime"
    dialect: Dialect = Dialect.GA


@dataclass(frozen=True, slots=True)
class Answer:
    """What one value did: the error, or the places where it had an effect, and whether it was shown back."""

    code: str | None = None
    param: str | None = None
    effects: frozenset[str] = frozenset()
    shown: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """`word` is full, echoed, accepted or refused; `refused` are the values, if only some of several were refused."""

    word: str
    code: str | None = None
    param: str | None = None
    effects: tuple[str, ...] = ()
    refused: tuple[Any, ...] = ()


def verdict(probe: Probe) -> Verdict:
    """Run a probe and return what was observed."""
    answers = {index: _answer(probe, value) for index, value in enumerate(probe.values)}
    refused = [index for index, answer in answers.items() if answer.code is not None]
    accepted = [answer for answer in answers.values() if answer.code is None]
    first = answers[refused[0]] if refused else Answer()
    if not accepted:
        return Verdict("refused", first.code, first.param)
    effects = tuple(sorted({effect for answer in accepted for effect in answer.effects}))
    shown = any(answer.shown for answer in accepted)
    word = "full" if effects or (shown and probe.shown) else "echoed" if shown else "accepted"
    return Verdict(word, first.code, first.param, effects, tuple(probe.values[index] for index in refused))


def _answer(probe: Probe, value: Any) -> Answer:
    sent, without = _run(probe, value), _run(probe, probe.instead)
    error = sent.error
    if error is not None:
        return Answer(error["code"], error["param"])
    assert without.error is None, f"{probe.path}: the event to compare with was refused: {without.error}"
    return Answer(effects=_places(sent.done, without.done), shown=bool(_places(sent.shown, without.shown)))


def answers_of(probe: Probe) -> tuple[str, ...]:
    """Return the types of the events with which the session answered, each once, in their order."""
    return tuple(dict.fromkeys(_run(probe, probe.values[0]).answers))


# --- events --------------------------------------------------------------------------------------------------------

_SEGMENT = re.compile(r"(?P<name>\w+)(?P<list>\[\])?(\{(?P<member>[^}]+)\})?")


def fields_of_event(probe: Probe, value: Any) -> dict[str, Any]:
    """Return the fields of the event that a probe sends with a value."""
    place = probe.path if probe.at is None else probe.at
    fields: dict[str, Any] = event_with(place, value, probe.beside) if place else value
    return fields if probe.around is None else probe.around(fields)


def event_with(path: str, value: Any, beside: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an event in which `value` stands at `path`; ABSENT leaves it out.

    MINIMAL completes the members of unions on the way, `beside` the object that holds the value.
    """
    segments = [match.groupdict() for match in _SEGMENT.finditer(path)]

    def build(at: int) -> dict[str, Any]:
        name, is_list, member = (segments[at][key] for key in ("name", "list", "member"))
        inner: Any
        if at == len(segments) - 1:
            inner = value
            if inner is ABSENT:
                return dict(beside)
        else:
            inner = build(at + 1)
        if member is not None and isinstance(inner, dict):
            inner = {**MINIMAL[f"{name}{{{member}}}"], **inner}
            if at == len(segments) - 2 and value is ABSENT:
                inner.pop(segments[-1]["name"], None)
        placed = {name: [inner] if is_list else inner}
        return {**beside, **placed} if at == len(segments) - 1 else placed

    return build(0)


# --- sessions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Run:
    error: dict[str, Any] | None
    done: Counter[tuple[str, str]]
    shown: Counter[tuple[str, str]]
    answers: tuple[str, ...] = ()


def _run(probe: Probe, value: Any) -> _Run:
    frame = None
    if value is not NO_EVENT:
        frame = json.dumps({"type": probe.event, "event_id": CLIENT_EVENT_ID, **fields_of_event(probe, value)})
    return _run_event(frame, probe.setup, probe.then, probe.defaults, probe.kind, probe.dialect)


@cache
def _run_event(
    frame: str | None,
    setup: Setup | None,
    then: Setup | None,
    defaults: SessionDefaults | None,
    kind: SessionKind,
    dialect: Dialect,
) -> _Run:
    talk = Talk(defaults, kind=kind, dialect=dialect)
    backend = ObedientBackend(talk)
    talk.open()
    if setup is not None:
        setup(backend)
    before = len(talk.outputs)
    answers = backend.frame(frame) if frame is not None else []
    errors = [answer["error"] for answer in answers if answer["type"] == "error"]
    if errors:
        assert len(answers) == 1, answers
        assert errors[0]["event_id"] == CLIENT_EVENT_ID
        return _Run(errors[0], Counter(), Counter(), ("error",))
    (then or ObedientBackend.goes_on)(backend)
    done: Counter[tuple[str, str]] = Counter()
    shown: Counter[tuple[str, str]] = Counter()
    for name, fields in backend.record(before):
        for path, leaf in _flat(fields, name):
            (shown if _is_echo(path) else done)[path, leaf] += 1
    return _Run(None, done, shown, tuple(answer["type"] for answer in answers))


_ECHOES = re.compile(
    r"(session\.updated|transcription_session\.updated)\.session"
    r"|(conversation\.item\.(added|done|created|retrieved)|response\.output_item\.(added|done))\.item"
    r"|response\.(created|done)\.response"
)
_INDEX = re.compile(r"\[\d+\]")
_COUNTED_ID = re.compile(r"(item|resp|event|call|conv|mcpr)_\d+")


def _is_echo(path: str) -> bool:
    return _ECHOES.match(path) is not None


def _flat(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(inner, f"{path}.{key}")
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from _flat(inner, f"{path}[{index}]")
    elif isinstance(value, bytes):
        yield path, f"{len(value)} bytes, {crc32(value)}"
    elif path.endswith(".event_id") and not path.startswith("error."):
        return
    else:
        # Ids that the session drew say nothing: one more of them moves all that follow.
        yield path, "(id)" if isinstance(value, str) and _COUNTED_ID.fullmatch(value) else repr(value)


def _places(one: Counter[tuple[str, str]], other: Counter[tuple[str, str]]) -> frozenset[str]:
    """Return the paths under which the two differ."""
    return frozenset(_INDEX.sub("[]", path) for path, _ in ((one - other) + (other - one)))
