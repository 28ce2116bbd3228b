"""A raw WebSocket to any Realtime server that stamps each event with the time of its arrival."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import websockets

from clients.refusals import told

OPEN_TIMEOUT_S = 30.0
CLOSE_TIMEOUT_S = 5.0

_OPENING = ("session.created", "error")
"""What a server can begin with: a session, or the words in which it opens none (it then closes the connection)."""

Body = dict[str, Any]  # Any: decoded JSON of any shape
Predicate = Callable[["StampedEvent"], bool]


class RealtimeError(Exception):
    """The server could not be reached or did not answer. The text is one sentence for the user."""


@dataclass(frozen=True, slots=True)
class StampedEvent:
    """A server event and when it came, in seconds of the monotonic clock."""

    at_s: float
    body: Body

    @property
    def type(self) -> str:
        """Return the event's type; "" if it has none."""
        return str(self.body.get("type", ""))

    def details(self, *path: str) -> Any:
        """Return what lies at `path` in the event, None if it isn't there (Any: JSON)."""
        value: Any = self.body
        for key in path:
            if not isinstance(value, dict):
                return None
            value = value.get(key)
        return value


class RealtimeConnection:
    """One session. Events are kept in `events`, in order; `on_event` sees each as it arrives.

    Use as `async with`: entering connects and waits for `session.created`, or for the error instead of it.
    """

    def __init__(
        self, url: str, *, api_key: str = "unused", on_event: Callable[[StampedEvent], None] | None = None
    ) -> None:
        self.events: list[StampedEvent] = []
        self.closed = False
        self.close_code: int | None = None
        self._url = url
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._on_event = on_event
        self._changed = asyncio.Condition()
        self._socket: websockets.ClientConnection | None = None
        self._reader: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Connect. Raises RealtimeError."""
        try:
            self._socket = await websockets.connect(
                self._url,
                additional_headers=self._headers,
                compression=None,
                max_size=None,
                open_timeout=OPEN_TIMEOUT_S,
                close_timeout=CLOSE_TIMEOUT_S,
                proxy=None,
            )
        except websockets.InvalidStatus as error:
            raise RealtimeError(told(self._url, error.response.status_code, error.response.body)) from error
        except (OSError, TimeoutError, websockets.WebSocketException) as error:
            raise RealtimeError(f"Cannot connect to {self._url} ({error}): is a gateway running there?") from error
        self._reader = asyncio.create_task(self._read(self._socket))
        try:
            opened = await self.until(_OPENING, within_s=OPEN_TIMEOUT_S)
            if opened.type == "error":
                words = opened.details("error", "message") or json.dumps(opened.body.get("error"))
                raise RealtimeError(f"The server opened no session: {words}")
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the socket."""
        if self._socket is not None:
            await self._socket.close()
        if self._reader is not None:
            self._reader.cancel()
            with suppress(asyncio.CancelledError):
                await self._reader

    async def send(self, event: Body) -> None:
        """Send a client event. Raises RealtimeError when the socket is closed."""
        await self.send_text(json.dumps(event))

    async def send_text(self, frame: str) -> None:
        """Send a text frame as it is. Raises RealtimeError when the socket is closed."""
        await self._send(frame)

    async def send_bytes(self, frame: bytes) -> None:
        """Send a binary frame, which the Realtime API doesn't know. Raises RealtimeError when the socket is closed."""
        await self._send(frame)

    async def _send(self, frame: str | bytes) -> None:
        assert self._socket is not None, "enter the connection first"
        try:
            await self._socket.send(frame)
        except websockets.ConnectionClosed as error:
            raise RealtimeError(f"The server closed the connection ({error}).") from error

    async def until(self, wanted: str | Sequence[str] | Predicate, *, within_s: float, after: int = 0) -> StampedEvent:
        """Return the first event from `events[after]` on that is `wanted`: a type, one of several, or a condition.

        Raises RealtimeError when the deadline passes or the socket closes first.
        """
        types = (wanted,) if isinstance(wanted, str) else wanted
        matches: Predicate = types if callable(types) else (lambda event: event.type in types)
        seen = after
        found: StampedEvent | None = None

        def check() -> bool:
            nonlocal seen, found
            while found is None and seen < len(self.events):
                found = self.events[seen] if matches(self.events[seen]) else None
                seen += 1
            return found is not None or self.closed

        try:
            async with asyncio.timeout(within_s), self._changed:
                await self._changed.wait_for(check)
        except TimeoutError as error:
            last = ", ".join(event.type for event in self.events[-5:])
            raise RealtimeError(f"No {_name(wanted)} within {within_s:.0f} s; the last events were: {last}.") from error
        if found is None:
            raise RealtimeError(f"The server closed the connection ({self.close_code}) before {_name(wanted)} came.")
        return found

    async def _read(self, socket: websockets.ClientConnection) -> None:
        try:
            async for frame in socket:
                event = StampedEvent(time.monotonic(), json.loads(frame))
                self.events.append(event)
                if self._on_event is not None:
                    self._on_event(event)
                async with self._changed:
                    self._changed.notify_all()
        except websockets.ConnectionClosed:
            pass  # told by `closed` and `close_code`
        finally:
            self.closed = True
            self.close_code = socket.close_code
            async with self._changed:
                self._changed.notify_all()


def _name(wanted: str | Sequence[str] | Predicate) -> str:
    if isinstance(wanted, str):
        return f"`{wanted}`"
    return "awaited event" if callable(wanted) else " or ".join(f"`{name}`" for name in wanted)
