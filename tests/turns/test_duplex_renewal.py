"""When a conversation with a full-duplex model begins, and when it begins anew."""

from __future__ import annotations

import pytest

from gateway.turns.duplex_renewal import (
    HEALTHY_AFTER,
    LAST_MOMENT,
    LONG_REST,
    REST,
    RETRY_AFTER,
    SETTLED_AFTER,
    DuplexRenewal,
    Why,
)
from protocol.audio_time import samples_from_ms, samples_from_s

LONGEST = samples_from_s(600)


def opened(longest: int | None = None) -> DuplexRenewal:
    renewal = DuplexRenewal(longest)
    renewal.opening(SETTLED_AFTER)
    return renewal


def test_the_prompt_is_read_once_the_client_has_set_everything_up() -> None:
    renewal = DuplexRenewal()
    assert renewal.opens_at == SETTLED_AFTER
    renewal.set_up(samples_from_ms(200), stale=False)
    renewal.set_up(samples_from_ms(250), stale=True)
    assert renewal.opens_at == samples_from_ms(250) + SETTLED_AFTER
    renewal.asked(samples_from_ms(260))
    assert renewal.opens_at == samples_from_ms(260)
    assert renewal.why is Why.BEGUN


def test_what_changes_before_anything_was_said_is_read_at_once_and_later_in_a_pause() -> None:
    renewal = opened()
    renewal.set_up(9_000, stale=False)
    assert renewal.due(LONG_REST, begun=True, owed=False, awaited=False) is None
    assert not renewal.is_stale
    renewal.set_up(9_000, stale=True)
    renewal.set_up(9_000, stale=False)
    assert renewal.is_stale
    assert renewal.due(0, begun=False, owed=False, awaited=False) is Why.CHANGED
    for rests, owed, due in (
        (REST - 1, False, None), (REST, False, Why.CHANGED), (REST, True, None), (LONG_REST - 1, True, None),
        (LONG_REST, True, Why.CHANGED),
    ):  # fmt: skip
        assert renewal.due(rests, begun=True, owed=owed, awaited=False) is due
    assert renewal.due(1, begun=True, owed=True, awaited=True) is Why.CHANGED
    assert renewal.due(0, begun=True, owed=True, awaited=True) is None
    renewal.ended(Why.CHANGED, 10_000)
    assert (renewal.opens_at, renewal.why) == (10_000, Why.CHANGED)
    renewal.set_up(10_000, stale=True)
    renewal.opening(10_000)
    assert renewal.due(LONG_REST, begun=True, owed=False, awaited=False) is None


@pytest.mark.parametrize(
    ("length", "rests", "due"),
    [
        (LONGEST * 8 // 10 - 1, LONG_REST, None),
        (LONGEST * 8 // 10, REST - 1, None),
        (LONGEST * 8 // 10, REST, Why.TOO_LONG),
        (LONGEST - LAST_MOMENT - 1, 0, None),
        (LONGEST - LAST_MOMENT, 0, Why.TOO_LONG),
    ],
)
def test_a_conversation_ends_in_quiet_before_its_longest_time_and_in_any_case_at_it(
    length: int, rests: int, due: Why | None
) -> None:
    renewal = opened(LONGEST)
    renewal.stepped(length)
    assert renewal.length == length
    assert renewal.due(rests, begun=True, owed=False, awaited=False) is due


def test_a_model_that_fails_is_tried_three_times_and_then_when_somebody_waits_for_it() -> None:
    renewal, now = opened(), samples_from_s(1)
    for number, wait in enumerate(RETRY_AFTER, 1):
        renewal.failed(now)
        assert (renewal.attempts, renewal.opens_at, renewal.why) == (number, now + wait, Why.FAILED)
        renewal.set_up(now, stale=True)
        renewal.asked(now)
        assert renewal.opens_at == now + wait
        now += wait
        renewal.opening(now)
        renewal.asked(now)
    renewal.failed(now)
    assert renewal.opens_at is None
    renewal.asked(now + 10)
    assert renewal.opens_at == now + RETRY_AFTER[-1]
    renewal.failed(now)
    renewal.asked(now + samples_from_s(60))
    assert renewal.opens_at == now + samples_from_s(60)


def test_a_conversation_that_went_well_for_a_while_forgives_what_was_before() -> None:
    renewal = opened()
    renewal.failed(0)
    renewal.opening(0)
    renewal.stepped(HEALTHY_AFTER - 1)
    assert renewal.attempts == 1
    renewal.stepped(1)
    assert renewal.attempts == 0
