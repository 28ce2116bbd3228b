"""`GET /v1/realtime/sessions…`: what runs, and each session's events as they happen (server-sent events).

Who may open a socket may observe: the same keys and the same origins, with one difference. An ephemeral key is one
user's, so that it does not list sessions; but whoever knows a session's id, which only its own client is told, may
follow it with one. A page's `EventSource` sends no headers: where a key is required, it reads the stream with `fetch`.
"""

from __future__ import annotations

import asyncio
import contextlib

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Message, Receive, Scope, Send

from gateway.endpoints.access import Refusal
from gateway.endpoints.errors import error_response
from gateway.endpoints.keys import Keys
from gateway.observing.ring import Reader, Ring
from gateway.observing.sessions import ObservedSessions

MAX_READERS = 16
"""Observers of one session at a time (chosen); a further one gets 429."""

KEEP_ALIVE_S = 15.0
"""A comment is sent after this long without an event (the HTML standard's advice for proxies)."""

RETRY_MS = 1_000
"""How long an EventSource waits before it comes back (chosen)."""

LAST_WORDS_S = 5.0
"""How long an ended session's reader may take to read what is left (chosen)."""

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
MEDIA_TYPE = "text/event-stream"


class ObserverEndpoint:
    """The observer stream of one app's sessions."""

    def __init__(self, sessions: ObservedSessions, keys: Keys) -> None:
        self._sessions = sessions
        self._keys = keys

    async def list(self, request: Request) -> Response:
        """Answer with the sessions that run and those that ended lately."""
        refusal = self._keys.refuse_request(request)
        if refusal is not None:
            return error_response(refusal)
        return JSONResponse({"object": "list", "data": self._sessions.list()}, headers={"Cache-Control": "no-store"})

    async def events(self, request: Request) -> Response:
        """Answer with a session's events: those behind `Last-Event-ID`, else all that are kept, then each new one."""
        admission = self._keys.admit(request)
        if isinstance(admission, Refusal):
            return error_response(admission)
        session_id = request.path_params["session_id"]
        observer = self._sessions.find(session_id)
        if observer is None:
            message = f"No session with id '{session_id[:80]}' runs here or ended within the last minute."
            return error_response(Refusal(404, message, code="session_not_found"))
        ring = observer.ring
        if request.method == "HEAD":
            return Response(media_type=MEDIA_TYPE, headers=HEADERS)
        after = _last_event_id(request)
        if ring.ended.is_set() and after >= ring.last:
            return Response(status_code=204)  # tells an EventSource to stay away
        if ring.readers >= MAX_READERS:
            message = "Too many observers follow this session: try again later."
            return error_response(Refusal(429, message, "rate_limit_error", "too_many_observers"))
        return EventStream(ring, after)


def _last_event_id(request: Request) -> int:
    text = request.headers.get("last-event-id", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0


class EventStream(Response):
    """Follows a ring until it has ended or the client leaves. Sends wait for the client; the ring waits for nobody."""

    media_type = MEDIA_TYPE

    def __init__(self, ring: Ring, after: int = 0) -> None:
        self.status_code = 200
        self.background = None
        self.init_headers(HEADERS)  # without a body: its length is not known
        self._ring = ring
        self._after = after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one reader."""
        reader = self._ring.follow(self._after)
        tasks = [
            asyncio.create_task(self._send(reader, send)),
            asyncio.create_task(_client_left(receive)),
            asyncio.create_task(self._patience_ended()),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            reader.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            with contextlib.suppress(OSError):  # the client has gone
                task.result()

    async def _send(self, reader: Reader, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send(_body(f"retry: {RETRY_MS}\n\n"))
        while True:
            ended = self._ring.ended.is_set()
            if waiting := reader.take():
                await send(_body("".join(f"id: {seq}\ndata: {text}\n\n" for seq, text in waiting)))
            elif ended:
                break
            else:
                try:
                    async with asyncio.timeout(KEEP_ALIVE_S):
                        await reader.more.wait()
                except TimeoutError:
                    await send(_body(": keep-alive\n\n"))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _patience_ended(self) -> None:
        await self._ring.ended.wait()
        await asyncio.sleep(LAST_WORDS_S)


async def _client_left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _body(text: str) -> Message:
    return {"type": "http.response.body", "body": text.encode(), "more_body": True}
