"""Frames on their way from a session to its socket, in order and bounded."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from typing import NamedTuple

from protocol.audio_time import Samples

LIMIT_BYTES = 16 * 2**20
"""Most bytes that may wait for one client (chosen): 30 s of audio, the most made ahead, take 1.9 MB in base64."""


class OutboxOverflow(Exception):
    """The client reads too slowly: more waits for it than the bound allows. The endpoint closes with 1008."""


class OutboxClosed(Exception):
    """The outbox was closed and all that it held has been taken."""


class _Waiting(NamedTuple):
    frame: str
    audio_of: str | None
    item_id: str
    samples: Samples
    size_bytes: int


class Outbox:
    """A bounded FIFO with one reader, the socket's writer.

    Overflow rule: the client is closed. Frames are never dropped one by one, since every one of them matters to a
    client's state; after an overflow the outbox is empty and each further `put` raises again.
    """

    def __init__(
        self,
        limit_bytes: int = LIMIT_BYTES,
        *,
        audio_accepted: Callable[[str, Samples], None] = lambda _response_id, _samples: None,
    ) -> None:
        """`audio_accepted` is told of each audio frame that the socket took: its response and its samples."""
        self._limit_bytes = limit_bytes
        self._audio_accepted = audio_accepted
        self._taken: _Waiting | None = None
        self._waiting: deque[_Waiting] = deque()
        self._waiting_bytes = 0
        self._changed = asyncio.Event()
        self._closed = False
        self._overflowed = False

    @property
    def waiting_bytes(self) -> int:
        """Return the bytes of all frames not yet taken by the writer."""
        return self._waiting_bytes

    def put(self, frame: str, *, audio_of: str | None = None, item_id: str = "", samples: Samples = 0) -> None:
        """Append a frame; `audio_of` names the response whose audio it carries: `samples` of `item_id`. Never waits.

        After `close` the frame is dropped: there is nobody left to read it. Raises OutboxOverflow.
        """
        if self._closed:
            return
        frame, size_bytes = encodable(frame)
        if self._overflowed or self._waiting_bytes + size_bytes > self._limit_bytes:
            self._overflowed = True
            self._clear()
            raise OutboxOverflow(f"more than {self._limit_bytes} bytes wait for the client")
        self._waiting.append(_Waiting(frame, audio_of, item_id, samples, size_bytes))
        self._waiting_bytes += size_bytes
        self._changed.set()

    def discard_audio(self, response_id: str) -> dict[str, Samples]:
        """Drop the waiting audio of `response_id`; all other frames keep their order. Return what was dropped by item.

        Of each item that is the end of its audio so far: what came before has been taken by the writer.
        """
        return self._discard(lambda waiting: waiting.audio_of == response_id)

    def discard_item_audio(self, item_id: str) -> dict[str, Samples]:
        """Drop the waiting audio of the item `item_id`, as `discard_audio` does."""
        return self._discard(lambda waiting: waiting.audio_of is not None and waiting.item_id == item_id)

    def _discard(self, unwanted: Callable[[_Waiting], bool]) -> dict[str, Samples]:
        dropped: Counter[str] = Counter()
        kept: deque[_Waiting] = deque()
        for waiting in self._waiting:
            if unwanted(waiting):
                dropped[waiting.item_id] += waiting.samples
                self._waiting_bytes -= waiting.size_bytes
            else:
                kept.append(waiting)
        self._waiting = kept
        return dict(dropped)

    async def next_frame(self) -> str:
        """Take the oldest frame, waiting for one. Raises OutboxClosed.

        The socket's writer takes frames singly, so that audio which the socket has not accepted yet can still be
        discarded.
        """
        while not self._waiting:
            if self._closed:
                raise OutboxClosed
            self._changed.clear()
            await self._changed.wait()
        waiting = self._waiting.popleft()
        self._waiting_bytes -= waiting.size_bytes
        self._taken = waiting
        return waiting.frame

    def accepted(self) -> None:
        """Note that the socket has taken the latest frame: its writer says so once the send has returned."""
        taken, self._taken = self._taken, None
        if taken is not None and taken.audio_of is not None:
            self._audio_accepted(taken.audio_of, taken.samples)

    def close(self) -> None:
        """Take no more frames; the reader gets what waits and then OutboxClosed."""
        self._closed = True
        self._changed.set()

    def _clear(self) -> None:
        self._waiting.clear()
        self._waiting_bytes = 0


def encodable(frame: str) -> tuple[str, int]:
    """Return `frame` as a socket can send it, and its bytes in UTF-8.

    A lone surrogate, which a client's JSON escape can smuggle in and no socket can send, becomes U+FFFD.
    """
    if frame.isascii():
        return frame, len(frame)
    try:
        return frame, len(frame.encode())
    except UnicodeEncodeError:
        mended = frame.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return mended, len(mended.encode())
