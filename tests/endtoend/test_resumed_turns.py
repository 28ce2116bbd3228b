"""T14 and T15 of the turn-taking scenarios: the user goes on just after the turn was thought to be over, served."""

from __future__ import annotations

import asyncio

import pytest
from recording_chat_server import RecordingChatServer, Say, Step, Wait, pieces
from speech_references import clip
from wire_session import SERVER_VAD, WireSession

COMMITTED = "input_audio_buffer.committed"
AUDIO = "response.output_audio.delta"
WORDS = "Hello there."
"""What the scripted ear hears."""


@pytest.mark.parametrize(
    ("moment", "after_s", "answer"),
    [
        (COMMITTED, 0.05, [Wait(2.5), Say("Both.")]),
        (COMMITTED, 0.3, [Wait(2.5), Say("Both.")]),
        (AUDIO, 0.0, pieces([f"Sentence number {number}. " for number in range(12)], every_s=0.2)),
    ],
    ids=["right after the commit", "before the first audio", "just after the first audio"],
)
async def test_who_goes_on_after_the_commit_gets_one_answer_to_all(
    scripted_url: str, llm: RecordingChatServer, moment: str, after_s: float, answer: list[Step]
) -> None:
    llm.answer(answer)
    async with WireSession(scripted_url) as session:
        await session.listen(SERVER_VAD)
        async with session.microphone() as microphone:
            mark = session.mark
            microphone.say(clip("goforward"))
            await session.until(moment, after=mark)
            await asyncio.sleep(after_s)
            resumed = session.mark
            microphone.say(clip("goforward"))
            first = await session.reply(after=mark)
            second = await session.reply(after=session.events.index(first.done))
        started = session.since(mark, "input_audio_buffer.speech_started")
        committed = session.since(mark, COMMITTED)
        for event in committed:
            await session.transcript(event.details("item_id"))

    assert first.status == "cancelled"
    assert first.done.details("response", "status_details", "reason") == "turn_detected"
    assert second.status == "completed"
    assert len(started) == len(committed) == 2
    assert session.events.index(started[1]) >= resumed
    assert session.events.index(started[1]) < session.events.index(first.done)
    answered = llm.requests[-1]
    if moment == COMMITTED or not answered.said_by("assistant"):
        assert answered.said_by("assistant") == []
        assert answered.said_by("user") == [f"{WORDS}\n{WORDS}"]
    else:  # the clip begins with a breath of silence, in which a word or two were heard
        (heard,) = answered.said_by("assistant")
        assert first.transcript.startswith(heard.removesuffix(" —"))
        assert len(heard.split()) <= 4
        assert answered.said_by("user") == [WORDS, WORDS]
    assert len([event for event in session.events if event.type == "response.done"]) == 2
    ids = {event.details("item", "id") for event in session.since(mark, "conversation.item.added")}
    ended = {event.details("item", "id") for event in session.since(mark, "conversation.item.done")}
    assert ids == ended, "no item is left open"
