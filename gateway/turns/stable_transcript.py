"""Transcript deltas while the user still speaks: only words that two looks in a row agree on are told.

What has been told is never taken back, so deltas always add up to the final transcript.
"""

from __future__ import annotations

import re

from protocol.backend_events import TokenLogprob

_LETTERS = re.compile(r"[^\w']+")


def _key(word: str) -> str:
    return _LETTERS.sub("", word).casefold()


def has_words(transcript: str) -> bool:
    """Return whether a recogniser understood anything: for a cough some write nothing, some a full stop."""
    return any(map(str.isalnum, transcript))


def words_of(transcript: str) -> list[str]:
    """Return the words of a transcript without case and punctuation: the same words have the same."""
    return [key for key in map(_key, transcript.split()) if key]


def tokens_of(delta: str, tokens: tuple[TokenLogprob, ...] | None) -> tuple[TokenLogprob, ...] | None:
    """Return the last of a transcript's `tokens` if they say `delta`, its end, and nothing else; else None."""
    said: list[TokenLogprob] = []
    rest = delta.encode()
    for token in reversed(tokens or ()):
        if not rest or not rest.endswith(token.utf8):
            break
        rest = rest.removesuffix(token.utf8)
        said.insert(0, token)
    return tuple(said) if said and not rest else None


class StableTranscript:
    """Grows the told prefix of one utterance's transcript."""

    def __init__(self) -> None:
        self.told = ""
        self._told_words = 0
        self._previous: list[str] = []

    def partial(self, text: str) -> str:
        """Take an interim look; return the words that it and the look before agree on and that were not told yet.

        Its last word is never told: the recogniser may have heard half of it.
        """
        words = text.split()
        agreed = 0
        for one, other in zip(self._previous, words[:-1], strict=False):
            if _key(one) != _key(other):
                break
            agreed += 1
        self._previous = words
        if agreed <= self._told_words or not self._extends(words):
            return ""
        new = words[self._told_words : agreed]
        # The full stop that a recogniser puts after an unfinished sentence is not the speaker's.
        new[-1] = new[-1].rstrip(".") or new[-1]
        return self._tell(new)

    def foretell(self, text: str) -> str:
        """Return what the whole transcript will be if `text` is the final one. Nothing is told by it."""
        if not self._told_words:
            return text
        return " ".join([self.told, *text.split()[self._told_words :]])

    def final(self, text: str) -> str:
        """Take the final transcript; return what was not told yet. `told` then is the whole transcript."""
        words = text.split()
        if not self._told_words:
            self.told = text
            return text
        return self._tell(words[self._told_words :])

    def _extends(self, words: list[str]) -> bool:
        """Return whether `words` begin with what was told."""
        told = [_key(word) for word in self.told.split()]
        return [_key(word) for word in words[: len(told)]] == told

    def _tell(self, words: list[str]) -> str:
        if not words:
            return ""
        delta = " ".join(words) if not self.told else " " + " ".join(words)
        self.told += delta
        self._told_words += len(words)
        return delta
