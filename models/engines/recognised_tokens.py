"""A transcript's tokens and how probable they are, cut so that joined they are the text, byte by byte."""

from __future__ import annotations

from collections.abc import Iterable

from models.interfaces import TokenLogprob


def fitted(tokens: Iterable[str], logprobs: Iterable[float], text: str) -> tuple[TokenLogprob, ...] | None:
    """Return the tokens of `text`, without the blanks that it lacks; None where they are not that text's.

    Libraries tidy up blanks when they join tokens (a leading one, one before a comma), and nothing else.
    """
    fitting = []
    position = 0
    for token, logprob in zip(tokens, logprobs, strict=True):
        kept = ""
        for character in token:
            if text.startswith(character, position):
                kept += character
                position += 1
            elif not character.isspace():
                return None
        if kept:
            fitting.append(TokenLogprob(kept, float(logprob), kept.encode()))
    return tuple(fitting) if position == len(text) else None


def joined(pieces: Iterable[tuple[TokenLogprob, ...]], space: str) -> tuple[TokenLogprob, ...]:
    """Return the tokens of pieces of a text, `space` before the first token of each but the first that has any."""
    whole: list[TokenLogprob] = []
    for piece in pieces:
        if whole and piece and space:
            first = piece[0]
            whole.append(TokenLogprob(space + first.token, first.logprob, space.encode() + first.utf8))
            whole += piece[1:]
        else:
            whole += piece
    return tuple(whole)
