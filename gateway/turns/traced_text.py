"""A text that is rewritten step by step and still knows where in the original each of its characters comes from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

GROUP = r"\1"
"""As a replacement: keep the pattern's first group and drop the rest of the match."""

Replacement = str | Callable[[re.Match[str]], str]

Rewrite = tuple[re.Pattern[str], Replacement]


@dataclass(frozen=True, slots=True)
class TracedText:
    """`places[i]` is where in the original the character `text[i]` stands, or the end of the match that became it.

    Places never fall.
    """

    text: str
    places: list[int]

    @staticmethod
    def of(original: str) -> TracedText:
        """Return the original itself."""
        return TracedText(original, list(range(len(original))))

    def sub(self, pattern: re.Pattern[str], replacement: Replacement) -> TracedText:
        """Return the text with every match replaced; what is new comes from its match's last visible character."""
        matches = list(pattern.finditer(self.text))
        if not matches:
            return self
        pieces: list[str] = []
        places: list[int] = []
        at = 0
        for match in matches:
            pieces.append(self.text[at : match.start()])
            places += self.places[at : match.start()]
            at = match.end()
            if replacement == GROUP:
                pieces.append(match[1])
                places += self.places[match.start(1) : match.end(1)]
            else:
                new = replacement if isinstance(replacement, str) else replacement(match)
                pieces.append(new)
                if new:
                    last = match.start() + max(len(match[0].rstrip()) - 1, 0)
                    places += [self.places[last]] * len(new)
        pieces.append(self.text[at:])
        places += self.places[at:]
        return TracedText("".join(pieces), places)

    def sub_all(self, rewrites: Iterable[Rewrite]) -> TracedText:
        """Return the text after all `rewrites`, in their order."""
        text = self
        for pattern, replacement in rewrites:
            text = text.sub(pattern, replacement)
        return text

    def part(self, start: int, end: int) -> TracedText:
        """Return the characters [start, end)."""
        return TracedText(self.text[start:end], self.places[start:end])

    def strip(self, left: str = "") -> TracedText:
        """Return the text without white space around it and without the characters `left` before it."""
        stripped = self.text.rstrip()
        return self.part(len(stripped) - len(stripped.lstrip().lstrip(left or None)), len(stripped))

    def split(self, sign: str) -> list[TracedText]:
        """Return the parts between the occurrences of `sign`, a single character."""
        parts, at = [], 0
        for piece in self.text.split(sign):
            parts.append(self.part(at, at + len(piece)))
            at += len(piece) + 1
        return parts

    def followed_by(self, sign: str) -> TracedText:
        """Return the text (not empty) with `sign` after it, which comes from where its last character does."""
        return TracedText(self.text + sign, [*self.places, *self.places[-1:] * len(sign)])


def joined(parts: Iterable[TracedText], joint: str) -> TracedText:
    """Return the parts in one text, with `joint` in between, which comes from where the part before it ends."""
    text: list[str] = []
    places: list[int] = []
    for part in parts:
        if text:
            text.append(joint)
            places += (places[-1:] or [0]) * len(joint)
        text.append(part.text)
        places += part.places
    return TracedText("".join(text), places)
