"""Errors that no client event causes."""

from __future__ import annotations

from protocol.errors import described, session_expired


def test_an_expired_session_says_how_long_it_lasted() -> None:
    assert session_expired(60).to_wire() == {
        "type": "invalid_request_error",
        "code": "session_expired",
        "message": "Your session hit the maximum duration of 60 minutes.",
        "param": None,
        "event_id": None,
    }


def test_a_json_value_is_described_by_its_kind() -> None:
    values = [True, "x", 1, 1.5, {}, [], None]
    kinds = ["a boolean", "a string", "an integer", "a decimal number", "an object", "an array", "null"]
    assert [described(value) for value in values] == kinds
