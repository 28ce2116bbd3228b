"""Text to the phonemes that Kokoro was trained on: those of the library misaki, which it was trained with.

For the languages of espeak-ng this is misaki's own way from espeak-ng's symbols to its alphabet (misaki 0.9.4,
espeak.py: one letter for each diphthong and affricate, no length marks in American English). Japanese and Chinese are
misaki's own work, an extra each; Latin words in them are read as English.
"""

from __future__ import annotations

import importlib.util
import logging
import re
import threading
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from models.engines.espeak_phonemes import TIE, Phonemes, phonemize

_ESPEAK = {"a": "en-us", "b": "en-gb", "d": "de", "e": "es", "f": "fr-fr", "h": "hi", "i": "it", "p": "pt-br"}
"""Kokoro's letter of a language → espeak-ng's name of it."""

_EXTRAS = {"j": ("japanese", "misaki fugashi jaconv mojimoji"), "z": ("chinese", "misaki jieba pypinyin cn2an")}
"""Letter → our extra for it and the modules that it brings."""

_DOUBLE = {"a͡ɪ": "I", "a͡ʊ": "W", "d͡ʒ": "ʤ", "e͡ɪ": "A", "t͡ʃ": "ʧ", "ɔ͡ɪ": "Y"}

_ENGLISH = {
    **_DOUBLE,
    "ʔˌn\u0329": "tn",
    "ʔn\u0329": "tn",
    "e": "A",
    "ə͡l": "ᵊl",
    "ʲo": "jɔ",
    "ʲə": "jə",
    "ʲ": "",
    "ɚ": "əɹ",
    "r": "ɹ",
    "x": "k",
    "ç": "k",
    "ɐ": "ə",
    "ɬ": "l",
    "\u0303": "",
    "o": "ɔ",
    "ɾ": "T",
    "ʔ": "t",
}

_SPELLINGS = {
    "a": {**_ENGLISH, "o͡ʊ": "O", "ɜːɹ": "ɜɹ", "ɜː": "ɜɹ", "ɪə": "iə", "ː": ""},
    "b": {**_ENGLISH, "e͡ə": "ɛː", "iə": "ɪə", "ə͡ʊ": "Q"},
}
_OTHERS = {**_DOUBLE, "ʏ": "y", "d͡z": "ʣ", "o͡ʊ": "O", "ə͡ʊ": "Q", "s͡s": "S", "t͡s": "ʦ"}

_ALONE = {"a͡ɪ": "ˌI", "ɐ": "ɐ", "ɐn": "ɐn", "æn": "ɐn"}
"""English words that misaki spells in its own way where they stand for themselves: I, a, an (its en.py)."""

_SYLLABIC_MARK = "\u0329"
"""Below a consonant that is a syllable of its own. English spells it out; elsewhere it is left away, being unknown."""

_LATIN = re.compile(r"[A-Za-z][A-Za-z0-9'’. -]*[A-Za-z0-9]|[A-Za-z]")

_LOCK = threading.Lock()
"""Neither fugashi's tagger nor jieba's dictionary promises to serve several threads."""

_readers: dict[str, Callable[[str], str]] = {}


def missing_extra(letter: str) -> str:
    """Return the name of our extra that must be installed to read a language aloud, "" for none."""
    extra, modules = _EXTRAS.get(letter, ("", ""))
    return extra if any(importlib.util.find_spec(module) is None for module in modules.split()) else ""


def kokoro_phonemes(text: str, letter: str) -> Phonemes:
    """Return the phonemes of `text`, read as the language of Kokoro's `letter`, with the ends of its words.

    Japanese and Chinese come without words, as their phonemes don't tell which sign they are of. Any thread may call
    it. Raises ImportError if the language's extra is missing.
    """
    if letter in _ESPEAK:
        return _respelled(phonemize(text, language=_ESPEAK[letter], tied=True), letter)
    with _LOCK:
        if letter not in _readers:
            _readers[letter] = {"j": _japanese_reader, "z": _chinese_reader}[letter]()
        symbols, at = "", 0
        for latin in _LATIN.finditer(text):
            symbols += f"{_read(letter, text[at : latin.start()])} {kokoro_phonemes(latin[0], 'a').symbols} "
            at = latin.end()
        symbols += _read(letter, text[at:])
    return Phonemes(re.sub(r"\s+([,.!?;:])|\s+", lambda space: space[1] or " ", symbols).strip(), ())


def _read(letter: str, text: str) -> str:
    return _readers[letter](text) if text.strip() else ""


def _respelled(found: Phonemes, letter: str) -> Phonemes:
    """Return `found` in misaki's alphabet; the words end where they did."""
    spellings = _SPELLINGS.get(letter, _OTHERS)
    symbols, ends, at = "", [0], 0

    def copy(end: int) -> None:
        nonlocal symbols, at
        for symbol in found.symbols[at:end]:
            symbols += "" if symbol in (TIE, "-") else symbol
            ends.append(len(symbols))
        at = end

    for match in _pattern(letter).finditer(found.symbols):
        copy(match.start())
        match match.lastgroup:
            case "alone":
                symbols += _ALONE[match[0]]
            case "syllabic":
                symbols += f"ᵊ{spellings.get(match[0][0], match[0][0])}"
            case _:
                symbols += spellings[match[0]]
        ends += [len(symbols)] * (match.end() - at)
        at = match.end()
    copy(len(found.symbols))
    return Phonemes(symbols, tuple((text_end, ends[end]) for text_end, end in found.words))


@cache
def _pattern(letter: str) -> re.Pattern[str]:
    """Return what is spelled otherwise in a language, the longest first."""
    spelled = [re.escape(symbols) for symbols in sorted(_SPELLINGS.get(letter, _OTHERS), key=len, reverse=True)]
    if letter not in _SPELLINGS:
        return re.compile("|".join(spelled))
    alone = f"(?P<alone>(?<![^ ])(?:{'|'.join(_ALONE)})(?![^ ,.;:!?]))"
    with_mark = [symbols for symbols in spelled if symbols.endswith(_SYLLABIC_MARK)]
    syllabic = rf"(?P<syllabic>[^ {_SYLLABIC_MARK}]{_SYLLABIC_MARK})"
    return re.compile("|".join([alone, *with_mark, syllabic, *(each for each in spelled if each not in with_mark)]))


def _japanese_reader() -> Callable[[str], str]:
    from misaki.cutlet import Cutlet  # not misaki.ja, which wants pyopenjtalk as well

    return partial(_first, Cutlet())


def _chinese_reader() -> Callable[[str], str]:
    import jieba

    jieba.setLogLevel(logging.WARNING)  # it tells stderr of each start
    from misaki.zh import ZHG2P

    reader = ZHG2P()
    reader("你好")  # reads the dictionary
    return partial(_first, reader)


def _first(reader: Any, text: str) -> str:
    phonemes: str = reader(text)[0]
    return phonemes
