"""The gateway's record of a client's sessions as a golden stream: what happened, in order, without what only time decides."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def dialogue_lines(records: Sequence[Path]) -> list[str]:
    """Return the lines of the golden stream."""
    raise NotImplementedError(records)
