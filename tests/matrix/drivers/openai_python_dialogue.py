"""The dialogue through openai-python's asynchronous connection: both dialects are the same but for the names."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import struct
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import dialogue


@dataclass(frozen=True)
class Dialect:
    """What a GA and a beta application write differently."""

    audio_delta: str
    transcript_delta: str
    session: dict[str, Any]


TRANSCRIPTION = {"model": "gpt-4o-mini-transcribe"}
GA = Dialect(
    audio_delta="response.output_audio.delta",
    transcript_delta="response.output_audio_transcript.delta",
    session={
        "type": "realtime",
        "audio": {"input": {"transcription": TRANSCRIPTION}},
        "tools": [dialogue.WEATHER_TOOL],
    },
)
BETA = Dialect(
    audio_delta="response.audio.delta",
    transcript_delta="response.audio_transcript.delta",
    session={
        "input_audio_transcription": TRANSCRIPTION,
        "tools": [dialogue.WEATHER_TOOL],
    },
)


class Conversation:
    """A connection (`Any`: of either dialect's class) and all that it received."""

    def __init__(self, connection: Any, dialect: Dialect) -> None:
        self.connection = connection
        self.dialect = dialect
        self.events: list[Any] = []
        self.microphone = dialogue.Microphone(self._append)

    async def _append(self, chunk: bytes) -> None:
        await self.connection.input_audio_buffer.append(audio=base64.b64encode(chunk).decode())

    async def until(self, wanted: str | Callable[[Any], bool]) -> Any:
        """Receive up to the event of that type, or that `wanted` accepts."""
        async with asyncio.timeout(dialogue.STEP_DEADLINE_S):
            while True:
                event = await self.connection.recv()
                self.events.append(event)
                if event.type == wanted if isinstance(wanted, str) else wanted(event):
                    return event
                if event.type == "error":
                    raise RuntimeError(event.error.message)

    async def ask(self, text: str) -> None:
        """Type a message and ask for its answer, or ask aloud."""
        if dialogue.FULL_DUPLEX:
            self.microphone.speak(dialogue.ALOUD[text])
        else:
            await self.write(text)

    async def write(self, text: str) -> None:
        """Type a message and ask for its answer."""
        content = [{"type": "input_text", "text": text}]
        await self.connection.conversation.item.create(item={"type": "message", "role": "user", "content": content})
        await self.connection.response.create()

    async def done(self, response_id: str) -> Any:
        """Return that response as it ended, which it may have before."""
        of_it = (e for e in self.events if e.type == "response.done" and e.response.id == response_id)
        return (next(of_it, None) or await self.until("response.done")).response

    async def response(self) -> dict[str, Any]:
        """Receive a response to its end; return what a user got of it."""
        begin = len(self.events)
        done = await self.until("response.done")
        while dialogue.is_nod(done.response.model_dump()):
            done = await self.until("response.done")
        said = "".join(e.delta for e in self.events[begin:] if e.type == self.dialect.transcript_delta)
        return {"response": done.response, "reply": said, "audio_ms": self.audio_ms(done.response.id)}

    def audio_ms(self, response_id: str) -> int:
        """Return how much audio of a response has come."""
        deltas = (e for e in self.events if e.type == self.dialect.audio_delta and e.response_id == response_id)
        return sum(len(base64.b64decode(e.delta)) for e in deltas) // dialogue.BYTES_PER_MS

    async def truncate(self, item_id: str, audio_ms: int) -> int:
        """Cut an item of `audio_ms`; return where the server says that it is cut."""
        # Half of it, should it be that short: the language model in the gateway answers as it likes.
        cut_ms = min(dialogue.TRUNCATE_AT_MS, audio_ms // 2)
        await self.connection.conversation.item.truncate(item_id=item_id, content_index=0, audio_end_ms=cut_ms)
        truncated_ms = (await self.until("conversation.item.truncated")).audio_end_ms
        if truncated_ms != cut_ms:
            raise RuntimeError(f"cut at {truncated_ms} ms instead of {cut_ms} ms")
        return cut_ms

    def speaking(self, clip: str) -> AbstractAsyncContextManager[None]:
        """Keep a microphone open: the clip at the pace of speech, then silence."""
        return self.microphone.speaking(clip)


async def hold(connection: Any, dialect: Dialect) -> None:
    """Hold the whole dialogue."""
    talk = Conversation(connection, dialect)
    created = await talk.until("session.created")
    dialogue.report("connected", model=created.session.model)
    await connection.session.update(session=dialect.session)
    await talk.until("session.updated")
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
        heard = await talk.until("conversation.item.input_audio_transcription.completed")
        turn = await talk.response()
    dialogue.report("spoken_turn", heard=heard.transcript, reply=turn["reply"], audio_ms=turn["audio_ms"])


async def tool(talk: Conversation) -> None:
    if dialogue.DEMO_BRAIN:
        dialogue.report("tool", skipped="this language model calls no tools")
        return
    await talk.ask(dialogue.WEATHER_QUESTION)
    called = (await talk.until("response.output_item.done")).item
    await talk.until("response.done")
    output: Any = {"type": "function_call_output", "call_id": called.call_id, "output": dialogue.WEATHER}
    await talk.connection.conversation.item.create(item=output)
    await talk.connection.response.create()
    turn = await talk.response()
    dialogue.report("tool", name=called.name, arguments=json.loads(called.arguments), reply=turn["reply"])


async def barge_in(talk: Conversation) -> None:
    await talk.ask(dialogue.STORY_REQUEST)
    first = await talk.until(talk.dialect.audio_delta)
    async with talk.speaking(dialogue.BARGE_IN):
        await talk.until("input_audio_buffer.speech_started")
        cut = await talk.done(first.response_id)
        await talk.truncate(first.item_id, talk.audio_ms(first.response_id))
        heard = await talk.until("conversation.item.input_audio_transcription.completed")
        turn = await talk.response()
    dialogue.report(
        "barge_in",
        cancelled=cut.status == "cancelled" and cut.status_details.reason == "turn_detected",
        heard=heard.transcript,
        reply=turn["reply"],
    )


async def typed(talk: Conversation) -> None:
    await talk.write(dialogue.SMALL_TALK)
    refused = await talk.until("error")
    await talk.response()  # which was asked for, too
    dialogue.report("typed", refused=[refused.error.code])


async def cancel(talk: Conversation) -> None:
    if dialogue.DEMO_BRAIN:
        dialogue.report("cancel", skipped="a reply of this language model may be complete before it is cancelled")
        return
    await talk.ask(dialogue.STORY_REQUEST)
    await talk.until(talk.dialect.audio_delta)
    await talk.connection.response.cancel()
    cut = (await talk.response())["response"]
    dialogue.report("cancel", status=cut.status, reason=cut.status_details.reason)


async def truncate(talk: Conversation) -> None:
    await talk.ask(dialogue.SMALL_TALK)
    turn = await talk.response()
    item_id = turn["response"].output[0].id
    cut_ms = await talk.truncate(item_id, turn["audio_ms"])
    await talk.connection.conversation.item.retrieve(item_id=item_id)
    (part,) = (await talk.until("conversation.item.retrieved")).item.content
    kept_ms = len(base64.b64decode(part.audio)) // dialogue.BYTES_PER_MS
    dialogue.report("truncate", ok=kept_ms == cut_ms, transcript=part.transcript)


async def leave(talk: Conversation) -> None:
    await talk.ask(dialogue.STORY_REQUEST)
    await talk.until(talk.dialect.audio_delta)
    transport = talk.connection._connection.transport
    raw = transport.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # as a lost network: no goodbye
    transport.abort()
    dialogue.report("left")
