"""One session on one socket: whichever of reader, writer and session ends first ends all."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import NoReturn, Protocol

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from gateway.endpoints.errors import error_frame
from gateway.outbox import Outbox, OutboxClosed, OutboxOverflow
from gateway.session_ending import Ending
from protocol.errors import ProtocolError, session_expired

logger = logging.getLogger(__name__)

FLUSH_DEADLINE_S = 5.0
"""How long a closing session waits for its client to take what is left (chosen)."""

CLOSE_DEADLINE_S = 5.0
"""How long the last words may wait for a client that doesn't read (chosen)."""


class RealtimeSession(Protocol):
    """What the socket needs of a session."""

    @property
    def session_id(self) -> str:
        """Return the id for the log."""
        ...

    @property
    def outbox(self) -> Outbox:
        """Return the frames for the client."""
        ...

    async def run(self) -> Ending | None:
        """Run the session, `session.created` first, until cancelled. Raises on a bug.

        Returns where the session has ended by itself, and how its socket is closed; None: with 1000.
        """
        ...

    async def receive_text(self, frame: str) -> None:
        """Take a client's frame. Returns when the next may come."""
        ...

    async def receive_binary(self, frame: bytes) -> None:
        """Take a binary frame, which no client event is."""
        ...

    def expire(self, error: ProtocolError) -> None:
        """Put the `session_expired` error into the outbox."""
        ...


GONE = Ending(None)
BUG = Ending(1011, "internal error")
SLOW_READER = Ending(1008, "client reads too slowly")


class _Ended(Exception):
    """Raised by a task of the group to end all others."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.reason)
        self.ending = ending


class SocketSession:
    """Carries frames between an accepted WebSocket and a session."""

    def __init__(
        self, websocket: WebSocket, open_session: Callable[[], RealtimeSession], limit_s: float, limit_min: int = 60
    ) -> None:
        """Take the longest duration, and how many minutes the client is told that it was."""
        self._websocket = websocket
        self._open_session = open_session
        self._limit_s = limit_s
        self._limit_min = limit_min
        self._closing: Ending | None = None

    async def run(self) -> None:
        """Run until the client leaves, the session ends or its time is up. Raises nothing but cancellation."""
        session_id = "(not opened)"
        try:
            session = self._open_session()
            session_id = session.session_id
            async with asyncio.TaskGroup() as group:
                group.create_task(self._run_session(session))
                group.create_task(self._read(session))
                group.create_task(self._write(session.outbox))
                group.create_task(self._expire(session))
        except Exception as error:
            # All that ends a session comes by here; what isn't foreseen is a bug and logged with its stack.
            ending = self._judge(session_id, error)
        else:
            raise AssertionError("no task of a session returns")
        await self._close(ending)

    async def _run_session(self, session: RealtimeSession) -> None:
        ending = await session.run()
        await self._finish(session.outbox, ending or Ending(1000))

    async def _read(self, session: RealtimeSession) -> NoReturn:
        # One frame at a time: while the session is busy nothing is read, and the client's TCP window fills.
        while True:
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                raise _Ended(GONE)
            text = message.get("text")
            if text is not None:
                await session.receive_text(text)
            else:
                await session.receive_binary(message["bytes"])

    async def _write(self, outbox: Outbox) -> NoReturn:
        try:
            while True:
                await self._websocket.send_text(await outbox.next_frame())
                outbox.accepted()
        except WebSocketDisconnect:
            raise _Ended(GONE) from None
        except OutboxClosed:
            raise _Ended(self._closing or Ending(1000)) from None

    async def _expire(self, session: RealtimeSession) -> None:
        await asyncio.sleep(self._limit_s)
        error = session_expired(self._limit_min)
        session.expire(error)
        await self._finish(session.outbox, Ending(1001, error.message))

    async def _finish(self, outbox: Outbox, ending: Ending) -> NoReturn:
        """End with `ending` once the writer has sent all; it ends the group first unless the client is stuck."""
        self._closing = ending
        outbox.close()
        await asyncio.sleep(FLUSH_DEADLINE_S)
        raise _Ended(ending)

    def _judge(self, session_id: str, error: Exception) -> Ending:
        """Return the ending that `error` calls for; a bug outweighs all else."""
        leaves = _leaves(error)
        bugs = [leaf for leaf in leaves if not isinstance(leaf, _Ended | OutboxOverflow)]
        endings = [leaf.ending for leaf in leaves if isinstance(leaf, _Ended)]
        for bug in bugs:
            logger.error("session %s ended by a bug", session_id, exc_info=bug)
        if GONE in endings:
            logger.debug("session %s: the client left", session_id)
            return GONE
        if bugs:
            return BUG
        if any(isinstance(leaf, OutboxOverflow) for leaf in leaves):
            logger.warning("session %s closed: its client reads too slowly", session_id)
            return SLOW_READER
        return endings[0]

    async def _close(self, ending: Ending) -> None:
        states = (self._websocket.client_state, self._websocket.application_state)
        if ending.code is None or any(state is not WebSocketState.CONNECTED for state in states):
            return
        try:
            async with asyncio.timeout(CLOSE_DEADLINE_S):
                if ending is BUG:
                    message = "The server had an error while processing your request."
                    await self._websocket.send_text(error_frame("server_error", message, "server_error"))
                await self._websocket.close(ending.sent_code, ending.reason)
        except (TimeoutError, WebSocketDisconnect):
            # A client that doesn't read gets no close frame; the server drops the connection when the endpoint returns.
            logger.debug("a client did not take its close frame")


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]
