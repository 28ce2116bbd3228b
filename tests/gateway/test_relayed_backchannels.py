"""A nod of a server's is none of the user's answer: relayed sessions are measured as those of our own backends are."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import websockets

from tests.gateway.conftest import Serve
from tests.gateway.relayed import talking
from tests.gateway.scripted_cascade import quiet, voice

CREATED = {"type": "session.created", "event_id": "event_0", "session": {"id": "sess_1", "type": "realtime"}}
TURN = (
    ("input_audio_buffer.speech_started", {"item_id": "item_u", "audio_start_ms": 0}),
    ("input_audio_buffer.speech_stopped", {"item_id": "item_u", "audio_end_ms": 1_100}),
    ("input_audio_buffer.committed", {"item_id": "item_u", "previous_item_id": None}),
)


def said(response_id: str, duration_ms: int, words: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the events of a whole response."""
    part = {"response_id": response_id, "item_id": f"item_{response_id}", "output_index": 0, "content_index": 0}
    audio = base64.b64encode(voice(duration_ms)).decode()
    told = [("response.output_audio_transcript.delta", {**part, "delta": words})] if words else []
    return [
        ("response.created", {"response": {"id": response_id}}),
        *told,
        ("response.output_audio.delta", {**part, "delta": audio}),
        ("response.done", {"response": {"id": response_id, "status": "completed"}}),
    ]


@asynccontextmanager
async def server_that_says(*events: tuple[str, dict[str, Any]], after_appends: int) -> AsyncIterator[int]:
    """Serve sessions in which all of that is said once so much audio has come; the port."""

    async def serve(socket: websockets.ServerConnection) -> None:
        appends = 0
        await socket.send(json.dumps(CREATED))
        async for frame in socket:
            appends += json.loads(frame)["type"] == "input_audio_buffer.append"
            if appends != after_appends:
                continue
            for number, (kind, fields) in enumerate(events):
                await socket.send(json.dumps({"type": kind, "event_id": f"event_{number}", **fields}))

    async with websockets.serve(serve, "127.0.0.1", 0) as listening:
        yield next(iter(listening.sockets)).getsockname()[1]


async def test_a_nod_of_a_relayed_model_answers_nothing_and_the_turn_waits_for_its_answer(serve: Serve) -> None:
    events = [*TURN, *said("nod", 300, ""), *said("answer", 900, "Good morning.")]
    async with (
        server_that_says(*events, after_appends=11) as port,
        serve(whole=True, profile="scripted", duplex_base_url=f"ws://127.0.0.1:{port}") as gateway,
        httpx2.AsyncClient(timeout=20) as client,
    ):
        async with talking(gateway.url("?model=duplex"), lawful=False) as talker:
            await talker.says(voice(800), quiet(300))
            await talker.until("response.done")
            await talker.until("response.done")
            session_id = talker.events[0]["session"]["id"]
            turns: list[tuple[str, str]] = []
            async with client.stream("GET", gateway.http(f"/v1/realtime/sessions/{session_id}/events")) as told:
                async for line in told.aiter_lines():
                    event = json.loads(line.removeprefix("data: ")) if line.startswith("data: ") else {"type": ""}
                    turns += [(event["turn"], event["outcome"])] if event["type"] == "waterfall" else []
                    if len(turns) == 2:
                        break
    assert turns == [("own", "backchannel"), ("speech", "heard")]
