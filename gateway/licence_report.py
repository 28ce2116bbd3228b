"""What `duplex-gateway licenses` prints."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

from models.licences import Licence

_ESPEAK_NG = (
    "espeak-ng, and phonemizer that calls it, make phonemes of text for Piper and Kokoro; their licence, the GPL 3, "
    "matters to whoever passes a copy on, in an image or an application."
)


def licence_table(rows: Sequence[Licence]) -> str:
    """Return one line a row, weights first, and what the GPL means here if espeak-ng is among them."""
    cells = [("what", "name", "licence", "from"), *((row.kind, row.name, row.licence, row.source) for row in rows)]
    widths = [min(48, max(len(row[column]) for row in cells)) for column in range(3)]
    lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, [*widths, 0], strict=True)) for row in cells]
    if any(row.name == "espeak-ng" for row in rows):
        lines += ["", _ESPEAK_NG]
    return "\n".join(line.rstrip() for line in lines)


def licence_json(rows: Sequence[Licence]) -> str:
    """Return the rows as a JSON list of objects."""
    return json.dumps([dataclasses.asdict(row) for row in rows], indent=2, ensure_ascii=False)
