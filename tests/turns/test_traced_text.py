"""Which words of the reply have been said when the voice has said so much of its own text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.turns.speakable_chunks import SpeakableChunks
from gateway.turns.spoken_text import spoken_text, traced_spoken_text, words_said
from gateway.turns.traced_text import GROUP, TracedText, joined


def said(raw: str) -> list[tuple[str, str]]:
    """Return (what the voice says, the words of `raw` that it says by that), stretch by stretch."""
    spoken = traced_spoken_text(raw)
    assert spoken.text == spoken_text(raw)
    stretches, at, raw_at = [], 0, 0
    for end, raw_end in words_said(raw, spoken):
        stretches.append((spoken.text[at:end].strip(" .,:"), raw[raw_at:raw_end].strip()))
        at, raw_at = end, raw_end
    return stretches


def test_plain_words_are_said_one_by_one() -> None:
    assert said("Well, I am here.") == [("Well", "Well,"), ("I", "I"), ("am", "am"), ("here", "here.")]


@pytest.mark.parametrize(
    ("raw", "stretches"),
    [
        ("It is $7.25 now", [("It", "It"), ("is", "is"), ("7 dollars and 25 cents", "$7.25"), ("now", "now")]),
        ("$1.5 billion more", [("1.5 billion dollars", "$1.5 billion"), ("more", "more")]),
        ("at 10:45 a.m. sharp", [("at", "at"), ("10 45", "10:45"), ("AM", "a.m."), ("sharp", "sharp")]),
        ("**Dr. Lee** said", [("Doctor", "**Dr."), ("Lee", "Lee**"), ("said", "said")]),
        ("see [the docs](https://a.org/b) now", [("see", "see"), ("the", "[the"), ("docs", "docs](https://a.org/b)"),
                                                 ("now", "now")]),
        ("go to https://a.org/b. Then", [("go", "go"), ("to", "to"), ("a dot org", "https://a.org/b."),
                                         ("Then", "Then")]),
        ("R & D now", [("R", "R"), ("and", "&"), ("D", "D"), ("now", "now")]),
        ("one and/or two", [("one", "one"), ("and or", "and/or"), ("two", "two")]),
        ("- one\n- two", [("one", "- one"), ("two", "- two")]),
        ("2. Second", [("2", "2."), ("Second", "Second")]),
        ("| a | b |\n|---|---|\n| c | d |", [("a", "| a"), ("b", "| b"), ("c", "|\n|---|---|\n| c"), ("d", "| d")]),
        ("# Title\nText", [("Title", "# Title"), ("Text", "Text")]),
        ("Look:\n```\nx = 1\n```\nDone", [("Look", "Look:"), ("Done", "```\nx = 1\n```\nDone")]),
        ("Hi \N{PARTY POPPER} there", [("Hi", "Hi"), ("there", "\N{PARTY POPPER} there")]),
        ("你好。Hi", [("你", "你"), ("好", "好"), ("。Hi", "。Hi")]),
    ],
)  # fmt: skip
def test_what_is_reworded_has_been_said_with_the_last_word_that_came_of_it(
    raw: str, stretches: list[tuple[str, str]]
) -> None:
    assert said(raw) == stretches


def test_a_chunk_tells_how_much_of_the_reply_its_words_reach() -> None:
    text = "It costs $7.25 and more. Then **nothing** else."
    splitter = SpeakableChunks()
    first, second = splitter.feed(text) + splitter.finish()
    assert first.spoken == "It costs 7 dollars and 25 cents and more."
    reached = {end: text[: first.text_said(end)] for end in (0, 1, 2, 8, 9, 30, 31, 39, 41, 99)}
    assert reached == {
        0: "",
        1: "",
        2: "It",
        8: "It costs",
        9: "It costs",
        30: "It costs",
        31: "It costs $7.25",
        39: "It costs $7.25 and",
        41: "It costs $7.25 and more.",
        99: "It costs $7.25 and more.",
    }
    assert text[: second.text_said(len("Then nothing"))] == "It costs $7.25 and more. Then **nothing**"


FRAGMENTS = st.sampled_from(
    "Hello the Dr. e.g. a.m. No. 5 6.28 $7.25 10:45 2.1.0 U.S. https://a.org/x.y `co de` [li nk](u) ( ) ``` \n \n\n . "
    ", ; : ? … — - * ** # | |---| > 1. 你好 。 5-10 C# R&D a/b 🎉 ’ <b> &".split(" ")
)
TEXTS = st.lists(st.tuples(FRAGMENTS, st.sampled_from(["", " ", " ", "\n"])), max_size=30).map(
    lambda parts: "".join(fragment + space for fragment, space in parts)
)


@settings(max_examples=300, deadline=None)
@given(TEXTS, st.sampled_from(["en", "de"]))
def test_every_word_ends_once_in_both_texts_and_all_of_it_is_said_by_then(raw: str, language: str) -> None:
    spoken = traced_spoken_text(raw, language)
    assert spoken.places == sorted(spoken.places)
    assert len(spoken.places) == len(spoken.text)
    words = words_said(raw, spoken)
    for before, word in zip([(0, 0), *words], words, strict=False):
        assert before[0] < word[0]
        assert before[1] < word[1]
    for end, raw_end in words:
        rest = [place for place, sign in zip(spoken.places[end:], spoken.text[end:], strict=True) if sign.isalnum()]
        assert all(place >= raw_end for place in rest), "claimed, and still to be said"
    sounds = [at for at, sign in enumerate(spoken.text) if sign.isalnum()]
    assert [end for end, _ in words][-1:] == [sounds[-1] + 1] if sounds else words == ()


def test_a_traced_text_follows_its_characters() -> None:
    text = TracedText.of("  a <b> c|d ")
    assert text.sub(re.compile("z"), "y") is text
    assert text.sub(re.compile("<(.)>"), GROUP) == TracedText("  a b c|d ", [0, 1, 2, 3, 5, 7, 8, 9, 10, 11])
    assert text.sub(re.compile("<.>"), lambda match: match[0].upper() + "!").places == [
        0, 1, 2, 3, 6, 6, 6, 6, 7, 8, 9, 10, 11]  # fmt: skip
    assert text.sub(re.compile(" *<.>"), "") == TracedText("  a c|d ", [0, 1, 2, 7, 8, 9, 10, 11])
    assert text.strip() == TracedText("a <b> c|d", [2, 3, 4, 5, 6, 7, 8, 9, 10])
    assert TracedText.of(" > > a ").strip("> ") == TracedText("a", [5])
    left, right = text.split("|")
    assert (left.text, right) == ("  a <b> c", TracedText("d ", [10, 11]))
    assert right.followed_by("..") == TracedText("d ..", [10, 11, 11, 11])
    assert joined([TracedText("", []), right, right], ", ") == TracedText(", d , d ", [0, 0, 10, 11, 11, 11, 10, 11])
