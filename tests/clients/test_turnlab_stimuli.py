from collections import Counter

import numpy as np
import pytest

from clients.turnlab.stimuli import (
    GROUP_GAP_MS,
    LEAD,
    LEVELS_DBFS,
    NOISE_DBFS,
    PAUSE_STRATA_MS,
    PAUSE_WEIGHTS,
    Stimulus,
    stimuli_of,
)
from clients.turnlab.texts import all_cards, card, half_of, is_function_word
from clients.turnlab.time_stretch import stretched
from protocol.audio_time import ms_from_samples, samples_from_ms
from tests.clients.spoken_tone import GAP, WORD, ToneVoice

LONG = [
    card("question", f"please tell me whether the {animal} could ever sleep inside a house") for animal in "abcdefgh"
]


def samples_of(stimulus: Stimulus) -> np.ndarray:
    return np.frombuffer(stimulus.pcm, "<i2") / 32_768


def dbfs(samples: np.ndarray) -> float:
    return float(10 * np.log10(np.mean(samples**2)))


def test_a_whole_utterance_ends_where_its_last_word_does() -> None:
    (whole,) = stimuli_of([card("answer", "yes please do")], [ToneVoice()])
    assert whole.pauses == ()
    assert whole.speech_end - LEAD == pytest.approx(3 * WORD + 2 * GAP, abs=samples_from_ms(10))
    assert dbfs(samples_of(whole)[-WORD:]) > -40


def test_a_pause_is_silence_of_the_length_it_says_at_the_end_of_a_word() -> None:
    paused = [stimulus for stimulus in stimuli_of(LONG, [ToneVoice()]) if stimulus.pauses]
    assert len(paused) == len(LONG)
    for stimulus in paused:
        (pause,) = stimulus.pauses
        assert pause.stratum is not None
        low, high = PAUSE_STRATA_MS[pause.stratum]
        assert low <= ms_from_samples(pause.end - pause.start) <= high
        audio = samples_of(stimulus)
        assert dbfs(audio[pause.start + 240 : pause.end - 240]) == pytest.approx(NOISE_DBFS, abs=1)
        assert dbfs(audio[pause.start - 2400 : pause.start - 480]) > -40
        assert dbfs(audio[pause.end + 480 : pause.end + 2400]) > -40


def test_what_follows_a_pause_is_the_same_audio_going_on() -> None:
    for whole, paused in zip(*[iter(stimuli_of(LONG, [ToneVoice()]))] * 2, strict=True):
        if paused.lengthened:
            continue
        (pause,) = paused.pauses
        spoken = (paused.speech_end - pause.end) + (pause.start - LEAD)
        assert spoken == pytest.approx(whole.speech_end - LEAD - GAP, abs=samples_from_ms(25))


def test_the_last_word_before_a_pause_is_longer_in_half_of_the_utterances() -> None:
    stimuli = [stimulus for stimulus in stimuli_of(LONG, [ToneVoice("a"), ToneVoice("b")]) if stimulus.pauses]
    assert Counter(stimulus.lengthened for stimulus in stimuli) == {True: len(LONG), False: len(LONG)}
    for stimulus in stimuli:
        before = (stimulus.pauses[0].start - LEAD) % (WORD + GAP) / WORD
        if stimulus.lengthened:
            assert not before == pytest.approx(1.0, abs=0.06)
        else:
            assert before == pytest.approx(1.0, abs=0.06)


def test_levels_and_lengths_of_pauses_are_dealt_out_evenly() -> None:
    stimuli = [stimulus for stimulus in stimuli_of(LONG, [ToneVoice("a"), ToneVoice("b")]) if stimulus.pauses]
    assert Counter(stimulus.level_dbfs for stimulus in stimuli) == dict.fromkeys(LEVELS_DBFS, len(LONG))
    strata = Counter(stimulus.pauses[0].stratum for stimulus in stimuli)
    assert max(strata.values()) - min(strata.values()) <= 2
    kinds = Counter(stimulus.pauses[0].kind for stimulus in stimuli)
    assert min(kinds["function"], kinds["content"]) >= len(stimuli) // 3


def test_a_card_with_marks_pauses_there_and_nowhere_else() -> None:
    number = card("number", "five five five | one two three | nine nine oh one")
    _, paused = stimuli_of([number], [ToneVoice()])
    assert [pause.kind for pause in paused.pauses] == ["number", "number"]
    for pause in paused.pauses:
        assert GROUP_GAP_MS[0] <= ms_from_samples(pause.end - pause.start) <= GROUP_GAP_MS[1]
        assert pause.stratum is None


def test_a_one_word_answer_is_never_paused() -> None:
    assert [stimulus.pauses for stimulus in stimuli_of([card("answer", "tomorrow")], [ToneVoice()])] == [()]


def test_the_same_cards_give_the_same_samples_in_any_order() -> None:
    once, again = stimuli_of(LONG, [ToneVoice()]), stimuli_of(LONG[::-1], [ToneVoice()])
    assert once == again


def test_stretching_makes_a_sound_longer_and_keeps_its_pitch() -> None:
    tone = np.sin(2 * np.pi * 200 / 24_000 * np.arange(9_600))
    longer = stretched(tone, 1.4)
    assert longer.size == pytest.approx(1.4 * tone.size, abs=1)
    crossings = np.count_nonzero(np.diff(np.signbit(longer[1200:-1200])))
    assert crossings / (longer.size - 2400) == pytest.approx(400 / 24_000, rel=0.05)


def test_what_is_too_short_to_stretch_stays() -> None:
    click = np.ones(300)
    assert stretched(click, 1.5) is click


# --- the texts -----------------------------------------------------------------------------------------------------


def test_the_halves_are_80_and_120_texts_and_share_none() -> None:
    cards = all_cards()
    assert Counter(entry.half for entry in cards) == {"dev": 80, "test": 120}
    assert len({entry.text.lower() for entry in cards}) == len(cards)


def test_the_half_of_a_text_does_not_hang_on_its_spelling() -> None:
    assert half_of("Hello, THERE.") == half_of("hello there")


def test_marks_become_pauses_and_are_not_spoken() -> None:
    entry = card("filler", "I'd like, um, | a room | please")
    assert entry.text == "I'd like, um, a room please"
    assert entry.pauses == (3, 5)


def test_function_words_are_known_with_their_punctuation_and_in_company() -> None:
    assert is_function_word("of the")
    assert is_function_word("And,")
    assert not is_function_word("the house")


def test_the_weights_of_the_pauses_are_a_distribution() -> None:
    assert len(PAUSE_WEIGHTS) == len(PAUSE_STRATA_MS)
    assert sum(PAUSE_WEIGHTS) == pytest.approx(1.0)
