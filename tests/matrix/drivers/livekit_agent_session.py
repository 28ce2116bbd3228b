"""LiveKit's AgentSession with a RealtimeModel as it is by default: the whole framework, without a room."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

from dialogue import (
    ALOUD,
    BARGE_IN,
    FULL_DUPLEX,
    SMALL_TALK,
    SPOKEN_TURN,
    STEP_DEADLINE_S,
    STORY_REQUEST,
    WEATHER,
    WEATHER_QUESTION,
    report,
)
from livekit.agents import Agent, AgentSession, RunContext, function_tool, llm
from livekit.plugins import openai
from livekit_room import ADDRESS, Microphone, RoomAudioInput, RoomAudioOutput

HEARD_S = 0.5
"""A reply of which nothing was heard LiveKit would delete instead of truncating it."""


class Assistant(Agent):
    """An agent with one tool."""

    def __init__(self) -> None:
        super().__init__(instructions="You are a helpful assistant.")
        self.calls: list[dict[str, Any]] = []

    @function_tool
    async def get_weather(self, context: RunContext, city: str) -> str:
        """Returns the weather in a city.

        Args:
            city: the city's name
        """
        self.calls.append({"city": city})
        return WEATHER


class Conversation:
    """A started AgentSession and what it emitted."""

    def __init__(self) -> None:
        self.session: Any = AgentSession(llm=openai.realtime.RealtimeModel(**ADDRESS))
        self.agent = Assistant()
        self.ear, self.mouth = RoomAudioInput(), RoomAudioOutput()
        self.session.input.audio, self.session.output.audio = self.ear, self.mouth
        self.said: list[llm.ChatMessage] = []
        self.heard: list[str] = []
        self.played: list[Any] = []
        self.errors: list[str] = []
        self._news = asyncio.Event()
        self.session.on("conversation_item_added", self._added)
        self.session.on("user_input_transcribed", self._transcribed)
        self.session.on("error", lambda event: self._noted(self.errors, str(event.error)))
        self.session.on("agent_state_changed", lambda _: self._news.set())
        self.mouth.on("playback_finished", lambda event: self._noted(self.played, event))

    def _noted(self, notes: list[Any], note: Any) -> None:
        notes.append(note)
        self._news.set()

    def _added(self, event: Any) -> None:
        if isinstance(event.item, llm.ChatMessage):
            self._noted(self.said, event.item)

    def _transcribed(self, event: Any) -> None:
        if event.is_final:
            self._noted(self.heard, event.transcript)

    async def start(self) -> None:
        """Connect, and listen from now on."""
        await self.session.start(self.agent)
        self.microphone = Microphone(self.ear.push)

    async def until(self, is_so: Callable[[], Any]) -> Any:
        """Wait until `is_so`, asked after each event, returns something true, and return that."""
        async with asyncio.timeout(STEP_DEADLINE_S):
            while not (found := is_so()):
                self._news.clear()
                await self._news.wait()
        return found

    async def said_next(self, since: int) -> llm.ChatMessage:
        """Return the agent's first message after the first `since` messages, once it was played or cut."""
        found = await self.until(lambda: [item for item in self.said[since:] if item.role == "assistant"])
        message: llm.ChatMessage = found[0]
        return message

    async def ask(self, text: str) -> None:
        """Ask for a reply in writing, or aloud once the agent has ended."""
        if FULL_DUPLEX:
            await self.until(lambda: self.session.agent_state == "listening")
            self.microphone.speak(ALOUD[text])
        else:
            self.session.generate_reply(user_input=text)

    async def speaking(self) -> None:
        """Wait until the agent speaks."""
        await self.until(lambda: self.session.agent_state == "speaking")


async def spoken_turn(talk: Conversation) -> None:
    since = len(talk.said)
    talk.microphone.speak(SPOKEN_TURN)
    reply = await talk.said_next(since)
    report(
        "spoken_turn",
        heard=talk.heard[-1],
        reply=reply.text_content,
        audio_ms=round(talk.played[-1].playback_position * 1000),
    )


async def tool(talk: Conversation) -> None:
    since = len(talk.said)
    await talk.ask(WEATHER_QUESTION)
    reply = await talk.said_next(since)
    (arguments,) = talk.agent.calls
    report("tool", name="get_weather", arguments=arguments, reply=reply.text_content)


async def barge_in(talk: Conversation) -> None:
    since = len(talk.said)
    await talk.ask(STORY_REQUEST)
    await talk.speaking()
    talk.microphone.speak(BARGE_IN)
    story = await talk.said_next(since)
    # A full-duplex agent falls silent by itself: the player has no more of it than was heard.
    assert FULL_DUPLEX or talk.played[-1].interrupted
    answer = await talk.said_next(talk.said.index(story) + 1)
    report("barge_in", cancelled=bool(story.interrupted), reply=answer.text_content)


async def greeting(talk: Conversation) -> None:
    """What most agents begin with."""
    await talk.session.generate_reply(instructions="Greet the user.")
    report("greeting", reply=talk.said[-1].text_content)


async def typed(talk: Conversation) -> None:
    """What is written comes too late for a full-duplex model: LiveKit warns in its log and asks for a reply as ever."""
    await talk.session.generate_reply(user_input=SMALL_TALK)
    report("typed", refused=talk.errors)


async def cancel(talk: Conversation) -> None:
    since = len(talk.said)
    await talk.ask(STORY_REQUEST)
    await talk.speaking()
    await asyncio.sleep(HEARD_S)
    await talk.session.interrupt()
    cut = await talk.said_next(since)
    report("cancel", status="cancelled" if cut.interrupted else "completed")


async def main() -> None:
    talk = Conversation()
    await talk.start()
    report("connected")
    begin, written = ((greeting,), (typed,)) if FULL_DUPLEX else ((), ())
    for step in (*begin, spoken_turn, tool, barge_in, *written, cancel):
        await step(talk)
    report("truncate", skipped="AgentSession truncates by itself: seen in barge_in and cancel")
    await talk.ask(STORY_REQUEST)
    await talk.speaking()
    assert talk.errors == []
    report("left")
    os._exit(0)  # as a process that dies: AgentSession's own end would interrupt and truncate first


if __name__ == "__main__":
    asyncio.run(main())
