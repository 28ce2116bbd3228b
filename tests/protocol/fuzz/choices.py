"""Choices read from bytes: one draw of Hypothesis's makes a whole run, fast, and zero bytes make the simplest one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """Reads `data` from its beginning; behind its end there are zeros."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def exhausted(self) -> bool:
        """Whether only zeros are left."""
        return self._at >= len(self._data)

    def number(self, below: int) -> int:
        """Return a number from 0 to `below` − 1."""
        size = 1 if below <= 256 else 2
        taken = self._data[self._at : self._at + size]
        self._at += size
        return int.from_bytes(taken, "big") % below

    def one_of(self, options: Sequence[T]) -> T:
        """Return one of `options`, the first one for zero."""
        return options[self.number(len(options))]

    def chance(self, one_in: int) -> bool:
        """Return True once in `one_in` times, False for zero."""
        return self.number(one_in) == one_in - 1

    def raw(self, length: int) -> bytes:
        """Return the next `length` bytes as they are."""
        taken = self._data[self._at : self._at + length]
        self._at += length
        return taken
