"""What a cascade can't do in a language, and what holds instead. Engines say themselves which ones they know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gateway.turns.overlap_words import knows_words_of
from models.interfaces import Engines
from models.languages import NAMES, knows, primary_language


@dataclass(frozen=True, slots=True)
class LanguageLimits:
    """What falls back where the user speaks `user` and the agent `reply` (primary subtags, "" unknown).

    `silent_judges`: end-of-turn judges without an opinion. `words`: words over the agent's voice can be read.
    `recogniser`, `voice`: it knows the language.
    """

    user: str
    reply: str
    silent_judges: tuple[str, ...] = ()
    words: bool = True
    recogniser: bool = True
    voice: bool = True

    def __bool__(self) -> bool:
        """Say whether anything falls back."""
        return bool(self.silent_judges) or not (self.words and self.recogniser and self.voice)

    @property
    def fields(self) -> dict[str, Any]:
        """What an observer's event says of it."""
        return {
            "silent_judges": list(self.silent_judges),
            "words_over_agent": self.words,
            "recogniser": self.recogniser,
            "voice": self.voice,
        }

    @property
    def sentence(self) -> str:
        """What a log says of it."""
        user, reply = _name(self.user), _name(self.reply)
        found = []
        if not self.recogniser:
            found.append(f"the recogniser doesn't know {user}, what it writes will be wrong (another one: --asr)")
        if self.silent_judges:
            judges = ", ".join(self.silent_judges)
            found.append(f"no opinion on {user} from the end-of-turn judges {judges}, the others or silence decide")
        if not self.words:
            found.append(f"no list of words in {user}, an interruption is told by its length and level")
        if not self.voice:
            found.append(f"the voice doesn't know {reply} and will sound wrong (another one: --tts)")
        return "; ".join(found)


def language_limits(engines: Engines, user: str, reply: str) -> LanguageLimits:
    """Return what falls back with these engines, given BCP 47 tags. Of a language that nobody knows nothing is said."""
    user, reply = primary_language(user), primary_language(reply) or primary_language(user)
    return LanguageLimits(
        user,
        reply,
        silent_judges=tuple(judge.name for judge in engines.judges if not knows(judge, user)),
        words=not user or knows_words_of(user),
        recogniser=knows(engines.asr, user),
        voice=knows(engines.tts, reply),
    )


def _name(language: str) -> str:
    return NAMES.get(language, repr(language))
