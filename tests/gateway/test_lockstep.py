import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from gateway.lockstep import LockstepSession, Stamped, lockstep_session
from gateway.lockstep_engines import Answers, Delays, in_lockstep
from gateway.virtual_loop import VirtualLoop
from models.engines.scripted import ScriptedChat, ScriptedRecognizer, ScriptedSynthesizer, ScriptedVad
from models.interfaces import EngineError, Engines, Judgement, Utterance
from protocol.audio_time import bytes_from_samples, ms_from_samples, samples_from_ms
from tests.gateway.scripted_cascade import quiet, voice

T = TypeVar("T")

STEP = bytes_from_samples(samples_from_ms(20))


def run(work: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


def engines(**replaced: Any) -> Engines:
    parts: dict[str, Any] = {
        "vad": ScriptedVad(),
        "asr": ScriptedRecognizer(delay_ms=0),
        "chat": ScriptedChat(["Okay."], ttft_ms=200),
        "tts": ScriptedSynthesizer(ttfb_ms=80),
    }
    return Engines(**parts | replaced)


async def say(session: LockstepSession, *sounds: bytes) -> list[Stamped]:
    pcm, said = b"".join(sounds), []
    for start in range(0, len(pcm), STEP):
        said += await session.feed(pcm[start : start + STEP])
    return said


def timeline(said: list[Stamped]) -> list[tuple[str, int]]:
    return [(entry.event["type"], ms_from_samples(entry.at)) for entry in said]


def first(said: list[Stamped], kind: str) -> int:
    return next(at for type_, at in timeline(said) if type_ == kind)


async def conversation(loaded: Engines, answers: Answers | None = None) -> list[Stamped]:
    async with lockstep_session(in_lockstep(loaded, answers or Answers())) as session:
        return await say(session, quiet(300), voice(1000), quiet(1500))


def test_each_event_bears_the_time_of_what_caused_it() -> None:
    said = run(conversation(engines()))
    # The voice ends at 1300; its last frame ends at 1312 and 500 ms of silence from there on end at a frame's end.
    committed = first(said, "input_audio_buffer.committed")
    assert 1800 <= committed <= 1860
    assert committed % 20 == 0  # a decision falls when audio comes
    assert first(said, "response.created") == committed
    assert first(said, "response.output_item.added") == committed  # the reply was begun in the pause
    assert first(said, "response.output_audio.delta") - committed == 80


def test_two_runs_are_the_same_to_the_sample() -> None:
    once, again = (run(conversation(engines())) for _ in range(2))
    assert [(entry.at, entry.event["type"]) for entry in once] == [(entry.at, entry.event["type"]) for entry in again]
    assert len(once) > 15


def test_answers_that_were_given_are_not_computed_again_and_change_nothing() -> None:
    answers, slow = Answers(), ScriptedRecognizer(delay_ms=0)
    once = run(conversation(engines(asr=slow), answers))
    again = run(conversation(engines(asr=slow), answers))
    assert len(slow.finals) == 1
    assert timeline(once) == timeline(again)


def test_how_long_a_computation_takes_changes_nothing() -> None:
    class Slow(ScriptedRecognizer):
        async def transcribe(self, pcm: bytes, **options: Any) -> Any:
            await asyncio.to_thread(lambda: sum(range(3_000_000)))
            return await super().transcribe(pcm, **options)

    assert timeline(run(conversation(engines(asr=Slow(delay_ms=0))))) == timeline(run(conversation(engines())))


def test_the_delays_are_those_that_are_written_down() -> None:
    async def text_after(delay_s: float) -> int:
        async with lockstep_session(in_lockstep(engines(), Answers(), Delays(transcript_s=delay_s))) as session:
            said = await say(session, voice(1000), quiet(1500))
        return first(said, "response.output_item.added") - first(said, "input_audio_buffer.committed")

    assert run(text_after(0.9)) - run(text_after(0.7)) == 200


def test_a_client_event_is_answered_at_once() -> None:
    async def update() -> list[tuple[str, int]]:
        async with lockstep_session(in_lockstep(engines(), Answers())) as session:
            await say(session, quiet(100))
            event = {"type": "session.update", "session": {"type": "realtime", "instructions": "Be brief."}}
            return timeline(await session.send(event))

    assert run(update()) == [("session.updated", 100)]


def test_an_engine_that_fails_fails_in_lockstep_too_and_is_asked_again() -> None:
    class Failing(ScriptedRecognizer):
        calls = 0

        async def transcribe(self, pcm: bytes, **options: Any) -> Any:
            self.calls += 1
            raise EngineError("asr_failed", "The speech recogniser failed.")

    failing, answers = Failing(), Answers()
    for _ in range(2):
        said = run(conversation(engines(asr=failing), answers))
        (ended,) = [entry.event for entry in said if entry.event["type"] == "response.done"]
        assert ended["response"]["status"] == "failed"
    assert failing.calls == 4  # of each turn once in its pause, and once for itself


def test_judges_answer_in_the_order_in_which_they_are_due() -> None:
    class Judge:
        listens = False

        def __init__(self, name: str) -> None:
            self.name = name

        async def judge(self, utterance: Utterance) -> Judgement:
            return Judgement(0.25, wait=utterance.text == "hold on")

    async def ask() -> list[tuple[str, float, Judgement]]:
        delays = Delays(judges_s={"slow": 0.2, "quick": 0.05})
        held = in_lockstep(engines(judges=(Judge("slow"), Judge("quick"))), Answers(), delays)
        answered: list[tuple[str, float, Judgement]] = []

        async def one(judge: Any) -> None:
            judgement = await judge.judge(Utterance(text="hold on"))
            answered.append((judge.name, round(asyncio.get_running_loop().time(), 3), judgement))

        await asyncio.gather(*map(one, held.judges))
        return answered

    assert run(ask()) == [("quick", 0.05, Judgement(0.25, True)), ("slow", 0.2, Judgement(0.25, True))]


def test_a_bug_of_the_session_ends_the_run() -> None:
    class Broken(ScriptedVad):
        def open(self) -> Any:
            raise ZeroDivisionError

    with pytest.raises(ExceptionGroup) as raised:
        run(conversation(engines(vad=Broken())))
    assert raised.group_contains(ZeroDivisionError)
