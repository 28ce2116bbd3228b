"""The ring of a session's events: bounded, numbered, read at anybody's pace."""

from __future__ import annotations

import json
from typing import Any

from gateway.observing.kinds import Kind
from gateway.observing.ring import LIMIT_BYTES, LIMIT_EVENTS, LONGEST_TEXT, Reader, Ring
from protocol.audio_time import samples_from_ms as ms


def ring_of(count: int, **limits: int) -> Ring:
    ring = Ring(**limits)
    for number in range(1, count + 1):
        ring.append(Kind.LLM_TEXT, ms(number), ms(10 * number), {"text": f"t{number}"})
    return ring


def taken(reader: Reader, limit_bytes: int = 10**9) -> list[dict[str, Any]]:
    return [json.loads(text) for _, text in reader.take(limit_bytes)]


def numbers(events: list[dict[str, Any]]) -> list[int]:
    return [event["seq"] for event in events]


def test_an_event_says_its_version_its_number_its_times_on_both_clocks_and_its_type() -> None:
    (event,) = taken(ring_of(1).follow())
    assert event == {"v": 1, "seq": 1, "at_ms": 1, "audio_ms": 10, "type": "llm.text", "text": "t1"}


def test_a_late_joiner_gets_what_is_kept_then_what_comes() -> None:
    ring = ring_of(3)
    reader = ring.follow()
    assert numbers(taken(reader)) == [1, 2, 3]
    assert taken(reader) == []
    ring.append(Kind.VAD, 0, 0, {})
    assert numbers(taken(reader)) == [4]


def test_a_reader_that_comes_back_goes_on_behind_the_last_it_saw() -> None:
    ring = ring_of(5)
    assert numbers(taken(ring.follow(3))) == [4, 5]
    assert taken(ring.follow(5)) == []
    assert numbers(taken(ring.follow(6))) == [1, 2, 3, 4, 5], "a number that never was is that of another session"


def test_the_oldest_events_leave_first_and_the_next_one_tells_how_many_a_reader_lost() -> None:
    ring = ring_of(3, limit_events=3)
    slow, early = ring.follow(), ring.follow()
    assert numbers(taken(early)) == [1, 2, 3]
    for number in range(4, 9):
        ring.append(Kind.VAD, number, 0, {})
    events = taken(slow)
    assert numbers(events) == [6, 7, 8]
    assert [event.get("dropped") for event in events] == [5, None, None]
    events = taken(early)
    assert (numbers(events), events[0]["dropped"]) == ([6, 7, 8], 2)
    assert "dropped" not in taken(ring.follow(5))[0]
    assert taken(ring.follow(4))[0]["dropped"] == 1


def test_a_ring_holds_so_many_events_and_so_many_bytes_whatever_is_written() -> None:
    ring = ring_of(LIMIT_EVENTS + 1)
    assert len(taken(ring.follow())) == LIMIT_EVENTS
    for _ in range(500):
        ring.append(Kind.LLM_TEXT, 0, 0, {"text": "x" * 10 * LONGEST_TEXT})
    reader, held = ring.follow(), 0
    while events := taken(reader, 10**6):
        held += sum(len(event["text"]) for event in events)
    assert 0.9 * LIMIT_BYTES < held <= LIMIT_BYTES


def test_a_long_text_is_cut_and_says_so() -> None:
    ring = Ring()
    ring.append(Kind.LLM_TEXT, 0, 0, {"text": "x" * LONGEST_TEXT})
    ring.append(Kind.LLM_TEXT, 0, 0, {"text": "x" * (LONGEST_TEXT + 1)})
    fits, cut = (event["text"] for event in taken(ring.follow()))
    assert fits == "x" * LONGEST_TEXT
    assert cut == "x" * (LONGEST_TEXT - 1) + "…"


def test_an_event_larger_than_the_ring_is_kept_until_the_next() -> None:
    ring = Ring(limit_bytes=10)
    for _ in range(3):
        ring.append(Kind.VAD, 0, 0, {"text": "abc"})
    assert numbers(taken(ring.follow())) == [3]


def test_what_no_utf8_can_carry_is_escaped() -> None:
    ring = Ring()
    ring.append(Kind.LLM_TEXT, 0, 0, {"text": "a\ud800\n\u2028b"})
    ((_, text),) = ring.follow().take()
    assert text.isascii()
    assert "\n" not in text
    assert json.loads(text)["text"] == "a\ud800\n\u2028b"


def test_a_reader_takes_a_little_at_a_time_and_knows_that_there_is_more() -> None:
    ring = ring_of(100)
    reader = ring.follow()
    seen: list[int] = []
    while events := taken(reader, 1_000):
        assert len(events) <= 5
        seen += numbers(events)
        assert reader.more.is_set() is (seen[-1] < 100)
    assert seen == list(range(1, 101))


def test_readers_are_woken_by_events_and_by_the_end_and_forgotten_when_closed() -> None:
    ring = ring_of(1)
    reader = ring.follow(1)
    assert not reader.more.is_set()
    ring.append(Kind.VAD, 0, 0, {})
    assert reader.more.is_set()
    reader.take()
    ring.end()
    assert reader.more.is_set()
    assert ring.ended.is_set()
    assert ring.readers == 1
    reader.close()
    assert ring.readers == 0


def test_a_reader_that_never_reads_costs_the_session_nothing_but_its_place() -> None:
    """It holds no event: what it has not taken is the ring's, and the ring forgets it."""
    ring = ring_of(1, limit_events=8)
    never = ring.follow()
    for _ in range(10_000):
        ring.append(Kind.VAD, 0, 0, {})
    events = taken(never)
    assert (len(events), events[0]["dropped"]) == (8, 9_993)


def test_texts_inside_a_list_count_and_are_shortened_too() -> None:
    ring = Ring(limit_bytes=10_000)
    for _ in range(4):
        ring.append(Kind.TTS_DROPPED, 0, 0, {"chunks": [{"chunk": 0, "text": "x" * 6_000}, {"chunk": 1, "text": "y"}]})
    assert numbers(taken(ring.follow())) == [4]
    ring.append(Kind.TTS_DROPPED, 0, 0, {"chunks": [{"chunk": 0, "text": "x" * (LONGEST_TEXT + 1)}]})
    assert len(taken(ring.follow(4))[0]["chunks"][0]["text"]) == LONGEST_TEXT
