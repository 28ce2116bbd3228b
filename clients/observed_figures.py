"""Reads the figures that a gateway's own meter has of a session, from its observer stream."""

from __future__ import annotations

import asyncio
import http.client
import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from clients.server_url import http_connection

SILENT_S = 60.0
"""A stream that says nothing for so long, not even that it lives, is given up (chosen: four of the server's signs)."""

LAST_WORDS_S = 5.0
"""How long after the session the stream may take to end (chosen)."""


@dataclass(slots=True)
class Figures:
    """What was measured of one session, in ms; a list has an entry for each time that there was something to measure.

    `source`: `meter`, the gateway's, or `client`, this program's own. `unanswered`: turns whose answer was never heard.
    Of the times that the user spoke over the agent: in `went_on` it talked on, in `ended` it was done anyway.
    """

    source: str
    answer_ms: list[float] = field(default_factory=list)
    yield_ms: list[float] = field(default_factory=list)
    stop_ms: list[float] = field(default_factory=list)
    unanswered: int = 0
    went_on: int = 0
    ended: int = 0


def figures_of(events: list[dict[str, Any]]) -> Figures:
    """Return the meter's figures from what an observer has read."""
    figures = Figures("meter")
    for event in events:
        match event:
            case {"type": "waterfall", "turn": "speech", "outcome": "heard", "total_ms": total_ms}:
                figures.answer_ms.append(total_ms)
            case {"type": "waterfall", "turn": "speech"}:
                figures.unanswered += 1
            case {"type": "overlap.measured", "outcome": outcome, "yield_ms": yield_ms, "stop_ms": stop_ms}:
                figures.went_on += outcome == "went_on"
                figures.ended += outcome == "ended"
                figures.yield_ms += [] if yield_ms is None else [yield_ms]
                figures.stop_ms += [] if stop_ms is None else [stop_ms]
            case _:
                pass
    return figures


class ObserverStream:
    """Follows one session in the background, from `start` to its end."""

    def __init__(self, socket_url: str, session_id: str, api_key: str) -> None:
        """`socket_url`: where the session's socket is; servers without observers have nothing beside it."""
        self._url = urlsplit(socket_url)
        self._path = f"{self._url.path.rstrip('/')}/sessions/{session_id}/events"
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._reading: asyncio.Task[list[dict[str, Any]] | None] | None = None

    def start(self) -> None:
        """Begin to read."""
        self._reading = asyncio.create_task(asyncio.to_thread(self._read))

    async def events(self) -> list[dict[str, Any]] | None:
        """Return all events, once the session has ended; None if the server tells nothing."""
        assert self._reading is not None
        try:
            async with asyncio.timeout(LAST_WORDS_S):
                return await self._reading
        except TimeoutError:
            return None

    def _read(self) -> list[dict[str, Any]] | None:
        connection = http_connection(self._url, SILENT_S)
        try:
            connection.request("GET", self._path, headers=self._headers)
            answer = connection.getresponse()
            if answer.status != 200 or "event-stream" not in (answer.getheader("Content-Type") or ""):
                return None
            return [json.loads(line[6:]) for line in answer if line.startswith(b"data: ")]
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            connection.close()
