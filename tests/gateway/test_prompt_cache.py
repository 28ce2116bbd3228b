"""A turn's request begins with the one before it, byte for byte: servers keep what they have read of a prompt."""

import asyncio
import json
from collections.abc import Coroutine, Sequence
from itertools import pairwise
from typing import Any

import pytest

from gateway.lockstep import LockstepSession, Stamped, lockstep_session
from gateway.lockstep_engines import Answers, in_lockstep
from gateway.virtual_loop import VirtualLoop
from models.engines.scripted import ScriptedChat, ScriptedRecognizer, ScriptedSynthesizer, ScriptedVad
from models.interfaces import ChatEnd, ChatRequest, ChatText, ChatToolCall, Engines
from protocol.audio_time import bytes_from_samples, samples_from_ms
from tests.gateway.scripted_cascade import quiet, voice

STEP = bytes_from_samples(samples_from_ms(20))
LOOK_UP = {"type": "function", "name": "look_up", "description": "Looks up.", "parameters": {"type": "object"}}
CALL = [ChatText("One moment."), ChatToolCall(0, "call_1", "look_up", '{"a": 1}'), ChatEnd("tool_calls")]


def requests_of(replies: Sequence[Any], drive: Any) -> list[ChatRequest]:
    """Return what the language model was asked while `drive(session)` talked to it."""
    asked: list[ChatRequest] = []
    remaining = iter(replies)

    def reply(request: ChatRequest) -> Any:
        asked.append(request)
        return next(remaining)

    engines = Engines(
        ScriptedVad(),
        ScriptedRecognizer(lambda pcm: f"I said {len(pcm)}.", delay_ms=0),
        ScriptedChat(reply, ttft_ms=100),
        ScriptedSynthesizer(ttfb_ms=80),
    )

    async def work() -> None:
        async with lockstep_session(in_lockstep(engines, Answers())) as session:
            await drive(session)

    run(work())
    return asked


def run(work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(work)


async def say(session: LockstepSession, *sounds: bytes) -> list[Stamped]:
    pcm, said = b"".join(sounds), []
    for start in range(0, len(pcm), STEP):
        said += await session.feed(pcm[start : start + STEP])
    return said


async def configure(session: LockstepSession, **more: Any) -> None:
    configured = {"type": "realtime", "instructions": "Be brief.", "tools": [LOOK_UP], **more}
    await session.send({"type": "session.update", "session": configured})


async def type_words(session: LockstepSession, words: str) -> list[Stamped]:
    content = [{"type": "input_text", "text": words}]
    item = {"type": "message", "role": "user", "content": content}
    await session.send({"type": "conversation.item.create", "item": item})
    await session.send({"type": "response.create"})
    return await say(session, quiet(4_000))


def assert_each_begins_with_the_one_before(asked: list[ChatRequest], count: int) -> None:
    assert len(asked) == count
    prompts = [json.dumps(list(request.messages), ensure_ascii=False) for request in asked]
    for earlier, later in pairwise(prompts):
        assert later.startswith(earlier.removesuffix("]"))
        assert len(later) > len(earlier)
    for request in asked:
        assert request.messages[0] == {"role": "system", "content": "Be brief."}
        assert (request.tools, request.tool_choice) == (asked[0].tools, asked[0].tool_choice)
        assert request.session_key == asked[0].session_key


def test_spoken_turns_only_add_to_the_prompt() -> None:
    async def drive(session: LockstepSession) -> None:
        await configure(session)
        for _ in range(4):
            await say(session, voice(1_000), quiet(6_000))

    asked = requests_of([f"Answer number {n}. And more." for n in range(4)], drive)
    assert_each_begins_with_the_one_before(asked, 4)


def test_typed_turns_and_function_calls_only_add_to_the_prompt() -> None:
    async def drive(session: LockstepSession) -> None:
        await configure(session)
        await type_words(session, "Hello.")
        await type_words(session, "Look it up.")
        result = {"type": "function_call_output", "call_id": "call_1", "output": "It is Київ."}
        await session.send({"type": "conversation.item.create", "item": result})
        await session.send({"type": "response.create"})
        await say(session, quiet(4_000))
        await type_words(session, "Thank you.")

    assert_each_begins_with_the_one_before(requests_of(["Hi.", CALL, "It is Київ.", "You're welcome."], drive), 4)


@pytest.mark.parametrize("typed", [False, True])
def test_a_reply_that_the_user_cut_short_is_told_the_same_way_ever_after(typed: bool) -> None:
    long = "This is a sentence of some length. " * 12

    async def drive(session: LockstepSession) -> None:
        await configure(session)
        await say(session, voice(1_000), quiet(4_000))
        for _ in range(2):
            await say(session, voice(1_000), quiet(4_000))
        await (type_words(session, "And?") if typed else say(session, voice(1_000), quiet(4_000)))

    assert_each_begins_with_the_one_before(requests_of([long] * 4, drive), 4)
