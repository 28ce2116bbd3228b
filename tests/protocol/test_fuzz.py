"""Whatever a client sends, in whatever order: no session dies of it, nothing is lost, everything is answered."""

from __future__ import annotations

import os
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.protocol.fuzz.choices import Choices
from tests.protocol.fuzz.fuzzed_session import FuzzedSession

RUNS = st.binary(min_size=40, max_size=240)
"""What a random client and a random backend do: some five to thirty frames."""

NO_CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large]


def run(data: bytes, seen: Counter[str]) -> None:
    session = FuzzedSession(Choices(data), seen)
    session.run()
    session.close()


def test_no_client_event_ends_a_session_or_goes_unanswered() -> None:
    seen: Counter[str] = Counter()

    @given(RUNS)
    @settings(max_examples=5_000, deadline=None, derandomize=True, database=None, suppress_health_check=NO_CHECKS)
    def fuzz(data: bytes) -> None:
        run(data, seen)

    fuzz()
    assert {name for name in seen if seen[name] < 20 and not name.startswith("refused")} == set()
    accepted = sum(count for name, count in seen.items() if not name.startswith("refused"))
    assert accepted > 0.3 * seen.total(), "most of the random events are nonsense"


@pytest.mark.long
@given(RUNS)
@settings(max_examples=int(os.environ.get("EXAMPLES", "100000")), deadline=None, suppress_health_check=NO_CHECKS)
def test_no_client_event_ends_a_session_or_goes_unanswered_in_a_long_run(data: bytes) -> None:
    run(data, Counter())
