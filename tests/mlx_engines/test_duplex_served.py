"""`duplex-server --tiny`: the real code of VoiceChat and Moshi, and the stock OpenAI SDK in front of it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from clients.bench.gateway_process import GatewayProcess
from gateway.app import create_app, service_of
from gateway.serving import Server, open_sockets, server_config
from gateway.settings import Settings
from models.duplex_interface import DuplexPrompt
from models.engines.tiny_voicechat import PAD
from models.engines.voicechat import VoiceChat, VoiceChatStream
from models.engines.voicechat_tools import CALL_ENDS, CALL_STARTS, RESULT_ENDS, result_text
from tests.mlx_engines.stock_client import Caller, caller

STREAM_S = 60.0

SPEECH = ("librivox_0870", "cards_005", "librivox_0880", "goforward", "librivox_0920", "something", "cards_001")
"""Some 25 s of real speech with its pauses."""

HEARD = {"audio": {"input": {"transcription": {"model": "gpt-4o-mini-transcribe"}}}}
TOOLS = [{"type": "function", "name": "get_time", "description": "The time.", "parameters": {"type": "object"}}]


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[GatewayProcess, GatewayProcess]]:
    """Return two servers, of VoiceChat and of Moshi, which start at once."""
    starting = duplex_server("--tiny"), duplex_server("--tiny", "--engine", "moshi")
    with ExitStack() as stack, ThreadPoolExecutor() as threads:
        for entered in [threads.submit(stack.enter_context, server) for server in starting]:
            entered.result()
        yield starting


@pytest.fixture
def voicechat(servers: tuple[GatewayProcess, GatewayProcess]) -> GatewayProcess:
    return servers[0]


@pytest.fixture
def moshi(servers: tuple[GatewayProcess, GatewayProcess]) -> GatewayProcess:
    return servers[1]


def duplex_server(*flags: str) -> GatewayProcess:
    return GatewayProcess(flags, program=(sys.executable, "-m", "gateway.duplex_server"))


async def a_minute(server: GatewayProcess, **session: Any) -> Caller:
    """Stream speech for a minute; a second caller comes for a while, and each cancels what the agent says."""
    async with caller(server.http_url, **session) as first:
        first.say(*SPEECH, *SPEECH, *SPEECH)
        async with asyncio.TaskGroup() as others:
            await first.until("response.output_audio.delta")
            others.create_task(a_short_call(server))
            await first.streamed(STREAM_S)
        await cancel(first)
        await first.until("input_audio_buffer.committed")  # what was said over an agent that never stopped, by now
    return first


async def a_short_call(server: GatewayProcess) -> None:
    async with caller(server.http_url) as second:
        second.say("librivox_0930", "goforward")
        await second.until("response.output_audio.delta")
        await cancel(second)
        await second.until("input_audio_buffer.committed")
        assert second.told("error") == []


async def cancel(held: Caller) -> None:
    """Cancel what the agent says, or, if it has just finished, what it says next."""
    for _ in range(20):
        response_id = await held.open_response()
        await held.connection.response.cancel(response_id=response_id)
        done = await held.done(response_id)
        if (done.get("status_details") or {}).get("reason") == "client_cancelled":
            assert done["status"] == "cancelled"
            return
        held.events.remove(await held.until("error"))  # it had finished before the cancel arrived
    raise AssertionError("no response could be cancelled")


async def test_a_minute_of_speech_through_both_engines_with_the_stock_sdk(
    voicechat: GatewayProcess, moshi: GatewayProcess
) -> None:
    async with asyncio.TaskGroup() as both:
        voice_chat = both.create_task(a_minute(voicechat, instructions="Be brief.", **HEARD))
        kyutai = both.create_task(a_minute(moshi, **HEARD))
    for held in (voice_chat.result(), kyutai.result()):
        assert held.told("error") == []
        assert held.told("session.created")
        streamed_s = len(held.microphone.lateness_ms) / 50
        assert streamed_s >= STREAM_S
        assert 0.2 * streamed_s < held.heard_s() <= streamed_s + 1
        assert len(held.told("response.output_audio_transcript.delta")) > 50
        assert held.told("response.done")
    assert len(voice_chat.result().told("conversation.item.input_audio_transcription.delta")) > 10
    assert not kyutai.result().told("conversation.item.input_audio_transcription.delta")
    for server in (voicechat, moshi):
        assert server.alive
        assert not [line for line in server.output if "Traceback" in line or " ERROR " in line]


async def test_after_the_minute_the_next_caller_is_served(voicechat: GatewayProcess, moshi: GatewayProcess) -> None:
    for server in (voicechat, moshi):
        await a_short_call(server)


async def test_through_a_gateway_that_relays_it_the_same_events_come(voicechat: GatewayProcess) -> None:
    relaying = GatewayProcess(("--profile", "scripted", "--no-cascade", "--duplex-base-url", voicechat.http_url))
    with relaying as gateway:
        direct, relayed = [await a_cancelled_answer(server) for server in (voicechat, gateway)]
    assert direct["response.output_audio.delta"]
    assert relayed == direct


async def a_cancelled_answer(server: GatewayProcess) -> dict[str, set[tuple[str, ...]]]:
    """Speak until the model does, cancel that, and return the fields of each kind of event by then, in their order.

    When random weights hear the user out is chance: of what is told of them only the transcript has to come.
    """
    async with caller(server.http_url, instructions="Be brief.", **HEARD) as held:
        held.say("goforward")
        await held.until("response.output_audio.delta")
        await held.until("response.output_audio_transcript.delta")
        await cancel(held)
    told: dict[str, set[tuple[str, ...]]] = {}
    for event in held.events:
        if event["type"].startswith(("session.", "response.")):
            told.setdefault(event["type"], set()).add(tuple(event))
    return told


async def test_a_model_that_is_not_steered_refuses_to_be_made_to_speak(moshi: GatewayProcess) -> None:
    async with caller(moshi.http_url) as held:
        await held.connection.response.create(event_id="event_please")
        error = (await held.until("error"))["error"]
        assert (error["type"], error["event_id"]) == ("invalid_request_error", "event_please")
        await held.until("response.output_audio.delta")


# --- a tool, which random weights never call by themselves: here the test reaches into the model ---------------------


@dataclass
class Served:
    http_url: str
    streams: list[VoiceChatStream]


@pytest.fixture
async def served(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    """Serve tiny VoiceChat as the command does, on this event loop, and keep its conversations."""
    streams: list[VoiceChatStream] = []
    opened = VoiceChat.open

    async def opens(self: VoiceChat, prompt: DuplexPrompt) -> VoiceChatStream:
        streams.append(await opened(self, prompt))
        return streams[-1]

    monkeypatch.setattr(VoiceChat, "open", opens)
    settings = Settings(
        profile="scripted", vad="silero", cascade=False, duplex="voicechat", duplex_tiny=True, host=("127.0.0.1",)
    )
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket) for socket in open_sockets(settings.host, 0)]
        app = create_app(settings)
        server = Server(server_config(app, settings))
        serving = asyncio.create_task(server._serve(sockets))  # without uvicorn's signal handlers
        await service_of(app).settled.wait()
        assert not service_of(app).failure
        yield Served(f"http://127.0.0.1:{sockets[0].getsockname()[1]}", streams)
        server.should_exit = True
        await serving


async def wait_for(fact: Callable[[], bool]) -> None:
    """Wait for what the model does, which tells no test of it."""
    async with asyncio.timeout(30):
        while not fact():  # noqa: ASYNC110 - the model tells no test
            await asyncio.sleep(0.02)


async def test_a_tool_is_called_and_its_result_is_put_into_the_model(served: Served) -> None:
    async with caller(served.http_url, tools=TOOLS, instructions="Tell the time.") as held:
        await held.until("response.output_audio.delta")
        (stream,) = served.streams
        call = '[{"name": "get_time", "arguments": {"zone": "UTC"}}]'
        stream.stop()
        stream.steering.force(*((PAD, token) for token in (CALL_STARTS, *stream._encode(call), CALL_ENDS)))
        called = await held.until("response.function_call_arguments.done")
        assert json.loads(called["arguments"]) == {"zone": "UTC"}
        done = await held.until(
            "response.done",
            lambda event: any(item["type"] == "function_call" for item in event["response"]["output"]),
        )
        (item,) = (item for item in done["response"]["output"] if item["type"] == "function_call")
        assert (item["name"], item["call_id"]) == ("get_time", called["call_id"])

        await held.connection.conversation.item.create(
            item={"type": "function_call_output", "call_id": called["call_id"], "output": '{"time": "<noon>"}'}
        )
        await held.connection.response.create()
        spoken = await held.until("response.created", lambda event: held.events.index(event) > held.events.index(done))
        result = [*stream._encode(result_text('{"time": "<noon>"}')), RESULT_ENDS]
        await wait_for(lambda: RESULT_ENDS in stream.function_tokens and not stream.steering.reads)
        tokens = stream.function_tokens
        assert any(list(tokens[at : at + len(result)]) == result for at in range(len(tokens)))
        assert spoken["response"]["status"] == "in_progress"
        assert held.told("error") == []
    await wait_for(lambda: stream.closed)  # with its socket
