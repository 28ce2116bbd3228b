"""Numbers and names given piece by piece: is a run of digits or letters at an utterance's end a whole one?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NumberLengths:
    """How many digits a whole number has, in one language's countries.

    `whole`: of no stated kind. `of_kind`: by what the utterance or the agent's question names, the first that is found.
    `code`: names a number that is whole from LONGEST_CODE digits on. `asked`: names a number of no kind.
    """

    whole: frozenset[int]
    of_kind: tuple[tuple[re.Pattern[str], frozenset[int]], ...]
    code: re.Pattern[str]
    asked: re.Pattern[str]


ENGLISH_LENGTHS = NumberLengths(
    whole=frozenset({7, 10, 11, 13, 16}),
    of_kind=(
        (
            re.compile(r"\b(?:phone|telephone|mobile|cell|number to call|call (?:me|you|us)|reach)\b"),
            frozenset({7, 10, 11, 12}),
        ),
        (re.compile(r"\b(?:zip|postcode|postal)\b"), frozenset({5, 9})),
        (re.compile(r"\b(?:cvv|cvc|security code)\b"), frozenset({3, 4})),
        (re.compile(r"\b(?:pin|last four|ending in|ends in|ends with)\b"), frozenset({4})),
        (re.compile(r"\b(?:card|credit|debit|visa)\b"), frozenset({15, 16})),
    ),
    code=re.compile(r"\b(?:code|serial|account|reference|order|confirmation|booking|tracking|member|id|p o|po)\b"),
    asked=re.compile(r"\b(?:number|digits|nummer|número|numero|numéro)\b"),
)
"""Local and national telephone numbers (NANP and E.164), EAN codes, US ZIP codes, card security codes, PINs, ISO/IEC
7812 card numbers. Other languages' stand in their tables: their countries' telephones and postal codes."""

LONGEST_CODE = 6
"""A one-time code, and the least of an account, order or reference number that is likely whole (chosen)."""

_SHORTEST_WITH_ZERO = 4
"""Digits from which on an "oh" before them is a zero."""

_REPEATS = {"double": 2, "triple": 3}
_NATO = frozenset(
    "alpha alfa bravo charlie delta echo foxtrot golf hotel india juliet juliett kilo lima mike november oscar papa "
    "quebec "
    "romeo sierra tango uniform victor whiskey xray x-ray yankee zulu".split()
)
_TELEPHONE = re.compile(r"\d{3}-\d{1,4}(?:-\d{1,4})*")
_LETTER = re.compile(r"[a-z](?:\.|')?$")


@dataclass(frozen=True, slots=True)
class Run:
    """The digits and letters at an utterance's end: how many of each, in how many words.

    "212-946" is six words: recognisers write telephone numbers so that were spoken digit by digit.
    """

    digits: int
    letters: int
    words: int


def trailing_run(words: Sequence[str], digit_words: Mapping[str, str]) -> Run:
    """Return the run of digits, digit words, single letters and NATO words that `words` end in.

    A run doesn't begin with "a" or "i", nor a short one with "oh": those are the sentence's own.
    """
    digits = letters = taken = grouped = 0
    for index in range(len(words) - 1, -1, -1):
        word = words[index]
        before = words[index - 1] if index else ""
        if word.replace("-", "").isdigit():
            digits += len(word.replace("-", ""))
            grouped += len(word.replace("-", "")) - 1 if _TELEPHONE.fullmatch(word) else 0
        elif word in digit_words:
            digits += _REPEATS.get(before, 1) * len(digit_words[word])
        elif word in _REPEATS and taken:
            pass  # counted with the digit it doubles
        elif word in _NATO or _LETTER.match(word):
            letters += 1
        else:
            break
        taken += 1
    while taken and (first := words[len(words) - taken]) in ("a", "i", "o", "oh"):
        if first in digit_words and digits >= _SHORTEST_WITH_ZERO:
            break
        digits, letters = (digits - 1, letters) if first in digit_words else (digits, letters - 1)
        taken -= 1
    return Run(digits, letters, taken + grouped)


def whole_number(run: Run, utterance: str, question: str, lengths: NumberLengths = ENGLISH_LENGTHS) -> bool | None:
    """Return whether the digits of `run` make a whole number, None if they are no number given digit by digit.

    `utterance` and `question` (the agent's last words) may name its kind.
    """
    asked = f"{utterance} {question}"
    for kind, usual in lengths.of_kind:
        if run.digits and kind.search(asked) and (run.words > 1 or run.digits > 2):
            return run.digits in usual
    if lengths.code.search(asked) and run.digits + run.letters > 1:
        return run.digits + run.letters >= LONGEST_CODE
    if lengths.asked.search(asked) and run.digits > 1:
        return run.digits in lengths.whole
    if run.digits >= 3 and run.words >= 3:
        return run.digits in lengths.whole
    return None
