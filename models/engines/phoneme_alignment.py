"""Where each word ends in the phonemes of its clause: numbers become several words, and small words grow together."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

_STRESS = str.maketrans("", "", "ˈˌː")


def ends_of_words(clause: str, words: Sequence[str]) -> list[int]:
    """Return where in `clause` each word ends: its phonemes as they are in context, `words` as they are alone.

    Both are groups of symbols with single spaces between them. The ends never run backwards, the last one is the
    clause's. Groups that sound alike are paired; between the pairs groups correspond one to one where they are as
    many, else by their lengths. A word without a sound ends with the one before it.
    """
    groups = clause.split(" ")
    alone = [(group, index) for index, word in enumerate(words) for group in word.split()]
    ends = [0] * len(words)
    group_ends: list[int] = []
    for group in groups:
        group_ends.append((group_ends[-1] + 1 if group_ends else 0) + len(group))
    for start, end, other_start, other_end in _stretches([group for group, _ in alone], groups):
        places = _places([group for group, _ in alone[start:end]], groups[other_start:other_end])
        base = group_ends[other_start - 1] + 1 if other_start else 0
        for (_, index), place in zip(alone[start:end], places, strict=True):
            ends[index] = base + place
    for index in range(1, len(ends)):
        ends[index] = max(ends[index], ends[index - 1])
    if ends:
        ends[-1] = len(clause)
    return ends


def _stretches(alone: list[str], groups: list[str]) -> list[tuple[int, int, int, int]]:
    """Return the stretches [a, b) of `alone` and [c, d) of `groups` that correspond, in order."""
    plain, other_plain = ([group.translate(_STRESS) for group in side] for side in (alone, groups))
    matcher = SequenceMatcher(None, plain, other_plain, autojunk=False)
    stretches, at, other_at = [], 0, 0
    for start, other_start, size in matcher.get_matching_blocks():
        stretches.append((at, start, other_at, other_start))
        stretches += [(start + k, start + k + 1, other_start + k, other_start + k + 1) for k in range(size)]
        at, other_at = start + size, other_start + size
    return stretches


def _places(alone: list[str], groups: list[str]) -> list[int]:
    """Return where in `groups`, joined by spaces, each group of `alone` ends."""
    text = " ".join(groups)
    if len(alone) == len(groups):
        places, at = [], -1
        for group in groups:
            at += 1 + len(group)
            places.append(at)
        return places
    total = sum(len(group.translate(_STRESS)) for group in alone) or 1
    places, said = [], 0
    for group in alone:
        said += len(group.translate(_STRESS))
        places.append(_after_symbols(text, -(-said * _symbols(text) // total)))
    return places


def _symbols(text: str) -> int:
    return sum(symbol not in "ˈˌː " for symbol in text)


def _after_symbols(text: str, count: int) -> int:
    """Return where in `text` its first `count` symbols end, with the length mark of the last."""
    for at, symbol in enumerate(text):
        if symbol in "ˈˌː ":
            continue
        if count == 0:
            return len(text[:at].rstrip("ˈˌ "))
        count -= 1
    return len(text)
