"""The lexical judge for languages that are written without blanks: Japanese, Chinese."""

from __future__ import annotations

import re

from models.engines.lexical_cues import Cue
from models.engines.lexical_words.table import UnspacedTable
from models.engines.spoken_digits import Run, whole_number

LONGEST_WAIT = 30
"""Characters of a request for time with its explanation (chosen: some ten words)."""

_TAIL = 40
"""Characters at the end that tell all there is to tell (chosen: no pattern is longer)."""

_NO_DIGIT = re.compile(r"[のー-]")
_SHORTEST_NUMBER = 3


def unspaced_cue(said: str, question: str, table: UnspacedTable) -> Cue:
    """Return the first cue that fits `said`, which has at least one character, in answer to `question`."""
    tail = said[-_TAIL:]
    if (len(said) <= LONGEST_WAIT and table.waits.search(said)) or _ends_in(table.waits, tail):
        return Cue.WAIT
    if table.whole_answers.match(said):
        return Cue.SHORT_ANSWER
    if table.corrections.search(tail):
        return Cue.CORRECTION
    if table.fillers.search(tail):
        return Cue.FILLER
    if (number := _number(said, question, table)) is not None:
        return number
    for ending, cue in (
        (table.soft_ends, Cue.SOFT_END),
        (table.open_ends, Cue.OPEN_WORD),
        (table.ends, Cue.CLOSING),
        (table.half_open_ends, Cue.HALF_OPEN_WORD),
    ):
        if ending.search(tail):
            return cue
    return Cue.PLAIN


def _ends_in(pattern: re.Pattern[str], tail: str) -> bool:
    return any(found.end() == len(tail) for found in pattern.finditer(tail))


def _number(said: str, question: str, table: UnspacedTable) -> Cue | None:
    """Return whether the digits that `said` ends in make a whole number, None if they are none given one by one."""
    found = table.digits.search(said)
    if found is None:
        return None
    digits = len(_NO_DIGIT.sub("", found[0].replace("ゼロ", "0").replace("まる", "0")))
    if digits < _SHORTEST_NUMBER:
        return None
    whole = whole_number(Run(digits, 0, digits), said, question, table.lengths)
    return None if whole is None else Cue.NUMBER_WHOLE if whole else Cue.NUMBER_OPEN
