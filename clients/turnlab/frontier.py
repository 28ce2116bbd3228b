"""The frontier as a picture: false cut-offs over mean delay, each policy a point with its intervals, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from clients.turnlab.endpointing import Row

_WIDTH, _HEIGHT = 760, 460
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 90, 52, 60
_COLOURS = {"semantic": "#0b6e4f", "silence": "#8a8a8a"}


def picture(rows: Sequence[Row], title: str) -> str:
    """Return the SVG. Policies whose names begin with the same word are joined in the order of their delay."""
    longest = max([1000.0, *(row.whole.mean_ms.high for row in rows)]) * 1.05
    highest = max([0.1, *(row.cut_offs.rate.high for row in rows)])

    def x(delay_ms: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * delay_ms / longest

    def y(rate: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * rate / highest

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif"'
        ' font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="22" font-size="14">{escape(title)}</text>',
    ]
    for step in range(0, int(longest) + 1, 250):
        parts.append(_line(x(step), _TOP, x(step), _HEIGHT - _BOTTOM, "#e5e5e5"))
        parts.append(_text(x(step), _HEIGHT - _BOTTOM + 18, f"{step}", "middle"))
    for tenth in range(int(highest * 10) + 1):
        parts.append(_line(_LEFT, y(tenth / 10), _WIDTH - _RIGHT, y(tenth / 10), "#e5e5e5"))
        parts.append(_text(_LEFT - 8, y(tenth / 10) + 4, f"{tenth * 10} %", "end"))
    parts.append(
        _text((_LEFT + _WIDTH) / 2, _HEIGHT - 14, "mean delay after the last word of whole utterances, ms", "middle")
    )
    parts.append(_text(_LEFT, _TOP - 6, "false cut-offs, all pauses counting the same", "start"))
    for family in dict.fromkeys(row.policy.split()[0] for row in rows):
        colour = _COLOURS.get(family, "#b35900")
        members = sorted(
            (row for row in rows if row.policy.split()[0] == family), key=lambda row: row.whole.mean_ms.value
        )
        points = " ".join(f"{x(row.whole.mean_ms.value):.1f},{y(row.cut_offs.rate.value):.1f}" for row in members)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        for row in members:
            delay, rate = row.whole.mean_ms, row.cut_offs.rate
            parts += [
                _line(x(delay.low), y(rate.value), x(delay.high), y(rate.value), colour),
                _line(x(delay.value), y(rate.low), x(delay.value), y(rate.high), colour),
                f'<circle cx="{x(delay.value):.1f}" cy="{y(rate.value):.1f}" r="4" fill="{colour}"/>',
                _text(x(delay.value) + 7, y(rate.value) - 7, row.policy, "start"),
            ]
    return "\n".join([*parts, "</svg>", ""])


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
