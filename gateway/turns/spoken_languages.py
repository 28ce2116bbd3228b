"""Which language the user speaks and which the agent answers in, as far as anybody knows.

What the session was told holds. Else it is what the recogniser found; a few words alone don't change that, since
recognisers take an "okay" for any language.
"""

from __future__ import annotations

from gateway.turns.overlap_words import tokens_in
from gateway.turns.settings import TurnSettings

TOKENS_TO_CHANGE = 3
"""Words (Chinese, Japanese: characters) from which on a recogniser's finding replaces another one (chosen)."""


def primary_language(tag: str) -> str:
    """Return the primary subtag of a BCP 47 `tag` in lower case: "pt-BR", "pt_BR" and "PT" are "pt"."""
    return tag.strip().replace("_", "-").partition("-")[0].lower()


class SpokenLanguages:
    """One session's. Languages are primary subtags, "" is unknown."""

    def __init__(self, settings: TurnSettings) -> None:
        self._heard = ""
        self.change(settings)

    def change(self, settings: TurnSettings) -> None:
        """New settings hold from here on."""
        self._told = primary_language(settings.user_language)
        self._reply = primary_language(settings.reply_language)

    def heard(self, language: str, text: str) -> None:
        """Take the `language` that the recogniser found in what the user said, "" if it doesn't tell."""
        found = primary_language(language)
        if found and (not self._heard or len(tokens_in(text)) >= TOKENS_TO_CHANGE):
            self._heard = found

    @property
    def user(self) -> str:
        """What the user speaks."""
        return self._told or self._heard

    @property
    def detected(self) -> bool:
        """Whether the recogniser found that, and nobody told it."""
        return not self._told and bool(self._heard)

    @property
    def reply(self) -> str:
        """What the agent answers in: the voice's language if the gateway was told one, else the user's."""
        return self._reply or self.user
