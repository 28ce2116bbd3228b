"""A RealtimeSession of LiveKit's plugin with its microphone, and all that it emitted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from dialogue import ALOUD, FULL_DUPLEX, STEP_DEADLINE_S, WEATHER
from livekit.agents import RunContext, function_tool, llm, utils
from livekit_room import RATE_HZ, Microphone


@function_tool
async def get_weather(context: RunContext, city: str) -> str:
    """Returns the weather in a city.

    Args:
        city: the city's name
    """
    return WEATHER


class Reply:
    """One generation, read to its end as fast as it comes."""

    def __init__(self, generation: llm.GenerationCreatedEvent, news: Callable[[], None]) -> None:
        self.generation = generation
        self._news = news
        self.text = ""
        self.audio_ms = 0
        self.item_id = ""
        self.calls: list[llm.FunctionCall] = []
        self.begun = asyncio.Event()
        self.ended = asyncio.create_task(self._read())
        self._begun_s = 0.0

    @property
    def means(self) -> bool:
        """Whether it is more than a nod, as far as it has come."""
        return bool(self.text or self.calls)

    @property
    def played_ms(self) -> int:
        """How much of it a player would have played by now."""
        return min(self.audio_ms, int((time.monotonic() - self._begun_s) * 1000))

    async def _read(self) -> None:
        await asyncio.gather(self._messages(), self._functions())

    async def _functions(self) -> None:
        async for call in self.generation.function_stream:
            self.calls.append(call)
            self._news()

    async def _messages(self) -> None:
        async for message in self.generation.message_stream:
            self.item_id = message.message_id
            await asyncio.gather(self._audio(message), self._text(message))

    async def _text(self, message: llm.MessageGeneration) -> None:
        async for piece in message.text_stream:
            self.text += str(piece)
            self._news()

    async def _audio(self, message: llm.MessageGeneration) -> None:
        samples = 0
        async for piece in message.audio_stream:
            if not samples:
                self._begun_s = time.monotonic()
                self.begun.set()
            samples += piece.samples_per_channel
            self.audio_ms = samples * 1000 // RATE_HZ


class Conversation:
    """A session and what it emitted."""

    def __init__(self, model: llm.RealtimeModel) -> None:
        self.session: Any = model.session()
        self.raw: list[dict[str, Any]] = []
        self.replies: list[Reply] = []
        self.heard: list[str] = []
        self.errors: list[str] = []
        self.reconnected = asyncio.Event()
        self._news = asyncio.Event()
        self.session.on("openai_server_event_received", lambda event: self._noted(self.raw, event))
        self.session.on("generation_created", lambda event: self._noted(self.replies, Reply(event, self._news.set)))
        self.session.on("input_audio_transcription_completed", self._transcribed)
        self.session.on("session_reconnected", lambda _: self.reconnected.set())
        self.session.on("error", lambda event: self._noted(self.errors, str(event.error)))
        self.microphone = Microphone(self.session.push_audio)

    def _noted(self, notes: list[Any], note: Any) -> None:
        notes.append(note)
        self._news.set()

    def _transcribed(self, event: llm.InputTranscriptionCompleted) -> None:
        if event.is_final:
            self._noted(self.heard, event.transcript)

    async def until(self, is_so: Callable[[], Any]) -> Any:
        """Wait until `is_so`, asked after each event, returns something true, and return that."""
        async with asyncio.timeout(STEP_DEADLINE_S):
            while not (found := is_so()):
                self._news.clear()
                await self._news.wait()
        return found

    async def event(self, kind: str, since: int = 0) -> dict[str, Any]:
        """Return the first server event of that type after the first `since` events."""
        found = await self.until(lambda: [event for event in self.raw[since:] if event["type"] == kind])
        return dict(found[0])

    async def ask(self, text: str) -> Reply:
        """Add a user message to the conversation and ask for a reply, or say it aloud."""
        if FULL_DUPLEX:
            return await self.answer_to(ALOUD[text])
        context = self.session.chat_ctx.copy()
        context.add_message(role="user", content=text)
        await self.session.update_chat_ctx(context)
        return await self.reply()

    async def answer_to(self, clip: str) -> Reply:
        """Speak a clip; return the first reply after it that is more than a nod, as soon as that shows."""
        since = len(self.replies)
        self.microphone.speak(clip)
        found: Reply = await self.until(lambda: next((reply for reply in self.replies[since:] if reply.means), None))
        return found

    async def reply(self, **parameters: Any) -> Reply:
        """Ask for a reply with generate_reply's parameters; return it once the server has created it."""
        generation = await self.session.generate_reply(**parameters)
        assert generation.user_initiated
        return next(reply for reply in self.replies if reply.generation is generation)

    async def close(self) -> None:
        """Close the connection, whatever it is doing."""
        await self.microphone.close()
        await self.session.aclose()


async def answer_call(talk: Conversation, call: llm.FunctionCall) -> Reply:
    """Give a function call its result, as a new item of the chat context, and return the reply to it at its end."""
    context = talk.session.chat_ctx.copy()
    result = llm.FunctionCallOutput(id=utils.shortuuid(), call_id=call.call_id, output=WEATHER, is_error=False)
    context.items.append(result)
    await talk.session.update_chat_ctx(context)
    reply = await talk.reply()
    await reply.ended
    return reply
