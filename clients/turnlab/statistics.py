"""Rates with Wilson intervals, and quantiles with bootstrap intervals over texts."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T")

Z_95 = 1.959964
"""Standard normal quantile of a two-sided 95 % interval."""

RESAMPLES = 2000
"""Of a bootstrap (chosen: its own error on an end of an interval is then near 1 % of the interval)."""


class Interval(NamedTuple):
    """A value and its 95 % interval."""

    value: float
    low: float
    high: float


def wilson(count: int, of: int) -> Interval:
    """Return the rate `count / of` with Wilson's interval; without any case nan, 0…1."""
    if of == 0:
        return Interval(math.nan, 0.0, 1.0)
    rate, z2 = count / of, Z_95**2
    centre = (rate + z2 / (2 * of)) / (1 + z2 / of)
    half = Z_95 / (1 + z2 / of) * math.sqrt(rate * (1 - rate) / of + z2 / (4 * of * of))
    # The ends are 0 and 1 there in exact arithmetic, too.
    return Interval(rate, 0.0 if count == 0 else centre - half, 1.0 if count == of else centre + half)


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` (0…1) of `values` lie, interpolated between two of them; nan of none."""
    if not values:
        return math.nan
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def mean(values: Sequence[float]) -> float:
    """Return the mean; nan of none."""
    return sum(values) / len(values) if values else math.nan


def bootstrap(
    cases: Sequence[T],
    cluster: Callable[[T], Hashable],
    statistic: Callable[[Sequence[T]], float],
    *,
    resamples: int = RESAMPLES,
    seed: int = 1,
) -> Interval:
    """Return `statistic` of all cases, and the percentile interval over resampled clusters.

    The cases of one cluster (the same text in another voice, say) are alike, so they are drawn together.
    """
    groups: dict[Hashable, list[T]] = {}
    for case in cases:
        groups.setdefault(cluster(case), []).append(case)
    clusters, chance = list(groups.values()), random.Random(seed)
    found = []
    for _ in range(resamples if clusters else 0):
        drawn = [case for group in chance.choices(clusters, k=len(clusters)) for case in group]
        value = statistic(drawn)
        if not math.isnan(value):
            found.append(value)
    return Interval(statistic(cases), quantile(found, 0.025), quantile(found, 0.975))
