"""Ids of sessions, items, responses and events: a prefix and 21 base62 characters, as OpenAI writes them."""

from __future__ import annotations

import secrets
import string
from collections import Counter
from typing import Protocol

_ALPHABET = string.digits + string.ascii_letters
_LENGTH = 21


class IdSource(Protocol):
    """Makes ids. Injected, so that tests and replays count instead of drawing."""

    def __call__(self, prefix: str) -> str:
        """Return a new id such as `item_…` for prefix `item`."""
        ...


def random_id(prefix: str) -> str:
    """Return an unguessable id with `prefix`."""
    return f"{prefix}_{''.join(secrets.choice(_ALPHABET) for _ in range(_LENGTH))}"


class CountingIds:
    """Ids that count per prefix (`item_1`, `item_2`, …): the same run gives the same ids."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def __call__(self, prefix: str) -> str:
        """Return the next id with `prefix`."""
        self._counts[prefix] += 1
        return f"{prefix}_{self._counts[prefix]}"
