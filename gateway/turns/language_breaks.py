"""Where a sentence ends and where a voice may pause, by language: abbreviations, ordinals, leaning words, spaced signs.

Chinese and Japanese need none of it: their signs are unambiguous.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gateway.turns.abbreviations import ABBREVIATIONS, CLOSING_ABBREVIATIONS, NUMBERED_ABBREVIATIONS
from gateway.turns.local_wording import WORDINGS, Wording

_ENGLISH_OTHERS = "St. Ave. Blvd. cf. al. Jan. Feb. Aug. Sept. Oct. Nov. Dec. dr. mr. mrs. ms. prof."
"""English abbreviations that are read right without help."""

_DOTTED = re.compile(r"(?:[^\W\d_]\.){2,}|[A-HJ-Z]\.")  # U.S., z.B., initials; not the English pronoun I
_LETTER = re.compile(r"[^\W\d_]\.")
_ORDINAL = re.compile(r"\d{1,3}\.")
_NOT_LATIN = re.compile("[\u0370-\u1cff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


@dataclass(frozen=True, slots=True)
class LanguageBreaks:
    """One language's.

    `open_stops`: words whose full stop never ends a sentence. `may_end` (lower case): only the next word tells, before
    a number for those of `before_numbers`. `leaning`: words that the voice should not be cut after, as the next one
    belongs to them. `letters`: a single letter with a stop is an abbreviation ("z. B."). `ordinals`: a number with a
    stop is one ("3. Mai"). `spaced_signs`: a blank stands before "?" and "!".
    """

    open_stops: frozenset[str] = frozenset()
    may_end: frozenset[str] = frozenset()
    before_numbers: frozenset[str] = frozenset()
    leaning: frozenset[str] = frozenset()
    letters: bool = False
    ordinals: bool = False
    spaced_signs: bool = False

    def is_abbreviation(self, word: str) -> bool:
        """Tell whether the full stop that ends `word` belongs to it, so that it ends no sentence."""
        if word in self.open_stops or _DOTTED.fullmatch(word) is not None:
            return True
        if self.letters and _LETTER.fullmatch(word) is not None:
            return True
        return self.ordinals and _ORDINAL.fullmatch(word) is not None


def _english() -> LanguageBreaks:
    before_numbers = _lower(["No.", *NUMBERED_ABBREVIATIONS])
    return LanguageBreaks(
        open_stops=frozenset([*ABBREVIATIONS, *_ENGLISH_OTHERS.split()]),
        may_end=before_numbers | _lower(CLOSING_ABBREVIATIONS),
        before_numbers=before_numbers,
        leaning=_words("a an and as at but by for from in is my of on or our so the to with your"),
    )


def _other(
    wording: Wording, leaning: str, *, letters: bool = True, ordinals: bool = False, spaced_signs: bool = False
) -> LanguageBreaks:
    """Return a language's breaks, given what is put into words.

    Of an abbreviation in several pieces the last decides whether it may end a sentence.
    """
    last = {short.split()[-1] for short in wording.closing}
    parts = {part for short in (*wording.abbreviations, *wording.closing) for part in short.split()} - last
    before_numbers = _lower(short for short in wording.numbered if short.endswith(".") and short not in parts)
    return LanguageBreaks(
        open_stops=frozenset(parts),
        may_end=before_numbers | _lower(last),
        before_numbers=before_numbers,
        leaning=_words(leaning),
        letters=letters,
        ordinals=ordinals,
        spaced_signs=spaced_signs,
    )


def _lower(words: Iterable[str]) -> frozenset[str]:
    return frozenset(word.lower() for word in words)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_BREAKS: Mapping[str, LanguageBreaks] = {
    "en": _english(),
    "de": _other(
        WORDINGS["de"],
        "der die das den dem des ein eine einen einem einer mein meine dein ihr ihre sein seine unser und oder "
        "aber von vom zu zum zur mit für in im ins an am auf aus bei beim nach bis um als wie dass wenn ob sehr "
        "nicht",
        ordinals=True,
    ),
    "es": _other(
        WORDINGS["es"],
        "el la los las un una unos unas mi tu su sus y e o u pero de del a al en con por para sin que si no se lo "
        "le me muy más es",
    ),
    "fr": _other(
        WORDINGS["fr"],
        "le la les un une des du de au aux et ou mais à en dans par pour avec sans sur mon ma mes ton ta tes son "
        "sa ses notre votre leur ce cet cette ces que qui ne je tu il elle on nous vous très plus est",
        spaced_signs=True,
    ),
    "it": _other(
        WORDINGS["it"],
        "il lo la i gli le un uno una di del dello della dei degli delle a al allo alla ai da dal dalla in nel "
        "nella con su sul sulla per tra fra e ed o ma che se non mi ti si ci vi è più molto",
    ),
    "pt": _other(
        WORDINGS["pt"],
        "o a os as um uma uns umas de do da dos das em no na nos nas ao à aos às com por pelo pela para pra sem e "
        "ou mas que se não meu minha seu sua é muito mais",
    ),
}

_WITH_ORDINALS = frozenset("cs da et fi hr hu is lv nb nn no pl sk sl sr tr".split())
"""More languages that write ordinals with a full stop (by their spelling rules)."""

_ENGLISH = _BREAKS["en"].leaning
_TITLES = frozenset("Dr. dr. Prof. prof. St.".split())
_UNLISTED = LanguageBreaks(open_stops=_TITLES)
_UNLISTED_WITH_ORDINALS = LanguageBreaks(open_stops=_TITLES, ordinals=True)


def breaks_of(language: str) -> LanguageBreaks:
    """Return the breaks of `language`, a primary subtag; of one that nobody listed what most have.

    "": unknown, which is taken for English, the embedded voice's.
    """
    if not language:
        return _BREAKS["en"]
    unlisted = _UNLISTED_WITH_ORDINALS if language in _WITH_ORDINALS else _UNLISTED
    return _BREAKS.get(language, unlisted)


def seems_english(text: str) -> bool:
    """Return whether nothing in `text`, whose language nobody knows, speaks for another: no small words, no script."""
    if _NOT_LATIN.search(text):
        return False
    words = text.lower().split()
    english = sum(word in _ENGLISH for word in words)
    others = max(sum(word in breaks.leaning for word in words) for breaks in _BREAKS.values())
    return others <= max(english, 1)
