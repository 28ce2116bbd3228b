"""What an observer of a session reads, and a socket that takes its frames at once and notes when."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from gateway.observing.ring import Ring
from gateway.outbox import OutboxClosed
from protocol.audio_time import Samples
from tests.gateway.fed_time import FedTime
from tests.gateway.scripted_cascade import AUDIO_DELTAS, RunningSession


def told(ring: Ring, *types: str) -> list[dict[str, Any]]:
    """Return the events in a ring, all or those of some types."""
    reader = ring.follow()
    found: list[dict[str, Any]] = []
    while taken := reader.take():
        found += [json.loads(text) for _, text in taken]
    reader.close()
    return [event for event in found if not types or event["type"] in types]


class Socket:
    """What a client got, and when (gateway clock)."""

    def __init__(self) -> None:
        self.frames: list[tuple[Samples, dict[str, Any]]] = []

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [payload for _, payload in self.frames if payload["type"] == kind]

    def audio(self, response_id: str) -> list[tuple[Samples, bytes]]:
        """Return a response's audio as it came: when, and the PCM."""
        return [
            (at, base64.b64decode(payload["delta"]))
            for at, payload in self.frames
            if payload["type"] in AUDIO_DELTAS and payload["response_id"] == response_id
        ]


@asynccontextmanager
async def reading_at_once(running: RunningSession, time: FedTime) -> AsyncIterator[Socket]:
    """Take each frame of a session as it comes, as the socket's writer does with a client that reads."""
    socket, outbox = Socket(), running.session.outbox

    async def write() -> None:
        with suppress(OutboxClosed):
            while True:
                payload = json.loads(await outbox.next_frame())
                outbox.accepted()
                socket.frames.append((time.now(), payload))

    task = asyncio.ensure_future(write())
    try:
        yield socket
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
