"""Cuts a language model's streamed reply into pieces worth synthesising: early, whole, and none too long.

The reply is read one character at a time and every decision hangs on the characters read so far only, so the pieces
are the same however the reply was cut into tokens. A boundary is decided by the character after it: a space, or in
scripts without spaces the next sign. Text after a forced cut is read again, at most one piece of it.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from dataclasses import dataclass, field
from enum import IntEnum

from gateway.turns.language_breaks import LanguageBreaks, breaks_of
from gateway.turns.spoken_languages import primary_language
from gateway.turns.spoken_text import traced_spoken_text, words_said

MIN_CHUNK_SIZE = 12
"""No piece is cut that is shorter, except before code and at the end. Chosen: two or three words, ~0.7 s of speech."""

FIRST_CHUNK_WORDS = 8
"""The first piece is cut after so many words if no punctuation came. Chosen: ~2.5 s of speech, 0.4 s at 30 tokens/s."""

FIRST_CHUNK_SIZE = 48
"""The same limit for long words and for scripts without spaces. Chosen: 8 English words of 6 characters."""

LONG_CHUNK_SIZE = 80
"""A later piece longer than this is cut at a comma too. Chosen: ~5 s of speech."""

MAX_CHUNK_SIZE = 200
"""No piece is longer. Chosen: Kokoro takes at most 510 phonemes (its model card); English has ~1 a character."""

MAX_CHUNK_WORDS = 40
"""No piece has more words. Chosen: ~13 s of speech."""

MAX_RAW_SIZE = 2_000
"""No piece has more characters of the reply, however few of them are said: rules and empty list items would pile up.
Chosen: longer than link targets are. Only a link or code that is still open may go on."""

CJK_SIZE = 3
"""What a Han, kana or fullwidth character counts for: about as long to say as three Latin letters. Chosen."""

DIGIT_SIZE = 4
"""What a digit counts for: about the length of its name. Chosen."""


class _Boundary(IntEnum):
    """How good it is to cut after a word."""

    WEAK = 0  # only if there is nothing else: after a number, a title or a list marker
    WORD = 1
    CLAUSE = 2
    SENTENCE = 3


_LETTERS = re.compile(r"[A-Za-z]+")
_BEFORE_FENCE = re.compile(r"\s*(?:(?:[-*+]|\d{1,3}[.)])\s+|>\s*)*")
_LIST_MARKER = re.compile(r"\d{1,3}[.)]|#{1,6}|[-*+•>|]")
SENTENCE_SIGNS = ".!?。！？｡।॥؟۔"
_CLAUSE_SIGNS = ",;:—–…、，：；､،؛"
_SIGNS = frozenset(SENTENCE_SIGNS + _CLAUSE_SIGNS)
_UNSPACED_SIGNS = frozenset("。！？｡—…、，：；､")
_CLOSERS = frozenset("\"'”’»)]}*_~`」』）】》〉〕］")
_OPENERS = "\"'“‘«([{*_~`「『（【《〈〔［¿¡$€£#"
_NOT_FIRST = _SIGNS | _CLOSERS | frozenset("々ーぁぃぅぇぉっゃゅょゎァィゥェォッャュョヮ・％℃")
_SPACED_SIGNS = frozenset("?!:;»%")
"""What a blank may stand before in French: it is no place to cut."""

_SILENT_MARKUP = frozenset("*_#`~[]|>-+•")
_CJK = re.compile("[\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")


class _Span(IntEnum):
    """Markup that must not be cut."""

    NONE = 0
    CODE = 1
    LINK_TEXT = 2
    AFTER_LINK_TEXT = 3
    LINK_TARGET = 4


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of the reply: its raw text ends `text_end` characters into the reply, where the next one begins.

    `spoken` is for the voice; it is empty only in the last chunk of a reply that ends in something unspeakable.
    `words`: (end in `spoken`, end in the reply) of each word of the reply that is said.
    """

    text_end: int
    spoken: str
    first: bool
    words: tuple[tuple[int, int], ...] = field(default=(), compare=False, repr=False)

    def text_said(self, spoken_end: int) -> int:
        """Return where in the reply the last word ends that the first `spoken_end` of `spoken` say; 0 for none."""
        said = bisect_right(self.words, spoken_end, key=lambda word: word[0])
        return self.words[said - 1][1] if said else 0


class SpeakableChunks:
    """One reply's splitter. Feed it the text as it comes, then `finish` it once; the last `text_end` is the length."""

    def __init__(self, language: str = "en") -> None:
        """Begin a reply in `language` (a BCP 47 tag), which tells sentences' ends and how `spoken_text` words it."""
        self._language = language
        self._breaks = breaks_of(primary_language(language))
        self._buffer = ""  # from the end of the last piece on
        self._at = 0  # how much of the buffer is read
        self._base = 0  # where in the reply the buffer begins
        self._text_end = 0  # of the last chunk returned
        self._any = False  # a chunk was returned
        self._line_head = True  # no word of the line is complete
        self._line_at = 0  # where in the buffer the line begins, -1 for before it
        self._block = False  # the line is a heading, an item or a table row
        self._fence = ""  # the sign of an open code fence
        self._fence_opening = False  # still in the line that opened it
        self._fence_indent = False  # only white space so far in a line of code
        self._fence_run = 0
        self._begin_chunk()

    def _begin_chunk(self) -> None:
        self._at = 0
        self._size = 0  # about how long it is to say, in Latin letters
        self._size_at_space = 0  # so that white space around what is silent counts once
        self._words = 0
        self._word = ""  # since the last white space or CJK character
        self._after_number = False  # so that a hyphen is a minus or a range
        self._in_url = False
        self._undecided = ""  # an abbreviation whose stop depends on the next word
        self._withheld: _Boundary | None = None  # after a word and a blank, behind which a sign may stand
        self._carried = _Boundary.WEAK  # of what a closing quotation mark with a blank before it closes
        self._sign_open = False  # an unspaced sign came, and perhaps closing quotes
        self._span = _Span.NONE
        self._cuts: list[int] = []  # where words end
        self._clause_cut = self._weak_cut = self._span_cut = 0

    def feed(self, text: str) -> list[Chunk]:
        """Return the pieces that `text` completes."""
        self._buffer += text
        return self._read()

    def finish(self) -> list[Chunk]:
        """Return the rest: the reply is complete."""
        chunks: list[Chunk] = []
        while self._buffer:
            chunks += self._cut(len(self._buffer))
            chunks += self._read()
        if self._base > self._text_end:
            chunks.append(self._chunk(""))
        return chunks

    def _read(self) -> list[Chunk]:
        chunks: list[Chunk] = []
        while self._at < len(self._buffer):
            if self._skips_letters():
                continue
            sign = self._buffer[self._at]
            if self._fence:
                self._at += 1
                self._read_code(sign)
            elif cut := self._read_sign(sign, self._at):
                chunks += self._cut(cut)
            else:
                self._at += 1
        if self._fence:
            self._drop(self._at)
        return chunks

    def _skips_letters(self) -> bool:
        """Read letters that can decide nothing, all at once: only for speed, `_read_sign` would do the same."""
        if self._span or self._in_url or self._sign_open or self._undecided or self._fence:
            return False
        if self._withheld is not None:
            return False
        letters = _LETTERS.match(self._buffer, self._at, self._at + MAX_CHUNK_SIZE - self._size)
        if letters is None:
            return False
        self._word += letters[0]
        self._size += letters.end() - self._at
        self._at = letters.end()
        return True

    # --- code fences: nothing in them is spoken, so nothing of them is kept

    def _read_code(self, sign: str) -> None:
        if sign == "\n":
            self._fence_opening, self._fence_indent, self._fence_run = False, True, 0
        elif sign == self._fence:
            self._fence_run += 1
            if self._fence_run == 3 and (self._fence_indent or self._fence_opening):
                self._fence = ""
                self._drop(self._at)
        else:
            self._fence_indent = self._fence_indent and sign.isspace()
            self._fence_run = 0

    def _opens_fence(self, sign: str, at: int) -> bool:
        if self._line_at < 0 or self._buffer[at - 2 : at + 1] != sign * 3:
            return False
        return _BEFORE_FENCE.fullmatch(self._buffer, self._line_at, at - 2) is not None

    def _drop(self, end: int) -> None:
        self._line_at = 0 if self._buffer[:end].endswith("\n") else -1
        self._base += end
        self._buffer = self._buffer[end:]
        self._begin_chunk()

    # --- reading: each returns where to cut, 0 for nowhere

    def _read_sign(self, sign: str, at: int) -> int:
        if sign.isspace():
            return self._read_space(sign, at + 1)
        if cut := self._read_unspaced_boundary(sign, at):
            return cut
        if sign in "`~" and self._opens_fence(sign, at):
            if self._line_at > 0:
                return self._line_at  # what came before is said at once; then the fence is read again
            self._fence, self._fence_opening, self._fence_indent, self._fence_run = sign, True, False, 3
            self._line_head = self._block = False
            return 0
        if not self._read_span(sign):
            self._word += sign
        if sign == "/" and self._word.endswith("://"):
            self._in_url = True
        if not (self._in_url or self._span == _Span.LINK_TARGET or sign in _SILENT_MARKUP):
            self._size += _size(sign)
        return self._overflow(at, sign)

    def _read_space(self, sign: str, end: int) -> int:
        if sign == "\n":
            blank = self._line_head and not self._word
            kind = self._end_word()
            kind = _Boundary.SENTENCE if blank or self._block else max(kind, _Boundary.CLAUSE)
            self._span, self._undecided, self._withheld = _Span.NONE, "", None
            self._line_head, self._block, self._line_at = True, False, end
            cut = self._offer(kind, end)
        elif self._span == _Span.CODE or self._span == _Span.LINK_TEXT or self._span == _Span.LINK_TARGET:
            self._span_cut = end
            self._words += 1
            cut = 0
        elif self._word:
            word = self._word.lstrip(_OPENERS).lower()
            kind = self._end_word()
            if word in self._breaks.may_end:
                self._undecided = word
                cut = 0
            elif self._breaks.spaced_signs:
                self._withheld = kind
                cut = 0
            else:
                cut = self._offer(kind, end)
        else:
            return 0
        if self._size > self._size_at_space:
            self._size += 1
            self._size_at_space = self._size
        return cut

    def _read_unspaced_boundary(self, sign: str, at: int) -> int:
        """Decide about a boundary right before `sign`, which is no white space."""
        if self._undecided:
            ends = not sign.isdigit() if self._undecided in self._breaks.before_numbers else sign.isupper()
            self._undecided = ""
            return self._offer(_Boundary.SENTENCE if ends else _Boundary.WEAK, at)
        if self._withheld is not None:
            kind, self._withheld = self._withheld, None
            self._carried = kind if sign == "»" else _Boundary.WEAK
            return 0 if sign in _SPACED_SIGNS else self._offer(kind, at)
        if not self._word or self._span or sign in _NOT_FIRST:
            self._sign_open = self._sign_open or (sign in _UNSPACED_SIGNS and not self._in_url)
            return 0
        if not self._sign_open and not (_CJK.match(sign) and self._buffer[at - 1] not in _OPENERS):
            return 0
        return self._offer(self._end_word(counted=self._sign_open), at)

    def _read_span(self, sign: str) -> bool:
        """Follow inline code and links; True if `sign` is in one, or its end, and so no part of a word."""
        if self._span == _Span.AFTER_LINK_TEXT:
            self._span = _Span.LINK_TARGET if sign == "(" else _Span.NONE
            if self._span:
                return True
        if self._span == _Span.NONE:
            self._span = _Span.CODE if sign == "`" else _Span.LINK_TEXT if sign == "[" else _Span.NONE
            return self._span != _Span.NONE
        if self._span == _Span.LINK_TEXT and sign == "]":
            self._span = _Span.AFTER_LINK_TEXT
            self._word = "x"  # what was in the span is a word like any other
        elif (self._span, sign) in ((_Span.CODE, "`"), (_Span.LINK_TARGET, ")")):
            self._span = _Span.NONE
            self._word = "x"
        return True

    def _end_word(self, *, counted: bool = True) -> _Boundary:
        word, self._word = self._word, ""
        self._in_url = self._sign_open = False
        if not word:
            return _Boundary.WEAK
        self._words += counted
        kind = max(_boundary_after(word, self._breaks), self._carried)
        self._carried = _Boundary.WEAK
        if word == "-" and self._after_number:
            kind = _Boundary.WEAK
        self._after_number = word[-1].isdigit()
        if self._line_head:
            self._line_head = False
            marker = _LIST_MARKER.fullmatch(word)
            self._block = marker is not None or word[0] in "#|>"
            if marker:
                kind = _Boundary.WEAK
        return kind

    # --- cutting

    def _offer(self, kind: _Boundary, at: int) -> int:
        """Return `at`, or a better place before it, if the piece should be cut there."""
        if kind == _Boundary.WEAK:
            self._weak_cut = at
            return 0
        self._cuts.append(at)
        if self._size < MIN_CHUNK_SIZE:
            return 0
        if kind >= _Boundary.CLAUSE:
            self._clause_cut = at
            if kind == _Boundary.SENTENCE or not self._any or self._size > LONG_CHUNK_SIZE:
                return at
        if not self._any:
            return at if self._words >= FIRST_CHUNK_WORDS or self._size >= FIRST_CHUNK_SIZE else 0
        return (self._clause_cut or at) if self._words >= MAX_CHUNK_WORDS else 0

    def _overflow(self, at: int, sign: str) -> int:
        piled = at >= MAX_RAW_SIZE and not self._span
        if (self._size <= MAX_CHUNK_SIZE and not piled) or unicodedata.category(sign)[0] == "M":
            return 0
        return self._clause_cut or (self._cuts[-1] if self._cuts else self._weak_cut or self._span_cut or at)

    def _cut(self, at: int) -> list[Chunk]:
        """Return the piece before `at`, or a part of it if its words are too long; empty if it is unspeakable."""
        raw = self._buffer[:at]
        spoken = traced_spoken_text(raw, self._language)
        while len(spoken.text) > MAX_CHUNK_SIZE and (earlier := [cut for cut in self._cuts if cut < at]):
            middle = at / 2
            at = min(earlier, key=lambda cut: abs(cut - middle))
            raw = self._buffer[:at]
            spoken = traced_spoken_text(raw, self._language)
        base = self._base
        self._drop(at)
        self._line_head = self._line_at == 0
        if not any(map(str.isalnum, spoken.text)):
            return []
        return [self._chunk(spoken.text, tuple((end, base + place) for end, place in words_said(raw, spoken)))]

    def _chunk(self, spoken: str, words: tuple[tuple[int, int], ...] = ()) -> Chunk:
        chunk = Chunk(self._base, spoken, not self._any, words)
        self._any = True
        self._text_end = self._base
        return chunk


def _size(sign: str) -> int:
    if sign.isdigit():
        return DIGIT_SIZE
    if _CJK.match(sign):
        return CJK_SIZE
    return 1 if sign < "\u2190" or sign.isalnum() else 0  # beyond: arrows, symbols, emoji


def _boundary_after(word: str, breaks: LanguageBreaks) -> _Boundary:
    """Return how good it is to cut after `word`, which white space or another script follows."""
    if word.isalpha():
        return _Boundary.WEAK if word in breaks.leaning else _Boundary.WORD
    end = len(word)
    while end and not (word[end - 1].isalnum() or word[end - 1] in _SIGNS):
        end -= 1
    if not end:
        return _Boundary.CLAUSE if word == "-" else _Boundary.WEAK
    last = word[end - 1]
    if last in _CLAUSE_SIGNS or word.endswith("..", 0, end):
        return _Boundary.CLAUSE
    if last == ".":
        return _Boundary.WEAK if breaks.is_abbreviation(word[:end].lstrip(_OPENERS)) else _Boundary.SENTENCE
    if last in SENTENCE_SIGNS:
        return _Boundary.SENTENCE
    return _Boundary.WEAK if last.isdigit() else _Boundary.WORD
