"""The stock OpenAI Agents SDK on a served gateway, in its default configuration."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from agents import function_tool, set_tracing_disabled
from agents.realtime import RealtimeAgent, RealtimeRunner, RealtimeSession
from recording_chat_server import Delta, RecordingChatServer, Stop, pieces
from speech_references import clip
from wire_session import silence

from protocol.wire_law import violations

pytestmark = pytest.mark.compatibility

DEADLINE_S = 60
set_tracing_disabled(True)


@function_tool
def get_weather(city: str) -> str:
    """Return the weather in a city."""
    return f"It is sunny in {city}."


class AgentSession:
    """A session of the SDK, with all that it received."""

    def __init__(self, session: RealtimeSession) -> None:
        self.session = session
        self.events: list[Any] = []
        self.raw: list[dict[str, Any]] = []

    async def until(self, wanted: Callable[[Any], bool]) -> Any:
        async with asyncio.timeout(DEADLINE_S):
            async for event in self.session:
                self.events.append(event)
                assert event.type != "error", event.error
                if event.type == "raw_model_event" and event.data.type == "raw_server_event":
                    self.raw.append(event.data.data)
                    assert violations(event.data.data) == [], event.data.data
                if wanted(event):
                    return event
        raise AssertionError("the session ended")

    async def response_done(self) -> dict[str, Any]:
        event = await self.until(lambda event: _raw_type(event) == "response.done")
        return dict(event.data.data["response"])

    @property
    def audio(self) -> bytes:
        return b"".join(event.audio.data for event in self.events if event.type == "audio")

    async def speak(self, pcm: bytes) -> None:
        for start in range(0, len(pcm), 960):
            await self.session.send_audio(pcm[start : start + 960])
            await asyncio.sleep(0.02)


def _raw_type(event: Any) -> str | None:
    if event.type == "raw_model_event" and event.data.type == "raw_server_event":
        return str(event.data.data["type"])
    return None


@asynccontextmanager
async def agent_session(url: str) -> AsyncIterator[AgentSession]:
    agent = RealtimeAgent(name="Assistant", instructions="Be brief.", tools=[get_weather])
    runner = RealtimeRunner(agent)
    async with await runner.run(model_config={"url": url, "api_key": "k"}) as session:
        yield AgentSession(session)


async def test_the_default_configuration_is_accepted(socket_url: str, llm: RecordingChatServer) -> None:
    async with agent_session(socket_url) as agent:
        await agent.until(lambda event: _raw_type(event) == "session.updated")
        updated = agent.raw[-1]["session"]
        assert updated["instructions"] == "Be brief."
        assert updated["audio"]["input"]["turn_detection"]["type"] == "semantic_vad"
        assert [tool["name"] for tool in updated["tools"]] == ["get_weather"]


async def test_a_typed_message_is_answered_in_speech(socket_url: str, llm: RecordingChatServer) -> None:
    llm.answer("One two three.")
    async with agent_session(socket_url) as agent:
        await agent.session.send_message("Hello.")
        assert (await agent.response_done())["status"] == "completed"
        await agent.until(lambda event: event.type == "agent_end")
        assert len(agent.audio) == 3 * 300 * 48
        assert agent.session._history[-1].content[0].transcript == "One two three."


async def test_speech_is_heard_and_answered(socket_url: str, llm: RecordingChatServer) -> None:
    async with agent_session(socket_url) as agent:
        microphone = asyncio.create_task(agent.speak(clip("goforward").pcm + silence(60_000)))
        try:
            assert (await agent.response_done())["status"] == "completed"
        finally:
            microphone.cancel()
            with suppress(asyncio.CancelledError):
                await microphone
        assert agent.audio
        heard = [
            event.data.transcript
            for event in agent.events
            if _model_type(event) == "input_audio_transcription_completed"
        ]
        assert heard == ["Hello there."]


def _model_type(event: Any) -> str | None:
    return str(event.data.type) if event.type == "raw_model_event" else None


async def test_a_tool_runs_and_its_result_is_spoken(socket_url: str, llm: RecordingChatServer) -> None:
    function = {"name": "get_weather", "arguments": '{"city": "Oslo"}'}
    call = Delta({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]})
    llm.answer([call, Stop("tool_calls")], "It is sunny.")
    async with agent_session(socket_url) as agent:
        await agent.session.send_message("Weather in Oslo?")
        ended = await agent.until(lambda event: event.type == "tool_end")
        assert ended.output == "It is sunny in Oslo."
        assert (await agent.response_done())["output"][0]["content"][0]["transcript"] == "It is sunny."
        assert llm.requests[1].said_by("tool") == ["It is sunny in Oslo."]


async def test_speech_interrupts_and_the_sdk_is_told(socket_url: str, llm: RecordingChatServer) -> None:
    llm.answer(pieces([f"This is sentence {number}. " for number in range(100)], every_s=0.1), "Yes?")
    async with agent_session(socket_url) as agent:
        await agent.session.send_message("Talk.")
        await agent.until(lambda event: event.type == "audio")
        microphone = asyncio.create_task(agent.speak(clip("goforward").pcm + silence(60_000)))
        try:
            await agent.until(lambda event: event.type == "audio_interrupted")
            first = await agent.response_done()
            second = await agent.response_done()
        finally:
            microphone.cancel()
            with suppress(asyncio.CancelledError):
                await microphone
        assert first["status"] == "cancelled"
        assert second["status"] == "completed"
        assert [event["type"] for event in agent.raw].count("conversation.item.truncated") <= 1
