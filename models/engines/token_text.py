"""Text out of tokens as they come, one at a time: a model's voice says a character once all of its bytes are there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

REPLACEMENT = "\ufffd"
"""What a tokenizer writes for bytes that are no character yet."""

LONGEST_CHARACTER = 4
"""Tokens, at most, that one character's UTF-8 is split into, a byte in each; more of them are no character."""


class TokenText:
    """Decodes a stream of tokens. `decode`: token ids to text. Costs the same for each token, however long the text is.

    The token before is decoded along, since tokenizers write a word's first token otherwise at the start of a text.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._told: list[int] = []
        self._waiting: list[int] = []

    def take(self, token: int) -> str:
        """Return the text that `token` completes: "" as long as a character's bytes are missing."""
        self._waiting.append(token)
        before = self._decode(self._told)
        text = self._decode([*self._told, *self._waiting])
        if text.endswith(REPLACEMENT) and len(self._waiting) < LONGEST_CHARACTER:
            return ""
        self._told, self._waiting = self._waiting, []
        return text[len(before) :]

    def restart(self) -> None:
        """Begin a new text; bytes without the rest of their character are dropped."""
        self._told, self._waiting = [], []
