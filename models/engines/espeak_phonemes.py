"""Text to IPA phonemes by espeak-ng, for the voices that speak phonemes (Piper, Kokoro)."""

from __future__ import annotations

import logging
import re
import threading
import unicodedata
from dataclasses import dataclass
from typing import Any

from models.engines.phoneme_alignment import ends_of_words
from models.interfaces import EngineError

_LOCK = threading.Lock()
"""espeak-ng keeps its state for the whole process: calls side by side mix the words of different sessions."""

_backends: dict[tuple[str, bool], Any] = {}

TIE = "\u0361"
"""What stands between the two halves of a diphthong or an affricate, where it is asked for."""

_MARKS = re.compile(r'(?:\s|[;!?¡¿—…"«»“”(){}\[\]।॥]|[.,:](?!\d)|–(?!\d))+')
"""White space and punctuation, which espeak-ng would drop. A stop, comma or colon before a digit is a number's own."""

_WORD = re.compile(r"\S+")

_PAUSES = {
    "?": "?",
    "!": "!",
    ".": ".",
    "।": ".",
    "॥": ".",
    ";": ";",
    "—": ";",
    "–": ";",
    "…": ";",
    ":": ":",
    ",": ",",
    "(": ",",
    ")": ",",
}
"""What is spoken for punctuation, the strongest first. On the right is all that Piper's voices were trained on:
espeak-ng, which read for them, makes a semicolon of dashes and ellipses. A bracket is a comma (chosen)."""


@dataclass(frozen=True, slots=True)
class Phonemes:
    """How a text is pronounced: stress marks, spaces between words, and the punctuation that voices know.

    `words`: (end in the text, end in `symbols`) of each word with a sound, in order. A word is what white space
    separates, less the punctuation around it. Where espeak-ng drew words together ("of the") the place between them is
    an estimate.
    """

    symbols: str
    words: tuple[tuple[int, int], ...]


def phonemize(text: str, *, language: str = "en-us", tied: bool = False) -> Phonemes:
    """Return the phonemes of `text`, which is in espeak-ng's `language`; if `tied`, with TIE in double sounds.

    Any thread may call it; calls take turns. About 1 ms a sentence.
    """
    with _LOCK:
        key = language, tied
        if key not in _backends:
            _backends[key] = _open_backend(language, tied)
        return _Reader(_backends[key]).read(text)


class _Reader:
    """Reads one text, clause by clause."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self._symbols = ""
        self._words: list[tuple[int, int]] = []

    def read(self, text: str) -> Phonemes:
        start = 0
        for mark in _MARKS.finditer(text):
            if not mark[0].isspace():
                self._clause(text, start, mark.start())
                self._pause(mark[0])
                start = mark.end()
        self._clause(text, start, len(text))
        return Phonemes(self._symbols.rstrip(), tuple(self._words))

    def _clause(self, text: str, start: int, end: int) -> None:
        words = list(_WORD.finditer(text, start, end))
        whole = self._pronounced([text[start:end]])[0]
        if not whole:
            return
        said = base = len(self._symbols)
        alone = self._pronounced([word[0] for word in words])
        for word, at in zip(words, ends_of_words(whole, alone), strict=True):
            if base + at > said:
                said = base + at
                self._words.append((word.end(), said))
        self._symbols += whole

    def _pause(self, marks: str) -> None:
        if not self._symbols:
            return
        sign = next((sign for mark, sign in _PAUSES.items() if mark in marks), "")
        self._symbols = self._symbols.rstrip(" ")
        if sign and not self._symbols.endswith(tuple(_PAUSES.values())):
            self._symbols += sign
        self._symbols += " "

    def _pronounced(self, texts: list[str]) -> list[str]:
        texts = [without_symbols(text) for text in texts]
        phonemes: list[str] = self._backend.phonemize([text or " " for text in texts], strip=True)
        return [" ".join(found.split()) for found in phonemes]


def _open_backend(language: str, tied: bool) -> Any:
    import espeakng_loader
    from phonemizer.backend import EspeakBackend
    from phonemizer.backend.espeak.wrapper import EspeakWrapper

    EspeakWrapper.set_library(espeakng_loader.get_library_path())
    EspeakWrapper.set_data_path(espeakng_loader.get_data_path())
    quiet = logging.getLogger(f"{__name__}.espeak")
    quiet.setLevel(logging.ERROR)  # it warns of each text in which a number is several words
    # The punctuation is ours: the phonemizer's cuts "It is 6.28." at both of its stops ("six. twenty eight").
    # "remove-flags": foreign words would otherwise bring "(fr)…(en)" into the phonemes, which voices read aloud.
    try:
        return EspeakBackend(
            language,
            punctuation_marks=re.compile(r"(?!)"),
            with_stress=True,
            tie=tied,
            language_switch="remove-flags",
            logger=quiet,
        )
    except OSError as error:  # the phonemizer loads the library from a copy of it in the temporary folder
        raise EngineError(
            "tts_failed",
            "espeak-ng, which knows how words sound, cannot be loaded from the temporary folder: set TMPDIR to one "
            "that can be written and is not mounted noexec (in a container: --tmpfs /tmp:exec).",
        ) from error


def without_symbols(text: str) -> str:
    """Return `text` without emoji and the like, which espeak-ng would read out by name ("party popper")."""
    return "".join(character for character in text if not _is_symbol(character))


def _is_symbol(character: str) -> bool:
    if character in "°\u200d\ufe0f":
        return character != "°"  # joiners and variation selectors belong to emoji
    return unicodedata.category(character) in ("So", "Cs", "Co", "Cn") or "\U0001f3fb" <= character <= "\U0001f3ff"
