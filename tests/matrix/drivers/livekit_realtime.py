"""livekit-plugins-openai: its RealtimeSession as it is by default, driven as LiveKit's agents drive it."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

from dialogue import (
    BARGE_IN,
    FULL_DUPLEX,
    SMALL_TALK,
    SPOKEN_TURN,
    STORY_REQUEST,
    TRUNCATE_AT_MS,
    WEATHER_QUESTION,
    report,
)
from livekit.agents import llm
from livekit.plugins import openai
from livekit_conversation import Conversation, Reply, answer_call, get_weather
from livekit_room import ADDRESS

PLAYED = ["audio", "text"]  # the modalities of what was played


async def spoken_turn(talk: Conversation) -> None:
    reply = await talk.answer_to(SPOKEN_TURN)
    await reply.ended
    heard = await talk.until(lambda: talk.heard and talk.heard[-1])
    report("spoken_turn", heard=heard, reply=reply.text, audio_ms=reply.audio_ms)


async def tool(talk: Conversation) -> None:
    if not FULL_DUPLEX:
        await talk.session.update_tools([get_weather])
    asked = await talk.ask(WEATHER_QUESTION)
    await asked.ended
    (call,) = asked.calls
    reply = await answer_call(talk, call)
    report("tool", name=call.name, arguments=json.loads(call.arguments), reply=reply.text)


async def barge_in(talk: Conversation) -> None:
    """LiveKit's agents interrupt and truncate to what they played while they are told of `speech_started`."""
    story = await talk.ask(STORY_REQUEST)
    await story.begun.wait()
    events, replies = len(talk.raw), len(talk.replies)
    played_ms = 0

    def stop(_: llm.InputSpeechStartedEvent) -> None:
        nonlocal played_ms
        played_ms = story.played_ms
        talk.session.interrupt()
        talk.session.truncate(message_id=story.item_id, modalities=PLAYED, audio_end_ms=played_ms)

    talk.session.once("input_speech_started", stop)
    talk.microphone.speak(BARGE_IN)
    done = (await talk.event("response.done", events))["response"]
    truncated = await talk.event("conversation.item.truncated", events)
    assert truncated["audio_end_ms"] == played_ms
    answer: Reply = await talk.until(lambda: talk.replies[replies:] and talk.replies[-1])
    await answer.ended
    report("barge_in", cancelled=done["status"] == "cancelled", reply=answer.text)


async def typed(talk: Conversation) -> None:
    """What is written and what would be another agent come too late for a full-duplex model: LiveKit lives with it."""
    events = len(talk.raw)
    context = talk.session.chat_ctx.copy()
    context.add_message(role="user", content=SMALL_TALK)
    for change in (talk.session.update_chat_ctx(context), talk.session.update_tools([])):
        with suppress(llm.RealtimeError):
            await change
    await talk.until(lambda: len(refusals(talk, events)) == 2)
    talk.errors.clear()  # of the second it tells its application
    report("typed", refused=refusals(talk, events))


def refusals(talk: Conversation, since: int) -> list[str]:
    return [event["error"]["code"] for event in talk.raw[since:] if event["type"] == "error"]


async def cancel(talk: Conversation) -> None:
    story = await talk.ask(STORY_REQUEST)
    await story.begun.wait()
    events = len(talk.raw)
    talk.session.interrupt()
    await story.ended
    report("cancel", status=(await talk.event("response.done", events))["response"]["status"])


async def truncate(talk: Conversation) -> None:
    """Cut a reply short, then to nothing, which LiveKit does by deleting it."""
    reply = await talk.ask(SMALL_TALK)
    await reply.ended
    events = len(talk.raw)
    talk.session.truncate(message_id=reply.item_id, modalities=PLAYED, audio_end_ms=TRUNCATE_AT_MS)
    truncated = await talk.event("conversation.item.truncated", events)
    talk.session.truncate(message_id=reply.item_id, modalities=PLAYED, audio_end_ms=0)
    deleted = await talk.event("conversation.item.deleted", events)
    assert talk.session.chat_ctx.get_by_id(reply.item_id) is None
    report("truncate", ok=truncated["item_id"] == deleted["item_id"] == reply.item_id)


async def main() -> None:
    model = openai.realtime.RealtimeModel(**ADDRESS)
    talk = Conversation(model)
    updated = (await talk.event("session.updated"))["session"]
    report("connected", model=updated["model"], turn_detection=updated["audio"]["input"]["turn_detection"]["type"])
    if FULL_DUPLEX:  # as LiveKit's agents, which know their tools beforehand
        await talk.session.update_tools([get_weather])
    for step in (spoken_turn, tool, barge_in, *((typed,) if FULL_DUPLEX else ()), cancel, truncate):
        await step(talk)
    story = await talk.ask(STORY_REQUEST)
    await story.begun.wait()
    await talk.close()
    await model.aclose()
    assert talk.errors == []
    report("left")


if __name__ == "__main__":
    asyncio.run(main())
