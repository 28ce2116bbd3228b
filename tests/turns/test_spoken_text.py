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
        ("mail <mailto:joe@site.org> or joe@site.org", "mail joe at site dot org or joe at site dot org"),
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
        ("$x", "x"),
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
        ("16:9 and 1:02:03", "16 to 9 and 1:02:03"),
        ("1 km, 2 kg, 3cm, 4 mm, 5 °C, 1°F, 90°", "1 kilometer, 2 kilograms, 3 centimeters, 4 millimeters, "
         "5 degrees Celsius, 1 degree Fahrenheit, 90 degrees"),
        ("90 km/h by km", "90 kilometers per hour by km"),
        ("5-10, 1999-2003, 5–10, 555-1234, 2024-05-01", "5 to 10, 1999 to 2003, 5 to 10, "
         "5 5 5, 1 2 3 4, May 1, 20 24"),
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
        ("J. R. R. Tolkien in the U.S. and so am I. We", "J R R Tolkien in the US and so am I. We"),
    ],
)
def test_english_abbreviations_are_said_in_words(raw: str, said: str) -> None:
    assert spoken_text(raw) == said
    assert spoken_text(raw, "en-GB") == said


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("$10-$20, $10–20, $10 – $20", "10 dollars to 20 dollars, 10 to 20 dollars, 10 dollars to 20 dollars"),
        ("€5,50 or 5€ or 20 USD or 5 $", "5 euros and 50 cents or 5 euros or 20 US dollars or 5 dollars"),
        ("₹500, $1,234, 99¢", "500 rupees, 1,234 dollars, 99 cents"),
        ("$5/month or 3 per person/day", "5 dollars per month or 3 per person per day"),
    ],
)
def test_ranges_rates_and_other_currencies_are_said_in_words(raw: str, said: str) -> None:
    assert spoken_text(raw) == said


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("Call (555) 123-4567.", "Call 5 5 5, 1 2 3, 4 5 6 7."),
        ("at +1 (555) 123-4567", "at plus 1, 5 5 5, 1 2 3, 4 5 6 7"),
        ("or +44 20 7946 0958", "or plus 4 4, 2 0, 7 9 4 6, 0 9 5 8"),
        ("1-800-555-0199 and 555.123.4567", "1, 8 0 0, 5 5 5, 0 1 9 9 and 5 5 5, 1 2 3, 4 5 6 7"),
        ("card 4111 1111 1111 1111", "card 4 1 1 1, 1 1 1 1, 1 1 1 1, 1 1 1 1"),
        ("ISBN 978-3-16-148410-0", "ISBN 9 7 8, 3, 1 6, 1 4 8 4 1 0, 0"),
        ("agent 007. Room 05", "agent 0 0 7. Room 0 5"),
        ("+1000 people, 100,000, 1 000 000, +5", "+1000 people, 100,000, 1 000 000, +5"),
    ],
)
def test_numbers_that_name_are_said_digit_by_digit(raw: str, said: str) -> None:
    assert spoken_text(raw) == said


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("192.168.1.10:8080 and 10.0.0.1.", "192 dot 168 dot 1 dot 10 port 8080 and 10 dot 0 dot 0 dot 1."),
        ("1.2.3.4.5", "1 point 2 point 3 point 4 point 5"),
        ("C:\\Users\\joe\\a.txt, /etc/hosts, ~/notes/b.md", "C: Users joe a dot txt, etc hosts, notes b dot md"),
        ("Qwen2.5-7B, v2.0 and .NET", "Qwen2.5 7B, v2.0 and dot NET"),
        (
            "he / she, 72°F / 22°C, w/o milk, w/ tea, A vs B",
            "he, she, 72 degrees Fahrenheit, 22 degrees Celsius, without milk, with tea, A versus B",
        ),
        ("№7 and No.5", "Number 7 and Number 5"),
    ],
)
def test_addresses_paths_and_names_of_software_are_said_in_words(raw: str, said: str) -> None:
    assert spoken_text(raw) == said


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("On 2024-12-31 or 2009-01-05", "On December 31, 20 24 or January 5, 2009"),
        ("2024-13-01", "2 0 2 4, 1 3, 0 1"),
        ("05/01/2024, 1/2/24", "5 slash 1 slash 2024, 1 slash 2 slash 24"),
        ("In 1999, since 1905, by 1900", "In 19 99, since 19 oh 5, by 19 hundred"),
        ("in 1066 and in 2007", "in 1066 and in 2007"),
        ("May 3, 2026, June 1st, 1850 and July 1776", "May 3, 20 26, June 1st, 18 50 and July 17 76"),
        ("in 1500.5 or in 1999% or 1999 of them", "in 1500.5 or in 1999% or 1999 of them"),
        ("the 1990s, '80s, the 60s", "the 19 nineties, eighties, the sixties"),
        ("9am, 9:05am, 7:30 PM, 10:00PM", "9 AM, 9 oh 5 AM, 7 30 PM, 10 PM"),
        ("3:1 odds, at 06:05 or 24:00", "3 to 1 odds, at 6 oh 5 or 24 o'clock"),
        ("Mon-Fri 9am-5pm", "Monday to Friday 9 AM to 5 PM"),
        ("Jan. 5, Sept 7, Mar. 1st, on Dec.", "January 5, September 7, March 1st, on Dec."),
        ("the 1800s and 2000s", "the 18 hundreds and 2 thousands"),
        ("vol. 3, pp. 10-15, ch. 4, min. 2 at max.", "volume 3, pages 10 to 15, chapter 4, minimum 2 at max."),
    ],
)
def test_dates_years_and_times_are_said_as_people_do(raw: str, said: str) -> None:
    assert spoken_text(raw) == said


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("1/2 cup, 3/4, 1 1/2, 2 3/4", "a half cup, 3 quarters, 1 and a half, 2 and 3 quarters"),
        ("1/3, 1/8, 1 1/8, 5/8", "1 third, 1 eighth, 1 and an eighth, 5 eighths"),
        ("½, 1½, 2 ¾ and ⅔", "a half, 1 and a half, 2 and 3 quarters and 2 thirds"),
        ("8/10, 24/7, 9/11, 50/50, 4 4/5, 3/2", "8 out of 10, 24 7, 9 11, 50 50, 4 4 out of 5, 3 2"),
        ("5min, 1 hr, 10s, 1s, 2h, 100ms", "5 minutes, 1 hour, 10 seconds, 1 second, 2 hours, 100 milliseconds"),
        (
            "5 MB/s, 1 ft, 6 ft, 20 m², 1 °C",
            "5 megabytes per second, 1 foot, 6 feet, 20 square meters, 1 degree Celsius",
        ),
        ("6'2 tall, 10x, 3x3, 2 x 3, 0x1F", "6 foot 2 tall, 10 times, 3 by 3, 2 times 3, 0x1F"),
        ("9.5 s or 1 h", "9.5 seconds or 1 hour"),
        ("100k users in 4k", "100 thousand users in 4k"),
        ("3.5-4.5 and 2.5-10", "3.5 to 4.5 and 2.5 to 10"),
    ],
)
def test_fractions_quantities_and_sizes_are_said_in_words(raw: str, said: str) -> None:
    assert spoken_text(raw) == said


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("Louis XIV, Henry VIII's wife, Pius XI", "Louis the 14th, Henry the 8th's wife, Pius the 11th"),
        ("Leo XXIII, Paul II", "Leo the 23rd, Paul the 2nd"),
        ("World War II, **Chapter** IV, Part IX", "World War 2, Chapter 4, Part 9"),
        ("the IV drip, Size XL, Type IIX, Vitamin I", "the IV drip, Size XL, Type IIX, Vitamin I"),
    ],
)  # fmt: skip
def test_roman_numerals_are_numbers(raw: str, said: str) -> None:
    assert spoken_text(raw) == said


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("so $E = mc^2$ and $x_1$", "so E = mc squared and x 1"),
        ("$$\\frac{a}{b} = \\sqrt{2}$$", "a over b = the square root of 2"),
        ("\\(\\frac{1}{\\frac{x}{y}}\\)", "1 over x over y"),
        ("\\[ \\int_0^1 x \\, dx \\]", "the integral from 0 to 1 of x dx"),
        ("$\\sum_{i=1}^{n} i$ is $\\leq \\pi \\times 10^{-3}$",
         "the sum from i=1 to n of i is less than or equal to pi times 10 to the power of minus 3"),
        ("\\text{Area} = \\left( r \\right)", "Area = ( r )"),
        ("x^2, y³, 2^10, 10²³, H₂O, ^_^", "x squared, y cubed, 2 to the power of 10, 10 to the power of 23, H2O,"),
        ("10 - 5 = 5, 1 / 5, 6÷3, -$5", "10 minus 5 = 5, 1 divided by 5, 6 divided by 3, minus 5 dollars"),
        ("5 - 10 minutes", "5 to 10 minutes"),
        ("-5 or −12 °C or (-3)", "minus 5 or minus 12 degrees Celsius or (minus 3)"),
        ("a >= b, a ≤ b, a != b, a == b", "a greater than or equal to b, a less than or equal to b, a not equal to b, "
         "a equals b"),
        ("a < b, <5%, a > b, is >10%", "a less than b, less than 5%, a more than b, is more than 10%"),
        ("a -> b, a => b, <-", "a -> b, a => b, <-"),
    ],
)  # fmt: skip
def test_formulas_are_said_in_words(raw: str, said: str) -> None:
    assert spoken_text(raw) == said


@pytest.mark.parametrize("language", ["en", "de"])
@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("So it is.[1][2] And[3] so on.[^4]", "So it is. And so on."),
        ("[^1]: The note", "The note"),
        ("bar[0] and [1]", "bar 0 and 1"),
        ("a&nbsp;b &quot;c&quot; &eacute;", 'a b "c" é'),
        ("Hi :) there ;-) and <3 :D.", "Hi there and."),
        ("(see: this) 8:30", "(see: this) 8:30"),
        ("==marked== ~~gone~~ H~2~O", "marked gone H2O"),
        ('{"a": "b"}', '"a": "b"'),
    ],
)
def test_notes_entities_faces_and_marks_are_not_spoken(raw: str, said: str, language: str) -> None:
    assert spoken_text(raw, language).replace("8 30", "8:30") == said


@pytest.mark.parametrize("language", ["nl", "sv", "ja", "zh", "xx"])
def test_languages_without_wording_keep_abbreviations_and_amounts(language: str) -> None:
    assert spoken_text("Dr. Lee **$7.25** & 3. km", language) == "Dr. Lee $7.25 & 3. km"


@given(st.text(alphabet="ab1 .*_`#[]()|\n~<>$:/-’🎉", max_size=60))
def test_any_text_gives_clean_text_and_keeps_no_markup(raw: str) -> None:
    said = spoken_text(raw)
    assert said == " ".join(said.split())
    assert not set(said) & set("*`#[]|_🎉’")
