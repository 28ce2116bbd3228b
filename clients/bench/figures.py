"""Percentiles, and tables to print them in. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def percentile(values: Iterable[float | None], share: float) -> float | None:
    """Return the value below which `share` (0…1) of `values` lie, nearest rank; None for no values. Skips None."""
    present = sorted(value for value in values if value is not None)
    return present[round(share * (len(present) - 1))] if present else None


def median(values: Iterable[float | None]) -> float | None:
    """Return the middle value, or the mean of the middle two; None for no values. Skips None."""
    present = sorted(value for value in values if value is not None)
    if not present:
        return None
    half = len(present) // 2
    return present[half] if len(present) % 2 else (present[half - 1] + present[half]) / 2


def shown(value: float | None, digits: int = 0) -> str:
    """Return a figure for a table: `–` for none."""
    return "–" if value is None else f"{value:.{digits}f}"


def table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return aligned columns: the first to the left, the others to the right."""
    widths = [max(len(line[column]) for line in (header, *lines)) for column in range(len(header))]

    def aligned(line: Sequence[str]) -> str:
        first, *others = (
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        return "  ".join([first, *others]).rstrip()

    return "\n".join([aligned(header), aligned(["-" * width for width in widths]), *map(aligned, lines)])
