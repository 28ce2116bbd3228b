"""What the agent said in one item and how much of it the user heard: words, their place in the audio, the cuts."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from protocol.audio_time import Samples, samples_from_s

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]\s*|[^\s\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+\s*")
"""A word, with the blanks after it; a Japanese or Chinese character counts as one."""

_IDEOGRAM_LENGTH = 3
_DIGIT_LENGTH = 4
_SENTENCE_PAUSE = 3
_CLAUSE_PAUSE = 2
"""How long things take to say, in letters of English: an ideogram or a digit is a syllable or two, a full stop about
0.2 s at 15 letters a second. Chosen; cut at 52 places, the embedded voice's words came out right or one short in 44,
two short in 7, one over in 1, as judged by the recogniser, which completes half words (2026-11-29)."""

_LETTER: Samples = samples_from_s(1) // 15


def spoken_length(text: str) -> Samples:
    """Return about how long `text` takes to say, at a usual pace."""
    return _LETTER * sum(_length(word.group()) + _pause(word.group()) for word in _WORD.finditer(text))


def _length(word: str) -> int:
    """Return how long a word takes to say, in letters; at least one."""
    lengths = (_DIGIT_LENGTH if c.isdigit() else _IDEOGRAM_LENGTH if c > "\u2fff" else 1 for c in word if c.isalnum())
    return sum(lengths) + 1


def _pause(word: str) -> int:
    """Return the length of the pause after a word, in letters."""
    last = word.rstrip(" \t\r\n\"'”’)»」")[-1:]
    return _SENTENCE_PAUSE if last in ".!?…。！？" else _CLAUSE_PAUSE if last in ",;:—、，；：" else 0


@dataclass(slots=True)
class SpeechPart:
    """The `output_audio` content of an assistant message.

    `audio_sent` counts the samples given to the client, `audio_unsent` those after them that were made but dropped
    before they were sent. `client_cut` is the client's last truncate, `gateway_cut` the
    virtual player's: the client knows what its user heard, so its word replaces the gateway's, earlier or later.
    `whole`: the item ended by itself, so that its audio says all of its text.
    """

    text: str = ""
    audio_sent: Samples = 0
    audio_unsent: Samples = 0
    client_cut: Samples | None = None
    gateway_cut: Samples | None = None
    whole: bool = False
    _marks: list[tuple[int, Samples]] = field(default_factory=list)

    def mark(self, text_end: int, audio_end: Samples) -> None:
        """Note that the first `text_end` characters are spoken by the first `audio_end` samples."""
        self._marks.append((text_end, audio_end))

    def unsend(self, samples: Samples) -> None:
        """Note that the last `samples` counted as sent were dropped on their way."""
        samples = min(samples, self.audio_sent)
        self.audio_sent -= samples
        self.audio_unsent += samples

    @property
    def _audio_made(self) -> Samples:
        return self.audio_sent + self.audio_unsent

    @property
    def heard(self) -> Samples:
        """The samples that the user heard, as far as anyone has said."""
        cut = self.gateway_cut if self.client_cut is None else self.client_cut
        return self.audio_sent if cut is None else min(cut, self.audio_sent)

    def heard_text(self) -> str:
        """Return the words whose audio was heard, never one more.

        Of a stretch of text between two marks that was heard in part, those words count whose end lies in the same
        share of the stretch, measured by how long they take to say.
        """
        heard = self.heard
        if self.whole and heard == self._audio_made:
            return self.text
        text_start, audio_start = 0, 0
        for text_end, audio_end in self._all_marks():
            if audio_end > heard:
                share = (heard - audio_start, audio_end - audio_start)
                return self.text[: self._end_of_share(text_start, text_end, *share)].rstrip()
            text_start, audio_start = text_end, audio_end
        return self.text[:text_start].rstrip()

    def _end_of_share(self, start: int, end: int, heard: Samples, samples: Samples) -> int:
        """Return where the words end that were said in the first `heard` of the `samples` of text [start, end)."""
        words = list(_WORD.finditer(self.text, start, end))
        lengths = [_length(word.group()) for word in words]
        pauses = [_pause(word.group()) for word in words]
        total = sum(lengths) + sum(pauses[:-1])  # the stretch's last pause is not part of its audio
        said, reached = 0, start
        for word, length, pause in zip(words, lengths, pauses, strict=True):
            said += length
            if said * samples > total * heard:
                break
            said += pause
            reached = word.end()
        return reached

    def _all_marks(self) -> list[tuple[int, Samples]]:
        """Return the marks, with one at the end of a whole item: after its last mark the rest says the rest.

        Estimates that lie beyond the audio of a whole item were too slow throughout.
        """
        marks, made = self._marks, self._audio_made
        if self.whole and marks and marks[-1][1] > made:
            marks = [(text_end, audio_end * made // marks[-1][1]) for text_end, audio_end in marks]
        if self.whole and (not marks or marks[-1][0] < len(self.text)):
            return [*marks, (len(self.text), made)]
        return marks

    @property
    def cut_short(self) -> bool:
        """Whether the user heard less than the whole text."""
        return not self.whole or self.heard_text() != self.text

    def to_wire(self) -> dict[str, Any]:
        """Return the content part: all of the text, or what was heard of it once the client has truncated it."""
        return {"type": "output_audio", "transcript": self.text if self.client_cut is None else self.heard_text()}
