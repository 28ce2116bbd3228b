"""What words over the agent's voice mean: a wish to stop it, a nod, a hesitation, or something to say.

Lists by language (overlap_phrases.py): the user's own where it is known; where nobody knows it, those of the language
that knows most of the words. In a language without lists words say nothing: length and level decide.
A phrase of several words counts as one. Of two phrases that begin at the same word the longer one is meant: "no
problem" is a nod, "no" is not.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from gateway.turns.overlap_phrases import BACKCHANNELS, EVERYWHERE, HESITATIONS, STOP_PHRASES

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_UNSPACED = re.compile(r"([\u3040-\u30ff\u3400-\u9fff])")
"""Scripts that put no spaces between words (Chinese, Japanese): each character is a token."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a transcript holds. `content`: its different words that are neither stop words, nods nor hesitations.

    A word said twice counts once: a misheard nod is often a double one ("yet yet"). `readable`: there are lists of its
    language; without them there is neither content nor a stop.
    """

    stop: bool
    content: int
    empty: bool
    readable: bool = True


def tokens_in(text: str) -> list[str]:
    """Return the words of `text` in lower case, without accents and punctuation; Chinese and Japanese by character."""
    plain = unicodedata.normalize("NFKD", _UNSPACED.sub(r" \1 ", text).casefold().replace("’", "'"))
    return _WORD.findall("".join(c for c in plain if not unicodedata.combining(c)))


@dataclass(frozen=True, slots=True)
class _Lists:
    """The phrases of one language. `known`: the stop phrases, and all that is no content."""

    stop: frozenset[tuple[str, ...]]
    known: frozenset[tuple[str, ...]]
    longest: int

    def size_at(self, tokens: Sequence[str], at: int) -> int:
        """Return how many tokens the longest phrase has that begins at `at`, 0 for none."""
        rest = len(tokens) - at
        sizes = range(min(self.longest, rest), 0, -1)
        return next((size for size in sizes if tuple(tokens[at : at + size]) in self.known), 0)


def knows_words_of(language: str) -> bool:
    """Return whether there are lists of `language` (a primary subtag)."""
    return language in STOP_PHRASES


@cache
def _lists_of(language: str) -> _Lists:
    stop = _phrases(EVERYWHERE["stop"], STOP_PHRASES[language])
    known = stop | _phrases(EVERYWHERE["nod"], EVERYWHERE["hesitation"], BACKCHANNELS[language], HESITATIONS[language])
    return _Lists(stop, known, max(map(len, known)))


def _phrases(*lists: str) -> frozenset[tuple[str, ...]]:
    return frozenset(tuple(tokens_in(phrase)) for some in lists for phrase in some.split(","))


def read_words(text: str, language: str = "") -> Reading:
    """Return what the words of `text`, a recogniser's look at an overlap, come to in `language` ("": unknown)."""
    tokens = tokens_in(text)
    if language and not knows_words_of(language):
        return Reading(stop=False, content=0, empty=not tokens, readable=False)
    readings = [_read(tokens, _lists_of(one)) for one in ((language,) if language else STOP_PHRASES)]
    return min(readings, key=lambda found: (found[0].content, found[1], not found[0].stop))[0]


def _read(tokens: Sequence[str], lists: _Lists) -> tuple[Reading, int]:
    """Return what the tokens come to, and of how many phrases they are: the fewer, the better they are known."""
    stop, other, at, count = False, set[str](), 0, 0
    while at < len(tokens):
        size = lists.size_at(tokens, at)
        if size:
            stop = stop or tuple(tokens[at : at + size]) in lists.stop
        else:
            other.add(tokens[at])
        at += size or 1
        count += 1
    return Reading(stop, int(sum(map(_weight, other)) + 0.5), not tokens), count


def _weight(token: str) -> float:
    """Return how many words a token counts for: a lone letter is a piece of one, a Chinese character half of one."""
    if _UNSPACED.fullmatch(token):
        return 0.5
    return 0.0 if len(token) == 1 and token.isalpha() else 1.0


def repeats(text: str, agent_text: str) -> bool:
    """Return whether the words of `text`, two or more, stand in a row in `agent_text`.

    Of three and more in a row the ones before and behind may differ: a look cuts words at its edges.
    """
    words, said = tokens_in(text), tokens_in(agent_text)
    inner = [some for some in (words[1:], words[:-1], words[1:-1]) if len(some) >= 3]
    return (len(words) >= 2 and _in_a_row(words, said)) or any(_in_a_row(some, said) for some in inner)


def _in_a_row(words: Sequence[str], said: Sequence[str]) -> bool:
    return any(said[at : at + len(words)] == words for at in range(len(said) - len(words) + 1))
