import numpy as np
import pytest

from models.engines.phoneme_durations import with_output
from models.timed_voices import TimedVoice, aligned, open_timed_voices
from models.weights import WeightsStore


def test_words_and_groups_that_match_are_paired_one_by_one() -> None:
    assert aligned(["wen", "iz", "it"], ["wen", "iz", "it"]) == [(0, 1, 0, 1), (1, 2, 1, 2), (2, 3, 2, 3)]


def test_words_that_are_run_together_share_a_group() -> None:
    assert aligned(["end", "ov", "the", "haus"], ["end", "ovthe", "haus"]) == [(0, 1, 0, 1), (1, 3, 1, 2), (3, 4, 2, 3)]


def test_a_word_said_as_several_groups_has_them_all() -> None:
    assert aligned(["tu", "twentifor", "haus"], ["tu", "twenti", "for", "haus"]) == [
        (0, 1, 0, 1),
        (1, 2, 1, 3),
        (2, 3, 3, 4),
    ]


def test_nothing_said_is_nothing_aligned() -> None:
    assert aligned([], []) == []


def test_an_output_is_added_without_touching_the_rest() -> None:
    assert with_output(b"model", "/x") == b"model" + b"\x3a\x06\x62\x04\x0a\x02/x"


@pytest.fixture(scope="module")
def voices(store: WeightsStore) -> tuple[TimedVoice, ...]:
    return open_timed_voices(store)


@pytest.mark.models
def test_both_voices_tell_when_they_say_each_word(voices: tuple[TimedVoice, ...]) -> None:
    text = "Could you, please, send two large boxes to the back of the house?"
    for voice in voices:
        speech = voice.speak(text)
        assert " ".join(word.text for word in speech.words) == text
        samples = np.abs(np.frombuffer(speech.pcm, "<i2") / 32_768)
        times = [edge for word in speech.words for edge in (word.start, word.end)]
        assert times == sorted(times)
        assert 0 < times[0] < times[-1] <= samples.size
        for word in speech.words:  # every word sounds
            assert samples[word.start : word.end].max() > 0.01, (voice.name, word)


@pytest.mark.models
def test_between_clauses_a_voice_is_silent_where_it_says_so(voices: tuple[TimedVoice, ...]) -> None:
    for voice in voices:
        speech = voice.speak("I need milk, and then some bread.")
        milk, after = next(
            pair for pair in zip(speech.words, speech.words[1:], strict=False) if pair[0].text == "milk,"
        )
        samples = np.abs(np.frombuffer(speech.pcm, "<i2") / 32_768)
        # hibari counts most of a pause to the word before it, and 50 ms of the word after it to the space between.
        starts = range(milk.end - 7200, after.start, 240)
        quietest = min(starts, key=lambda start: float(np.mean(samples[start : start + 1200] ** 2)))
        spoken = np.sqrt(np.mean(samples[milk.start : milk.start + 2400] ** 2))
        assert np.sqrt(np.mean(samples[quietest : quietest + 1200] ** 2)) < 0.02 * spoken, voice.name
        assert milk.end - 7200 < quietest < after.start


@pytest.mark.models
def test_a_voice_says_the_same_text_the_same_way(voices: tuple[TimedVoice, ...]) -> None:
    for voice in voices:
        assert voice.speak("Once and again.") == voice.speak("Once and again.")
