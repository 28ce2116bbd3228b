"""Which voice of an engine speaks for a name that a client gave."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from models.engine_plan import TtsPlan
from models.interfaces import EngineError

OPENAI_FEMALE = ("marin", "coral", "shimmer", "sage", "alloy")
OPENAI_MALE = ("cedar", "ash", "echo", "verse", "ballad")
"""OpenAI's Realtime voices, by how they sound. Marin is the one that sessions begin with, cedar its male fellow."""


def openai_voices(female: Sequence[str], male: Sequence[str]) -> dict[str, str]:
    """Return a voice for each of OpenAI's names, distinct as far as there are enough. The best come first; {} if none.

    Where a sex is missing the other stands in.
    """
    if not (female or male):
        return {}
    sides = ((OPENAI_FEMALE, female or male), (OPENAI_MALE, male or female))
    return {name: voices[index % len(voices)] for names, voices in sides for index, name in enumerate(names)}


class VoiceMap:
    """The voices of one engine. The settings win: names set singly, then the voice for all others.

    `own`: the engine's voices, None if only it knows them. `standing`: voices for OpenAI's names, `in_language` those
    for a text in a language (BCP 47), {} if it has none. `default`: the voice of unknown names; "": they pass as they
    are.
    """

    def __init__(
        self,
        plan: TtsPlan,
        *,
        own: Collection[str] | None,
        standing: Mapping[str, str],
        default: str = "",
        in_language: Callable[[str], Mapping[str, str]] = lambda _language: {},
    ) -> None:
        self._single = dict(plan.voices)
        self._all = plan.voice
        self._own = own
        self._standing = standing
        self._default = default
        self._in_language = in_language

    def voice(self, name: str, language: str = "") -> str:
        """Return the engine's voice for `name` and a text in `language`, "" where nobody knows that."""
        if name in self._single:
            return self._single[name]
        if self._all:
            return self._all
        if self._own is not None and name in self._own:
            return name
        if language and (spoken := self._in_language(language)):
            return spoken.get(name) or spoken[OPENAI_FEMALE[0]]
        return self._standing.get(name, self._default or name)


def check_voices(plan: TtsPlan, own: Collection[str], engine: str) -> None:
    """Raise EngineError, with one sentence, unless the settings name voices that the engine has."""
    for setting, name in [("TTS_VOICE", plan.voice), *(("TTS_VOICES", voice) for _, voice in plan.voices)]:
        if name not in own and (name or setting == "TTS_VOICES"):
            raise EngineError(
                "tts_voice",
                f"{setting} names the voice {name!r}, which {engine} doesn't have: give one of {_some(own)}.",
            )


def _some(names: Collection[str]) -> str:
    shown = sorted(names)
    return ", ".join(shown) if len(shown) <= 60 else ", ".join(shown[:60]) + " …"
