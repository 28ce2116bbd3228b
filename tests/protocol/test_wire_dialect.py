"""A client that looked like GA at the handshake may turn out to be beta by its first update (protocol §3)."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.beta.fields import BETA_ONLY
from protocol.wire import Dialect


@pytest.mark.parametrize("key", sorted(BETA_ONLY))
def test_a_beta_key_without_a_type_turns_the_session_to_beta(talk: Any, key: str) -> None:
    values = {
        "voice": "echo",
        "speed": 1.0,
        "temperature": 0.9,
        "modalities": ["text"],
        "max_response_output_tokens": 5,
    }
    value = "pcm16" if key.endswith("_format") else values.get(key)
    (updated,) = talk.send("session.update", session={key: value, "instructions": "Be kind."})
    assert talk.wire.dialect is Dialect.BETA
    assert updated["type"] == "session.updated"
    assert "type" not in updated["session"]
    assert updated["session"]["instructions"] == "Be kind."
    (created,) = talk.user_types("Hello.")
    assert created["type"] == "conversation.item.created"


def test_an_update_without_type_and_beta_keys_stays_ga_s_mistake(talk: Any) -> None:
    for session in ({"instructions": "x"}, {"output_modalities": ["text"]}, {}):
        error = talk.refused("session.update", session=session)
        assert (error["code"], error["param"]) == ("missing_required_parameter", "session.type")
    assert talk.wire.dialect is Dialect.GA


def test_a_beta_key_beside_a_type_is_ga_s_mistake(talk: Any) -> None:
    error = talk.refused("session.update", session={"type": "realtime", "voice": "alloy"})
    assert (error["code"], error["param"]) == ("unknown_parameter", "session.voice")
    assert talk.wire.dialect is Dialect.GA


def test_a_client_that_has_spoken_ga_stays_ga(talk: Any) -> None:
    talk.update(instructions="x")
    error = talk.refused("session.update", session={"voice": "alloy"})
    assert (error["code"], error["param"]) == ("missing_required_parameter", "session.type")
    error = talk.refused("transcription_session.update", session={})
    assert (error["code"], error["param"]) == ("invalid_value", "type")


def test_a_first_update_that_is_wrong_is_told_so_in_beta_s_words(talk: Any) -> None:
    error = talk.refused("session.update", session={"voice": "alloy", "temperature": 7})
    assert error["param"] == "session.temperature"
    assert talk.wire.dialect is Dialect.BETA


def test_a_beta_session_stays_beta(beta: Any) -> None:
    error = beta.refused("session.update", session={"type": "realtime", "instructions": "x"})
    assert (error["code"], error["param"]) == ("unknown_parameter", "session.type")


@pytest.mark.parametrize("session", [None, 7, [], "voice"])
def test_a_session_that_is_no_object_tells_nothing(talk: Any, session: Any) -> None:
    assert talk.refused("session.update", session=session)["code"] in ("invalid_type", "missing_required_parameter")
    assert talk.wire.dialect is Dialect.GA
