"""A raw session for tests: every event that it receives must be lawful and in a lawful order."""

from __future__ import annotations

import asyncio
import base64
import socket
import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from clients.microphone import Microphone
from clients.realtime_connection import Predicate, RealtimeConnection, StampedEvent
from clients.wav_audio import RATE_HZ
from protocol.wire_law import SessionLaw

DEADLINE_S = 60.0
"""How long an event may take on a machine that other work slows down."""

CHUNK_BYTES = RATE_HZ // 50 * 2
SERVER_VAD = {
    "type": "server_vad",
    "threshold": 0.5,
    "prefix_padding_ms": 300,
    "silence_duration_ms": 500,
    "create_response": True,
    "interrupt_response": True,
}
TRANSCRIPTION = {"model": "gpt-4o-mini-transcribe"}


@dataclass(frozen=True)
class Reply:
    """One response, from `response.created` to `response.done`."""

    response_id: str
    events: list[StampedEvent]

    @property
    def done(self) -> StampedEvent:
        return next(event for event in self.events if event.type == "response.done")

    @property
    def status(self) -> str:
        return str(self.done.details("response", "status"))

    @property
    def output(self) -> list[dict[str, Any]]:
        return list(self.done.details("response", "output"))

    @property
    def audio(self) -> bytes:
        return b"".join(base64.b64decode(delta) for delta in self._joined("response.output_audio.delta"))

    @property
    def audio_ms(self) -> float:
        return len(self.audio) / 2 * 1000 / RATE_HZ

    @property
    def transcript(self) -> str:
        return "".join(self._joined("response.output_audio_transcript.delta"))

    @property
    def text(self) -> str:
        return "".join(self._joined("response.output_text.delta"))

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.events]

    def item_id(self, index: int = 0) -> str:
        return str(self.output[index]["id"])

    def first(self, kind: str) -> StampedEvent:
        return next(event for event in self.events if event.type == kind)

    def _joined(self, kind: str) -> list[str]:
        return [event.details("delta") for event in self.events if event.type == kind]


class WireSession:
    """One connection. Leaving the `async with` fails if an event was unlawful."""

    def __init__(self, url: str, *, api_key: str = "unused") -> None:
        self.unlawful: list[str] = []
        self._law = SessionLaw()
        self.connection = RealtimeConnection(url, api_key=api_key, on_event=self._check)

    async def __aenter__(self) -> Self:
        await self.connection.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.connection.__aexit__(kind, error, trace)
        if error is None:
            assert self.unlawful == []
            assert order_violations(self.events) == []

    def _check(self, event: StampedEvent) -> None:
        self.unlawful += [f"{event.type}: {problem}" for problem in self._law.violations(event.body)]

    @property
    def events(self) -> list[StampedEvent]:
        return self.connection.events

    @property
    def mark(self) -> int:
        """Where the events to come will begin."""
        return len(self.events)

    def since(self, mark: int, *kinds: str) -> list[StampedEvent]:
        return [event for event in self.events[mark:] if not kinds or event.type in kinds]

    async def send(self, kind: str, **fields: Any) -> None:
        await self.connection.send({"type": kind, **fields})

    async def until(self, wanted: str | Predicate, *, after: int = 0, within_s: float = DEADLINE_S) -> StampedEvent:
        return await self.connection.until(wanted, within_s=within_s, after=after)

    async def update(self, **session: Any) -> dict[str, Any]:
        """Send a session.update that must be accepted; return the session it led to."""
        mark = self.mark
        event_id = f"update_{mark}"
        await self.send("session.update", session={"type": "realtime", **session}, event_id=event_id)

        def answers(event: StampedEvent) -> bool:
            return event.type == "session.updated" or event.details("error", "event_id") == event_id

        answer = await self.until(answers, after=mark)
        assert answer.type == "session.updated", answer.body
        return dict(answer.details("session"))

    async def listen(self, turn_detection: dict[str, Any] | None, **session: Any) -> dict[str, Any]:
        """Set turn detection and transcription."""
        audio = {"input": {"turn_detection": turn_detection, "transcription": TRANSCRIPTION}}
        return await self.update(audio=audio, **session)

    async def refused(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Send an event that must be answered with exactly one error; return the error."""
        return await self.refused_frame({"type": kind, **fields}, event_id=fields["event_id"])

    async def refused_frame(self, frame: str | bytes | dict[str, Any], *, event_id: str | None) -> dict[str, Any]:
        mark = self.mark
        if isinstance(frame, bytes):
            await self.connection.send_bytes(frame)
        elif isinstance(frame, str):
            await self.connection.send_text(frame)
        else:
            await self.connection.send(frame)
        await self.until("error", after=mark)
        await self.update()  # a second error would come before the answer to it
        errors = self.since(mark, "error")
        assert len(errors) == 1, [event.body for event in self.since(mark)]
        error: dict[str, Any] = errors[0].details("error")
        assert error["type"] == "invalid_request_error"
        assert error["message"]
        assert error["event_id"] == event_id
        return error

    async def user_types(self, text: str, **item: Any) -> str:
        """Add a user message and return its id."""
        mark = self.mark
        content = [{"type": "input_text", "text": text}]
        item = {"type": "message", "role": "user", "content": content, **item}
        await self.send("conversation.item.create", item=item)
        return str((await self.until("conversation.item.done", after=mark)).details("item", "id"))

    async def respond(self, **response: Any) -> Reply:
        """Ask for a response and return it when it is over."""
        mark = self.mark
        await self.send("response.create", **({"response": response} if response else {}))
        return await self.reply(after=mark)

    async def reply(self, *, after: int, within_s: float = DEADLINE_S) -> Reply:
        """Return the first response that was created after `after`, when it is over."""
        created = await self.until("response.created", after=after, within_s=within_s)
        return await self.ended(created.details("response", "id"), within_s=within_s)

    async def ended(self, response_id: str, *, within_s: float = DEADLINE_S) -> Reply:
        """Return a response when it is over."""

        def ends(event: StampedEvent) -> bool:
            return event.type == "response.done" and event.details("response", "id") == response_id

        await self.until(ends, within_s=within_s)
        mine = [
            event
            for event in self.events
            if response_id in (event.details("response_id"), event.details("response", "id"))
        ]
        return Reply(response_id, mine)

    async def retrieve(self, item_id: str) -> dict[str, Any]:
        mark = self.mark
        await self.send("conversation.item.retrieve", item_id=item_id)
        return dict((await self.until("conversation.item.retrieved", after=mark)).details("item"))

    async def append(self, pcm: bytes, *, chunk_bytes: int = CHUNK_BYTES) -> None:
        """Append `pcm` at once."""
        for start in range(0, len(pcm), chunk_bytes):
            await self.send_audio(pcm[start : start + chunk_bytes])

    async def send_audio(self, chunk: bytes) -> None:
        await self.send("input_audio_buffer.append", audio=base64.b64encode(chunk).decode())

    async def stream(self, pcm: bytes) -> float:
        """Append `pcm` at the pace of speech; return when its first sample was spoken (monotonic seconds)."""
        begin_s = time.monotonic()
        for start in range(0, len(pcm), CHUNK_BYTES):
            chunk = pcm[start : start + CHUNK_BYTES]
            due_s = begin_s + (start + len(chunk)) / 2 / RATE_HZ
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            await self.send_audio(chunk)
        return begin_s

    @asynccontextmanager
    async def microphone(self) -> AsyncIterator[Microphone]:
        """Keep a microphone open."""
        microphone = Microphone(self.connection.send_text)
        sending = asyncio.create_task(microphone.run())
        try:
            yield microphone
        finally:
            microphone.stop()
            await sending

    async def transcript_of(self, pcm: bytes) -> str:
        """Commit `pcm` as a turn of its own, in manual mode, and return its transcript."""
        mark = self.mark
        await self.append(pcm)
        await self.send("input_audio_buffer.commit")
        item_id = (await self.until("input_audio_buffer.committed", after=mark)).details("item_id")
        return await self.transcript(item_id)

    async def transcript(self, item_id: str) -> str:
        """Return a user item's transcript when it is there."""
        kind = "conversation.item.input_audio_transcription.completed"
        completed = await self.until(lambda event: event.type == kind and event.details("item_id") == item_id)
        return str(completed.details("transcript"))

    def vanish(self) -> None:
        """Break the connection without a word, as a lost network does."""
        socket_ = self.connection._socket
        assert socket_ is not None
        raw = socket_.transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close by RST
        socket_.transport.abort()

    async def healthy_tail(self) -> None:
        """Check that the session still works: an update and a short text turn."""
        await self.update(instructions="k")
        await self.user_types("are you there?")
        reply = await self.respond(output_modalities=["text"])
        assert reply.status == "completed"


def silence(ms: int) -> bytes:
    return bytes(RATE_HZ * ms // 1000 * 2)


def order_violations(events: list[StampedEvent]) -> list[str]:
    """Return what is wrong with the order of a session's events (protocol.md §2)."""
    found: list[str] = []
    ids = [event.details("event_id") for event in events]
    if len(set(ids)) != len(ids):
        found.append("an event_id is used twice")
    created: set[str] = set()
    done: set[str] = set()
    open_items: set[str] = set()
    open_parts: set[str] = set()
    for event in events:
        response_id = event.details("response_id") or event.details("response", "id")
        if event.type == "response.created":
            if response_id in created:
                found.append(f"{response_id} is created twice")
            created.add(response_id)
            continue
        if response_id is None or (
            event.type == "response.output_item.done" and event.details("item", "type") == "mcp_call"
        ):
            continue  # a call of an MCP server ends when its server has answered, which may be after its response
        if response_id not in created:
            found.append(f"{event.type} of {response_id} before its response.created")
        if response_id in done:
            found.append(f"{event.type} of {response_id} after its response.done")
        item_id = event.details("item_id") or event.details("item", "id")
        match event.type:
            case "response.output_item.added" if event.details("item", "type") != "mcp_call":
                open_items.add(item_id)
            case "response.output_item.done":
                if item_id not in open_items:
                    found.append(f"{item_id} is done without being added")
                if item_id in open_parts:
                    found.append(f"{item_id} is done before its part")
                open_items.discard(item_id)
            case "response.content_part.added":
                if item_id not in open_items:
                    found.append(f"a part of {item_id} before its output_item.added")
                open_parts.add(item_id)
            case "response.content_part.done":
                open_parts.discard(item_id)
            case "response.done":
                done.add(response_id)
            case kind if kind.endswith(".delta") and "_call_arguments" not in kind:
                if item_id not in open_parts:
                    found.append(f"{kind} of {item_id} outside its part")
        if event.type == "response.done":
            for item in event.details("response", "output") or ():
                if item["id"] in open_items:
                    found.append(f"response.done before output_item.done of {item['id']}")
    return found
