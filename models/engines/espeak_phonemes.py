"""English text to IPA phonemes by espeak-ng, for the voices that speak phonemes (Piper, Kokoro)."""

from __future__ import annotations

import threading
from typing import Any

_LOCK = threading.Lock()
"""espeak-ng keeps its state for the whole process: calls side by side mix the words of different sessions."""

_backends: dict[str, Any] = {}


def phonemize(text: str, *, language: str = "en-us") -> str:
    """Return the phonemes of `text` with stress marks, spaces between words and the punctuation kept.

    Any thread may call it; calls take turns. About 1 ms a sentence.
    """
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
    # "remove-flags": foreign words would otherwise bring "(fr)…(en)" into the phonemes, which voices read aloud.
    return EspeakBackend(language, preserve_punctuation=True, with_stress=True, language_switch="remove-flags")
