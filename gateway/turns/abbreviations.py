"""English abbreviations: what is said for them, and whether their full stop may end a sentence."""

from __future__ import annotations

ABBREVIATIONS = {
    "Dr.": "Doctor", "Mr.": "Mister", "Mrs.": "Missus", "Ms.": "Miz", "Prof.": "Professor",
    "Jr.": "Junior", "Sr.": "Senior", "Mt.": "Mount", "Gen.": "General", "Sgt.": "Sergeant",
    "Capt.": "Captain", "Lt.": "Lieutenant", "Rev.": "Reverend", "Hon.": "Honorable",
    "e.g.": "for example", "E.g.": "For example", "i.e.": "that is", "I.e.": "That is",
    "vs.": "versus", "approx.": "approximately", "dept.": "department", "Dept.": "Department",
    "Fig.": "Figure", "fig.": "figure", "Ph.D.": "P H D", "a.k.a.": "also known as",
}  # fmt: skip
"""Abbreviations whose full stop never ends a sentence, and what is said instead."""

CLOSING_ABBREVIATIONS = {
    "etc.": "et cetera", "a.m.": "AM", "p.m.": "PM", "A.M.": "AM", "P.M.": "PM", "Inc.": "Incorporated",
    "Ltd.": "Limited", "Corp.": "Corporation",
}  # fmt: skip
"""Abbreviations that often close a sentence: the stop is kept before a capital and at the end of the text."""

NUMBERED_ABBREVIATIONS = {
    "vol.": "volume", "Vol.": "Volume", "ch.": "chapter", "Ch.": "Chapter", "p.": "page", "pp.": "pages",
    "sec.": "section", "Sec.": "Section", "min.": "minimum", "max.": "maximum",
}  # fmt: skip
"""Abbreviations only before a number."""
