"""Abbreviations: what is said for them, and which of their full stops end no sentence."""

from __future__ import annotations

import re

ABBREVIATIONS = {
    "Dr.": "Doctor", "Mr.": "Mister", "Mrs.": "Missus", "Ms.": "Miz", "Prof.": "Professor",
    "Jr.": "Junior", "Sr.": "Senior", "Mt.": "Mount", "Gen.": "General", "Sgt.": "Sergeant",
    "Capt.": "Captain", "Lt.": "Lieutenant", "Rev.": "Reverend", "Hon.": "Honorable",
    "e.g.": "for example", "E.g.": "For example", "i.e.": "that is", "I.e.": "That is",
    "vs.": "versus", "approx.": "approximately", "dept.": "department", "Dept.": "Department",
    "Fig.": "Figure", "fig.": "figure", "Ph.D.": "P H D", "a.k.a.": "also known as",
}  # fmt: skip
"""English abbreviations whose full stop never ends a sentence, and what is said instead."""

CLOSING_ABBREVIATIONS = {
    "etc.": "et cetera", "a.m.": "AM", "p.m.": "PM", "A.M.": "AM", "P.M.": "PM", "Inc.": "Incorporated",
    "Ltd.": "Limited", "Corp.": "Corporation",
}  # fmt: skip
"""English abbreviations that often close a sentence: the stop is kept before a capital and at the end of the text."""

NUMBERED_ABBREVIATIONS = {
    "vol.": "volume", "Vol.": "Volume", "ch.": "chapter", "Ch.": "Chapter", "p.": "page", "pp.": "pages",
    "sec.": "section", "Sec.": "Section", "min.": "minimum", "max.": "maximum",
}  # fmt: skip
"""English abbreviations only before a number."""

_OTHER_ABBREVIATIONS = (
    "St. Ave. Blvd. cf. al. Jan. Feb. Aug. Sept. Oct. Nov. Dec. dr. mr. mrs. ms. prof. "  # English
    "Nr. bzw. usw. ca. Abb. Art. Bd. Sra. Srta."  # German, Spanish
)
_OPEN_STOPS = frozenset([*ABBREVIATIONS, *_OTHER_ABBREVIATIONS.split()])
_DOTTED = re.compile(r"(?:[^\W\d_]\.){2,}|[A-HJ-Z]\.")  # U.S., z.B., initials; not the pronoun I

BEFORE_NUMBERS = frozenset(word.lower() for word in ["No.", *NUMBERED_ABBREVIATIONS])
"""Lowercase abbreviations whose stop ends a sentence unless a digit follows."""

MAY_END_SENTENCE = BEFORE_NUMBERS | {word.lower() for word in CLOSING_ABBREVIATIONS}
"""Lowercase abbreviations of which only the next word tells whether their stop ends a sentence."""


def is_abbreviation(word: str) -> bool:
    """Tell whether the full stop that ends `word` belongs to it, so that it ends no sentence."""
    return word in _OPEN_STOPS or _DOTTED.fullmatch(word) is not None
