"""Puts what is written for the eye into English words: formulas, numbers, abbreviations, paths, signs."""

from __future__ import annotations

import re
from functools import partial

from gateway.turns.abbreviations import ABBREVIATIONS, CLOSING_ABBREVIATIONS, NUMBERED_ABBREVIATIONS
from gateway.turns.english_math import MATH
from gateway.turns.english_numbers import NUMBERS, ROMAN
from gateway.turns.traced_text import GROUP, Rewrite, TracedText


def _said(table: dict[str, str], match: re.Match[str]) -> str:
    return table[match[0]]


def _any_of(words: dict[str, str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


_END = r"(?=\s+[\"“'(]?[A-Z]|[)\"”'*_]*\s*$)"  # a capital or the end of the text follows

_PER = "second|minute|hour|hr|day|night|week|month|mo|year|yr|person|user|seat|unit|item|kg|lb|gallon|mile|token"

_ABBREVIATED: list[Rewrite] = [
    (re.compile(rf"(?<![\w.])(?:{_any_of(ABBREVIATIONS)})(?!\w)"), partial(_said, ABBREVIATIONS)),
    (
        re.compile(rf"(?<![\w.])({_any_of(CLOSING_ABBREVIATIONS)}){_END}"),
        lambda word: _said(CLOSING_ABBREVIATIONS, word) + ".",
    ),
    (re.compile(rf"(?<![\w.])(?:{_any_of(CLOSING_ABBREVIATIONS)})(?!\w)"), partial(_said, CLOSING_ABBREVIATIONS)),
    (re.compile(r"(?:\bNo\.|№)\s?(?=\d)"), "Number "),
    (re.compile(rf"\b(?:{_any_of(NUMBERED_ABBREVIATIONS)})(?=\s?\d)"), partial(_said, NUMBERED_ABBREVIATIONS)),
    (re.compile(r"\bSt\.(?=\s+[A-Z])"), "Saint"),
    (re.compile(r"\bSt\.(?!\w)"), "Street"),
    # In one word, as espeak-ng reads "US" and "IT" by their letters and a lone A as an article.
    (re.compile(r"\b(?:[A-Z]\.){2,}"), lambda initials: initials[0].replace(".", "")),
    (re.compile(r"\b([A-HJ-Z])\.(?=\s+[A-Z])"), GROUP),
    ROMAN,
    (re.compile(r"\bvs\b"), "versus"),
    (re.compile(r"(?<!\S)w/o(?=\s)"), "without"),
    (re.compile(r"(?<!\S)w/(?=\s?\w)"), "with "),
]

_DAYS = {day[:3]: day for day in "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()}

_SIGNS: list[Rewrite] = [
    (
        re.compile(rf"\b({'|'.join(_DAYS)})\s?[-–]\s?({'|'.join(_DAYS)})\b"),
        lambda days: f"{_DAYS[days[1]]} to {_DAYS[days[2]]}",
    ),
    (re.compile(r"\s*&\s*"), " and "),
    (re.compile(r"\$(?!\s?\d)"), ""),
    (re.compile(r"(?<=\b[CF])#"), " sharp"),
    (re.compile(r"#(?=\d)"), "number "),
    (re.compile(r"(?<![\w~])~(?=[\d$€£])"), "about "),
    (re.compile(rf"(?<=\w)\s?/\s?(?=(?:{_PER})\b)"), " per "),
    (re.compile(r"(?<![\w.])~?/(?=[A-Za-z])|(?<=[\w:])[/\\](?=[A-Za-z])"), " "),
    (re.compile(r"(?<=\S)\s+/\s+(?=\S)"), ", "),
    (re.compile(r"(?<=\w)@(?=\w)"), " at "),
    (re.compile(r"(?<=[A-Za-z0-9])\.(?=[a-z]{2,}\b)"), " dot "),
    (re.compile(r"(?<![\w.])\.(?=[A-Za-z])"), "dot "),
]

_HOLDS_MATH = re.compile(r"[\\$^<>=/÷≥≤≠⁰¹²³⁴-⁹₀-₉]|[-−–]\s?\d")
_HOLDS_NUMBERS = re.compile(r"[\d½⅓⅔¼¾⅛]")
"""What all of their rewrites need: only for speed."""


def in_english(text: TracedText) -> TracedText:
    """Return `text`, free of markup, as it is said in English."""
    if _HOLDS_MATH.search(text.text):
        text = text.sub_all(MATH)
    if _HOLDS_NUMBERS.search(text.text):
        text = text.sub_all(NUMBERS)
    return text.sub_all(_ABBREVIATED).sub_all(_SIGNS)
