"""Finds function calls that a model writes into its reply's text, in a stream, before a word of them is spoken."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum, auto
from typing import Any

from models.engines.call_syntax import MARKS, Broken, Call, Tools, Unfinished, Written, read

HELD_CHARACTERS = 2_000
"""Longest text that is held back because it might become a call, until it names a function (chosen: half a minute of
speech; a call that names its function after longer arguments is read out)."""

LONGEST_CALL = 65_536
"""Characters of a call (chosen: the longest reply that a response may have)."""

_MARK = re.compile("|".join(map(re.escape, MARKS)))
_LONGEST_MARK = max(map(len, MARKS))
_PARTIAL_MARKS = frozenset(mark[:length] for mark in MARKS for length in range(1, len(mark)))
_LINE = re.compile(r"(?:^|(?<=\n))[ \t]*(?=[{\[`])")
_LINE_MAY_BEGIN = re.compile(r"(?:^|\n)[ \t]*$")
_CLOSERS = re.compile(r"(?:\s|[,;]|</[\w=|]+>|<\|(?:/\w+|\w*end\w*|eo[mt]_id)\|>)*")
_LONGEST_CLOSER = 40
"""Characters (chosen: the longest known has 28)."""

_FENCE = "```"


class _Place(Enum):
    TEXT = auto()
    CANDIDATE = auto()
    BETWEEN_CALLS = auto()
    OVER = auto()


class WrittenCalls:
    """One reply's. What `feed` and `end` return, joined, depends on the whole text only, not on how it is cut.

    Calls may stand at the start of the reply or of a line, or after a mark anywhere. What follows a call and is no
    further call is dropped: the model can't know the result yet, and small ones make one up. So is a call that the
    reply made already.
    """

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._place = _Place.TEXT
        self._buffer = ""
        self._at_line_start = True
        self._fenced = False
        self._made: set[Call] = set()
        self.broken = False
        """Whether a call began that never became whole."""

    @property
    def holding(self) -> bool:
        """Whether there is text that was neither returned nor dropped."""
        return bool(self._buffer)

    @property
    def over(self) -> bool:
        """Whether nothing that follows can matter."""
        return self._place is _Place.OVER

    @property
    def called(self) -> bool:
        """Whether there was a call."""
        return bool(self._made)

    def feed(self, text: str) -> list[str | Call]:
        """Return what is certain of the text so far and was not returned yet: text to say, and calls."""
        self._buffer += text
        return self._advance(final=False)

    def end(self) -> list[str | Call]:
        """Return the rest: the reply is complete."""
        return self._advance(final=True)

    def _advance(self, *, final: bool) -> list[str | Call]:
        found: list[str | Call] = []
        while self._buffer:
            match self._place:
                case _Place.TEXT:
                    goes_on = self._pass_text(found, final=final)
                case _Place.CANDIDATE:
                    goes_on = self._read_candidate(found, final=final)
                case _Place.BETWEEN_CALLS:
                    goes_on = self._pass_between(final=final)
                case _Place.OVER:
                    self._buffer = ""
                    goes_on = False
            if not goes_on:
                break
        return found

    def _pass_text(self, found: list[str | Call], *, final: bool) -> bool:
        """Say what stands before the next place where a call may begin."""
        text = self._buffer
        line = next((m for m in _LINE.finditer(text) if m.start() > 0 or self._at_line_start), None)
        mark = _MARK.search(text)
        begins = [m.end() if m.re is _LINE else m.start() for m in (line, mark) if m is not None]
        if begins:
            at = min(begins)
            self._say(text[:at], found)
            self._buffer = text[at:]
            self._place = _Place.CANDIDATE
            return True
        end = len(text) if final else self._certain(text)
        self._say(text[:end], found)
        self._buffer = text[end:]
        return False

    def _certain(self, text: str) -> int:
        """Return up to where `text` can't be the beginning of a call or of a mark."""
        start = max(0, len(text) - _LONGEST_MARK + 1)
        partial = (at for at in range(start, len(text)) if text[at:] in _PARTIAL_MARKS)
        return next(partial, len(text))

    def _say(self, text: str, found: list[str | Call]) -> None:
        if not text:
            return
        line = _LINE_MAY_BEGIN.search(text)
        self._at_line_start = line is not None and (line.start() > 0 or text[0] == "\n" or self._at_line_start)
        found.append(text)

    def _read_candidate(self, found: list[str | Call], *, final: bool) -> bool:
        text = self._buffer
        bound = HELD_CHARACTERS
        reading = read(text[:bound], self._tools)
        if isinstance(reading, Unfinished) and reading.named:
            bound = LONGEST_CALL
            reading = read(text[:bound], self._tools)
        match reading:
            case Written():
                self._take(reading, found)
            case Unfinished(named=named):
                if not final and len(text) < bound:
                    return False
                self._reject(found, broken=named)
            case Broken() | None:
                self._reject(found, broken=reading is not None)
        return True

    def _take(self, written: Written, found: list[str | Call]) -> None:
        self._buffer = self._buffer[written.end :]
        self._fenced = written.fenced
        self._place = _Place.BETWEEN_CALLS
        for call in written.calls:
            if call in self._made:  # it goes round in circles
                self._place = _Place.OVER
                break
            self._made.add(call)
            found.append(call)

    def _reject(self, found: list[str | Call], *, broken: bool) -> None:
        """Make no call of the candidate: it is text, in which another one may begin, or not to be said at all."""
        if broken or self._made:
            self.broken = broken
            self._place = _Place.OVER
            return
        self._say(self._buffer[:1], found)
        self._buffer = self._buffer[1:]
        self._place = _Place.TEXT

    def _pass_between(self, *, final: bool) -> bool:
        """Pass over what closes a call; then another one must follow."""
        closers = _CLOSERS.match(self._buffer)
        assert closers is not None
        self._buffer = rest = self._buffer[closers.end() :]
        if self._fenced and rest.startswith(_FENCE):
            self._buffer, self._fenced = rest[len(_FENCE) :], False
            return True
        unsure = rest[0] == "<" and ">" not in rest and len(rest) < _LONGEST_CLOSER if rest else True
        if not final and (unsure or (self._fenced and _FENCE.startswith(rest))):
            return False
        self._place = _Place.OVER if read(rest[:HELD_CHARACTERS], self._tools) is None else _Place.CANDIDATE
        return True


def known_tools(tools: Iterable[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return name → parameters' schema of `tools`, which are in the shape of chat completions."""
    functions = [tool.get("function") for tool in tools]
    return {
        str(function["name"]): function["parameters"] if isinstance(function.get("parameters"), dict) else {}
        for function in functions
        if isinstance(function, dict) and function.get("name")
    }
