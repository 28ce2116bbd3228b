"""What the agent's audio is at each moment of the gateway clock."""

from __future__ import annotations

import numpy as np

from gateway.sent_audio import AFTER_CUT, KEPT, LONGEST_QUEUE, SentAudio
from protocol.audio_time import Samples, samples_from_s

DELAY: Samples = 3_600


def audio(samples: Samples, value: int = 1) -> bytes:
    return np.full(samples, value, "<i2").tobytes()


def stretches(sent: SentAudio, start: Samples, end: Samples) -> list[tuple[int, Samples, Samples]]:
    """Return the runs of one value that are not silence: value, start, end."""
    played = sent.between(start, end)
    edges = np.flatnonzero(np.diff(played, prepend=0, append=0))
    runs = zip(edges, edges[1:], strict=False)
    return [(int(played[a]), start + int(a), start + int(b)) for a, b in runs if played[a]]


def test_a_chunk_plays_after_the_delay_and_the_next_behind_it() -> None:
    sent = SentAudio(DELAY)
    sent.push("item_1", audio(2_400, 1), 1_000)
    sent.push("item_1", audio(2_400, 2), 1_100)
    sent.push("item_1", audio(2_400, 3), 20_000)
    assert stretches(sent, 0, 40_000) == [(1, 4_600, 7_000), (2, 7_000, 9_400), (3, 23_600, 26_000)]


def test_only_the_part_that_is_asked_for_is_given() -> None:
    sent = SentAudio(DELAY)
    sent.push("item_1", audio(2_400), 0)
    assert stretches(sent, 4_000, 5_000) == [(1, 4_000, 5_000)]
    assert sent.between(4_000, 7_000).sum() == 2_000
    assert not sent.between(-5_000, 3_600).any()


def test_it_is_audible_from_its_first_sample_to_its_last() -> None:
    sent = SentAudio(DELAY)
    assert not sent.audible(0, 100_000)
    sent.push("item_1", audio(2_400), 0)
    assert not sent.audible(0, 3_600)
    assert sent.audible(0, 3_601)
    assert sent.audible(5_999, 6_000)
    assert not sent.audible(6_000, 7_000)


def test_a_cut_keeps_what_the_client_may_still_play_and_lets_the_next_reply_begin() -> None:
    sent = SentAudio(DELAY)
    sent.push("item_1", audio(240_000, 1), 0)
    sent.push("item_2", audio(240_000, 2), 0)
    sent.cut(10_000)
    assert stretches(sent, 0, 500_000) == [(1, 3_600, 10_000 + AFTER_CUT)]
    sent.push("item_3", audio(2_400, 3), 50_000)
    assert stretches(sent, 50_000, 500_000) == [(3, 53_600, 56_000)]


def test_what_never_left_is_taken_back_and_what_follows_moves_up() -> None:
    sent = SentAudio(0)
    sent.push("item_1", audio(1_000, 1), 0)
    sent.push("item_1", audio(1_000, 2), 0)
    sent.push("item_2", audio(1_000, 3), 0)
    sent.drop("item_1", 1_500, 0)
    assert stretches(sent, 0, 10_000) == [(1, 0, 500), (3, 500, 1_500)]
    sent.push("item_2", audio(1_000, 4), 100)
    assert stretches(sent, 0, 10_000) == [(1, 0, 500), (3, 500, 1_500), (4, 1_500, 2_500)]


def test_a_client_that_stops_the_last_item_has_flushed() -> None:
    sent = SentAudio(0)
    sent.push("item_1", audio(240_000, 1), 0)
    sent.stop("item_0", 1_000)
    assert sent.audible(200_000, 240_000)
    sent.stop("item_1", 1_000)
    assert not sent.audible(1_000 + AFTER_CUT, 240_000)


def test_memory_holds_the_queue_and_the_last_seconds_but_no_more() -> None:
    sent = SentAudio(DELAY)
    second = audio(samples_from_s(1))
    for now in range(0, samples_from_s(3_600), samples_from_s(1)):
        for _ in range(2):  # twice as fast as it plays
            sent.push("item_1", second, now)
    held = sent.between(0, samples_from_s(8_000)).sum()
    assert held <= LONGEST_QUEUE + KEPT + 3 * samples_from_s(1)
    assert held >= LONGEST_QUEUE


def test_what_was_played_long_ago_is_let_go_without_more_being_sent() -> None:
    sent = SentAudio(DELAY)
    sent.push("item_1", audio(240_000), 0)
    sent.settle(DELAY + 240_000 + KEPT)
    assert sent.audible(0, DELAY + 240_000)
    sent.settle(DELAY + 240_000 + KEPT + 1)
    assert not sent.audible(0, DELAY + 240_000)
