"""What words over the agent's voice mean, in the languages of the lists."""

from __future__ import annotations

import pytest

from gateway.turns.overlap_phrases import BACKCHANNELS, HESITATIONS, STOP_PHRASES
from gateway.turns.overlap_words import Reading, knows_words_of, read_words, repeats, tokens_in

STOP = [
    "Stop.",
    "Wait",
    "no",
    "No, no!",
    "Hold on.",
    "HANG ON",
    "Cancel,",
    "excuse me",
    "Actually...",
    "Hey!",
    "enough",
]
STOP += ["Okay, stop.", "um, wait", "yeah but wait", "Moment mal!", "nein", "¡Para!", "un momento", "Arrête !", "non"]
STOP += ["Excusez-moi", "aspetta", "não", "nao", "wacht", "停", "等一下", "ちょっと待って", "やめて"]
NODS = [
    "mm-hm",
    "Mm-hmm,",
    "Mhm.",
    "Uh-huh.",
    "uh huh",
    "Yeah.",
    "Yeah, yeah, yeah.",
    "Right.",
    "Okay. Okay.",
    "I see.",
]
NODS += ["Oh, okay.", "Sure.", "That's right.", "No problem.", "Got it", "of course", "Thank you.", "yes", "Um.", "oh"]
NODS += [
    "ja",
    "ach so",
    "vale",
    "claro que sí",
    "d'accord",
    "D’accord",
    "va bene",
    "pois é",
    "嗯",
    "好的",
    "うん",
    "はい",
]
CONTENT = {
    "Tomorrow.": 1,
    "Yet yet.": 1,
    "Yeah, but": 1,
    "yeah but what about tomorrow": 4,
    "right, so can you": 2,
    "Can you tell me the price?": 5,
    "I": 0,
    "A.": 0,
    "X": 0,
    "2": 1,
    "明天天气": 2,
    "天": 1,
}


@pytest.mark.parametrize("text", STOP)
def test_a_stop_word_says_stop_wherever_it_stands(text: str) -> None:
    assert read_words(text).stop


@pytest.mark.parametrize("text", NODS)
def test_nods_and_hesitations_are_no_content(text: str) -> None:
    assert read_words(text) == Reading(stop=False, content=0, empty=False)


@pytest.mark.parametrize(("text", "content"), CONTENT.items())
def test_everything_else_is_content_word_by_word(text: str, content: int) -> None:
    assert read_words(text) == Reading(stop=False, content=content, empty=False)


@pytest.mark.parametrize("text", ["", " ", ".", "...", "♪"])
def test_nothing_written_is_empty(text: str) -> None:
    assert read_words(text) == Reading(stop=False, content=0, empty=True)


def test_the_longer_phrase_is_meant() -> None:
    assert read_words("no").stop
    assert not read_words("no problem").stop
    assert read_words("no, problem is that I cannot come").content


def test_no_phrase_stands_on_two_lists_of_one_language() -> None:
    for language, stop in STOP_PHRASES.items():
        lists = [by.get(language, "") for by in ({language: stop}, BACKCHANNELS, HESITATIONS)]
        phrases = [{tuple(tokens_in(phrase)) for phrase in some.split(",") if phrase} for some in lists]
        assert not phrases[0] & phrases[1], language
        assert not phrases[0] & phrases[2], language


def test_no_nod_of_one_language_stops_the_agent_in_another() -> None:
    for some in BACKCHANNELS.values():
        for phrase in some.split(","):
            assert not read_words(phrase).stop, phrase


@pytest.mark.parametrize(
    ("text", "said"),
    [("It begins in the mountains.", True), ("in the", True), ("gins in the mountains of", True), ("mountains", False)]
    + [
        ("in a mountain", False),
        ("the mountains are high and", False),
        ("", False),
        ("this in the mountains of", True),
    ],
)
def test_an_echo_says_the_agents_words_in_their_order(text: str, said: bool) -> None:
    assert repeats(text, "It begins in the mountains. It ends in a cup.") is said


BY_LANGUAGE = {
    "de": (["Stopp!", "Moment mal", "ja aber warte"], ["Ach so.", "genau, klar", "mhm"], ["Und morgen?", "Wie spät"]),
    "es": (["Espera.", "no no", "vale, para"], ["Sí, claro.", "ajá", "Muy bien."], ["¿Y mañana?", "cuánto cuesta"]),
    "fr": (
        ["Attendez !", "Non.", "oui mais attends"],
        ["D'accord.", "ah bon", "Ouais ouais"],
        ["Et demain ?", "combien"],
    ),
    "it": (["Aspetti.", "no", "sì ma aspetta"], ["Va bene.", "ho capito", "ecco"], ["E domani?", "quanto costa"]),
    "pt": (["Espera aí.", "não", "tá, para"], ["Tá bom.", "pois é", "aham"], ["E amanhã?", "quanto custa"]),
    "ja": (
        ["ちょっと待って", "違います", "はい、ストップ"],
        ["なるほど", "はいはい", "そうですね"],
        ["明日は？", "いくら"],
    ),
    "zh": (["等一下", "不对", "好的，停"], ["嗯嗯", "好的好的", "明白了"], ["明天呢？", "多少钱"]),
}


@pytest.mark.parametrize("language", BY_LANGUAGE)
def test_stop_words_nods_and_content_are_told_apart_in_each_language(language: str) -> None:
    stops, nods, content = BY_LANGUAGE[language]
    assert all(read_words(text, language).stop for text in stops)
    assert all(read_words(text, language) == Reading(stop=False, content=0, empty=False) for text in nods)
    read = [read_words(text, language) for text in content]
    assert all(reading.content and not reading.stop for reading in read)


@pytest.mark.parametrize("language", BY_LANGUAGE)
def test_where_nobody_knows_the_language_its_lists_are_found_all_the_same(language: str) -> None:
    stops, nods, _ = BY_LANGUAGE[language]
    assert all(read_words(text).stop for text in stops)
    assert all(not read_words(text).stop and not read_words(text).content for text in nods)


def test_a_language_is_read_by_its_own_lists_only() -> None:
    assert read_words("para", "es").stop
    assert not read_words("para", "en").stop
    assert read_words("Stop!", "it").stop
    assert read_words("And also milk").content == 2  # "also" is a hesitation in German


def test_words_of_a_language_without_lists_say_nothing_but_that_there_are_some() -> None:
    assert read_words("subiri kidogo", "sw") == Reading(stop=False, content=0, empty=False, readable=False)
    assert read_words("", "sw") == Reading(stop=False, content=0, empty=True, readable=False)
    assert knows_words_of("fr")
    assert not knows_words_of("sw")
