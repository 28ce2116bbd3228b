"""When the Piper voice says that its words end, checked by a recogniser that hears the audio up to there."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from functools import partial

import jiwer
import pytest

from models.engines import piper_tts
from models.engines.espeak_phonemes import phonemize
from models.engines.moonshine_asr import MoonshineRecognizer
from models.engines.phoneme_alignment import ends_of_words
from models.engines.piper_tts import MAX_PHONEMES, PiperSynthesizer
from models.inference_worker import InferenceWorker
from models.interfaces import WordTime
from models.weights import WeightsStore
from models.weights_manifest import MOONSHINE_TINY_EN, PIPER_JOE

needs_model = pytest.mark.models

SENTENCES = (
    "Sure, I can help with that.",
    "The capital of Australia is Canberra.",
    "Your meeting with doctor Brown is on Tuesday afternoon.",
    "It costs 7 dollars and 25 cents, or 12.50 with the cable.",
    "The train leaves from platform nine at 10 45 AM.",
    "In 2026, 1,000 people walked out of the house and into the garden.",
    "Would you like me to book a table for four people?",
    "The version is 2 point 1 point 0, and it is out of date.",
    "It will be sunny tomorrow (about 24 degrees), with a light wind from the west.",
    "My number is 555 1234; call me after 6 PM!",
    "He is one of the best players in the team, isn't he?",
    "I would have been there, but the road was closed for 3 hours.",
    "You can keep soup in the fridge for three days — no more.",
    "Chapter 14 begins on page 326.",
    "Go to example dot com, and then choose the second tab.",
    "She said: “it is going to be a long day”, and she was right.",
    "About 45% of the students and 1 of the 5 teachers have a cat.",
    "Missus Green lives at 21 Main Street with her twenty-two chickens.",
    "To be or not to be, that is the question at the end of the test.",
    "Let me check the weather and call you back.",
)


@pytest.fixture
async def tts(store: WeightsStore) -> AsyncIterator[PiperSynthesizer]:
    store.fetch([PIPER_JOE])
    tts = PiperSynthesizer(store.path(PIPER_JOE, "en_US-joe-medium.onnx"), InferenceWorker("tts", 2))
    yield tts
    await tts.aclose()


async def spoken(tts: PiperSynthesizer, text: str, speed: float = 1.0) -> tuple[bytes, list[WordTime]]:
    """Return a text's audio and its word times, after a look at what every engine promises of them."""
    pcm, words = b"", []
    async for piece in tts.synthesize(text, speed=speed):
        assert piece.words is not None
        for word in piece.words:
            assert len(pcm) // 2 < word.audio_end_samples <= (len(pcm) + len(piece.pcm)) // 2
        pcm += piece.pcm
        words += piece.words
    for before, word in zip(words, words[1:], strict=False):
        assert before.text_end < word.text_end
        assert before.audio_end_samples < word.audio_end_samples
    return pcm, words


def words_in(heard: str, text: str, ends: list[int]) -> int:
    """Return how many words of `text`, which end at `ends`, sound most like what was heard."""
    sound = phonemize(heard).symbols
    prefixes = [phonemize(text[:end]).symbols for end in ends]
    return min(range(len(ends) + 1), key=partial(_difference, [""] + prefixes, sound))


def _difference(prefixes: list[str], sound: str, count: int) -> int:
    if not prefixes[count]:
        return len(sound)
    found = jiwer.process_characters(prefixes[count], sound)
    return found.substitutions + found.deletions + found.insertions


@needs_model
async def test_audio_cut_where_a_word_ends_holds_the_words_up_to_there(
    tts: PiperSynthesizer, store: WeightsStore
) -> None:
    store.fetch([MOONSHINE_TINY_EN])
    asr = MoonshineRecognizer(store.path(MOONSHINE_TINY_EN), InferenceWorker("asr", 1))
    wrong, differences, cuts = [], Counter[int](), 0
    for text in SENTENCES:
        pcm, times = await spoken(tts, text)
        ends = [word.text_end for word in times]
        for number, word in list(enumerate(times, 1))[cuts % 2 :: 2]:  # every other one, for the test's time
            found = await asr.transcribe(pcm[: 2 * word.audio_end_samples])
            assert found is not None
            difference = words_in(found.text, text, ends) - number
            cuts += 1
            differences[difference] += 1
            if abs(difference) > 1:
                wrong.append((difference, text[: word.text_end], found.text))
    await asr.aclose()
    print(f"{cuts} cuts; words heard beyond those that had ended: {dict(differences)}; {wrong}")
    assert cuts >= 100
    assert differences[0] >= 0.8 * cuts
    assert len(wrong) <= 0.05 * cuts, wrong


@needs_model
@pytest.mark.parametrize("speed", [0.5, 1.0, 1.5])
async def test_the_last_word_ends_with_the_audio_at_any_speed(tts: PiperSynthesizer, speed: float) -> None:
    for text in SENTENCES[:6]:
        pcm, words = await spoken(tts, text, speed)
        assert 0 <= len(pcm) // 2 - words[-1].audio_end_samples <= 0.25 * 24_000
        assert len(words) == len(text.split())


@needs_model
async def test_words_of_a_text_in_several_parts_are_placed_in_the_whole(tts: PiperSynthesizer) -> None:
    text = " ".join(SENTENCES[:12])
    assert len(phonemize(text).symbols) > MAX_PHONEMES
    pcm, words = await spoken(tts, text)
    assert len(words) == len(text.split())
    assert len(pcm) // 2 - words[-1].audio_end_samples <= 0.25 * 24_000
    alone = [await spoken(tts, sentence) for sentence in SENTENCES[:12]]
    assert len(pcm) == pytest.approx(sum(len(pcm) for pcm, _ in alone), rel=0.1)


@needs_model
async def test_a_voice_whose_graph_tells_no_durations_speaks_without_word_times(
    tts: PiperSynthesizer, store: WeightsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    split = piper_tts.split_voice
    monkeypatch.setattr(piper_tts, "split_voice", lambda model: split(model)._replace(timed=False))
    model = store.path(PIPER_JOE, "en_US-joe-medium.onnx")
    untimed = PiperSynthesizer(model, InferenceWorker("tts", 2))
    pieces = [piece async for piece in untimed.synthesize(SENTENCES[0])]
    await untimed.aclose()
    assert [piece.words for piece in pieces] == [None] * len(pieces)
    assert b"".join(piece.pcm for piece in pieces) == (await spoken(tts, SENTENCES[0]))[0]


# --- words and phonemes ---------------------------------------------------------------------------------------------


def stretches(text: str) -> list[tuple[str, str]]:
    found = phonemize(text)
    at, symbol_at, pairs = 0, 0, []
    for end, symbol_end in found.words:
        pairs.append((text[at:end].strip(), found.symbols[symbol_at:symbol_end].strip()))
        at, symbol_at = end, symbol_end
    return pairs


def test_numbers_are_as_many_words_as_they_are_said_in() -> None:
    assert stretches("In 2026, about 6.28%.") == [
        ("In", "ɪn"), ("2026", "tˈuː θˈaʊzənd twˈɛnti sˈɪks"), (", about", ", ɐbˌaʊt"),
        ("6.28%", "sˈɪks pɔɪnt tˈuː ˈeɪt pɚsˈɛnt")]  # fmt: skip


def test_words_that_grow_together_are_told_apart() -> None:
    assert stretches("out of the blue, I am to be there") == [
        ("out", "ˌaʊɾ"), ("of", "əv"), ("the", "ðə"), ("blue", "blˈuː"), (", I", ", aɪ"), ("am", "ɐm"), ("to", "tə"),
        ("be", "bi"), ("there", "ðˈɛɹ")]  # fmt: skip


def test_a_word_without_a_sound_is_none() -> None:
    assert stretches("\N{PARTY POPPER} one - two") == [("\N{PARTY POPPER} one", "wˈʌn"), ("- two", "tˈuː")]
    assert phonemize("... \N{PARTY POPPER} —").words == ()


@pytest.mark.parametrize(
    ("clause", "words", "ends"),
    [
        ("a bb c", ["a", "bb", "c"], [1, 4, 6]),
        ("abb c", ["a", "bb", "c"], [1, 3, 5]),
        ("a b c d", ["a b", "", "c d"], [3, 3, 7]),
        ("x y z", ["a", "b"], [3, 5]),
        ("a", [], []),
        ("", ["a"], [0]),
        ("a b", ["q", "a", "b"], [0, 1, 3]),
    ],
)
def test_words_end_in_order_and_the_last_with_its_clause(clause: str, words: list[str], ends: list[int]) -> None:
    assert ends_of_words(clause, words) == ends
