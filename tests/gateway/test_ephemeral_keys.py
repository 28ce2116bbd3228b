from __future__ import annotations

import re
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from itsdangerous import URLSafeSerializer

from gateway.endpoints import ephemeral_keys
from gateway.endpoints.ephemeral_keys import (
    MAX_KEY_CHARACTERS,
    EphemeralKeys,
    KeyRefused,
    is_ephemeral,
    signing_key,
)

SECRET = signing_key("a secret", "")
SESSION: dict[str, Any] = {
    "type": "realtime",
    "instructions": "Sei freundlich.",
    "audio": {"output": {"voice": "cedar"}},
}
INCOMPRESSIBLE = "".join(chr(0x4E00 + (number * 7919) % 20_000) for number in range(4_000))
URL_SAFE = string.ascii_letters + string.digits + "-_."


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000_000.25

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def keys_at(clock: Clock, secret: bytes = SECRET) -> EphemeralKeys:
    return EphemeralKeys(secret, clock)


def test_a_key_opens_what_was_put_into_it_on_every_replica_with_the_same_secret(clock: Clock) -> None:
    key = keys_at(clock).issue(SESSION, 600)
    assert key.value.startswith("ek_")
    assert keys_at(clock).session_of(key.value) == SESSION
    with pytest.raises(KeyRefused, match="Incorrect API key provided"):
        keys_at(clock, signing_key("another secret", "")).session_of(key.value)


def test_a_key_ends_in_the_second_that_it_names(clock: Clock) -> None:
    keys = keys_at(clock)
    key = keys.issue(SESSION, 10)
    assert key.expires_at_s == 1_000_010
    clock.now_s = 1_000_009.999
    assert keys.session_of(key.value) == SESSION
    clock.now_s = 1_000_010.0
    with pytest.raises(KeyRefused, match="expired"):
        keys.session_of(key.value)


def test_a_key_may_stand_in_a_header_and_in_a_subprotocol_entry(clock: Clock) -> None:
    for session in (SESSION, {"type": "realtime"}, {"type": "realtime", "instructions": INCOMPRESSIBLE}):
        assert re.fullmatch(r"[A-Za-z0-9._-]+", keys_at(clock).issue(session, 600).value)  # RFC 9110: token


def test_no_two_keys_are_the_same(clock: Clock) -> None:
    keys = keys_at(clock)
    assert len({keys.issue(SESSION, 600).value for _ in range(100)}) == 100


def test_settings_too_large_for_a_header_stay_here_and_open_sessions_here_only(clock: Clock) -> None:
    session = {"type": "realtime", "instructions": INCOMPRESSIBLE}
    keys = keys_at(clock)
    key = keys.issue(session, 600)
    assert len(key.value) < 300
    assert keys.session_of(key.value) == session
    with pytest.raises(KeyRefused, match="not kept here"):
        keys_at(clock).session_of(key.value)


def test_every_key_is_short_enough_for_a_header(clock: Clock) -> None:
    keys = keys_at(clock)
    lengths = [
        len(keys.issue({"type": "realtime", "instructions": INCOMPRESSIBLE[:size]}, 600).value)
        for size in range(0, len(INCOMPRESSIBLE), 25)
    ]
    assert max(lengths) <= MAX_KEY_CHARACTERS
    assert max(lengths) > MAX_KEY_CHARACTERS - 100  # nothing is kept here that could travel


def test_the_oldest_kept_settings_leave_first_and_expired_ones_before_them(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = {"type": "realtime", "instructions": INCOMPRESSIBLE}
    one_bytes = len(EphemeralKeys(SECRET, clock)._serializer.dump_payload(session))
    monkeypatch.setattr(ephemeral_keys, "KEPT_BYTES", 2 * one_bytes)
    keys = keys_at(clock)
    first, second = keys.issue(session, 600), keys.issue(session, 10)
    clock.now_s += 20
    third = keys.issue(session, 600)  # takes the place of the second, which has expired
    assert keys.session_of(first.value) == keys.session_of(third.value) == session
    with pytest.raises(KeyRefused, match="expired"):
        keys.session_of(second.value)
    keys.issue(session, 600)
    with pytest.raises(KeyRefused, match="not kept here"):
        keys.session_of(first.value)


@given(position=st.integers(0, 10_000), character=st.sampled_from(URL_SAFE))
def test_a_key_with_one_character_changed_opens_nothing_else(position: int, character: str) -> None:
    clock = Clock()
    keys = keys_at(clock)
    value = keys.issue(SESSION, 600).value
    position = len("ek_") + position % (len(value) - len("ek_"))
    forged = value[:position] + character + value[position + 1 :]
    try:
        # The last character of base64 has bits to spare, so another one may mean the same.
        assert keys.session_of(forged) == SESSION
        assert forged[:-1] == value[:-1]
    except KeyRefused:
        assert forged != value


@given(
    st.text(max_size=300)
    | st.text(alphabet=URL_SAFE, max_size=300)
    | st.binary(max_size=200).map(lambda b: b.decode("latin-1"))
)
def test_no_invented_key_opens_anything(rest: str) -> None:
    with pytest.raises(KeyRefused):
        keys_at(Clock()).session_of("ek_" + rest)


def test_a_key_with_bytes_that_no_key_has_is_refused() -> None:
    with pytest.raises(KeyRefused):
        keys_at(Clock()).session_of("ek_.\udcff.x")  # as a server hands on a byte outside ASCII


@given(cut=st.integers(1, 60))
def test_a_key_that_was_cut_off_is_still_known_as_ours_and_refused(cut: int) -> None:
    keys = keys_at(Clock())
    value = keys.issue(SESSION, 600).value[:-cut]
    with pytest.raises(KeyRefused):
        keys.session_of(value)
    assert is_ephemeral(value) or cut > 43  # the signature's length, with the mark before it


@pytest.mark.parametrize("dummy", ["ek_local", "ek_68af296e8e408191a1120ab6383263c2", "sk-proj.x", "local", ""])
def test_what_is_not_of_our_form_is_no_ephemeral_key(dummy: str) -> None:
    assert not is_ephemeral(dummy)


def test_the_signing_key_follows_the_secret_then_the_api_key_then_chance() -> None:
    assert signing_key("s", "k") == signing_key("s", "other")
    assert signing_key("", "k") == signing_key("", "k")
    assert signing_key("", "k") != signing_key("k", "")  # a leaked one must not be the other
    assert signing_key("", "") != signing_key("", "")


@pytest.mark.parametrize("secret", [{"authorization": "very-secret"}, {"headers": {"X-Key": "very-secret"}}])
def test_keys_of_mcp_servers_never_travel_in_an_ephemeral_key(clock: Clock, secret: dict[str, Any]) -> None:
    tool = {"type": "mcp", "server_label": "s", "server_url": "http://localhost/mcp"}
    keys = keys_at(clock)
    open_, sealed = (
        keys.issue({**SESSION, "tools": [tool]}, 600),
        keys.issue({**SESSION, "tools": [{**tool, **secret}]}, 600),
    )
    assert keys.session_of(sealed.value)["tools"] == [{**tool, **secret}]
    assert keys_at(clock).session_of(open_.value)["tools"] == [tool]
    with pytest.raises(KeyRefused, match="not kept here"):
        keys_at(clock).session_of(sealed.value)
    payload = URLSafeSerializer("unused").load_payload(sealed.value.removeprefix("ek_").rpartition(".")[0].encode())
    assert payload.keys() == {"nonce", "expires_at", "kept"}
