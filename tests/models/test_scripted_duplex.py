import asyncio

import numpy as np
import pytest

from gateway.turns.duplex_segments import ClosedBy, DuplexSegments, ModelFrame, SegmentClosed, SegmentOpened
from models.duplex_interface import DuplexPrompt, DuplexStep
from models.engines.scripted_duplex import DuplexReply, DuplexScript, ScriptedDuplex, ScriptedDuplexStream
from models.interfaces import EngineError

FRAME = 1_920


async def hold(stream: ScriptedDuplexStream, *spans: tuple[int, bool]) -> list[DuplexStep]:
    """Feed spans of (ms, whether the user speaks) and return the steps."""
    voice = (0.1 * 32_767 * np.sin(np.arange(FRAME) / 20)).astype("<i2").tobytes()
    steps = []
    for ms, speaks in spans:
        steps += [await stream.step(voice if speaks else bytes(2 * FRAME)) for _ in range(ms // 80)]
    return steps


async def opened(**script: object) -> ScriptedDuplexStream:
    return await ScriptedDuplex(DuplexScript(**script)).open(DuplexPrompt("Be brief."))


def text(steps: list[DuplexStep]) -> str:
    return "".join(step.text for step in steps).strip()


async def test_it_answers_when_the_user_has_been_quiet_and_says_when_it_yields() -> None:
    stream = await opened(replies=(DuplexReply("Good morning to you."),), heard=("hello there",))
    steps = await hold(stream, (800, True), (3_200, False))
    assert text(steps) == "Good morning to you."
    assert "".join(step.user_text for step in steps) == "hello there "
    (takes,) = [number for number, step in enumerate(steps) if step.takes_floor]
    (yields,) = [number for number, step in enumerate(steps) if step.yields_floor]
    (spoken,) = stream.truth
    assert takes * FRAME == spoken.start == 1_280 // 80 * FRAME - FRAME
    assert abs(yields * FRAME - spoken.end) <= FRAME


async def test_its_responses_are_cut_where_it_truly_spoke() -> None:
    stream = await opened(replies=(DuplexReply("One."), DuplexReply("And a second, longer reply.")))
    segments, told = DuplexSegments(), []
    for step in await hold(stream, *[(800, True), (4_000, False)] * 4):
        rms = float(np.sqrt((np.frombuffer(step.pcm, "<i2") / 32_768.0) ** 2).mean())
        told += segments.hear(ModelFrame(FRAME, rms, step.text, step.takes_floor, step.yields_floor))
    starts = [output.start for output in told if isinstance(output, SegmentOpened)]
    ends = [output for output in told if isinstance(output, SegmentClosed)]
    assert len(stream.truth) == len(starts) == len(ends) == 4
    for spoken, start, end in zip(stream.truth, starts, ends, strict=True):
        assert abs(start - spoken.start) <= 2 * FRAME
        assert abs(end.end - spoken.end) <= 2 * FRAME
        assert end.by is ClosedBy.FLOOR


async def test_it_yields_to_a_user_who_speaks_over_it() -> None:
    stream = await opened(replies=(DuplexReply("word " * 40), DuplexReply("Sorry.")))
    steps = await hold(stream, (800, True), (1_600, False), (800, True), (2_400, False))
    first, second = stream.truth
    assert first.end <= (800 + 1_600 + 240 + 80) * 24
    assert text(steps).endswith("Sorry.")
    assert second.start >= (800 + 1_600 + 800 + 400) * 24
    assert sum(step.yields_floor for step in steps) == 2


async def test_it_nods_during_a_long_turn_without_a_word() -> None:
    stream = await opened(replies=(DuplexReply("I see."),))
    steps = await hold(stream, (4_000, True), (2_400, False))
    assert [spoken.kind for spoken in stream.truth] == ["nod", "turn"]
    assert text(steps) == "I see."
    assert sum(step.takes_floor for step in steps) == 1


async def test_it_calls_a_tool_and_says_what_came_of_it() -> None:
    reply = DuplexReply("It is {result}.", call=("get_time", {"zone": "UTC"}))
    stream = await opened(replies=(reply,))
    steps = await hold(stream, (800, True), (2_400, False))
    (call,) = [step.call for step in steps if step.call is not None]
    assert (call.name, call.arguments) == ("get_time", '{"zone": "UTC"}')
    assert text(steps) == ""
    stream.answer_call("noon")
    assert text(await hold(stream, (1_600, False))) == "It is noon."


async def test_it_is_steered() -> None:
    stream = await opened(replies=(DuplexReply("My turn now, and for long."),))
    stream.start()
    steps = await hold(stream, (480, False))
    assert steps[0].takes_floor
    stream.stop()
    stream.say("One moment.")
    assert "One moment." in text(await hold(stream, (1_600, False)))
    assert len(stream.truth) == 2


async def test_made_to_speak_it_greets_or_gives_the_answer_that_is_due() -> None:
    stream = await opened(replies=(DuplexReply("One."), DuplexReply("Two.")), greeting="Hello there.")
    stream.start()
    assert text(await hold(stream, (1_600, False))) == "Hello there."
    await hold(stream, (800, True))
    stream.start()
    steps = await hold(stream, (80, False))
    assert steps[0].takes_floor
    assert text(steps + await hold(stream, (2_400, False))) == "One."
    assert sum(spoken.kind == "turn" for spoken in stream.truth) == 2


async def test_its_replies_begin_again_after_the_last() -> None:
    stream = await opened(replies=(DuplexReply("One."), DuplexReply("Two.")))
    assert text(await hold(stream, *[(800, True), (2_400, False)] * 3)) == "One. Two. One."


async def test_it_calls_what_is_offered_and_does_without_where_nothing_is() -> None:
    zone = {"required": ["zone"], "properties": {"zone": {"type": "string"}}}
    tool = {"type": "function", "function": {"name": "get_time", "parameters": zone}}
    model = ScriptedDuplex(DuplexScript((DuplexReply("Here it is. {result}", calls_offered=True),)))
    offered, alone = await model.open(DuplexPrompt(tools=(tool,))), await model.open(DuplexPrompt())
    steps = await hold(offered, (800, True), (1_600, False))
    (call,) = [step.call for step in steps if step.call is not None]
    assert (call.name, call.arguments) == ("get_time", '{"zone": "Paris"}')
    assert text(await hold(alone, (800, True), (2_400, False))) == "Here it is."


async def test_a_stall_is_a_floor_that_is_taken_in_silence() -> None:
    stream = await opened(replies=(DuplexReply(stalls=True),))
    steps = await hold(stream, (800, True), (4_000, False))
    assert sum(step.takes_floor for step in steps) == 1
    assert stream.truth == []


async def test_it_fails_where_the_script_says_so_and_refuses_frames_after_its_end() -> None:
    stream = await opened(fails_at_ms=400)
    with pytest.raises(EngineError, match="failed"):
        await hold(stream, (800, False))
    stream = await opened()
    with pytest.raises(EngineError):
        await stream.step(b"\0\0")
    await stream.aclose()
    with pytest.raises(EngineError):
        await hold(stream, (80, False))


async def test_a_step_takes_the_time_that_the_script_says() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await asyncio.sleep(0)

    stream = await ScriptedDuplex(DuplexScript(step_s=0.104), sleep=sleep).open(DuplexPrompt())
    await hold(stream, (800, False))
    assert slept == [0.104] * 10
