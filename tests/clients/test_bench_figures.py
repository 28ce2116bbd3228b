from __future__ import annotations

from clients.bench.calibration import calibrate, load_average
from clients.bench.figures import median, percentile, shown, table


def test_percentiles_are_values_that_occurred() -> None:
    assert percentile([3, 1, None, 2], 0.5) == 2
    assert percentile(range(1, 101), 0.95) == 95
    assert percentile([], 0.5) is None


def test_medians_skip_what_is_missing() -> None:
    assert median([3, None, 1]) == 2
    assert median([3, 1, 7]) == 3
    assert median([None]) is None


def test_a_missing_figure_is_a_dash() -> None:
    assert (shown(None), shown(1.26, 1), shown(2.0)) == ("–", "1.3", "2")


def test_tables_are_aligned() -> None:
    assert table(["what", "n"], [["a", "1"], ["longer", "10"]]).splitlines() == [
        "what     n",
        "------  --",
        "a        1",
        "longer  10",
    ]


def test_calibration_takes_some_time() -> None:
    assert calibrate() > 0
    assert load_average() >= 0
