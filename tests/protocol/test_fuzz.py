"""Whatever a client sends, in whatever order: no session dies of it, nothing is lost, everything is answered."""

from __future__ import annotations

import os
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.protocol.fuzz.choices import Choices
from tests.protocol.fuzz.fuzzed_session import FuzzedSession

RUNS = st.binary(min_size=250, max_size=250)
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
    print(sorted(seen.items()))
