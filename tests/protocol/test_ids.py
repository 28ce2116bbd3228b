"""Ids of sessions, items, responses and events."""

from __future__ import annotations

from protocol.ids import CountingIds, random_id
from protocol.wire_rules import MAX_ITEM_ID


def test_a_random_id_has_its_prefix_and_fits_the_limit_of_ids() -> None:
    ids = {random_id("event") for _ in range(100)}
    assert len(ids) == 100
    assert all(one.startswith("event_") and len(one) == 27 <= MAX_ITEM_ID for one in ids)


def test_counting_ids_count_per_prefix() -> None:
    ids = CountingIds()
    assert [ids("a"), ids("b"), ids("a")] == ["a_1", "b_1", "a_2"]
