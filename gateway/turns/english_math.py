"""Says formulas in English: LaTeX as models write it, powers, and the signs that a voice drops or names oddly.

espeak-ng 1.52 says nothing for "<", ">" and "^" between words, and spells LaTeX out.
"""

from __future__ import annotations

import re

from gateway.turns.traced_text import GROUP, Rewrite

_COMMANDS = {
    "times": "times", "cdot": "times", "div": "divided by", "pm": "plus or minus", "mp": "minus or plus",
    "leq": "less than or equal to", "le": "less than or equal to", "geq": "greater than or equal to",
    "ge": "greater than or equal to", "neq": "not equal to", "ne": "not equal to", "approx": "approximately",
    "infty": "infinity", "to": "to", "rightarrow": "to", "Rightarrow": "implies", "implies": "implies",
    "int": "the integral of", "sum": "the sum of", "prod": "the product of", "partial": "partial", "circ": "degrees",
    "ldots": "and so on", "dots": "and so on", "cdots": "and so on", "in": "in", "forall": "for all",
    "exists": "there exists", "lim": "the limit of", "sin": "sine", "cos": "cosine", "tan": "tangent", "log": "log",
    "ln": "natural log", "percent": "percent",
    **{name: name.lower() for name in "alpha beta gamma delta epsilon theta lambda mu pi rho sigma tau phi omega Delta "
                                      "Sigma Omega".split()},
}  # fmt: skip
"""LaTeX commands that are words."""

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")


def _power(match: re.Match[str]) -> str:
    exponent = match[1].translate(_SUPERSCRIPTS)
    if exponent in ("2", "3"):
        return " squared" if exponent == "2" else " cubed"
    return " to the power of " + exponent.replace("-", "minus ")


def _between_numbers(match: re.Match[str]) -> str:
    """Return "5 - 10" as a range, unless it stands in a sum."""
    return " minus " if re.search(r"[=+]|\d\s?[*×]\s?\d", match.string) else " to "


_FRACTION = (
    re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}"),
    lambda match: f" {match[1]} over {match[2]} ",
)

MATH: list[Rewrite] = [
    (re.compile(r"(?<![\w$])\${1,2}(?=\S)([^$\n]*[\\^_=+{}][^$\n]*)(?<=\S)\${1,2}(?!\w)"), GROUP),
    (re.compile(r"\\(?:text|mathrm|mathbf|mathbb|mathcal|operatorname|boxed)\s*\{([^{}]*)\}"), GROUP),
    (re.compile(r"\\(?:left|right|big|Big|quad|qquad|displaystyle)(?![A-Za-z])|\\[,;:! ]"), " "),
    (re.compile(r"\\sqrt\s*\{([^{}]*)\}"), lambda match: f" the square root of {match[1]} "),
    _FRACTION,
    _FRACTION,  # one in the other
    (
        re.compile(r"\\(int|sum|prod)_(?:\{([^{}]*)\}|(\w))\^(?:\{([^{}]*)\}|(\\?\w+))"),
        lambda match: f" {_COMMANDS[match[1]][:-3]} from {match[2] or match[3]} to {match[4] or match[5]} of ",
    ),
    (
        re.compile(rf"\\({'|'.join(sorted(_COMMANDS, key=len, reverse=True))})(?![A-Za-z])"),
        lambda match: f" {_COMMANDS[match[1]]} ",
    ),
    (re.compile(r"[₀-₉]+"), lambda match: match[0].translate(_SUBSCRIPTS)),
    (re.compile(r"(?<=[\w)\]}])(?<!\d[ kc]m)(?<!\d [kc]m)(?<!\dm)([⁰¹²³⁴-⁹⁻]+)"), _power),
    (re.compile(r"(?<=[\w)\]}])\s?\^\s?\{?(-?\w+)\}?\^?"), _power),
    (re.compile(r"(?<=\d)\s+[-−–]\s+(?=\d)"), _between_numbers),
    (re.compile(r"(?<=\d)\s+/\s+(?=\d)|(?<=\d)\s*÷\s*(?=\d)"), " divided by "),
    (re.compile(r"(?<![\w.)\-−])[-−](?=[$€£¥]?\d)"), "minus "),
    (re.compile(r"\s*(?:>=|≥)\s*"), " greater than or equal to "),
    (re.compile(r"\s*(?:<=|≤)\s*"), " less than or equal to "),
    (re.compile(r"\s*(?:!=|≠)\s*"), " not equal to "),
    (re.compile(r"\s*={2,3}\s*(?=\w)"), " equals "),
    (re.compile(r"(?<![\w<-])<\s?(?=[\d$€£])|(?<=\w)\s<\s(?=\w)"), " less than "),
    (re.compile(r"(?<![\w>=-])>\s?(?=[\d$€£])|(?<=\w)\s>\s(?=\w)"), " more than "),
]
"""In this order."""
