"""The texts that TurnLab speaks: what they are, where a speaker might pause in them, and which half they belong to.

`utterances.jsonl` holds 200 of them: whole user turns of Disfl-QA (questions with self-corrections, CC BY 4.0) and
Taskmaster-4 (coffee orders, CC BY 4.0), Niu's end-of-turn cards (calls, Apache-2.0), and our own cards (CC0), in which
"|" marks where the speaker pauses. Of the first three, all cards of Niu's that are complete and free of digits, and the
first of the others by the hash of their text, 6 to 20 words long, until the halves were full.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal

Half = Literal["dev", "test"]

PAUSE_MARK = "|"

FUNCTION_WORDS = frozenset(
    "a an the this that these those my your his her its our their and or but so because if when while whether which "
    "who what where how than as of in on at to for from with by about into over after before between through without "
    "is are was were be been am do does did have has had will would can could should may might must i you he she it we "
    "they me him them us not no please then there just".split()
)
"""Words after which an English phrase is rarely over (articles, prepositions, conjunctions, pronouns, auxiliaries)."""


@dataclass(frozen=True, slots=True)
class Card:
    """One utterance as it is to be spoken. `pauses`: after how many of its words the speaker is to pause; may be empty.

    `kind`: question, order, call, answer, number, spelling, address, list, filler, preface, hesitation, correction.
    """

    kind: str
    text: str
    pauses: tuple[int, ...]
    source: str

    @property
    def half(self) -> Half:
        """Return the half that the text belongs to: policies are tuned on `dev` and measured on `test`."""
        return half_of(self.text)


def half_of(text: str) -> Half:
    """Return `dev` or `test` by the parity of the first byte of the SHA-256 of the normalised text."""
    return "dev" if digest_of(text)[0] % 2 == 0 else "test"


def digest_of(text: str) -> bytes:
    """Return the SHA-256 of `text` in lower case, without punctuation and with single spaces."""
    return hashlib.sha256(" ".join(re.sub(r"[^a-z0-9' ]", " ", text.lower()).split()).encode()).digest()


def all_cards() -> list[Card]:
    """Return the cards of `utterances.jsonl` in their order."""
    lines = files("clients.turnlab").joinpath("utterances.jsonl").read_text("utf-8").splitlines()
    return [card(row["kind"], row["text"], row["source"]) for row in map(json.loads, lines)]


def card(kind: str, marked: str, source: str = "own-cards") -> Card:
    """Return the card of a text with marks where the speaker pauses."""
    words = marked.split()
    pauses: list[int] = []
    spoken: list[str] = []
    for word in words:
        if word == PAUSE_MARK:
            pauses.append(len(spoken))
        else:
            spoken.append(word)
    return Card(kind, " ".join(spoken), tuple(pauses), source)


def is_function_word(word: str) -> bool:
    """Say whether an English phrase rarely ends with `word` (or, of several, with the last)."""
    return re.sub(r"[^a-z']", "", word.split()[-1].lower()) in FUNCTION_WORDS
