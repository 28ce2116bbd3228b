"""`session.gateway`: ours, checked like the rest, shown only to those who sent it."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.beta.wire_law import beta_violations
from protocol.client_events import SessionUpdate, parse_client_event
from protocol.errors import ProtocolError
from protocol.gateway_extension import from_query
from protocol.outputs import ServerEvent
from protocol.session_settings import SessionDefaults, SessionSettings
from protocol.wire import Dialect, Wire
from protocol.wire_law import violations

START = SessionSettings.initial(SessionDefaults())
SEMANTIC = {"audio": {"input": {"turn_detection": {"type": "semantic_vad"}}}}


def shown(settings: SessionSettings) -> dict[str, Any]:
    return settings.to_wire(session_id="sess_1", model="m", expires_at_s=1)


def update(frame: str) -> dict[str, Any]:
    event = parse_client_event(frame)
    assert isinstance(event, SessionUpdate)
    return event.session


def test_a_client_that_never_sent_it_never_sees_it() -> None:
    assert "gateway" not in shown(START)
    assert "gateway" not in shown(START.merged(SEMANTIC))


def test_who_sends_it_sees_what_holds() -> None:
    settings = START.merged({"gateway": {"barge_in": "off"}})

    assert shown(settings)["gateway"] == {"barge_in": "off", "speculation": True}


def test_barge_in_is_immediate_behind_server_vad_and_judged_behind_semantic_vad() -> None:
    server, semantic = START.to_configure(), START.merged(SEMANTIC).to_configure()

    assert server.turn_detection is not None
    assert semantic.turn_detection is not None
    assert (server.turn_detection.barge_in, semantic.turn_detection.barge_in) == ("immediate", "judged")


def test_a_clients_choice_of_barge_in_holds_behind_either() -> None:
    for detection in ({}, SEMANTIC):
        configured = START.merged({**detection, "gateway": {"barge_in": "off"}}).to_configure()
        assert configured.turn_detection is not None
        assert configured.turn_detection.barge_in == "off"


def test_options_merge_by_presence_and_null_clears_them() -> None:
    first = START.merged({"gateway": {"barge_in": "judged"}})
    both = first.merged({"gateway": {"speculation": False}})

    assert shown(both)["gateway"] == {"barge_in": "judged", "speculation": False}
    assert not both.to_configure().speculation
    assert shown(both.merged({"gateway": {"barge_in": None}}))["gateway"]["barge_in"] == "immediate"
    assert shown(both.merged({"gateway": None}))["gateway"] == {"barge_in": "immediate", "speculation": True}


def test_an_update_carries_it_beside_openais_own_fields() -> None:
    session = update('{"type":"session.update","session":{"type":"realtime","gateway":{"speculation":false}}}')

    assert session == {"type": "realtime", "gateway": {"speculation": False}}


@pytest.mark.parametrize(
    ("given", "param", "code"),
    [
        ('{"barge_in":"sometimes"}', "session.gateway.barge_in", "invalid_value"),
        ('{"barge_in":1}', "session.gateway.barge_in", "invalid_type"),
        ('{"volume":1}', "session.gateway.volume", "unknown_parameter"),
        ('"judged"', "session.gateway", "invalid_type"),
    ],
)
def test_a_wrong_one_refuses_the_whole_update_with_its_path(given: str, param: str, code: str) -> None:
    with pytest.raises(ProtocolError) as refused:
        parse_client_event(f'{{"type":"session.update","session":{{"type":"realtime","gateway":{given}}}}}')

    assert (refused.value.param, refused.value.code) == (param, code)


def test_a_beta_client_sends_and_sees_it_too() -> None:
    wire = Wire(Dialect.BETA)
    event = wire.read('{"type":"session.update","session":{"voice":"alloy","gateway":{"barge_in":"judged"}}}')
    assert isinstance(event, SessionUpdate)
    settings = START.merged(event.session)
    payload = {"type": "session.updated", "event_id": "event_1", "session": shown(settings)}
    (told,) = wire.write(ServerEvent(payload))

    assert told["session"].pop("gateway") == {"barge_in": "judged", "speculation": True}
    assert beta_violations(told) == []


def test_it_is_all_that_keeps_a_session_from_openais_types() -> None:
    payload: dict[str, Any] = {
        "type": "session.updated",
        "event_id": "event_1",
        "session": shown(START.merged({"gateway": None})),
    }

    assert violations(payload)
    del payload["session"]["gateway"]
    assert violations(payload) == []


def test_the_url_says_it_in_words() -> None:
    assert from_query({"model": "cascade"}) == {}
    assert from_query({"gateway.barge_in": "off", "gateway.speculation": "off"}) == {
        "gateway": {"barge_in": "off", "speculation": False}
    }


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ({"gateway.speculation": "perhaps"}, "session.gateway.speculation"),
        ({"gateway.barge_in": "loud"}, "session.gateway.barge_in"),
        ({"gateway.colour": "red"}, "session.gateway.colour"),
    ],
)
def test_a_wrong_word_in_the_url_is_named(query: dict[str, str], param: str) -> None:
    with pytest.raises(ProtocolError) as refused:
        from_query(query)

    assert refused.value.param == param
