"""Beta's REST bodies, without HTTP: what they mean in GA, and where their mistakes are."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.beta.session_requests import session_request, session_with_key
from protocol.client_secrets import configured_session
from protocol.errors import ProtocolError
from protocol.session_settings import SessionDefaults, SessionKind


def test_a_beta_body_becomes_the_ga_session_that_means_the_same() -> None:
    asked = session_request({"voice": "verse", "modalities": ["text"], "temperature": 0.7}, "realtime")
    assert asked.session == {
        "type": "realtime",
        "output_modalities": ["text"],
        "audio": {"output": {"voice": "verse"}},
        "temperature": 0.7,
    }
    assert session_request({}, "transcription").session["type"] == "transcription"


@pytest.mark.parametrize(
    ("secret", "lifetime_s"),
    [
        (None, 60),
        ({}, 60),
        ({"expires_after": {"anchor": "created_at"}}, 60),
        ({"expires_after": {"anchor": "created_at", "seconds": 10}}, 10),
        ({"expires_after": {"anchor": "created_at", "seconds": 7_200}}, 7_200),
    ],
)
def test_a_key_lasts_a_minute_unless_told_otherwise(secret: dict[str, Any] | None, lifetime_s: int) -> None:
    assert session_request({"client_secret": secret}, "realtime").lifetime_s == lifetime_s


def test_the_transcription_type_has_another_word_for_the_keys_end() -> None:
    body = {"client_secret": {"expires_at": {"anchor": "created_at", "seconds": 30}}}
    assert session_request(body, "transcription").lifetime_s == 30


@pytest.mark.parametrize(
    ("body", "kind", "param"),
    [
        ({"voice": 1}, "realtime", "voice"),
        ({"max_response_output_tokens": 5_000}, "realtime", "max_response_output_tokens"),
        ({"turn_detection": {"type": "server_vad", "threshold": 2.0}}, "realtime", "turn_detection.threshold"),
        ({"tools": [{"type": "function"}]}, "realtime", "tools[0].name"),
        ({"instructions": "x"}, "transcription", "instructions"),
    ],
)
def test_a_mistake_is_named_by_its_place_in_the_body(body: dict[str, Any], kind: SessionKind, param: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        session_request(body, kind)
    assert caught.value.param == param
    assert f"'{param}'" in caught.value.message or caught.value.code == "invalid_value"


def test_the_answer_is_the_session_with_its_key() -> None:
    session = configured_session(
        session_request({"voice": "verse"}, "realtime").session, SessionDefaults(), session_id="sess_1", model="m"
    )
    answer = session_with_key(session, "ek_1", 60)
    assert (answer["id"], answer["model"], answer["voice"]) == ("sess_1", "m", "verse")
    assert answer["client_secret"] == {"value": "ek_1", "expires_at": 60}
