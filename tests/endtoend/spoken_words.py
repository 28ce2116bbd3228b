"""Word error rates, by one normaliser for both sides.

The normaliser is `normal_words`: lower case, numbers as words, `mr` and the like spelled out, hyphens as spaces, all
other punctuation dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import jiwer

_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
_TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()
_SPELLED = {"mr": "mister", "dr": "doctor", "mrs": "missus", "metres": "meters", "ok": "okay"}


def normal_words(text: str) -> str:
    """Return the words of `text` in the form in which they are compared."""
    text = re.sub(r"(\d),(\d{3})", r"\1\2", text.lower().replace("’", "'"))
    text = re.sub(r"[-–—/]", " ", text)
    text = re.sub(r"\d+", lambda match: f" {number_words(int(match[0]))} ", text)
    found = re.sub(r"[^\w\s']", " ", text).replace("'", "").split()
    return " ".join(_SPELLED.get(word, word) for word in found)


def number_words(number: int) -> str:
    """Return a number below a million in words; larger ones digit by digit."""
    if number < 20:
        return _ONES[number]
    if number < 100:
        return _TENS[number // 10] + (f" {_ONES[number % 10]}" if number % 10 else "")
    if number < 1_000:
        return f"{_ONES[number // 100]} hundred" + (f" {number_words(number % 100)}" if number % 100 else "")
    if number < 1_000_000:
        rest = f" {number_words(number % 1000)}" if number % 1_000 else ""
        return f"{number_words(number // 1000)} thousand{rest}"
    return " ".join(_ONES[int(digit)] for digit in str(number))


def digits(text: str) -> str:
    """Return the digits that `text` says, as figures or as words, in order."""
    found = []
    for word in normal_words(text).split():
        if word in _ONES[:10]:
            found.append(str(_ONES.index(word)))
        elif word in _ONES:
            found.append(str(_ONES.index(word)))
        elif word in ("oh", "o"):
            found.append("0")
        elif word in _TENS:
            found.append(str(_TENS.index(word)))
    return "".join(found)


def word_error_rate(pairs: Iterable[tuple[str, str]]) -> float:
    """Return the pooled word error rate of (reference, heard) pairs."""
    kept = [(normal_words(reference), normal_words(heard)) for reference, heard in pairs]
    return float(jiwer.wer([reference for reference, _ in kept], [heard for _, heard in kept]))
