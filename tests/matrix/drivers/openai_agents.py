"""openai-agents-python: a RealtimeAgent with one tool, in its default configuration."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import dialogue
from agents import function_tool, set_tracing_disabled
from agents.realtime import RealtimeAgent, RealtimeRunner, RealtimeSession
from agents.realtime.model_inputs import RealtimeModelSendInterrupt, RealtimeModelSendRawMessage

set_tracing_disabled(True)  # it would send traces to OpenAI


@function_tool
def get_weather(city: str) -> str:
    """Return the weather in a city."""
    return dialogue.WEATHER


class Conversation:
    """A session and all that it told its application."""

    def __init__(self, session: RealtimeSession) -> None:
        self.session = session
        self.events: list[Any] = []
        self.microphone = dialogue.Microphone(session.send_audio)
        self._source = aiter(session)

    async def until(self, wanted: str | Callable[[Any], bool]) -> Any:
        """Take events up to one of that type, or that `wanted` accepts."""
        async with asyncio.timeout(dialogue.STEP_DEADLINE_S):
            while True:
                event = await anext(self._source)
                self.events.append(event)
                if event.type == wanted if isinstance(wanted, str) else wanted(event):
                    return event
                if event.type == "error":
                    raise RuntimeError(event.error)

    async def server_event(self, kind: str) -> dict[str, Any]:
        """Take events up to the server's event of that type, which the SDK shows as it came."""
        return dict((await self.until(lambda event: raw(event).get("type") == kind)).data.data)

    async def ask(self, text: str) -> None:
        """Ask for an answer in writing, or aloud."""
        if dialogue.FULL_DUPLEX:
            self.microphone.speak(dialogue.ALOUD[text])
        else:
            await self.session.send_message(text)

    async def response(self) -> dict[str, Any]:
        """Take a response to its end; return what a user got of it."""
        begin = len(self.events)
        done = await self.server_event("response.done")
        while dialogue.is_nod(done["response"]):
            done = await self.server_event("response.done")
        events = self.events[begin:]
        said = "".join(event.data.delta for event in events if of_model(event, "transcript_delta"))
        audio_bytes = sum(len(event.audio.data) for event in events if event.type == "audio")
        return {**done["response"], "reply": said, "audio_ms": audio_bytes // dialogue.BYTES_PER_MS}

    def speaking(self, clip: str) -> AbstractAsyncContextManager[None]:
        """Keep a microphone open: the clip at the pace of speech, then silence."""
        return self.microphone.speaking(clip)


def of_model(event: Any, kind: str) -> bool:
    return event.type == "raw_model_event" and event.data.type == kind


def raw(event: Any) -> dict[str, Any]:
    return event.data.data if of_model(event, "raw_server_event") else {}


async def main() -> None:
    agent = RealtimeAgent(name="Assistant", instructions="Be brief.", tools=[get_weather])
    address = {"url": f"{dialogue.SOCKET_URL}?model={dialogue.MODEL}", "api_key": dialogue.GATEWAY_KEY}
    session = await RealtimeRunner(agent).run(model_config=address)
    async with session:
        talk = Conversation(session)
        created = await talk.server_event("session.created")
        await talk.server_event("session.updated")  # its settings
        await talk.server_event("session.updated")  # its tracing, asked for once the session is there
        dialogue.report("connected", model=created["session"]["model"])
        await spoken_turn(talk)
        await tool(talk)
        await barge_in(talk)
        if dialogue.FULL_DUPLEX:
            await typed(talk)
        await cancel(talk)
        await truncate(talk)
        await leave(talk)


async def spoken_turn(talk: Conversation) -> None:
    async with talk.speaking(dialogue.SPOKEN_TURN):
        heard = await talk.until(lambda event: of_model(event, "input_audio_transcription_completed"))
        turn = await talk.response()
    dialogue.report("spoken_turn", heard=heard.data.transcript, reply=turn["reply"], audio_ms=turn["audio_ms"])


async def tool(talk: Conversation) -> None:
    await talk.ask(dialogue.WEATHER_QUESTION)
    # The SDK runs the tool beside its receiving: the call's own response may end before the tool does, or after it.
    turn = await talk.response()
    while turn["output"][0]["type"] == "function_call":
        turn = await talk.response()
    ended = next(event for event in talk.events if event.type == "tool_end")
    dialogue.report("tool", name=ended.tool.name, arguments=json.loads(ended.arguments), reply=turn["reply"])


async def barge_in(talk: Conversation) -> None:
    await talk.ask(dialogue.STORY_REQUEST)
    await talk.until("audio")
    async with talk.speaking(dialogue.BARGE_IN):
        await talk.until("audio_interrupted")
        cut = await talk.response()
        await talk.server_event("conversation.item.retrieved")  # asked for by the SDK, which truncated
        heard = await talk.until(lambda event: of_model(event, "input_audio_transcription_completed"))
        turn = await talk.response()
    dialogue.report(
        "barge_in",
        cancelled=cut["status_details"] == {"type": "cancelled", "reason": "turn_detected"},
        heard=heard.data.transcript,
        reply=turn["reply"],
    )


async def typed(talk: Conversation) -> None:
    await talk.session.send_message(dialogue.SMALL_TALK)
    refused = await talk.until("error")
    await talk.response()  # which the SDK has asked for, too
    dialogue.report("typed", refused=[refused.error.code])


async def cancel(talk: Conversation) -> None:
    await talk.ask(dialogue.STORY_REQUEST)
    await talk.until("audio")
    # What `session.interrupt()` sends, and `response.cancel`, which it leaves to a server that cancels by itself.
    await talk.session.model.send_event(RealtimeModelSendInterrupt(force_response_cancel=True))
    cut = await talk.response()
    await talk.server_event("conversation.item.retrieved")
    dialogue.report("cancel", status=cut["status"], reason=cut["status_details"]["reason"])


async def truncate(talk: Conversation) -> None:
    await talk.ask(dialogue.SMALL_TALK)
    item_id = (await talk.response())["output"][0]["id"]
    cut = {"item_id": item_id, "content_index": 0, "audio_end_ms": dialogue.TRUNCATE_AT_MS}
    message: Any = {"type": "conversation.item.truncate", "other_data": cut}
    await talk.session.model.send_event(RealtimeModelSendRawMessage(message))
    truncated = await talk.server_event("conversation.item.truncated")
    retrieved = await talk.server_event("conversation.item.retrieved")
    ok = truncated["audio_end_ms"] == dialogue.TRUNCATE_AT_MS and retrieved["item"]["id"] == item_id
    dialogue.report("truncate", ok=ok)


async def leave(talk: Conversation) -> None:
    await talk.ask(dialogue.STORY_REQUEST)
    await talk.until("audio")
    transport = talk.session.model._websocket.transport
    raw_socket = transport.get_extra_info("socket")
    raw_socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # as a lost network
    transport.abort()
    dialogue.report("left")


asyncio.run(main())
