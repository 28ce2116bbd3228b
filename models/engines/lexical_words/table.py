"""What a language's table holds: the words by which an utterance shows that it goes on, or asks for time.

All in lower case, with plain apostrophes, as `spoken_words.plain_words` leaves them. The tables are ours, written from
grammar, not learned from data; only English was counted (`lexical_cues.PROBABILITY`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from models.engines.spoken_digits import ENGLISH_LENGTHS, NumberLengths

NEVER = re.compile(r"(?!)")


def words(text: str) -> frozenset[str]:
    """Return the set of the words in `text`."""
    return frozenset(text.split())


def phrases(*some: str) -> re.Pattern[str]:
    """Return a pattern that matches any of `some` (regular expressions of whole words) at a word's start."""
    return re.compile(r"(?:" + "|".join(some) + r")(?![\w'])")


def at_end(*some: str) -> re.Pattern[str]:
    """Return a pattern that finds any of `some` as the last words."""
    return re.compile(r"(?:^|(?<= ))(?:" + "|".join(some) + r")$")


def whole(*some: str) -> re.Pattern[str]:
    """Return a pattern that is any of `some`, and all there is."""
    return re.compile(r"^(?:" + "|".join(some) + r")$")


def digits(ten: str, more: dict[str, str] | None = None) -> dict[str, str]:
    """Return the table of ten number words, zero first, and what else is read as digits."""
    return {word: str(value) for value, word in enumerate(ten.split())} | (more or {})


def two_digits(text: str) -> dict[str, str]:
    """Return number words that stand for two digits each."""
    return dict.fromkeys(text.split(), "00")


@dataclass(frozen=True, slots=True)
class LanguageTable:
    """What one language's rules look up.

    `open_words` can't end an utterance: articles, possessives, prepositions that always want a noun, conjunctions,
    auxiliaries. `half_open_words` rarely do. `fillers` fill a pause. `waits` ask for time and may stand between
    `lead_ins` and anything that explains them. `digits`: how a number's digits are said; `pairs` are said for two of
    them in several words; `lengths` of whole numbers.

    Patterns over the joined words, in the order in which they are asked: `corrections` (at the end) take back what was
    said, unless `no_corrections` fits; `open_ends`: phrases that want more; `prefaces` are whole utterances that
    announce something; `whole_answers` whole answers; `stranded`: ends in an open word and is over nevertheless;
    `closings`: ends in "please", "thanks" and the like.
    """

    open_words: frozenset[str]
    fillers: frozenset[str]
    waits: re.Pattern[str]
    digits: dict[str, str]
    half_open_words: frozenset[str] = frozenset()
    lead_ins: frozenset[str] = frozenset()
    corrections: re.Pattern[str] = NEVER
    no_corrections: re.Pattern[str] = NEVER
    open_ends: re.Pattern[str] = NEVER
    prefaces: re.Pattern[str] = NEVER
    whole_answers: re.Pattern[str] = NEVER
    stranded: re.Pattern[str] = NEVER
    closings: re.Pattern[str] = NEVER
    pairs: re.Pattern[str] = NEVER
    lengths: NumberLengths = ENGLISH_LENGTHS


@dataclass(frozen=True, slots=True)
class UnspacedTable:
    """The same for a language that is written without blanks: patterns over the end of the text.

    In the order in which they are asked. `waits` may stand anywhere in a short utterance. `soft_ends` leave the end
    open out of politeness, and the turn is over as often as not. `ends` are sentence-final forms.
    """

    waits: re.Pattern[str]
    corrections: re.Pattern[str]
    fillers: re.Pattern[str]
    whole_answers: re.Pattern[str]
    soft_ends: re.Pattern[str]
    open_ends: re.Pattern[str]
    ends: re.Pattern[str]
    half_open_ends: re.Pattern[str]
    digits: re.Pattern[str]
    lengths: NumberLengths
