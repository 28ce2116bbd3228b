"""Which of the languages that clients name a recogniser understands, and what it calls them."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from models.languages import primary_language

logger = logging.getLogger(__name__)

_OTHER_NAMES = {
    "nb": "no",
    "iw": "he",
    "in": "id",
    "jv": "jw",
    "fil": "tl",
}
"""Codes that clients send for what models call otherwise (Whisper's table of languages; the older ISO 639 codes)."""

_REMEMBERED = 32
"""Languages not known that are told of once each; what clients send is bounded nowhere else."""


class SpokenLanguages:
    """Languages of one recogniser. `known` None: nobody knows which, so that every name is passed on."""

    def __init__(self, engine: str, known: Iterable[str] | None, *, own: str = "") -> None:
        """`own`: the language that holds where the client names none, "": detected.

        One log line tells if the engine doesn't know it, and of each language that a client names in vain.
        """
        self.known = None if known is None else frozenset(known)
        self._engine = engine
        self._told: set[str] = set()
        self._own = ""
        self._own = self.chosen(own)

    def chosen(self, asked: str | None) -> str:
        """Return the engine's code for the language that a client `asked` for, "" where it is to find out itself."""
        code = primary_language(asked)
        if not code:
            return self._own
        if self.known is None or code in self.known:
            return code
        other = _OTHER_NAMES.get(code, "")
        if other in self.known:
            return other
        self._tell(code)
        return self._own

    def _tell(self, code: str) -> None:
        if code in self._told or len(self._told) >= _REMEMBERED:
            return
        self._told.add(code)
        only = sorted(self.known or ())
        instead = f"it knows {', '.join(only[:8])} only" if len(only) <= 8 else f"it knows {len(only)} others"
        logger.warning(
            "the speech recogniser %s doesn't know the language %r: %s; choose another with --asr",
            self._engine,
            code[:16],
            instead,
        )
