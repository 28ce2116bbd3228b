"""Two backends on one ear and one input clock: the same turns, two conversations, nothing shared."""

from __future__ import annotations

from gateway.hearing import Hearing
from models.engines.scripted import ScriptedChat, ScriptedRecognizer, ScriptedSynthesizer, ScriptedVad
from models.interfaces import EngineError
from protocol.backend_events import (
    EndStatus,
    InputCommitted,
    InputTranscriptCompleted,
    OutputAudio,
    OutputTextDelta,
    ResponseEnded,
    ResponseStarted,
    SpeechStarted,
    SpeechStopped,
)
from protocol.commands import AppendAudio, CancelResponse
from tests.gateway.fed_time import FedTime, settle
from tests.gateway.scripted_cascade import RunningCascade, quiet, running, scripted_engines, voice


async def play(time: FedTime, hearing: Hearing, twins: tuple[RunningCascade, ...], *sounds: bytes) -> None:
    """Give the very same commands to both."""
    pcm = b"".join(sounds)
    for at in range(0, len(pcm), 960):
        await time.advance(20)
        append = await hearing.hear(AppendAudio(pcm[at : at + 960]))
        for twin in twins:
            twin.backend.submit(append)
    await settle()


def words(twin: RunningCascade) -> str:
    return "".join(delta.delta for delta in twin.of(OutputTextDelta))


async def test_twins_hear_the_same_turns_and_answer_for_themselves(time: FedTime) -> None:
    quick = scripted_engines(time, texts=["Quick ears."], chat=ScriptedChat(["Quick reply."], sleep=time.sleep))
    slow = scripted_engines(
        time,
        asr=ScriptedRecognizer(["Slow ears."], delay_ms=700, sleep=time.sleep),
        chat=ScriptedChat(["Slow reply, and long."], ttft_ms=900, sleep=time.sleep),
        tts=ScriptedSynthesizer(word_ms=500, sleep=time.sleep),
    )
    async with running(time, quick) as one, running(time, slow) as two:
        await play(time, Hearing(ScriptedVad()), (one, two), quiet(333), voice(960), quiet(1_100))
        await time.advance(5_000)
        for kind, position in ((SpeechStarted, "start"), (SpeechStopped, "end"), (InputCommitted, "end")):
            heard = [[getattr(event, position) for event in twin.of(kind)] for twin in (one, two)]
            assert heard[0] == heard[1]
            assert heard[0]
        assert [done.transcript for done in one.of(InputTranscriptCompleted)] == ["Quick ears."]
        assert [done.transcript for done in two.of(InputTranscriptCompleted)] == ["Slow ears."]
        assert words(one) == "Quick reply."
        assert words(two) == "Slow reply, and long."
        for twin in (one, two):
            (started,) = twin.of(ResponseStarted)
            assert {event.response_id for event in twin.of(OutputTextDelta)} == {started.response_id}
            assert [ended.response_id for ended in twin.of(ResponseEnded)] == [started.response_id]
        audio = [sum(len(piece.pcm) for piece in twin.of(OutputAudio)) for twin in (one, two)]
        assert audio == [2 * 24 * 600, 2 * 24 * 2_000]


async def test_what_is_asked_of_one_twin_leaves_the_other_alone(time: FedTime) -> None:
    long = "One two three four. " * 10
    async with (
        running(time, scripted_engines(time, chat=ScriptedChat([long], sleep=time.sleep))) as one,
        running(time, scripted_engines(time, chat=ScriptedChat([long], sleep=time.sleep))) as two,
    ):
        await play(time, Hearing(ScriptedVad()), (one, two), voice(960), quiet(600))
        await time.advance(300)
        one.backend.submit(CancelResponse())
        await time.advance(5_000)
        assert [ended.status for ended in one.of(ResponseEnded)] == [EndStatus.CANCELLED]
        assert [ended.status for ended in two.of(ResponseEnded)] == [EndStatus.COMPLETED]
        assert words(two) == long.strip() + " "


async def test_a_twin_that_fails_does_not_take_the_other_with_it(time: FedTime) -> None:
    broken = ScriptedChat([[EngineError("llm_failed", "The model failed.")]], sleep=time.sleep)
    async with running(time, scripted_engines(time)) as one, running(time, scripted_engines(time, chat=broken)) as two:
        hearing = Hearing(ScriptedVad())
        await play(time, hearing, (one, two), voice(960), quiet(600))
        await time.advance(3_000)
        assert [ended.status for ended in one.of(ResponseEnded)] == [EndStatus.COMPLETED]
        assert [ended.status for ended in two.of(ResponseEnded)] == [EndStatus.FAILED]
        await play(time, hearing, (one, two), voice(960), quiet(600))
        stops = [[event.end for event in twin.of(SpeechStopped)] for twin in (one, two)]
        assert stops[0] == stops[1]
        assert len(stops[0]) == 2


async def test_twins_may_share_one_set_of_engines(time: FedTime) -> None:
    """One engine instance serves all sessions: the second twin is just another one."""
    engines = scripted_engines(time, chat=ScriptedChat(lambda request: "Hello to you.", sleep=time.sleep))
    async with running(time, engines) as one, running(time, engines) as two:
        await play(time, Hearing(ScriptedVad()), (one, two), voice(960), quiet(600))
        await time.advance(3_000)
        assert words(one) == words(two) == "Hello to you."
        assert one.kinds() == two.kinds()
