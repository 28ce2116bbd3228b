"""Turn ends with real VAD, recogniser and judges, on synthetic speech cut where the truth is known."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from clients.turnlab.endpointing import Row, row
from clients.turnlab.presenting import Presented
from clients.turnlab.scoring import outcomes
from clients.turnlab.stimuli import paused_at_marks, stimuli_of
from clients.turnlab.texts import all_cards, card
from protocol.audio_time import ms_from_samples
from tests.endtoend.lockstep_speech import LockstepSpeech

pytestmark = pytest.mark.models

MEDIUM = "semantic medium"
LIMIT_MS = 4_200
"""Silence ends a turn after 4 s at medium eagerness, with a frame or two to notice it."""


@pytest.fixture(scope="module")
def lab() -> Iterator[LockstepSpeech]:
    lab = LockstepSpeech()
    yield lab
    lab.close()


def taken_ms(presented: Presented) -> list[int]:
    """Return when the turn was taken, in ms from the end of speech; negative: before it."""
    return [ms_from_samples(at) - ms_from_samples(presented.stimulus.speech_end) for at in presented.taken_at]


def test_someone_who_was_wondering_whether_keeps_the_floor_for_two_seconds(lab: LockstepSpeech) -> None:
    wondering = card("hesitation", "I was wondering whether | you could move my appointment to Friday.")
    (presented,) = lab.present(MEDIUM, [paused_at_marks(wondering, lab.joe, [2000])])
    (delay,) = taken_ms(presented)
    assert 0 < delay < LIMIT_MS


def test_someone_who_says_hold_on_a_second_is_waited_for(lab: LockstepSpeech) -> None:
    waiting = card("preface", "Hold on a second. | What time do you open on Sundays?")
    stimuli = [paused_at_marks(waiting, voice, [6000]) for voice in lab.voices]
    for presented in lab.present(MEDIUM, stimuli):
        (delay,) = taken_ms(presented)
        assert 0 < delay < LIMIT_MS


def test_a_phone_number_in_groups_is_not_cut(lab: LockstepSpeech) -> None:
    number = card("number", "My number is four one five | five five five | oh one two three.")
    (presented,) = lab.present(MEDIUM, [paused_at_marks(number, lab.joe, [600, 900])])
    (delay,) = taken_ms(presented)
    assert 0 < delay < LIMIT_MS


def test_one_word_answers_are_answered(lab: LockstepSpeech) -> None:
    answers = [card("answer", text) for text in ("Yes.", "No.", "Tomorrow.", "Two.", "Boston.")]
    presented = lab.present(MEDIUM, stimuli_of(answers, lab.voices))
    delays = sorted(delay for one in presented for delay in taken_ms(one))
    assert len(delays) == len(presented) == 10
    assert delays[0] > 0
    assert delays[4] < 700  # half of them before plain silence of 500 ms would be sure of it, with its hangover
    assert delays[-1] < LIMIT_MS


def test_semantic_medium_cuts_fewer_pauses_than_half_a_second_of_silence_and_answers_sooner(
    lab: LockstepSpeech,
) -> None:
    """Five texts of the dev half; the whole table: `duplex-gateway turnlab endpointing`."""
    cards = [entry for entry in all_cards() if entry.half == "dev" and entry.kind in ("order", "hesitation", "call")]
    stimuli = stimuli_of(cards[::6][:5], [lab.joe])
    rows: dict[str, Row] = {}
    for policy in (MEDIUM, "semantic high", "silence 500"):
        rows[policy] = row(policy, lab.present(policy, stimuli))
    medium, high, silence = rows.values()
    assert silence.cut_offs.pauses == medium.cut_offs.pauses >= 4
    assert medium.cut_offs.cut_off < silence.cut_offs.cut_off
    assert medium.whole.p50_ms.value < silence.whole.p50_ms.value
    assert medium.cut_offs.cut_off <= high.cut_offs.cut_off
    assert high.whole.mean_ms.value <= medium.whole.mean_ms.value


def test_the_same_speech_ends_the_same_turns_at_the_same_samples(lab: LockstepSpeech) -> None:
    stimuli = stimuli_of([card("order", "Can I get a latte with some caramel in it please?")], [lab.joe])
    again = LockstepSpeech()
    try:
        once, twice = lab.present(MEDIUM, stimuli), again.present(MEDIUM, stimuli)
    finally:
        again.close()
    assert [one.taken_at for one in once] == [one.taken_at for one in twice]
    assert outcomes(once).pauses
