"""The dialogue as a Pipecat bot holds it, whoever finds the turns."""

from __future__ import annotations

import asyncio

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
from pipecat.services.openai.realtime.events import ConversationItem
from pipecat_bot import Bot


async def hold_dialogue(bot: Bot, *, transcribes: bool, cancels: bool) -> None:
    """Hold it. `transcribes`: input transcription is on; `cancels`: Pipecat cancels responses by itself."""
    await bot.start()
    try:
        report("connected")
        if FULL_DUPLEX:
            report("greeting", reply=bot.said[0].content)
        await _spoken_turn(bot, transcribes)
        await _tool(bot)
        await _barge_in(bot)
        if FULL_DUPLEX:
            report(
                "typed", skipped="almost any error ends Pipecat's receiving: a bot that writes needs a restarting model"
            )
        if cancels:
            await _cancel(bot)
        else:
            report("cancel", skipped="where the server finds the turns, Pipecat leaves cancelling to it")
        if FULL_DUPLEX:
            report("truncate", skipped="of a reply that has ended nothing is left to be played: seen in barge_in")
        else:
            await _truncate(bot)
        await bot.ask(STORY_REQUEST)
        await bot.speaking()
    finally:
        await bot.leave()
    assert bot.errors == []
    report("left")


async def _spoken_turn(bot: Bot, transcribes: bool) -> None:
    since, audio_ms = len(bot.said), bot.witness.audio_ms
    bot.room.microphone.speak(SPOKEN_TURN)
    said = await bot.said_next(since)
    heard = await bot.until(lambda: bot.heard and bot.heard[-1]) if transcribes else None
    report("spoken_turn", heard=heard, reply=said.content, audio_ms=bot.witness.audio_ms - audio_ms)


async def _tool(bot: Bot) -> None:
    since = len(bot.said)
    await bot.ask(WEATHER_QUESTION)
    said = await bot.said_next(since)
    (call,) = bot.calls
    report("tool", name=call.function_name, arguments=dict(call.arguments), reply=said.content)


async def _barge_in(bot: Bot) -> None:
    """The answer is told by its item: what is left of the story's text may yet become a message of its own.

    Whether the message counts as interrupted is chance with a full-duplex model, whose last sound leaves with the news.
    """
    if FULL_DUPLEX:  # what was said last has ended on the server, too
        await bot.until(lambda: bot.items and bot.said[-1].content.endswith(transcript_of(bot.items[-1])))
    said, items = len(bot.said), len(bot.items)
    await bot.ask(STORY_REQUEST)
    await bot.speaking()
    bot.room.microphone.speak(BARGE_IN)
    interrupted = (await bot.said_next(said)).interrupted
    status = (await bot.item_next(items)).status
    reply = transcript_of(await bot.item_next(items + 1))
    await bot.until(lambda: bot.said[-1].content.endswith(reply))
    cancelled = (interrupted or FULL_DUPLEX) and status == "incomplete"
    report("barge_in", cancelled=cancelled, reply=reply, status=status)


def transcript_of(item: ConversationItem) -> str:
    return item.content[0].transcript.strip()


async def _cancel(bot: Bot) -> None:
    items = len(bot.items)
    await bot.ask(STORY_REQUEST)
    await bot.speaking()
    await bot.interrupt()
    story = await bot.item_next(items)
    report("cancel", status="cancelled" if story.status == "incomplete" else story.status)


async def _truncate(bot: Bot) -> None:
    """Interrupt a reply that has ended on the server, but not in the loudspeaker: there is nothing to cancel.

    Pipecat counts what was played since the first delta came, thus somewhat more than was heard.
    """
    said, items, audio_ms = len(bot.said), len(bot.items), bot.witness.audio_ms
    await bot.ask(SMALL_TALK)
    await bot.speaking()
    reply = await bot.item_next(items)
    await asyncio.sleep(TRUNCATE_AT_MS / 1000)
    await bot.interrupt()
    await bot.said_next(said)
    kept_ms = await bot.kept_ms(reply.id)
    report("truncate", ok=TRUNCATE_AT_MS <= kept_ms < bot.witness.audio_ms - audio_ms, kept_ms=kept_ms)
