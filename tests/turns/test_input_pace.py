"""Whether audio is live, late or recorded."""

from __future__ import annotations

import pytest

from gateway.turns.input_pace import InputPace, Pace
from protocol.audio_time import Samples, samples_from_ms, samples_from_s

APPEND = samples_from_ms(20)


def live(pace: InputPace, seconds: float, now: Samples) -> tuple[Samples, set[Pace]]:
    """Send audio as a microphone does; return the time after it, and what it was taken for."""
    found = set()
    for _ in range(round(seconds * 50)):
        now += APPEND
        found.add(pace.take(APPEND, now))
    return now, found


def burst(pace: InputPace, seconds: float, now: Samples, append: Samples = APPEND) -> list[Pace]:
    return [pace.take(append, now) for _ in range(samples_from_s(seconds) // append)]


def test_a_microphone_is_live_for_ever() -> None:
    pace = InputPace()
    assert not pace.has_begun
    assert live(pace, 60, 0)[1] == {Pace.LIVE}
    assert pace.has_begun


@pytest.mark.parametrize("append_ms", [20, 100, 6_000])
def test_each_file_of_a_client_without_a_microphone_is_recorded(append_ms: int) -> None:
    pace = InputPace()
    for now_s in (1, 31, 90):
        found = burst(pace, 6, samples_from_s(now_s), samples_from_ms(append_ms))
        assert found[-1] is Pace.RECORDED


@pytest.mark.parametrize("gap_s", [3, 8, 20])
def test_what_the_network_held_up_is_late(gap_s: int) -> None:
    pace = InputPace()
    now, _ = live(pace, 10, 0)
    found = burst(pace, gap_s, now + samples_from_s(gap_s))
    assert found[-1] is Pace.LATE
    assert Pace.RECORDED not in found
    assert Pace.LIVE in live(pace, 4, now + samples_from_s(gap_s))[1]


def test_a_microphone_behind_a_recording_is_live() -> None:
    pace = InputPace()
    assert burst(pace, 10, 0)[-1] is Pace.RECORDED
    now, found = live(pace, 4, 0)
    assert Pace.LATE not in found
    assert live(pace, 4, now)[1] == {Pace.LIVE}
