from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.turns.spoken_text import spoken_text

RB34 = (
    "## Plan\n- **First**, open `main.py`.\n- Then see [the docs](https://example.com/a_b?q=1).\n"
    "| a | b |\n|---|---|\n🎉 Done!"
)
RB35 = "Dr. Lee walked 6.28 km by 10:45 a.m. and paid $7.25 for version 2.1.0 of the app."


def test_rb34_markdown_link_code_and_emoji_are_not_spoken() -> None:
    assert spoken_text(RB34) == "Plan. First, open main dot py. Then see the docs. a, b. Done!"


def test_rb35_numbers_versions_prices_and_abbreviations_are_put_in_words() -> None:
    assert spoken_text(RB35) == (
        "Doctor Lee walked 6.28 kilometers by 10 45 AM and paid 7 dollars and 25 cents for version 2 point 1 point 0 "
        "of the app."
    )


MARKUP = [
    ("# Title", "Title"),
    ("# Title #\ntext", "Title. text"),
    ("**bold** *it* __b__ _i_ ***both***, ~~gone~~", "bold it b i both, gone"),
    ("snake_case_name stays words", "snake case name stays words"),
    ("```python\nprint(1)\n```\nDone.", "Done."),
    ("Look:\n~~~\nx = 1\n~~~\nDone.", "Look: Done."),
    ("Look:\n```\nx = 1", "Look:"),
    ("```", ""),
    ("Use ``git log`` now", "Use git log now"),
    ("* one\n+ two\n- [ ] three\n- [x] four", "one. two. three. four"),
    ("1. First\n2) Second", "1, First. 2, Second"),
    ("Steps\n\n- one", "Steps. one"),
    ("Title line\n\nnext", "Title line. next"),
    ("wrapped\ntext goes on", "wrapped text goes on"),
    ("> quoted\n> > twice", "quoted twice"),
    ("one\n---\ntwo\n***\nthree", "one two three"),
    ("![a cat](cat.png 'title') and [x](u_(v) \"t\")", "a cat and x"),
    ("[text][ref] and [1]", "text and 1"),
    ("<b>bold</b><br>x <!-- no --> y", "bold x y"),
    ("a < b", "a < b"),
    ("it’s ‘so’", "it's 'so'"),
    ("Hi🎉there 👩‍👩‍👧 1️⃣ 🇫🇷 ok", "Hi there 1 ok"),
    ("a → b © c", "a b c"),
    ("| x | y |\n|:--|--:|\n| 1 | 2 |\nEnd", "x, y. 1, 2. End"),
    (". And so on", ". And so on"),
    (".\nAnd so on", ". And so on"),
    ("50% of a\t \n b", "50% of a b"),
    ("\\*not bold\\*", "not bold"),
    ("   \n ", ""),
    ("", ""),
]


@pytest.mark.parametrize(("raw", "said"), MARKUP)
@pytest.mark.parametrize("language", ["en", "de"])
def test_markup_is_taken_out_in_every_language(raw: str, said: str, language: str) -> None:
    assert spoken_text(raw, language) == said


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("See https://www.example.com/a_b?q=1. Then", "See example dot com. Then"),
        ("See www.example.com, <https://a.org/x>!", "See example dot com, a dot org!"),
        ("(http://user@host.net:8080/p#q)", "(host dot net)"),
        ("mail <mailto:joe@site.org> or joe@site.org", "mail joe@site dot org or joe@site dot org"),
        ("请看https://example.com。好", "请看example dot com。好"),
    ],
)
def test_a_bare_url_is_said_as_its_host(raw: str, said: str) -> None:
    assert spoken_text(raw) == said


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("$5", "5 dollars"),
        ("$1", "1 dollar"),
        ("$1.01", "1 dollar and 1 cent"),
        ("$0.50", "50 cents"),
        ("$7.00.", "7 dollars."),
        ("$7.5", "7.5 dollars"),
        ("€3.50", "3 euros and 50 cents"),
        ("£2, £2.20 and £0.01", "2 pounds, 2 pounds and 20 pence and 1 penny"),
        ("US$1,000", "1,000 dollars"),
        ("$1.5 billion or $3M or $20k", "1.5 billion dollars or 3 million dollars or 20 thousand dollars"),
        ("¥500", "500 yen"),
        ("$x", "$x"),
    ],
)
def test_amounts_are_said_in_the_order_of_speech(raw: str, said: str) -> None:
    assert spoken_text(raw) == said


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("at 10:45", "at 10 45"),
        ("at 9:05 p.m.", "at 9 oh 5 PM."),
        ("at 10:00 a.m. sharp", "at 10 AM sharp"),
        ("at 10:00 AM", "at 10 AM"),
        ("at 10:00", "at 10 o'clock"),
        ("16:9 and 1:02:03", "16:9 and 1:02:03"),
        ("1 km, 2 kg, 3cm, 4 mm, 5 °C, 1°F, 90°", "1 kilometer, 2 kilograms, 3 centimeters, 4 millimeters, "
         "5 degrees Celsius, 1 degree Fahrenheit, 90 degrees"),
        ("90 km/h by km", "90 kilometers per hour by km"),
        ("5-10, 1999-2003, 5–10, 555-1234, 2024-05-01", "5 to 10, 1999 to 2003, 5 to 10, 555 1234, 2024 05 01"),
        ("2 * 3 × 4", "2 times 3 times 4"),
        ("#5 in C# ~3 x", "number 5 in C sharp about 3 x"),
        ("and/or R&D", "and or R and D"),
        ("Node.js 6.28 1,000", "Node dot js 6.28 1,000"),
    ],
)  # fmt: skip
def test_times_units_ranges_and_signs_are_said_in_words(raw: str, said: str) -> None:
    assert spoken_text(raw) == said


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("Dr. Lee, Mr. X, Mrs. Y, Ms. Z, Prof. Q", "Doctor Lee, Mister X, Missus Y, Miz Z, Professor Q"),
        ("Tea, e.g. green, i.e. not black, vs. coffee", "Tea, for example green, that is not black, versus coffee"),
        ("pens etc. are here", "pens et cetera are here"),
        ("pens etc. They are here, etc.", "pens et cetera. They are here, et cetera."),
        ("10 p.m. Then (at 9 a.m.)", "10 PM. Then (at 9 AM.)"),
        ("No. 5? No. I said no.", "Number 5? No. I said no."),
        ("St. Louis on Main St. now", "Saint Louis on Main Street now"),
        ("J. R. R. Tolkien in the U.S. and so am I. We", "J R R Tolkien in the U S and so am I. We"),
    ],
)
def test_english_abbreviations_are_said_in_words(raw: str, said: str) -> None:
    assert spoken_text(raw) == said
    assert spoken_text(raw, "en-GB") == said


def test_other_languages_keep_abbreviations_and_amounts() -> None:
    assert spoken_text("Dr. Lee zahlt **$7.25** & geht", "de-DE") == "Dr. Lee zahlt $7.25 & geht"


@given(st.text(alphabet="ab1 .*_`#[]()|\n~<>$:/-’🎉", max_size=60))
def test_any_text_gives_clean_text_and_keeps_no_markup(raw: str) -> None:
    said = spoken_text(raw)
    assert said == " ".join(said.split())
    assert not set(said) & set("*`#[]|_🎉’")
