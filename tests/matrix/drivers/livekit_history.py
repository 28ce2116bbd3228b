"""LiveKit keeps the server's conversation equal to its chat context, and carries it over to a new connection.

What LiveKit believes is on the server it learns from the server's events only: ids, order and texts below are theirs.
"""

from __future__ import annotations

import asyncio

from dialogue import SPOKEN_TURN, STEP_DEADLINE_S, WEATHER_QUESTION, report
from livekit.agents import llm
from livekit.plugins import openai
from livekit_conversation import Conversation, answer_call, get_weather
from livekit_room import ADDRESS

SESSION_S = 12.0
"""After this LiveKit takes a new connection (20 minutes by default), once no reply is running."""


def told(context: llm.ChatContext) -> list[str]:
    """Return a chat context, a line an item."""
    lines = []
    for item in context.items:
        match item:
            case llm.ChatMessage():
                lines.append(f"{item.role}: {item.text_content}")
            case llm.FunctionCall():
                lines.append(f"call: {item.name} {item.arguments}")
            case llm.FunctionCallOutput():
                lines.append(f"result: {item.output}")
    return lines


async def edited(talk: Conversation) -> None:
    """Items are put first, in the middle and last, one is taken away, and one gets another text under its id."""
    context = llm.ChatContext()
    first = context.add_message(role="user", content="One.")
    second = context.add_message(role="assistant", content="Two.")
    third = context.add_message(role="user", content="Three.")
    await talk.session.update_chat_ctx(context)
    begun = told(talk.session.chat_ctx)

    zero = llm.ChatMessage(role="system", content=["Zero."])
    between = llm.ChatMessage(role="user", content=["One and a half."])
    last = llm.ChatMessage(role="assistant", content=["Four."])
    second.content = ["Two, corrected."]
    context.items[:] = [zero, first, between, second, last]
    await talk.session.update_chat_ctx(context)
    ids = [item.id for item in talk.session.chat_ctx.items]
    report(
        "edited",
        begun=begun,
        ended=told(talk.session.chat_ctx),
        same_ids=ids == [zero.id, first.id, between.id, second.id, last.id],
        gone=talk.session.chat_ctx.get_by_id(third.id) is None,
    )
    await talk.session.update_chat_ctx(llm.ChatContext.empty())
    report("emptied", left=told(talk.session.chat_ctx))


async def instructed(talk: Conversation) -> None:
    """New instructions, and instructions of a reply's own, which LiveKit appends to them."""
    events = len(talk.raw)
    await talk.session.update_instructions("You are Kelly.")
    updated = await talk.event("session.updated", events)
    await (await talk.reply(instructions="Greet the user.")).ended
    report("instructed", instructions=updated["session"]["instructions"])


async def carried_over(talk: Conversation) -> None:
    """A spoken turn and a tool call, then a new connection: LiveKit creates every item anew, under its old id."""
    await talk.session.update_tools([get_weather])
    talk.microphone.speak(SPOKEN_TURN)
    spoken = await talk.until(lambda: talk.replies[1:] and talk.replies[-1])
    await spoken.ended
    asked = await talk.ask(WEATHER_QUESTION)
    await asked.ended
    (call,) = asked.calls
    await answer_call(talk, call)
    before = talk.session.chat_ctx

    async with asyncio.timeout(STEP_DEADLINE_S):
        await talk.reconnected.wait()
    await talk.until(lambda: len(talk.session.chat_ctx.items) == len(before.items))
    after = talk.session.chat_ctx
    reply = await talk.ask("And now?")
    await reply.ended
    report(
        "carried_over",
        before=told(before),
        after=told(after),
        same_ids=[item.id for item in after.items] == [item.id for item in before.items],
        reply=reply.text,
        errors=talk.errors,
    )


async def main() -> None:
    model = openai.realtime.RealtimeModel(**ADDRESS, max_session_duration=SESSION_S)
    talk = Conversation(model)
    for step in (edited, instructed, carried_over):
        await step(talk)
    await talk.close()
    await model.aclose()


if __name__ == "__main__":
    asyncio.run(main())
