"""Rewrites a language model's markdown into what a voice should say.

Two layers: markup, links and emoji are taken out in every language; amounts, versions, times, units and abbreviations
are put into English words only when the language is English. Plain numbers stay digits: the phonemiser speaks them.
The rewrites follow what espeak-ng 1.52 made of the raw text (tried by hand): "$7.25" became "dollar seven point two
five", "and/or" "and slash or", "→" "right arrow", "2.1.0" ran its middle together, "main.py" lost its "dot".
"""

from __future__ import annotations

import re
from functools import partial

from gateway.turns.traced_text import GROUP, Replacement, TracedText, joined

_Rewrite = tuple[re.Pattern[str], Replacement]

ABBREVIATIONS = {
    "Dr.": "Doctor", "Mr.": "Mister", "Mrs.": "Missus", "Ms.": "Miz", "Prof.": "Professor",
    "Jr.": "Junior", "Sr.": "Senior", "Mt.": "Mount", "Gen.": "General", "Sgt.": "Sergeant",
    "Capt.": "Captain", "Lt.": "Lieutenant", "Rev.": "Reverend", "Hon.": "Honorable",
    "e.g.": "for example", "E.g.": "For example", "i.e.": "that is", "I.e.": "That is",
    "vs.": "versus", "approx.": "approximately", "dept.": "department", "Dept.": "Department",
    "Fig.": "Figure", "fig.": "figure", "Ph.D.": "P H D",
}  # fmt: skip
"""English abbreviations whose full stop never ends a sentence, and what is said instead."""

CLOSING_ABBREVIATIONS = {
    "etc.": "et cetera", "a.m.": "AM", "p.m.": "PM", "A.M.": "AM", "P.M.": "PM", "Inc.": "Incorporated",
    "Ltd.": "Limited", "Corp.": "Corporation",
}  # fmt: skip
"""English abbreviations that often close a sentence: the stop is kept before a capital and at the end of the text."""

_OTHER_ABBREVIATIONS = (
    "St. Ave. Blvd. cf. al. Jan. Feb. Aug. Sept. Oct. Nov. Dec. dr. mr. mrs. ms. prof. "  # English
    "Nr. bzw. usw. ca. Abb. Art. Bd. Sra. Srta."  # German, Spanish
)
_OPEN_STOPS = frozenset([*ABBREVIATIONS, *_OTHER_ABBREVIATIONS.split()])
_DOTTED = re.compile(r"(?:[^\W\d_]\.){2,}|[A-HJ-Z]\.")  # U.S., z.B., initials; not the pronoun I

MAY_END_SENTENCE = frozenset(word.lower() for word in [*CLOSING_ABBREVIATIONS, "No."])
"""Lowercase abbreviations of which only the next word tells whether their stop ends a sentence."""

UNITS = {
    "km/h": "kilometers per hour", "km": "kilometers", "kg": "kilograms", "cm": "centimeters", "mm": "millimeters",
    "°C": "degrees Celsius", "°F": "degrees Fahrenheit", "°": "degrees",
}  # fmt: skip
"""Units said in full after a number; the rest is left to the phonemiser."""

_CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "€": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "¥": ("yen", "yen", "sen", "sen"),
}
_MAGNITUDES = {"k": "thousand", "m": "million", "b": "billion", "bn": "billion"}

_CJK = "\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef"
_EMOJI = "\u2190-\u21ff\u2300-\u23ff\u2500-\u27bf\u2900-\u297f\u2b00-\u2bff\U0001f000-\U0001faff©®™"  # and arrows
_JOINERS = "\u200d\ufe0e\ufe0f\u20e3\U000e0020-\U000e007f"

_RAW_WORD = re.compile(rf"[{_CJK}]|[^\s{_CJK}]+")
_FENCE = re.compile(
    r"^[ \t]*(?:(?:[-*+>]|\d{1,3}[.)])[ \t]+)*(```|~~~)[^`\n]*(?:\n.*?(?:^[ \t]*\1[`~]*[ \t]*$|\Z)|\Z)",
    re.DOTALL | re.MULTILINE,
)
_RULE = re.compile(r"[\W_]*")
_TABLE_RULE = re.compile(r"[-=|:+]+")
_BLOCK = re.compile(r"(?P<heading>#{1,6}(?:\s+|$))|(?:[-*+•]\s+(?:\[[ xX]\]\s+)?)|(?P<number>\d{1,3})[.)]\s+")
_NEEDS_STOP = re.compile(r"""[^\W_][)\]"'”’*_`]*(?:\s+#+)?$""")

_INLINE: list[_Rewrite] = [
    (re.compile(r"<((?:https?://|mailto:)[^<>\s]+)>"), GROUP),
    (re.compile(r"</?[A-Za-z][^<>]*>|<!--.*?-->", re.DOTALL), " "),
    (re.compile(r"""!?\[([^\[\]]*)\]\((?:[^()\s]|\([^()\s]*\))*(?:\s+["'(][^\n]*?["')])?\s*\)"""), GROUP),
    (re.compile(r"!?\[([^\[\]]+)\]\[[^\[\]]*\]"), GROUP),
    (re.compile(r"`+([^`]*)`+"), GROUP),
    (re.compile(r"mailto:", re.IGNORECASE), ""),
    (
        re.compile(rf"(?<![a-z0-9])(?:[a-z][a-z0-9+.-]*://(?:www\.)?|www\.)[^\s<>\"“”|{_CJK}]*", re.IGNORECASE),
        lambda url: _host(url[0]),
    ),
    (re.compile(rf"[{_EMOJI}][{_JOINERS}{_EMOJI}\s]*"), " "),
    (re.compile(f"[{_JOINERS}]"), ""),
    (re.compile("[’‘ʼ]"), "'"),
]

_STRAY: list[_Rewrite] = [
    (re.compile(r"(?<![^\W_])_+|_+(?![^\W_])|[*`~#\[\]\\]+"), ""),
    (re.compile(r"_+"), " "),
    (re.compile(r"\s{2,}|[^\S ]"), " "),
    (re.compile(r" +(?=[,.!?;:](?:\s|$))"), ""),
]


def spoken_text(raw: str, language: str = "en") -> str:
    """Return what is said for `raw`; empty or without a letter or digit if there is nothing to say.

    `language` is a BCP 47 tag; only its primary part counts. Fenced code is left out, an unclosed fence to the end.
    """
    return traced_spoken_text(raw, language).text


def traced_spoken_text(raw: str, language: str = "en") -> TracedText:
    """Return `spoken_text` with the place in `raw` that each of its characters comes from."""
    text = TracedText.of(raw).sub(_FENCE, "\n")
    for pattern, replacement in _INLINE:
        text = text.sub(pattern, replacement)
    text = _without_blocks(text)
    if language.split("-")[0].lower() == "en":
        for pattern, replacement in _ENGLISH:
            text = text.sub(pattern, replacement)
    for pattern, replacement in _STRAY:
        text = text.sub(pattern, replacement)
    return text.strip()


def words_said(raw: str, spoken: TracedText) -> tuple[tuple[int, int], ...]:
    """Return (end in the spoken text, end in `raw`) of each word of `raw` that is said.

    The word has been said when the spoken text has been said up to there, and no earlier: an amount or an address ends
    with all that became of it. What is silent belongs to the word after it.
    """
    said: list[tuple[int, int]] = []
    sounds = [at for at, character in enumerate(spoken.text) if character.isalnum()]
    done = 0
    for word in _RAW_WORD.finditer(raw):
        before = done
        while done < len(sounds) and spoken.places[sounds[done]] < word.end():
            done += 1
        if done > before:
            said.append((sounds[done - 1] + 1, word.end()))
    return tuple(said)


def is_abbreviation(word: str) -> bool:
    """Tell whether the full stop that ends `word` belongs to it, so that it ends no sentence."""
    return word in _OPEN_STOPS or _DOTTED.fullmatch(word) is not None


def _host(url: str) -> str:
    """Return the bare host of `url`, and the punctuation after it, which belongs to the sentence."""
    address = url.rstrip(".,;:!?)]}'*_")
    host = re.split(r"[/?#:]", address.split("://")[-1].split("@")[-1], maxsplit=1)[0]
    return host.removeprefix("www.") + url[len(address) :]


def _without_blocks(text: TracedText) -> TracedText:
    """Return the lines of `text` in one, without block markup; blocks that end without punctuation get a full stop."""
    said: list[TracedText] = []
    stop_due = False  # the line before was a heading, an item or a row, or a blank line followed it
    for whole_line in text.split("\n"):
        line = whole_line.strip("> ")
        marker = _BLOCK.match(line.text)
        is_row = "|" in line.text
        if said and (stop_due or marker or is_row or not line.text) and _NEEDS_STOP.search(said[-1].text):
            said[-1] = said[-1].followed_by(".")
        if _RULE.fullmatch(line.text):
            if line.text:  # punctuation that a chunk begins with; rules and table separators go with the stray markup
                said.append(line.sub(_TABLE_RULE, ""))
            continue
        stop_due = is_row or marker is not None
        if is_row:
            cells = [cell.strip() for cell in line.split("|")]
            line = joined([cell for cell in cells if cell.text], ", ")
        elif marker:
            rest = line.part(marker.end(), len(line.text))
            line = joined([line.part(*marker.span("number")), rest], ", ") if marker["number"] else rest
        said.append(line)
    return joined(said, " ")


def _amount(match: re.Match[str]) -> str:
    """Return "$7.25" as "7 dollars and 25 cents" and "$1.5M" as "1.5 million dollars"."""
    one, many, one_cent, cents = _CURRENCIES[match["sign"]]
    whole, fraction = match["whole"], match["fraction"] or ""
    magnitude = match["word"] or _MAGNITUDES.get((match["letter"] or "").lower())
    if magnitude or len(fraction) not in (0, 2):
        return " ".join(filter(None, [f"{whole}.{fraction}".rstrip("."), magnitude, many]))
    main = f"{whole} {one if whole == '1' else many}"
    if not fraction.strip("0"):
        return main
    minor = f"{int(fraction)} {one_cent if fraction == '01' else cents}"
    return f"{main} and {minor}" if whole.strip("0") else minor


def _time(match: re.Match[str]) -> str:
    """Return "10:45" as "10 45", "10:05" as "10 oh 5", "10:00" as "10 o'clock" or, before a.m. and p.m., as "10"."""
    hours, minutes = match["hours"], match["minutes"]
    if minutes == "00":
        return hours if match["half"] is not None else f"{hours} o'clock"
    return f"{hours} {minutes}" if minutes[0] != "0" else f"{hours} oh {minutes[1]}"


def _range(match: re.Match[str]) -> str:
    """Return "5-10", "1999-2003" and "5–10" with "to"; espeak-ng says "dash" for a hyphen and nothing for a dash."""
    return f"{match[1]} to {match[2]}" if match[1] else f"{match[3]} to "


def _said(table: dict[str, str], match: re.Match[str]) -> str:
    return table[match[0]]


def _unit(match: re.Match[str]) -> str:
    words = UNITS[match["unit"]]
    head, *rest = words.split(" ")
    return " ".join([match["number"], head[:-1] if match["number"] == "1" else head, *rest])


def _any_of(words: dict[str, str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


_END = r"(?=\s+[\"“'(]?[A-Z]|[)\"”'*_]*\s*$)"  # a capital or the end of the text follows

_ENGLISH: list[_Rewrite] = [
    (
        re.compile(
            r"(?:\bUS)?(?P<sign>[$€£¥])\s?(?P<whole>\d+(?:,\d{3})*)(?:\.(?P<fraction>\d+))?(?!\d)"
            r"(?:(?:\s(?P<word>thousand|million|billion|trillion)|(?P<letter>bn|[kKmMbB]))\b)?"
        ),
        _amount,
    ),
    (
        re.compile(
            r"(?<![\d.:])(?P<hours>[01]?\d|2[0-3]):(?P<minutes>[0-5]\d)(?![\d:])(?P<half>(?=\s?[aApP]\.?[mM]\b))?"
        ),
        _time,
    ),
    (re.compile(r"(?<![\d.])(\d+(?:\.\d+){2,})(?![\d])"), lambda version: version[1].replace(".", " point ")),
    (re.compile(r"(?<![\d-])(\d{1,2}|\d{4})-(\d{1,2}|\d{4})(?![\d-])|(?<!\d)(\d+)–(?=\d)"), _range),
    (re.compile(r"(?<=\d)-(?=\d)"), " "),
    (re.compile(rf"(?P<number>\d+(?:[.,]\d+)*)\s?(?P<unit>{_any_of(UNITS)})(?![\w/])"), _unit),
    (re.compile(rf"(?<![\w.])(?:{_any_of(ABBREVIATIONS)})(?!\w)"), partial(_said, ABBREVIATIONS)),
    (
        re.compile(rf"(?<![\w.])({_any_of(CLOSING_ABBREVIATIONS)}){_END}"),
        lambda word: _said(CLOSING_ABBREVIATIONS, word) + ".",
    ),
    (re.compile(rf"(?<![\w.])(?:{_any_of(CLOSING_ABBREVIATIONS)})(?!\w)"), partial(_said, CLOSING_ABBREVIATIONS)),
    (re.compile(r"\bNo\.(?=\s?\d)"), "Number"),
    (re.compile(r"\bSt\.(?=\s+[A-Z])"), "Saint"),
    (re.compile(r"\bSt\.(?!\w)"), "Street"),
    (re.compile(r"\b(?:[A-Z]\.){2,}"), lambda initials: initials[0].replace(".", " ").rstrip()),
    (re.compile(r"\b([A-HJ-Z])\.(?=\s+[A-Z])"), GROUP),
    (re.compile(r"\s*&\s*"), " and "),
    (re.compile(r"(?<=\d)\s*[*×]\s*(?=\d)"), " times "),
    (re.compile(r"(?<=\b[CF])#"), " sharp"),
    (re.compile(r"#(?=\d)"), "number "),
    (re.compile(r"~(?=\d)"), "about "),
    (re.compile(r"(?<=[^\W\d_])/(?=[^\W\d_])"), " "),
    (re.compile(r"(?<=[A-Za-z0-9])\.(?=[a-z]{2,}\b)"), " dot "),
]
