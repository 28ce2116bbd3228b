"""Whether a language writes spaces between its words: what stands between two pieces of a transcript."""

from __future__ import annotations

_WITHOUT_SPACES = frozenset({"zh", "ja", "yue", "th", "lo", "my", "km"})
"""Languages that are written without spaces between words (Unicode Standard Annex 29, "Word boundaries")."""


def word_space(language: str) -> str:
    """Return what stands between two pieces of a text in `language`."""
    return "" if language in _WITHOUT_SPACES else " "
