"""Makes a library's onnxruntime sessions stoppable: each run gets the RunOptions of the job that its thread works on.

Libraries that hold sessions of their own run them without options, so that a cancelled job would go on to its end: for
a large model on a CPU that is seconds in which nobody else is heard.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from models.engines.ort_session import StoppableRun

T = TypeVar("T")


class CurrentRun:
    """Which job each thread works on."""

    def __init__(self) -> None:
        self._local = threading.local()

    def within(self, run: StoppableRun, work: Callable[[], T]) -> T:
        """Do `work` as part of `run` and return its result."""
        self._local.run = run
        try:
            return work()
        finally:
            self._local.run = None

    @property
    def options(self) -> Any:
        """Return this thread's RunOptions, None outside of any job."""
        run: StoppableRun | None = getattr(self._local, "run", None)
        return None if run is None else run.options


class StoppableSession:
    """Stands in for an `onnxruntime.InferenceSession`."""

    def __init__(self, session: Any, current: CurrentRun) -> None:
        self._session = session
        self._current = current

    def run(self, output_names: Any, input_feed: Any, run_options: Any = None) -> Any:
        """Run the session as the present job."""
        return self._session.run(output_names, input_feed, run_options or self._current.options)

    def run_with_iobinding(self, binding: Any, run_options: Any = None) -> Any:
        """Run the session on bound inputs and outputs as the present job."""
        return self._session.run_with_iobinding(binding, run_options or self._current.options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


def make_stoppable(holder: object, current: CurrentRun) -> list[StoppableSession]:
    """Replace every session that is an attribute of `holder`, and return the stand-ins."""
    import onnxruntime

    stoppable = []
    for name, value in list(vars(holder).items()):
        if isinstance(value, onnxruntime.InferenceSession):
            session = StoppableSession(value, current)
            setattr(holder, name, session)
            stoppable.append(session)
    return stoppable
