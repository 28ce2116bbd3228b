"""Whisper's tokens as bytes: GPT-2's byte-level alphabet, read backwards."""

from __future__ import annotations

from collections.abc import Sequence

from models.interfaces import TokenLogprob

END_OF_TEXT = 50_257
"""First of the multilingual Whisper's special tokens; smaller ids are text (openai/whisper, `tokenizer`)."""


def _byte_of_character() -> dict[str, int]:
    """Return GPT-2's table: printable Latin-1 characters stand for themselves, other bytes for U+0100 and on."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}


_BYTES = _byte_of_character()


def text_tokens(tokens: Sequence[str], ids: Sequence[int], logprobs: Sequence[float]) -> tuple[TokenLogprob, ...]:
    """Return the tokens of text among `tokens`, without the blanks at the text's ends.

    `logprobs` (): not known, shown as 0. A token may hold a part of a character only.
    """
    scores = logprobs or [0.0] * len(ids)
    said = [
        (bytes(_BYTES[character] for character in token), score)
        for token, number, score in zip(tokens, ids, scores, strict=True)
        if number < END_OF_TEXT
    ]
    while said and not said[0][0].strip():
        del said[0]
    while said and not said[-1][0].strip():
        del said[-1]
    if said:
        said[0] = (said[0][0].lstrip(), said[0][1])
        said[-1] = (said[-1][0].rstrip(), said[-1][1])
    return tuple(TokenLogprob(utf8.decode("utf-8", "replace"), score, utf8) for utf8, score in said)
