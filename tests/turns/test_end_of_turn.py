"""The policy of the end of a turn: what judges are worth, and the threshold that falls as the silence grows."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.turns.end_of_turn import (
    COMMIT_FROM,
    LIMITS,
    PRIOR,
    SURE_ODDS,
    WAIT_LIMIT,
    Evidence,
    decided_by,
    fused,
    share_of_longer_pauses,
    silence_needed,
    threshold,
)
from gateway.turns.settings import Detection, Eagerness
from gateway.turns.speakers_pauses import KEPT, LONGEST_LEARNED, SLOWEST, TYPICAL_PAUSE, SpeakersPauses
from protocol.audio_time import samples_from_ms, samples_from_s

LEVELS = [Eagerness.LOW, Eagerness.MEDIUM, Eagerness.HIGH]
SURE = SURE_ODDS / (1 + SURE_ODDS)
PROBABILITIES = st.floats(0, 1)
SILENCES = st.integers(0, samples_from_s(9))


def needed(complete: float, eagerness: Eagerness, **evidence: float) -> int:
    """The silence that one judge's probability needs; PRIOR is taken out so that the fused one is the same."""
    detection = Detection(semantic=eagerness)
    return silence_needed(Evidence({"audio": complete}, **evidence), detection)  # pace only


@pytest.mark.parametrize(("eagerness", "seconds"), [("low", 8), ("medium", 4), ("high", 2)])
def test_the_limits_are_openais(eagerness: str, seconds: int) -> None:
    limit = LIMITS[Eagerness(eagerness)]
    assert limit == samples_from_s(seconds)
    assert threshold(limit - 1, Eagerness(eagerness)) > 0
    assert threshold(limit, Eagerness(eagerness)) == 0
    assert threshold(limit + 1, Eagerness(eagerness)) == 0


@given(SILENCES, st.integers(1, 24_000), st.sampled_from(LEVELS), st.floats(1, 2))
def test_the_threshold_falls_as_the_silence_grows(silence: int, more: int, eagerness: Eagerness, pace: float) -> None:
    assert 0 <= threshold(silence + more, eagerness, pace) <= threshold(silence, eagerness, pace) <= SURE


@given(SILENCES, st.floats(1, 2))
def test_the_more_eager_the_less_the_judges_need_to_say(silence: int, pace: float) -> None:
    low, medium, high = (threshold(silence, level, pace) for level in LEVELS)
    assert low >= medium >= high


@given(st.integers(1, 1_000))
def test_the_three_levels_are_one_curve_on_which_time_runs_faster_or_slower(permille: int) -> None:
    at = [threshold(LIMITS[level] * permille // 1_000, level) for level in LEVELS]
    assert at[0] == pytest.approx(at[1], abs=1e-3)
    assert at[1] == pytest.approx(at[2], abs=1e-3)


@given(PROBABILITIES, PROBABILITIES, st.sampled_from(LEVELS))
def test_a_surer_end_never_waits_longer(one: float, other: float, eagerness: Eagerness) -> None:
    assert needed(max(one, other), eagerness) <= needed(min(one, other), eagerness)


@given(PROBABILITIES, st.sampled_from(LEVELS), st.floats(1, 2))
def test_the_silence_needed_is_the_first_at_which_the_threshold_is_reached(
    complete: float, eagerness: Eagerness, pace: float
) -> None:
    evidence = Evidence({"audio": complete}, pace=pace)
    silence = silence_needed(evidence, Detection(semantic=eagerness))
    assert COMMIT_FROM <= silence <= LIMITS[eagerness]
    assert evidence.complete is not None
    assert evidence.complete >= threshold(silence, eagerness, pace)
    assert silence == COMMIT_FROM or evidence.complete < threshold(silence - 1, eagerness, pace)


def test_a_probable_end_is_committed_after_200_to_350_ms_and_an_improbable_one_near_the_limit() -> None:
    probable = silence_needed(
        Evidence({"audio": 0.9, "probability": 0.8, "lexical": 0.5}), Detection(semantic=Eagerness.MEDIUM)
    )
    doubtful, improbable = needed(0.6, Eagerness.MEDIUM), needed(0.03, Eagerness.MEDIUM)
    assert samples_from_ms(200) <= probable <= samples_from_ms(350)
    assert samples_from_ms(500) < doubtful < samples_from_ms(1_200)
    assert improbable > samples_from_s(3)


def test_the_pauses_that_are_left_fall_as_they_were_measured() -> None:
    for silence_ms, share in [(300, 0.556), (600, 0.217), (1_000, 0.10), (1_600, 0.05)]:
        assert share_of_longer_pauses(samples_from_ms(silence_ms)) == pytest.approx(share, rel=0.1)
    assert share_of_longer_pauses(samples_from_ms(100)) == 1


# --- fusion ---------------------------------------------------------------------------------------------------------


def test_nobodys_opinion_is_none() -> None:
    assert fused({}) is None


@given(PROBABILITIES)
def test_a_single_judge_counts_in_full_whatever_its_weight(probability: float) -> None:
    assert fused({"lexical": probability}) == pytest.approx(fused({"audio": probability}))
    assert fused({"someone new": 0.5}) == pytest.approx(400 / (400 + 705))
    assert PRIOR < 0


@given(st.dictionaries(st.sampled_from(["audio", "probability", "verdict", "lexical"]), PROBABILITIES, min_size=1))
def test_a_judge_that_is_surer_moves_the_whole_its_way(opinions: dict[str, float]) -> None:
    before = fused(opinions)
    assert before is not None
    assert 0 < before < 1
    for judge, probability in opinions.items():
        surer = fused({**opinions, judge: (1 + probability) / 2})
        assert surer is not None
        assert surer >= before


def test_judges_that_agree_are_surer_than_each_of_them() -> None:
    alone, together = fused({"audio": 0.9}), fused({"audio": 0.9, "probability": 0.9})
    assert alone is not None
    assert together is not None
    assert together > alone


def test_one_judge_that_is_certain_does_not_outvote_two_that_are_sure() -> None:
    fusion = fused({"audio": 1.0, "probability": 0.03, "verdict": 0.03})
    assert fusion is not None
    assert fusion < 0.5


# --- what decides where nobody judges -------------------------------------------------------------------------------


@pytest.mark.parametrize("silence_ms", [300, 500, 1_000])
def test_without_an_opinion_silence_alone_decides(silence_ms: int) -> None:
    detection = Detection(semantic=Eagerness.MEDIUM, silence_duration=samples_from_ms(silence_ms))
    for evidence in (Evidence({}), Evidence({"audio": 0.99}, wordless=True)):
        assert silence_needed(evidence, detection) == samples_from_ms(silence_ms)
        assert decided_by(evidence, samples_from_ms(silence_ms), detection) == "silence"


def test_while_judges_are_awaited_only_the_limit_ends_a_turn() -> None:
    detection = Detection(semantic=Eagerness.HIGH)
    assert silence_needed(Evidence({"audio": 0.99}, awaited=True), detection) == LIMITS[Eagerness.HIGH]


def test_who_asked_for_time_gets_it_beyond_every_limit() -> None:
    detection = Detection(semantic=Eagerness.LOW)
    evidence = Evidence({"verdict": 0.99}, wait=True)
    assert silence_needed(evidence, detection) == WAIT_LIMIT > LIMITS[Eagerness.LOW]
    assert decided_by(evidence, WAIT_LIMIT, detection) == "limit"


def test_the_one_who_decided_is_named() -> None:
    detection = Detection(semantic=Eagerness.MEDIUM)
    assert decided_by(Evidence({"audio": 0.9}), COMMIT_FROM, detection) == "audio"
    assert decided_by(Evidence({"audio": 0.9, "lexical": 0.9}), COMMIT_FROM, detection) == "fusion"
    assert decided_by(Evidence({"audio": 0.1}), LIMITS[Eagerness.MEDIUM], detection) == "limit"
    assert decided_by(Evidence({}), COMMIT_FROM, Detection()) == "silence"


# --- the speaker's own pauses ---------------------------------------------------------------------------------------


def test_a_speakers_pauses_are_learned_by_a_tenth_each() -> None:
    speaker = SpeakersPauses()
    assert speaker.pace == 1
    speaker.learn(samples_from_s(1))
    assert speaker.mean == pytest.approx(KEPT * TYPICAL_PAUSE + (1 - KEPT) * samples_from_s(1))


def test_long_pauses_lengthen_what_a_doubtful_end_needs_and_leave_a_sure_one_alone() -> None:
    speaker = SpeakersPauses()
    paces = []
    for _ in range(30):
        speaker.learn(samples_from_s(2))
        paces.append(speaker.pace)
    assert all(earlier <= later for earlier, later in pairwise(paces))
    assert paces[-1] == SLOWEST
    for eagerness in LEVELS:
        assert needed(0.6, eagerness, pace=SLOWEST) > needed(0.6, eagerness)
        assert needed(0.96, eagerness, pace=SLOWEST) == COMMIT_FROM


def test_short_pauses_are_no_reason_to_cut_in() -> None:
    speaker = SpeakersPauses()
    for _ in range(50):
        speaker.learn(samples_from_ms(200))
    assert speaker.pace == 1


@pytest.mark.parametrize(("more", "learned"), [(-1, True), (0, True), (1, False)])
def test_a_silence_beyond_five_seconds_is_no_pause(more: int, learned: bool) -> None:
    speaker = SpeakersPauses()
    speaker.learn(LONGEST_LEARNED + more)
    assert (speaker.mean > TYPICAL_PAUSE) is learned


@given(st.lists(st.integers(0, samples_from_s(10)), max_size=60))
@settings(max_examples=200)
def test_the_pace_stays_within_its_bounds(pauses: list[int]) -> None:
    speaker = SpeakersPauses()
    for pause in pauses:
        speaker.learn(pause)
    assert 1 <= speaker.pace <= SLOWEST
