"""What this process is doing: its state, its sessions, its engines. Read by /health, changed by the app."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from gateway.loop_lag import LoopLag
from models.interfaces import EngineInfo


class ServiceState(StrEnum):
    """Whether sessions can be served."""

    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"


class Service:
    """The process as its operator sees it. One per app; used from the event loop only."""

    def __init__(self, max_sessions: int, backends: tuple[str, ...]) -> None:
        self.state = ServiceState.STARTING
        self.failure = ""
        self.settled = asyncio.Event()
        """Set once `state` is READY or FAILED."""
        self.backends = backends
        self.engines: tuple[EngineInfo, ...] = ()
        self.lag = LoopLag()
        self.sessions_active = 0
        self.sessions_total = 0
        self._max_sessions = max_sessions
        self._started_at_s = time.monotonic()

    @property
    def uptime_s(self) -> float:
        """Return the seconds since the process began to start."""
        return time.monotonic() - self._started_at_s

    @property
    def full(self) -> bool:
        """Say whether no further session fits."""
        return self.sessions_active >= self._max_sessions

    @contextmanager
    def session(self) -> Iterator[None]:
        """Count a session for as long as the block runs."""
        self.sessions_active += 1
        self.sessions_total += 1
        try:
            yield
        finally:
            self.sessions_active -= 1

    def ready(self, engines: tuple[EngineInfo, ...], backends: tuple[str, ...] | None = None) -> None:
        """Note that the engines are loaded, and which backends they make; None: those that were expected."""
        self.engines = engines
        self.backends = backends or self.backends
        self.state = ServiceState.READY
        self.settled.set()

    def fail(self, message: str) -> None:
        """Note that the engines cannot be loaded; `message` is one sentence for the user."""
        self.failure = message
        self.state = ServiceState.FAILED
        self.settled.set()
