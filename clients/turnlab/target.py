"""What TurnLab speaks to: anything that takes 20 ms of a user's audio at a time and says when it did what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from protocol.audio_time import Samples

FEED_MS = 20
"""Audio fed at a time: what a microphone's client sends."""


class StampedEvent(Protocol):
    """A server event of the Realtime protocol and when it left, in samples since the session began."""

    @property
    def at(self) -> Samples:
        """Return when it left."""
        ...

    @property
    def event(self) -> dict[str, Any]:
        """Return the event as on the wire."""
        ...


class Target(Protocol):
    """One session of a Realtime server."""

    async def feed(self, pcm: bytes) -> Sequence[StampedEvent]:
        """Let the user say `pcm` (PCM16, 24 kHz) and return what the session said until its end."""
        ...

    async def send(self, event: dict[str, Any]) -> Sequence[StampedEvent]:
        """Send a client event and return what the session says at once."""
        ...


OpenTarget = Callable[[], AbstractAsyncContextManager[Target]]
"""Opens a session of its own for each utterance."""
