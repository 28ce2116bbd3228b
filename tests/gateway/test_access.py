from __future__ import annotations

import pytest

from gateway.endpoints.access import host_refusal, key_refusal, offered_keys, origin_refusal, subprotocol_choice
from gateway.loopback import is_loopback


def status(required: str, authorization: str = "", api_key: str = "", subprotocols: tuple[str, ...] = ()) -> int:
    offered = offered_keys(authorization=authorization, api_key=api_key, subprotocols=subprotocols)
    refusal = key_refusal(required, offered)
    return 200 if refusal is None else refusal.status


@pytest.mark.parametrize("authorization", ["Bearer k-test", "bearer k-test", "BEARER  k-test "])
def test_the_right_key_is_let_in_whatever_the_case_of_the_scheme(authorization: str) -> None:
    assert status("k-test", authorization) == 200


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        "Bearer k-tes",
        "Bearer k-test2",
        "Basic k-test",
        "k-test",
        "Bearer K-TEST",
    ],
)
def test_a_missing_or_wrong_key_is_refused(authorization: str) -> None:
    assert status("k-test", authorization) == 401


def test_the_key_may_come_as_a_subprotocol_or_as_azures_header() -> None:
    assert status("k-test", subprotocols=("realtime", "openai-insecure-api-key.k-test")) == 200
    assert status("k-test", api_key="k-test") == 200
    assert status("k-test", subprotocols=("realtime", "openai-insecure-api-key.k-tes")) == 401


def test_without_a_configured_key_any_key_or_none_is_let_in() -> None:
    assert status("") == 200
    assert status("", "Bearer anything") == 200


def test_a_key_outside_ascii_compares_as_its_utf8_bytes() -> None:
    assert status("schlüssel", "Bearer " + "schlüssel".encode().decode("latin-1")) == 200
    assert status("k-test", "Bearer \udcff") == 401


def test_a_refusal_never_repeats_the_key() -> None:
    refusal = key_refusal("k-test", ["my-secret"])
    assert refusal is not None
    assert "my-secret" not in repr(refusal)
    assert "k-test" not in repr(refusal)
    assert refusal.body()["error"]["code"] == "invalid_api_key"


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:8765",
        "127.0.0.1",
        "localhost:9",
        "LOCALHOST",
        "[::1]:8765",
        "app.localhost",
        "127.9.9.9",
        "192.168.1.5:8765",
    ],
)
def test_loopback_and_bound_hosts_are_served(host: str) -> None:
    assert host_refusal(host, bound=("192.168.1.5",), allowed=()) is None


@pytest.mark.parametrize(
    "host", ["", "evil.example", "evil.example:8765", "localhost.evil.example", "10.0.0.1", "[::1", "[x]"]
)
def test_a_name_that_a_page_could_rebind_is_refused(host: str) -> None:
    refusal = host_refusal(host, bound=("127.0.0.1", "::1"), allowed=())
    assert refusal is not None
    assert refusal.status == 403


def test_allowed_hosts_are_served_with_or_without_their_port() -> None:
    assert host_refusal("gateway:8765", bound=(), allowed=("gateway",)) is None
    assert host_refusal("gateway:8765", bound=(), allowed=("Gateway:8765",)) is None
    assert host_refusal("gateway:1", bound=(), allowed=("gateway:8765",)) is not None


def test_behind_a_wildcard_bind_the_address_where_the_client_arrived_is_served() -> None:
    assert host_refusal("192.168.1.5:8765", bound=("0.0.0.0",), allowed=(), local_address="192.168.1.5") is None
    assert host_refusal("192.168.1.6:8765", bound=("0.0.0.0",), allowed=(), local_address="192.168.1.5") is not None


@pytest.mark.parametrize(
    "origin",
    [None, "http://localhost:3000", "https://127.0.0.1", "http://[::1]:5173", "https://app.example", "http://gw:8765"],
)
def test_origins_that_may_connect(origin: str | None) -> None:
    assert origin_refusal(origin, host="gw:8765", allowed=("https://app.example/",)) is None


@pytest.mark.parametrize(
    "origin",
    ["", "null", "https://evil.example", "http://app.example", "https://localhost.evil.example", "http://gw", "x://["],
)
def test_origins_that_may_not_connect(origin: str) -> None:
    refusal = origin_refusal(origin, host="gw:8765", allowed=("https://app.example",))
    assert refusal is not None
    assert refusal.status == 403


def test_a_star_allows_every_origin() -> None:
    assert origin_refusal("https://any.example", host="x", allowed=("*",)) is None


def test_realtime_is_selected_if_anything_is_offered_and_the_keys_entry_never() -> None:
    assert subprotocol_choice(["realtime", "openai-insecure-api-key.k"]) == "realtime"
    assert subprotocol_choice(["openai-insecure-api-key.k"]) == "realtime"
    assert subprotocol_choice([]) is None


def test_loopback_is_told_by_the_name_alone() -> None:
    assert is_loopback("[::1]")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("example.com")
