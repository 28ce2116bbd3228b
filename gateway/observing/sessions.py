"""The sessions that can be observed: those that run, and for a while those that have ended."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from gateway.observing.observer import Count, SessionObserver
from gateway.observing.story import Limits
from protocol.audio_time import Samples

KEPT_SESSIONS = 32
"""Ended sessions whose events can still be read (chosen); the oldest leave first."""

KEPT_S = 60.0
"""How long after its end (chosen: for a page to reload; what was said is not kept for longer)."""


class ObservedSessions:
    """All sessions of one app, by id. Used from the event loop only."""

    def __init__(
        self,
        count: Count = lambda _kind, _fields: None,
        count_audio: Callable[[Samples], None] = lambda _samples: None,
    ) -> None:
        self._count = count
        self._count_audio = count_audio
        self._live: dict[str, SessionObserver] = {}
        self._ended: OrderedDict[str, SessionObserver] = OrderedDict()

    def observer(
        self,
        session_id: str,
        now: Callable[[], Samples],
        about: Mapping[str, Any],
        limits: Limits = lambda _user, _reply: {},
    ) -> SessionObserver:
        """Return the observer of a new session, which can be found from its `open` on."""
        told = {**about, "started_at": round(time.time(), 3)}
        return SessionObserver(
            session_id,
            now,
            about=told,
            limits=limits,
            count=self._count,
            count_audio=self._count_audio,
            opened=self._opened,
            closed=self._closed,
        )

    def find(self, session_id: str) -> SessionObserver | None:
        """Return the observer of a session that runs or ended lately."""
        return self._live.get(session_id) or self._ended.get(session_id)

    def list(self) -> list[dict[str, Any]]:
        """Return what is known of all of them, those that run first, the newest of each first."""
        return [
            {
                "id": observer.session_id,
                "object": "realtime.session",
                **observer.about,
                "state": state,
                "user": observer.states[0],
                "agent": observer.states[1],
                "events": observer.ring.last,
            }
            for state, group in (("live", self._live), ("ended", self._ended))
            for observer in reversed(group.values())
        ]

    def _opened(self, observer: SessionObserver) -> None:
        self._live[observer.session_id] = observer

    def _closed(self, observer: SessionObserver) -> None:
        self._live.pop(observer.session_id, None)
        self._ended[observer.session_id] = observer
        if len(self._ended) > KEPT_SESSIONS:
            self._ended.popitem(last=False)
        asyncio.get_running_loop().call_later(KEPT_S, self._ended.pop, observer.session_id, None)
