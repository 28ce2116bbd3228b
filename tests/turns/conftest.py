"""No test of the core sleeps: its time is fed."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2]))  # so that tests.simulation is found however pytest is started


def _no_sleep(*_: Any, **__: Any) -> NoReturn:
    pytest.fail("a test of the core sleeps; feed time instead")


@pytest.fixture(autouse=True)
def _time_is_fed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", _no_sleep)
    monkeypatch.setattr(asyncio, "sleep", _no_sleep)
