"""Which engine works in which language. An engine that is bound to languages says so itself, by one attribute.

`languages`: the primary subtags (BCP 47) that it knows. One without the attribute, or with None, takes any language, or
nobody knows which: an endpoint's.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

NAMES = {
    "en": "English",
    "de": "German",
    "es": "Spanish",
    "fr": "French",
    "it": "Italian",
    "pt": "Portuguese",
    "ja": "Japanese",
    "zh": "Chinese",
}
"""The languages that lists, chunking and default voices are made for."""


_OTHER_NAMES = {
    **{name.lower(): code for code, name in NAMES.items()},
    **{"eng": "en", "deu": "de", "ger": "de", "spa": "es", "fra": "fr", "fre": "fr", "ita": "it", "por": "pt"},
    **{"jpn": "ja", "zho": "zh", "chi": "zh", "cmn": "zh", "mandarin": "zh"},
}
"""What clients and servers write for these languages instead of ISO 639-1: ISO 639-2 and -3, and OpenAI's transcription
endpoint an English name."""


def primary_language(tag: str | None) -> str:
    """Return the primary subtag of a BCP 47 `tag` in lower case ("pt-BR", "pt_BR": "pt"); "" for none."""
    primary = (tag or "").strip().replace("_", "-").partition("-")[0].lower()
    return _OTHER_NAMES.get(primary, primary)


def languages_of(engine: object) -> frozenset[str] | None:
    """Return the languages that `engine` is bound to, None if it is bound to none."""
    bound: Any = getattr(engine, "languages", None)
    return frozenset(bound) if isinstance(bound, Set | tuple) else None


def knows(engine: object, language: str | None) -> bool:
    """Return whether `engine` works in `language`; where nobody knows the language, it tries."""
    bound, wanted = languages_of(engine), primary_language(language)
    return bound is None or not wanted or wanted in bound


def only_language(engine: object) -> str:
    """Return the one language that `engine` knows, "" if there are several or any."""
    bound = languages_of(engine)
    return next(iter(bound)) if bound is not None and len(bound) == 1 else ""
