"""What the agent said in one item and how much of it the user heard: words, their place in the audio, the cuts."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from protocol.audio_time import Samples

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]\s*|[^\s\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+\s*")
"""A word, with the blanks after it; a Japanese or Chinese character counts as one."""


@dataclass(slots=True)
class SpeechPart:
    """The `output_audio` content of an assistant message.

    `audio_sent` counts the samples given to the client. `client_cut` is the client's last truncate, `gateway_cut` the
    virtual player's: the client knows what its user heard, so its word replaces the gateway's, earlier or later.
    `whole`: the item ended by itself, so that its audio says all of its text.
    """

    text: str = ""
    audio_sent: Samples = 0
    client_cut: Samples | None = None
    gateway_cut: Samples | None = None
    whole: bool = False
    _marks: list[tuple[int, Samples]] = field(default_factory=list)

    def mark(self, text_end: int, audio_end: Samples) -> None:
        """Note that the first `text_end` characters are spoken by the first `audio_end` samples."""
        self._marks.append((text_end, audio_end))

    @property
    def heard(self) -> Samples:
        """The samples that the user heard, as far as anyone has said."""
        cut = self.gateway_cut if self.client_cut is None else self.client_cut
        return self.audio_sent if cut is None else min(cut, self.audio_sent)

    def heard_text(self) -> str:
        """Return the words whose audio was heard, never one more.

        A stretch of text between two marks that was heard in part gives the same share of its words, rounded down.
        """
        heard = self.heard
        if self.whole and heard == self.audio_sent:
            return self.text
        text_start, audio_start = 0, 0
        for text_end, audio_end in self._all_marks():
            if audio_end > heard:
                words = list(_WORD.finditer(self.text, text_start, text_end))
                share = len(words) * (heard - audio_start) // (audio_end - audio_start)
                return self.text[: words[share - 1].end() if share else text_start].rstrip()
            text_start, audio_start = text_end, audio_end
        return self.text[:text_start].rstrip()

    def _all_marks(self) -> list[tuple[int, Samples]]:
        """Return the marks, with one at the end of a whole item: after its last mark the rest says the rest."""
        if self.whole and (not self._marks or self._marks[-1][0] < len(self.text)):
            return [*self._marks, (len(self.text), self.audio_sent)]
        return self._marks

    @property
    def cut_short(self) -> bool:
        """Whether the user heard less than the whole text."""
        return not self.whole or self.heard_text() != self.text

    def to_wire(self) -> dict[str, Any]:
        """Return the content part: all of the text, or what was heard of it once the client has truncated it."""
        return {"type": "output_audio", "transcript": self.text if self.client_cut is None else self.heard_text()}
