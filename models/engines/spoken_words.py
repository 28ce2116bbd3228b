"""The words of a transcript without what recognisers add of their own: capitals, and a full stop after everything."""

from __future__ import annotations

import re

LONGEST_TAIL = 400
"""Characters of a text that judges look at, from its end: a minute of speech is longer, its end is what counts
(chosen)."""

_WORD = re.compile(r"[^\W_]+(?:['.@&-][^\W_]+)*'?")
_APOSTROPHES = str.maketrans("’‘ʼ`", "''''")


def plain_words(text: str) -> list[str]:
    """Return the words at the end of `text` in lower case, without the punctuation between them."""
    tail = text[-LONGEST_TAIL:]
    if len(text) > LONGEST_TAIL:
        tail = tail.partition(" ")[2] or tail  # begins with a whole word
    return _WORD.findall(tail.translate(_APOSTROPHES).lower())
