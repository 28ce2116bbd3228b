"""The sound of a recording: user left, agent right, on one time line."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gateway.recording.stereo import BLOCK, LONGEST_LEAD, SETTLED_AFTER, StereoMix

SECOND = 24_000


def tone(samples: int, level: int = 1) -> bytes:
    return np.full(samples, level, "<i2").tobytes()


def channels(stereo: Iterable[bytes]) -> tuple[np.ndarray, np.ndarray]:
    frames = np.frombuffer(b"".join(stereo), "<i2").reshape(-1, 2)
    return frames[:, 0], frames[:, 1]


def test_the_user_is_left_where_they_spoke_and_the_agent_right_where_it_is_heard() -> None:
    mix = StereoMix(playout_delay=2_400)
    mix.user_audio(tone(SECOND), SECOND)
    mix.agent_audio("item_1", tone(SECOND, 2), SECOND)

    left, right = channels(mix.rest(3 * SECOND))

    assert (np.flatnonzero(left)[[0, -1]] == [0, SECOND - 1]).all()
    assert (np.flatnonzero(right)[[0, -1]] == [SECOND + 2_400, 2 * SECOND + 2_399]).all()


def test_audio_sent_ahead_plays_on_without_a_gap() -> None:
    mix = StereoMix(playout_delay=0)
    for _ in range(4):
        mix.agent_audio("item_1", tone(SECOND), 0)

    _, right = channels(mix.rest(5 * SECOND))

    assert right[: 4 * SECOND].all()
    assert not right[4 * SECOND :].any()


def test_what_the_user_cut_off_is_silent_from_there_on() -> None:
    mix = StereoMix(playout_delay=0)
    mix.agent_audio("item_1", tone(2 * SECOND), 0)
    mix.agent_audio("item_1", tone(2 * SECOND), 0)
    mix.cut("item_1", SECOND)
    mix.agent_audio("item_2", tone(SECOND, 3), 2 * SECOND)

    _, right = channels(mix.rest(4 * SECOND))

    assert np.flatnonzero(right == 1)[-1] == SECOND - 1
    assert (np.flatnonzero(right == 3)[[0, -1]] == [2 * SECOND, 3 * SECOND - 1]).all()


def test_a_cut_of_one_message_leaves_the_others() -> None:
    mix = StereoMix(playout_delay=0)
    mix.agent_audio("item_1", tone(SECOND), 0)
    mix.agent_audio("item_2", tone(SECOND, 2), 0)
    mix.cut("item_1", 0)

    _, right = channels(mix.rest(2 * SECOND))

    assert not (right == 1).any()
    assert (right == 2).sum() == SECOND


def test_what_would_have_played_after_the_end_was_never_heard() -> None:
    mix = StereoMix(playout_delay=0)
    mix.agent_audio("item_1", tone(10 * SECOND), 0)

    assert len(channels(mix.rest(SECOND))[1]) == SECOND


def test_a_muted_microphone_is_silence_of_its_length() -> None:
    mix = StereoMix(playout_delay=0)
    mix.user_audio(tone(SECOND), SECOND)
    mix.user_audio(tone(SECOND), 5 * SECOND)

    left, _ = channels(mix.rest(5 * SECOND))

    assert (np.flatnonzero(np.diff(left.astype(int))) + 1 == [SECOND, 4 * SECOND]).all()


def test_a_recording_sent_at_once_is_kept_up_to_the_longest_lead() -> None:
    mix = StereoMix(playout_delay=0)
    mix.user_audio(tone(LONGEST_LEAD), 0)
    mix.user_audio(tone(SECOND, 2), 0)

    left, _ = channels(mix.rest(0))

    assert len(left) == LONGEST_LEAD
    assert not (left == 2).any()


def test_an_hour_of_silence_takes_no_memory_of_its_length() -> None:
    mix = StereoMix(playout_delay=0)
    mix.user_audio(tone(SECOND), SECOND)
    mix.user_audio(tone(SECOND), 3_600 * SECOND)

    parts = [*mix.take(3_600 * SECOND), *mix.rest(3_600 * SECOND)]

    assert sum(map(len, parts)) == 4 * 3_600 * SECOND
    assert sum(len(part) for part in {id(part): part for part in parts}.values()) < 4 * 200 * SECOND
    left, _ = channels(parts)
    assert (np.flatnonzero(np.diff(left.astype(int))) + 1 == [SECOND, 3_599 * SECOND]).all()


@given(st.lists(st.tuples(st.integers(1, 60_000), st.integers(0, 60_000)), max_size=12))
def test_taking_it_in_blocks_is_taking_it_at_once(pieces: list[tuple[int, int]]) -> None:
    whole, blocks = StereoMix(100), StereoMix(100)
    now, taken = 0, b""
    for number, (samples, wait) in enumerate(pieces):
        for mix in (whole, blocks):
            if number % 2:
                mix.user_audio(tone(samples, number), now)
            else:
                mix.agent_audio("item", tone(samples, number), now)
        now += wait
        settled = b"".join(blocks.take(now))
        assert len(settled) % (4 * BLOCK) == 0
        taken += settled
        assert len(taken) <= 4 * max(0, now - SETTLED_AFTER)
    agent = channels(whole.rest(now))[1]
    assert (channels([taken, *blocks.rest(now)])[1][: len(agent)] == agent[: len(taken) // 4 + len(agent)]).all()
