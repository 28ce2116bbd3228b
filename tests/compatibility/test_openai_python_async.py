"""The stock openai SDK, asynchronous: speech paced as from a microphone, and an interruption."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest
from openai import AsyncOpenAI
from openai.resources.realtime.realtime import AsyncRealtimeConnection
from recording_chat_server import RecordingChatServer, pieces
from speech_references import clip

from clients.microphone import Microphone
from protocol.wire_law import violations

pytestmark = pytest.mark.compatibility

DEADLINE_S = 60


async def until(connection: AsyncRealtimeConnection, kind: str, events: list[dict[str, Any]]) -> dict[str, Any]:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            raw = await connection.recv_bytes()
            event: dict[str, Any] = json.loads(raw)
            assert violations(event) == [], event
            assert connection.parse_event(raw).type == event["type"]
            events.append(event)
            if event["type"] == kind:
                return event


async def test_a_paced_microphone_holds_a_conversation_of_two_turns(base_url: str, llm: RecordingChatServer) -> None:
    llm.answer("First.", "Second.")
    events: list[dict[str, Any]] = []
    async with AsyncOpenAI(api_key="k", base_url=base_url) as client, client.realtime.connect(model="m") as connection:

        async def send(frame: str) -> None:
            await connection.input_audio_buffer.append(audio=json.loads(frame)["audio"])

        microphone = Microphone(send)
        sending = asyncio.create_task(microphone.run())
        for name in ("cards_001", "goforward"):
            microphone.say(clip(name))
            done = await until(connection, "response.done", events)
            assert done["response"]["status"] == "completed"
        microphone.stop()
        await sending
    audio = [base64.b64decode(event["delta"]) for event in events if event["type"] == "response.output_audio.delta"]
    assert sum(map(len, audio)) == 2 * 300 * 48
    assert llm.requests[1].said_by("assistant") == ["First."]


async def test_speech_over_a_long_reply_interrupts_it(base_url: str, llm: RecordingChatServer) -> None:
    llm.answer(pieces([f"This is sentence {number}. " for number in range(100)], every_s=0.1), "Yes?")
    events: list[dict[str, Any]] = []
    async with AsyncOpenAI(api_key="k", base_url=base_url) as client, client.realtime.connect(model="m") as connection:

        async def send(frame: str) -> None:
            await connection.input_audio_buffer.append(audio=json.loads(frame)["audio"])

        microphone = Microphone(send)
        sending = asyncio.create_task(microphone.run())
        microphone.say(clip("cards_001"))
        await until(connection, "response.output_audio.delta", events)
        microphone.say(clip("goforward"))
        await until(connection, "input_audio_buffer.speech_started", events)
        first = (await until(connection, "response.done", events))["response"]
        second = (await until(connection, "response.done", events))["response"]
        microphone.stop()
        await sending
    assert (first["status"], first["status_details"]["reason"]) == ("cancelled", "turn_detected")
    assert second["status"] == "completed"
    after = events[events.index(next(event for event in events if event.get("response", {}) == first)) + 1 :]
    assert not [event for event in after if event.get("response_id") == first["id"]]
