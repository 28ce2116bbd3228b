"""Rewrites a language model's markdown into what a voice should say.

Two layers: markup, links and emoji are taken out in every language; formulas, numbers and abbreviations are put into
English words only when the language is English, abbreviations and some signs into those of five other languages
(local_wording.py). Plain numbers stay digits: the phonemiser speaks them.
The rewrites follow what espeak-ng 1.52 made of the raw text (tried by hand): "$7.25" became "dollar seven point two
five", "and/or" "and slash or", "→" "right arrow", "2.1.0" ran its middle together, "main.py" lost its "dot".
"""

from __future__ import annotations

import html
import re

from gateway.turns.english_wording import in_english
from gateway.turns.language_breaks import seems_english
from gateway.turns.local_wording import in_words
from gateway.turns.spoken_languages import primary_language
from gateway.turns.traced_text import GROUP, Rewrite, TracedText, joined

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

_INLINE: list[Rewrite] = [
    (re.compile(r"<((?:https?://|mailto:)[^<>\s]+)>"), GROUP),
    (re.compile(r"</?[A-Za-z][^<>]*>|<!--.*?-->", re.DOTALL), " "),
    (re.compile(r"&#?\w{2,8};"), lambda entity: html.unescape(entity[0]).replace("\u00a0", " ")),
    (re.compile(r"\\[()\[\]]"), ""),  # brackets of LaTeX, or escaped ones
    (re.compile(r"\[\^[^\[\]\s]+\]:?|(?<=[.,;:!?)\"”])\s?(?:\[\d{1,3}\])+|(?<=[a-z])(?:\[[1-9]\d?\])+"), ""),  # notes
    (re.compile(r"(?<!\S)(?:[:;=8][-^']?[()DPpOo3|*]+|<3)(?![^\s.,!?])"), ""),  # faces
    (re.compile(r"(?<![\w=])==(?=\S)([^=\n]+)(?<=\S)==(?![\w=])"), GROUP),
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

_STRAY: list[Rewrite] = [
    (re.compile(r"(?<=\w)\[(?=\w)"), " "),
    (re.compile(r"(?<![^\W_])_+|_+(?![^\W_])|[*`~#\[\]\\{}^]+"), ""),
    (re.compile(r"_+"), " "),
    (re.compile(r"\s{2,}|[^\S ]"), " "),
    (re.compile(r" +(?=[,.!?;:](?:\s|$))"), ""),
]


def spoken_text(raw: str, language: str = "en") -> str:
    """Return what is said for `raw`; empty or without a letter or digit if there is nothing to say.

    `language` is a BCP 47 tag, of which only the primary part counts; "" where nobody knows it. Fenced code is left
    out, an unclosed fence to the end.
    """
    return traced_spoken_text(raw, language).text


def traced_spoken_text(raw: str, language: str = "en") -> TracedText:
    """Return `spoken_text` with the place in `raw` that each of its characters comes from."""
    text = _without_blocks(TracedText.of(raw).sub(_FENCE, "\n").sub_all(_INLINE))
    primary = primary_language(language)
    if primary == "en" or (not primary and seems_english(raw)):
        text = in_english(text)
    else:
        text = in_words(text, primary)
    return text.sub_all(_STRAY).strip()


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
