"""What the doctor has the voice say and the recogniser hear, and how much of it arrives."""

from __future__ import annotations

import unicodedata

DEFAULT_LANGUAGE = "en"

SENTENCES = {
    "en": "Please bring seven apples and a glass of water to the table.",
    "fr": "Apportez sept pommes et un verre d'eau sur la table, s'il vous plaît.",
    "es": "Por favor, traiga siete manzanas y un vaso de agua a la mesa.",
    "it": "Per favore, porta sette mele e un bicchiere d'acqua al tavolo.",
    "pt": "Por favor, traga sete maçãs e um copo de água para a mesa.",
    "de": "Bitte bringen Sie sieben Äpfel und ein Glas Wasser an den Tisch.",
    "ja": "りんごを七つと水を一杯、テーブルに持ってきてください。",
    "zh": "请把七个苹果和一杯水拿到桌子上。",
}
"""One everyday sentence a language (ours), without names, which recognisers write in their own ways."""

NUMBERS = {
    "en": "seven",
    "fr": "sept",
    "es": "siete",
    "it": "sette",
    "pt": "sete",
    "de": "sieben",
    "ja": "七",
    "zh": "七",
}
"""The one word in each that many recognisers write as the digit 7."""

WITHOUT_SPACES = frozenset({"ja", "zh"})
"""Languages that are compared by characters."""


def base_language(tag: str) -> str:
    """Return the language of a BCP 47 tag that there is a sentence for, else the default."""
    language = tag.split("-")[0].lower()
    return language if language in SENTENCES else DEFAULT_LANGUAGE


def error_rate(said: str, heard: str, language: str) -> float:
    """Return the share of words (characters in Japanese and Chinese) of `said` that differ in `heard`; 0 is perfect."""
    reference, hypothesis = _units(said, language), _units(heard, language)
    if not reference:
        return float(bool(hypothesis))
    row = list(range(len(hypothesis) + 1))
    for done, expected in enumerate(reference, 1):
        diagonal, row[0] = row[0], done
        for at, found in enumerate(hypothesis, 1):
            diagonal, row[at] = row[at], min(row[at] + 1, row[at - 1] + 1, diagonal + (expected != found))
    return row[-1] / len(reference)


def _units(text: str, language: str) -> list[str]:
    folded = unicodedata.normalize("NFKC", text).casefold()
    if language in WITHOUT_SPACES:
        return [character.replace("7", NUMBERS[language]) for character in folded if character.isalnum()]
    words = "".join(character if character.isalnum() else " " for character in folded).split()
    return [NUMBERS[language] if word == "7" else word for word in words]
