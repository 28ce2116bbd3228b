"""English text to IPA phonemes by espeak-ng, for the voices that speak phonemes (Piper, Kokoro)."""

from __future__ import annotations

import logging
import threading
import unicodedata
from typing import Any

_LOCK = threading.Lock()
"""espeak-ng keeps its state for the whole process: calls side by side mix the words of different sessions."""

_backends: dict[str, Any] = {}


def phonemize(text: str, *, language: str = "en-us") -> str:
    """Return the phonemes of `text` with stress marks, spaces between words and the punctuation kept.

    Any thread may call it; calls take turns. About 1 ms a sentence.
    """
    text = without_symbols(text)
    with _LOCK:
        if language not in _backends:
            _backends[language] = _open_backend(language)
        phonemes: list[str] = _backends[language].phonemize([text], strip=True)
    return " ".join(phonemes)


def _open_backend(language: str) -> Any:
    import espeakng_loader
    from phonemizer.backend import EspeakBackend
    from phonemizer.backend.espeak.wrapper import EspeakWrapper

    EspeakWrapper.set_library(espeakng_loader.get_library_path())
    EspeakWrapper.set_data_path(espeakng_loader.get_data_path())
    quiet = logging.getLogger(f"{__name__}.espeak")
    quiet.setLevel(logging.ERROR)  # it warns of each text in which a number is several words
    # "remove-flags": foreign words would otherwise bring "(fr)…(en)" into the phonemes, which voices read aloud.
    return EspeakBackend(
        language, preserve_punctuation=True, with_stress=True, language_switch="remove-flags", logger=quiet
    )


def without_symbols(text: str) -> str:
    """Return `text` without emoji and the like, which espeak-ng would read out by name ("party popper")."""
    return "".join(character for character in text if not _is_symbol(character))


def _is_symbol(character: str) -> bool:
    if character in "°\u200d\ufe0f":
        return character != "°"  # joiners and variation selectors belong to emoji
    return unicodedata.category(character) in ("So", "Cs", "Co", "Cn") or "\U0001f3fb" <= character <= "\U0001f3ff"
