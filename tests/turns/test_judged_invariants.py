"""Whatever is said, paused and judged, and however late: no turn ends while the user speaks, or later than it may."""

from __future__ import annotations

import os
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.turns.actions import JudgeSound, JudgeWords
from gateway.turns.end_of_turn import LIMITS, WAIT_LIMIT
from gateway.turns.observations import PauseJudged, PauseVerdict
from gateway.turns.settings import VAD_FRAME, Eagerness
from gateway.turns.states import User
from protocol.audio_time import Samples, samples_from_ms
from protocol.backend_events import InputCommitted, SpeechStopped
from tests.simulation.conversation import HANG, Conversation, Judge, Score, Timed, Wait, Words, semantic

SCORES = st.one_of(st.floats(0, 1), st.sampled_from([None, HANG, Wait()]))


@dataclass(frozen=True)
class Script:
    """What a user says, where they pause, and what is made of it."""

    stretches: list[tuple[int, int]]
    words: list[Words]
    audio: list[Score]
    lexical: list[Score]
    asr_ms: int
    judge_ms: int
    append_ms: int


SCRIPTS = st.builds(
    Script,
    stretches=st.lists(st.tuples(st.integers(2, 60), st.integers(1, 120)), min_size=1, max_size=6),
    words=st.lists(st.sampled_from(["one", "two", "three four", "", "."]), min_size=12, max_size=12),
    audio=st.lists(SCORES, min_size=12, max_size=12),
    lexical=st.lists(SCORES, min_size=12, max_size=12),
    asr_ms=st.integers(0, 900),
    judge_ms=st.integers(0, 900),
    append_ms=st.sampled_from([20, 32, 100, 500, 1_000]),
)


def scored(scores: list[Score]) -> Judge:
    def judge(question: JudgeSound | JudgeWords) -> Score:
        return scores[question.pause % len(scores)]

    return judge


def told(script: Script, eagerness: Eagerness) -> Conversation:
    """The script as it goes with that eagerness, then silence to its end."""
    judges = {"audio": scored(script.audio), "lexical": scored(script.lexical)}
    conversation = Conversation(
        semantic(*judges, eagerness=eagerness, create_response=False),
        pauses=script.words,
        judges=judges,
        asr_ms=script.asr_ms,
        judge_ms=script.judge_ms,
    )
    for voiced_frames, silent_frames in script.stretches:
        conversation.capture(voiced_frames * VAD_FRAME, True)
        conversation.capture(silent_frames * VAD_FRAME, False)
    conversation.capture(samples_from_ms(17_000), False)
    step = samples_from_ms(script.append_ms)
    while conversation._captured:
        size = min(step, conversation._captured)
        conversation.run_until(conversation.now + size)
        conversation.append(size)
    conversation.run_dry()
    return conversation


def voiced_at(script: Script) -> list[tuple[Samples, Samples]]:
    """Where the user speaks, on the input clock."""
    stretches, at = [], 0
    for voiced_frames, silent_frames in script.stretches:
        stretches.append((at, at + voiced_frames * VAD_FRAME))
        at += (voiced_frames + silent_frames) * VAD_FRAME
    return stretches


def check(script: Script) -> None:
    for eagerness in Eagerness:
        conversation = told(script, eagerness)
        assert conversation.user is User.SILENT, "every turn ends"
        commits = conversation.all(InputCommitted)
        assert conversation.promises.transcribed == {commit.item_id for commit in commits}
        slack = samples_from_ms(script.append_ms) + VAD_FRAME
        waited = {seen.item_id for seen in conversation.all(PauseJudged) if seen.verdict is PauseVerdict.WAIT}
        spoken = voiced_at(script)
        for timed in conversation.timeline:
            stopped = timed.output
            if isinstance(stopped, SpeechStopped):
                assert not any(start < stopped.end <= end for start, end in spoken), "an end while the user speaks"
                silence = stopped.end - max(end for _, end in spoken if end <= stopped.end)
                most = WAIT_LIMIT if stopped.item_id in waited else LIMITS[eagerness]
                assert silence <= most + VAD_FRAME, "an end beyond its limit"
                _decided_in_time(timed, stopped, slack)


def _decided_in_time(timed: Timed, stopped: SpeechStopped, slack: Samples) -> None:
    assert 0 <= timed.at - stopped.end <= slack, "decided long after the silence that decided it"


NO_CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large]


@given(SCRIPTS)
@settings(max_examples=150, deadline=None, derandomize=True, database=None, suppress_health_check=NO_CHECKS)
def test_no_turn_ends_while_the_user_speaks_or_beyond_its_limit(script: Script) -> None:
    check(script)


@pytest.mark.long
@given(SCRIPTS)
@settings(max_examples=int(os.environ.get("EXAMPLES", "5000")), deadline=None, suppress_health_check=NO_CHECKS)
def test_no_turn_ends_while_the_user_speaks_or_beyond_its_limit_in_a_long_run(script: Script) -> None:
    check(script)


@given(st.one_of(st.floats(0, 1), st.just(None)), st.one_of(st.floats(0, 1), st.just(None)), st.integers(0, 400))
@settings(max_examples=60, deadline=None, derandomize=True, database=None)
def test_with_the_same_evidence_high_ends_no_later_than_medium_and_medium_no_later_than_low(
    audio: float | None, lexical: float | None, late_ms: int
) -> None:
    script = Script([(30, 1)], ["one"] * 12, [audio] * 12, [lexical] * 12, 50, late_ms, 20)
    low, medium, high = (told(script, level).only(SpeechStopped).end for level in Eagerness)
    assert high <= medium <= low
