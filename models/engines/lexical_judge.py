"""The lexical judge: has the user finished, by the last words alone? The floor under the other judges, in microseconds.

Each utterance falls under one `Cue`, the first that fits; each cue has a probability, counted on English data.
"""

from __future__ import annotations

import re

from models.engines.guessed_language import guessed_language
from models.engines.lexical_cues import PROBABILITY, Cue
from models.engines.lexical_english import CLOSING, NO_CORRECTION, asks_after_all, english_cue
from models.engines.lexical_tables import TABLES
from models.engines.lexical_unspaced import unspaced_cue
from models.engines.lexical_words.english import ENGLISH
from models.engines.lexical_words.table import LanguageTable, UnspacedTable
from models.engines.spoken_digits import trailing_run, whole_number
from models.engines.spoken_words import plain_words
from models.interfaces import Judgement, Utterance
from models.languages import primary_language

NAME = "lexical"

LONGEST_WAIT_WORDS = 12
"""A request for time with its explanation ("hang on, I'm getting my card from the other room") isn't longer
(chosen)."""

_MEASURES = frozenset("in for about takes take only than at every per by within after to don't can't not".split())
"""Words before "one minute" that make it a length of time, and before "wait" an ordinary verb."""


class LexicalJudge:
    """EndOfTurnJudge that reads the last words. Knows English well and seven languages less; of others it says None.

    Where nobody knows the language it is guessed from the words.
    """

    name = NAME
    listens = False
    languages = frozenset(TABLES)

    async def judge(self, utterance: Utterance) -> Judgement:
        """Return the judgement; never raises. Takes well under a millisecond, so it runs on the event loop."""
        language = primary_language(utterance.language) or guessed_language(plain_words(utterance.text))
        table = TABLES.get(language)
        if table is None:
            return Judgement(None)
        cue = find_cue(utterance.text, utterance.agent_text, table)
        return Judgement(None if cue is None else PROBABILITY[cue], wait=cue is Cue.WAIT)


def find_cue(text: str, agent_text: str = "", table: LanguageTable | UnspacedTable = ENGLISH) -> Cue | None:
    """Return the first cue that fits `text`, None where there are no words.

    `agent_text`: the question that it may answer.
    """
    words = plain_words(text)
    if not words:
        return None
    question = " ".join(plain_words(agent_text))
    if isinstance(table, UnspacedTable):
        return unspaced_cue("".join(words), question, table)
    return _spaced_cue(words, question, table)


def _spaced_cue(words: list[str], question: str, table: LanguageTable) -> Cue:
    said = " ".join(words)
    last = words[-1]
    english = table is ENGLISH
    if _asks_for_time(words, table):
        return Cue.WAIT
    if len(words) > 1 and _ends_in(table.corrections, said):
        if not (NO_CORRECTION if english else table.no_corrections).search(said):
            return Cue.CORRECTION
        return Cue.SHORT_ANSWER
    if last in table.fillers:
        return Cue.FILLER
    run = trailing_run(table.pairs.sub("00", said).split(), table.digits)
    if (whole := whole_number(run, said, question, table.lengths)) is not None:
        return Cue.NUMBER_WHOLE if whole else Cue.NUMBER_OPEN
    if run.letters > 1:
        return Cue.SPELLING
    if (cue := english_cue(words, said, question) if english else _phrase_cue(said, table)) is not None:
        return cue
    if last in table.open_words:
        return Cue.OPEN_WORD
    if last in table.half_open_words:
        return Cue.HALF_OPEN_WORD
    if len(words) == 1:
        return Cue.ONE_WORD
    return Cue.CLOSING if english and CLOSING.search(said) else Cue.PLAIN


def _phrase_cue(said: str, table: LanguageTable) -> Cue | None:
    """Return the cue of what a language's table knows beyond the last word; None: that decides."""
    if table.whole_answers.match(said):
        return Cue.SHORT_ANSWER
    if table.open_ends.search(said):
        return Cue.OPEN_WORD
    if table.prefaces.match(said):
        return Cue.PREFACE
    if table.stranded.search(said):
        return Cue.STRANDED
    return Cue.CLOSING if table.closings.search(said) else None


def _asks_for_time(words: list[str], table: LanguageTable) -> bool:
    """Say whether a request for time is the utterance, or its end ("put me down for, hmm, wait a second")."""
    start = 0
    while start < len(words) - 1 and words[start] in table.lead_ins and not table.waits.match(" ".join(words[start:])):
        start += 1
    rest = words[start:]
    said = " ".join(rest)
    asked = table.waits.match(said)
    if asked is not None and table is ENGLISH and asks_after_all(said[asked.end() :].strip()):
        return False  # "hold on a second": they are back, and ask
    if asked is not None and len(rest) <= LONGEST_WAIT_WORDS:
        return rest[-1] not in table.open_words or len(rest) < 2
    return any(
        (found := table.waits.match(" ".join(words[at:]))) is not None and found.end() == len(" ".join(words[at:]))
        for at in range(max(1, len(words) - 6), len(words) - 1)
        if words[at - 1] not in _MEASURES
    )


def _ends_in(phrases: re.Pattern[str], said: str) -> bool:
    starts = [0, *(found.end() for found in re.finditer(" ", said))]
    return any(phrases.fullmatch(said, at) for at in starts[-5:] if at > 0)
