import math
import random

import pytest

from clients.turnlab.statistics import bootstrap, mean, quantile, wilson


def test_wilson_is_the_interval_of_the_textbooks() -> None:
    rate, low, high = wilson(10, 100)
    assert rate == 0.1
    assert (low, high) == (pytest.approx(0.0552, abs=1e-4), pytest.approx(0.1744, abs=1e-4))


def test_wilson_of_none_and_of_all_ends_at_zero_and_one_and_still_leaves_room() -> None:
    assert wilson(0, 20).low == 0.0
    assert wilson(0, 20).high == pytest.approx(0.1611, abs=1e-4)
    assert wilson(20, 20).high == 1.0
    assert wilson(20, 20).low == pytest.approx(1 - 0.1611, abs=1e-4)


def test_wilson_without_cases_claims_nothing() -> None:
    assert math.isnan(wilson(0, 0).value)
    assert wilson(0, 0)[1:] == (0.0, 1.0)


def test_quantiles_lie_between_the_values() -> None:
    assert quantile([4, 1, 3, 2], 0.5) == 2.5
    assert quantile([4, 1, 3, 2], 0.0) == 1
    assert quantile([4, 1, 3, 2], 1.0) == 4
    assert math.isnan(quantile([], 0.5))


def test_the_bootstrap_draws_texts_and_not_their_copies() -> None:
    chance = random.Random(3)
    values = [chance.gauss(0, 1) for _ in range(40)]
    single = bootstrap(values, id, mean)
    copied = bootstrap([(value, copy) for value in values for copy in range(4)], lambda case: case[0], _mean_of_first)
    assert copied.value == pytest.approx(single.value)
    assert copied.high - copied.low == pytest.approx(single.high - single.low, rel=0.1)
    naive = bootstrap([(value, copy) for value in values for copy in range(4)], lambda case: case, _mean_of_first)
    assert naive.high - naive.low < 0.7 * (single.high - single.low)


def _mean_of_first(cases: object) -> float:
    return mean([case[0] for case in cases])


def test_the_bootstrap_is_the_same_each_time_and_knows_nothing_of_nothing() -> None:
    values = [float(value) for value in range(30)]
    assert bootstrap(values, id, mean) == bootstrap(values, id, mean)
    assert math.isnan(bootstrap([], id, mean).value)
