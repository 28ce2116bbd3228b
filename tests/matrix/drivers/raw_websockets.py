"""No SDK: `websockets` as it is, with its 1 MiB frames, compression offer and pings, and JSON.

It says who it is as browsers have to, by subprotocol. Its spoken turn is push-to-talk: a commit and a response
asked for in one breath. For the barge-in it turns voice activity detection on again.
"""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import struct
from contextlib import AbstractAsyncContextManager
from typing import Any

import dialogue
import websockets

Event = dict[str, Any]


class Conversation:
    """A connection and all that it received."""

    def __init__(self, connection: websockets.ClientConnection) -> None:
        self.connection = connection
        self.events: list[Event] = []
        self.microphone = dialogue.Microphone(self.append)

    async def send(self, kind: str, **fields: Any) -> None:
        await self.connection.send(json.dumps({"type": kind, **fields}))

    async def until(self, kind: str) -> Event:
        """Receive up to the event of that type."""
        async with asyncio.timeout(dialogue.STEP_DEADLINE_S):
            while True:
                event: Event = json.loads(await self.connection.recv())
                self.events.append(event)
                if event["type"] == kind:
                    return event
                if event["type"] == "error":
                    raise RuntimeError(event["error"]["message"])

    async def update(self, **session: Any) -> None:
        await self.send("session.update", session={"type": "realtime", **session})
        await self.until("session.updated")

    async def ask(self, text: str) -> None:
        """Type a message and ask for its answer, or ask aloud."""
        if dialogue.FULL_DUPLEX:
            self.microphone.speak(dialogue.ALOUD[text])
        else:
            await self.write(text)

    async def write(self, text: str) -> None:
        """Type a message and ask for its answer."""
        content = [{"type": "input_text", "text": text}]
        await self.send("conversation.item.create", item={"type": "message", "role": "user", "content": content})
        await self.send("response.create")

    async def response(self, begin: int | None = None) -> Event:
        """Receive a response to its end; return what a user got of it. `begin`: how many events had come before it."""
        begin = len(self.events) if begin is None else begin
        done = await self.until("response.done")
        while dialogue.is_nod(done["response"]):
            done = await self.until("response.done")
        deltas = [event for event in self.events[begin:] if event["type"].endswith(".delta")]
        audio = b"".join(base64.b64decode(e["delta"]) for e in deltas if e["type"] == "response.output_audio.delta")
        said = "".join(e["delta"] for e in deltas if e["type"] == "response.output_audio_transcript.delta")
        return {**done["response"], "reply": said, "audio_ms": len(audio) // dialogue.BYTES_PER_MS}

    async def append(self, chunk: bytes) -> None:
        await self.send("input_audio_buffer.append", audio=base64.b64encode(chunk).decode())

    def speaking(self, clip: str) -> AbstractAsyncContextManager[None]:
        """Keep a microphone open: the clip at the pace of speech, then silence."""
        return self.microphone.speaking(clip)


async def main() -> None:
    subprotocols = [
        websockets.Subprotocol(name) for name in ("realtime", f"openai-insecure-api-key.{dialogue.GATEWAY_KEY}")
    ]
    address = f"{dialogue.SOCKET_URL}?model={dialogue.MODEL}"
    async with websockets.connect(address, subprotocols=subprotocols) as connection:
        if connection.subprotocol != "realtime":
            raise RuntimeError(f"the gateway chose the subprotocol {connection.subprotocol}")
        talk = Conversation(connection)
        created = await talk.until("session.created")
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
    transcription = {"model": "whisper-1", "language": "en"}
    # A full-duplex model reads its tools when the conversation begins.
    tools = {"tools": [dialogue.WEATHER_TOOL]} if dialogue.FULL_DUPLEX else {}
    await talk.update(audio={"input": {"turn_detection": None, "transcription": transcription}}, **tools)
    for chunk in dialogue.spoken(dialogue.SPOKEN_TURN):
        await talk.append(chunk)
        await asyncio.sleep(dialogue.CHUNK_MS / 1000)
    begin = len(talk.events)
    await talk.send("input_audio_buffer.commit")
    await talk.send("response.create")
    heard = await talk.until("conversation.item.input_audio_transcription.completed")  # while the answer is under way
    turn = await talk.response(begin)
    dialogue.report("spoken_turn", heard=heard["transcript"], reply=turn["reply"], audio_ms=turn["audio_ms"])


async def tool(talk: Conversation) -> None:
    await talk.update(tools=[dialogue.WEATHER_TOOL])  # to a full-duplex model no news
    await talk.ask(dialogue.WEATHER_QUESTION)
    called = await talk.until("response.function_call_arguments.done")
    await talk.until("response.done")
    output = {"type": "function_call_output", "call_id": called["call_id"], "output": dialogue.WEATHER}
    await talk.send("conversation.item.create", item=output)
    await talk.send("response.create")
    turn = await talk.response()
    dialogue.report("tool", name=called["name"], arguments=json.loads(called["arguments"]), reply=turn["reply"])


async def barge_in(talk: Conversation) -> None:
    await talk.update(audio={"input": {"turn_detection": {"type": "server_vad"}}})
    await talk.ask(dialogue.STORY_REQUEST)
    first = await talk.until("response.output_audio.delta")
    async with talk.speaking(dialogue.BARGE_IN):
        await talk.until("input_audio_buffer.speech_started")
        cut = await talk.response()
        where = {"item_id": first["item_id"], "content_index": 0, "audio_end_ms": dialogue.TRUNCATE_AT_MS}
        await talk.send("conversation.item.truncate", **where)
        await talk.until("conversation.item.truncated")
        heard = await talk.until("conversation.item.input_audio_transcription.completed")
        turn = await talk.response()
    dialogue.report(
        "barge_in",
        cancelled=cut["status_details"] == {"type": "cancelled", "reason": "turn_detected"},
        heard=heard["transcript"],
        reply=turn["reply"],
    )


async def typed(talk: Conversation) -> None:
    await talk.write(dialogue.SMALL_TALK)
    refused = await talk.until("error")
    await talk.response()  # which was asked for, too
    dialogue.report("typed", refused=[refused["error"]["code"]])


async def cancel(talk: Conversation) -> None:
    await talk.ask(dialogue.STORY_REQUEST)
    audio = await talk.until("response.output_audio.delta")
    await talk.send("response.cancel", response_id=audio["response_id"])
    cut = await talk.response()
    dialogue.report("cancel", status=cut["status"], reason=cut["status_details"]["reason"])


async def truncate(talk: Conversation) -> None:
    await talk.ask(dialogue.SMALL_TALK)
    item_id = (await talk.response())["output"][0]["id"]
    where = {"item_id": item_id, "content_index": 0, "audio_end_ms": dialogue.TRUNCATE_AT_MS}
    await talk.send("conversation.item.truncate", **where)
    truncated = await talk.until("conversation.item.truncated")
    await talk.send("conversation.item.retrieve", item_id=item_id)
    (part,) = (await talk.until("conversation.item.retrieved"))["item"]["content"]
    kept_ms = len(base64.b64decode(part["audio"])) // dialogue.BYTES_PER_MS
    dialogue.report("truncate", ok=truncated["audio_end_ms"] == kept_ms == dialogue.TRUNCATE_AT_MS)


async def leave(talk: Conversation) -> None:
    await talk.ask(dialogue.STORY_REQUEST)
    await talk.until("response.output_audio.delta")
    raw = talk.connection.transport.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # as a lost network: no goodbye
    talk.connection.transport.abort()
    dialogue.report("left")


asyncio.run(main())
