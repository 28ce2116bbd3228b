"""The stock OpenAI SDK as an application uses it: it speaks real speech into a session and keeps all that comes."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI
from openai.resources.realtime.realtime import AsyncRealtimeConnection

from clients.microphone import CHUNK_MS, Microphone
from clients.wav_audio import read_clip
from protocol.wire_law import SessionLaw

SPEECH = Path(__file__).parent.parent / "data" / "speech"
DEADLINE_S = 60.0


class Caller:
    """One session. `events` are all so far, each lawful and of a type that the SDK knows."""

    def __init__(self, connection: AsyncRealtimeConnection) -> None:
        self.connection = connection
        self.events: list[dict[str, Any]] = []
        self.microphone = Microphone(self._append)
        self._arrived = asyncio.Condition()
        self._law = SessionLaw()

    async def _append(self, frame: str) -> None:
        await self.connection.input_audio_buffer.append(audio=json.loads(frame)["audio"])

    def say(self, *names: str) -> None:
        """Speak clips of real people, one after the other."""
        for name in names:
            self.microphone.say(read_clip(SPEECH / f"{name}.wav").trimmed())

    def told(self, kind: str) -> list[dict[str, Any]]:
        """Return all events of `kind` so far."""
        return [event for event in self.events if event["type"] == kind]

    def heard_s(self) -> float:
        """Return how much of the agent's audio has come, in seconds."""
        deltas = self.told("response.output_audio.delta")
        return sum(len(base64.b64decode(event["delta"])) for event in deltas) / 48_000

    async def streamed(self, seconds: float) -> None:
        """Return once so much audio has been sent."""
        async with asyncio.timeout(seconds + DEADLINE_S):
            while len(self.microphone.lateness_ms) * CHUNK_MS < seconds * 1000:  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0.1)

    async def open_response(self) -> str:
        """Return the id of the response that is open, or of the next."""
        over = {event["response"]["id"] for event in self.told("response.done")}
        created = await self.until("response.created", lambda event: event["response"]["id"] not in over)
        return str(created["response"]["id"])

    async def done(self, response_id: str) -> dict[str, Any]:
        """Return a response at its end."""
        event = await self.until("response.done", lambda event: event["response"]["id"] == response_id)
        response: dict[str, Any] = event["response"]
        return response

    async def until(self, kind: str, fits: Callable[[dict[str, Any]], bool] = lambda _event: True) -> dict[str, Any]:
        """Return the first event of `kind` that fits, of all that came or will come."""
        at = 0
        async with asyncio.timeout(DEADLINE_S), self._arrived:
            while True:
                for event in self.events[at:]:
                    if event["type"] == kind and fits(event):
                        return event
                at = len(self.events)
                await self._arrived.wait()

    async def read(self) -> None:
        """Keep what comes, until cancelled."""
        while True:
            raw = await self.connection.recv_bytes()
            event: dict[str, Any] = json.loads(raw)
            assert self._law.violations(event) == [], event
            assert self.connection.parse_event(raw).type == event["type"]
            async with self._arrived:
                self.events.append(event)
                self._arrived.notify_all()


@asynccontextmanager
async def caller(http_url: str, **session: Any) -> AsyncIterator[Caller]:
    """Hold a session with its microphone on, all of its settings but `session` the default ones."""
    async with (
        AsyncOpenAI(api_key="k", base_url=f"{http_url}/v1") as client,
        client.realtime.connect(model="gpt-realtime") as connection,
        asyncio.TaskGroup() as tasks,
    ):
        held = Caller(connection)
        reading = tasks.create_task(held.read())
        await connection.session.update(session={"type": "realtime", **session})
        await held.until("session.updated")
        speaking = tasks.create_task(held.microphone.run())
        try:
            yield held
        finally:
            held.microphone.stop()
            await speaking
            reading.cancel()
