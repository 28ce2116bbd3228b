"""What this process is doing: its state, its sessions, its engines. Read by /health, changed by the app."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from enum import StrEnum

from gateway.loop_lag import LoopLag
from models.interfaces import EngineInfo


class ServiceState(StrEnum):
    """Whether sessions can be served."""

    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"


PLACE_FREED_S = 3.0
"""How long a client waits for a place at the full-duplex model: that of a session which has just ended, perhaps its own
before a reconnect, is being freed meanwhile (chosen)."""


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
        self._full_duplex_places: asyncio.Semaphore | None = None
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

    @asynccontextmanager
    async def full_duplex_session(self) -> AsyncIterator[bool]:
        """Take a place at the full-duplex model for as long as the block runs; give False if there is none.

        A place that is being freed is waited for.
        """
        places = self._full_duplex_places
        if places is None:
            yield True
            return
        try:
            async with asyncio.timeout(PLACE_FREED_S):
                await places.acquire()
        except TimeoutError:
            yield False
            return
        try:
            yield True
        finally:
            places.release()

    def ready(
        self,
        engines: tuple[EngineInfo, ...],
        backends: tuple[str, ...] | None = None,
        *,
        full_duplex_sessions: int | None = None,
    ) -> None:
        """Note that the engines are loaded, and which backends they make; None: those that were expected.

        `full_duplex_sessions`: how many the full-duplex model in this process serves at a time, None: any number.
        """
        self._full_duplex_places = None if full_duplex_sessions is None else asyncio.Semaphore(full_duplex_sessions)
        self.engines = engines
        self.backends = backends or self.backends
        self.state = ServiceState.READY
        self.settled.set()

    def fail(self, message: str) -> None:
        """Note that the engines cannot be loaded; `message` is one sentence for the user."""
        self.failure = message
        self.state = ServiceState.FAILED
        self.settled.set()
