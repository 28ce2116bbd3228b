"""The table in `protocol/README.md` is what the probes observe, and forgets nothing that OpenAI's types know."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any

import pytest

from protocol.client_shapes import CLIENT_RULES
from protocol.errors import ProtocolError
from protocol.wire import Dialect, Wire
from tests.protocol.conftest import Talk
from tests.protocol.support.catalogue import CLIENT_EVENTS, SERVER_EVENTS, client_fields
from tests.protocol.support.document import EFFECTS, PROBES, README, observed, text, unsent, unsent_fields
from tests.protocol.support.our_errors import our_errors
from tests.protocol.support.probing import Probe, fields_of_event
from tests.protocol.support.server_event_scenarios import NEVER, UNSENT_FIELDS

DIALECTS = ("GA", "beta")


def test_the_readme_is_what_the_probes_observe() -> None:
    observed_now = text()
    if os.environ.get("UPDATE_GOLDENS") == "1":
        README.write_text(observed_now, encoding="utf-8")
    assert observed_now == README.read_text(encoding="utf-8")


def test_the_lines_of_the_readme_that_drive_a_session_do_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    imports = """
from gateway.g711 import G711Codec
from protocol.backend_events import ResponseStarted
from protocol.ids import CountingIds
from protocol.outputs import ServerEvent
from protocol.session import SessionProtocol
from protocol.session_settings import SessionDefaults
from protocol.wire import Dialect, Wire
"""
    exec(imports + code, {})
    assert capsys.readouterr().out == "['session.created', 'response.created']\n"


# --- nothing is forgotten --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_client_event_and_field_of_the_types_has_a_probe(dialect: str) -> None:
    wanted = {(event, "") for event in CLIENT_EVENTS[dialect]}
    wanted |= {(event, field.path) for event in CLIENT_EVENTS[dialect] for field in client_fields(dialect, event)}
    missing = {key for key in wanted if key not in PROBES[dialect] and key[1] != "event_id"}
    assert missing == set()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_only_fields_beyond_the_types_are_references_to_items(dialect: str) -> None:
    known = {(event, field.path) for event in CLIENT_EVENTS[dialect] for field in client_fields(dialect, event)}
    beyond = {path for event, path in PROBES[dialect] if path and (event, path) not in known}
    assert all("{item_reference}" in path for path in beyond), beyond


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_word_of_a_closed_set_is_sent(dialect: str) -> None:
    for event in CLIENT_EVENTS[dialect]:
        for field in client_fields(dialect, event):
            if field.words:
                sent = json.dumps(PROBES[dialect][event, field.path].values)
                assert [word for word in field.words if json.dumps(word) not in sent] == [], field.path


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_server_event_of_the_types_comes_up_or_has_a_reason(dialect: str) -> None:
    assert unsent(dialect) == set(NEVER[dialect])
    assert len(SERVER_EVENTS["GA"]) == 46
    assert len(CLIENT_EVENTS["GA"]) == 11


def test_every_field_of_a_server_event_comes_up_or_has_a_reason() -> None:
    assert unsent_fields("GA") == set(UNSENT_FIELDS)
    assert unsent_fields("beta") <= set(UNSENT_FIELDS)


# --- verdicts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_has_no_effect_or_is_refused_says_why(dialect: str) -> None:
    for (event, path), probe in PROBES[dialect].items():
        verdict = observed(dialect, event, path)
        assert probe.why or (verdict.word == "full" and not verdict.refused), (event, path, verdict)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_place_where_an_effect_was_observed_has_a_name(dialect: str) -> None:
    places = {place for event, path in PROBES[dialect] for place in observed(dialect, event, path).effects}
    assert {place for place in places if not any(re.match(pattern, place) for pattern, _ in EFFECTS)} == set()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_client_event_is_left_without_a_verdict_but_the_one_of_other_transports(dialect: str) -> None:
    words = {event: observed(dialect, event, "").word for event in CLIENT_EVENTS[dialect]}
    assert {event for event, word in words.items() if word != "full"} == {"output_audio_buffer.clear"}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_event_gives_its_id_back_in_an_error(dialect: str) -> None:
    for event in CLIENT_EVENTS[dialect]:
        talk = Talk(dialect=Dialect(dialect.lower()))
        talk.open()
        (answer,) = talk.send(event, event_id="mine", nonsense=1)
        assert answer["error"]["event_id"] == "mine", event


DEMANDED = {
    "GA": {f"{root}.tools[]{{function}}.name" for root in ("session{realtime}", "response")},
    "beta": {"session.turn_detection.type", "session.tools[].name", "response.tools[].name"}
    | {
        f"{item}.{key}"
        for item in ("item", "response.input[]")
        for key in ("name", "arguments", "output", "content[].id")
    },
}
"""Fields that the types call optional, though the object that they stand in is nothing without them."""


@pytest.mark.parametrize("dialect", DIALECTS)
def test_null_is_taken_wherever_the_types_allow_it(dialect: str) -> None:
    wire = Wire(Dialect(dialect.lower()))
    refused: set[str] = set()
    for event in CLIENT_EVENTS[dialect]:
        for field in client_fields(dialect, event):
            probe = PROBES[dialect].get((event, field.path))
            if probe is None or probe.at is not None or not field.nullable:
                continue
            if code_of(wire, json.dumps({"type": event, **fields_of_event(probe, None)})) is not None:
                refused.add(field.path)
    assert refused == DEMANDED[dialect]


def code_of(wire: Wire, frame: str) -> str | None:
    try:
        wire.read(frame)
    except ProtocolError as error:
        return error.code
    return None


# --- limits ----------------------------------------------------------------------------------------------------------


def limited() -> Iterator[Any]:
    rows = {re.sub(r"\{[^}]*\}", "", path): probe for (_, path), probe in PROBES["GA"].items()}
    for path in (*CLIENT_RULES.bounds, *CLIENT_RULES.lengths):
        if path in rows:
            yield pytest.param(path, rows[path], id=path)


@pytest.mark.parametrize(("path", "probe"), list(limited()))
def test_the_limits_that_the_table_shows_hold_to_the_last_one(path: str, probe: Probe) -> None:
    wire = Wire(Dialect.GA)

    def refusal(value: Any) -> str | None:
        return code_of(wire, json.dumps({"type": probe.event, **fields_of_event(probe, value)}))

    low, high = CLIENT_RULES.bounds.get(path, (None, None))
    if low is not None:
        assert refusal(low) is None
        assert (refusal(low - 1) or "").endswith("below_min_value")
    if high is not None:
        assert refusal(high) is None
        assert (refusal(high + 1) or "").endswith("above_max_value")
    longest = CLIENT_RULES.lengths.get(path)
    if longest is not None:
        assert refusal("x" * longest) is None
        assert refusal("x" * (longest + 1)) == "string_above_max_length"


def test_codes_of_our_own_are_found() -> None:
    codes = {code for code, _ in our_errors()}
    assert {"invalid_json", "invalid_event", "conversation_full", "item_not_found"} <= codes
