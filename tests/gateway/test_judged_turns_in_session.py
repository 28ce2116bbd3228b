"""What a stock client sees of judged turns: one item for a halting sentence, an early answer to a finished one."""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import replace
from typing import Any

import pytest
import websockets

from gateway.backends import cascade
from gateway.turns.end_of_turn import SOUND_LONGEST
from gateway.turns.settings import VAD_FRAME
from models.engines.scripted import (
    JudgeScore,
    ScriptedChat,
    ScriptedJudge,
    ScriptedRecognizer,
    ScriptedSynthesizer,
    ScriptedVad,
)
from models.interfaces import EngineError, Engines, Judgement, Utterance
from protocol.audio_time import bytes_from_samples
from tests.gateway.conftest import Serve
from tests.gateway.fed_time import FedTime
from tests.gateway.scripted_cascade import RunningSession, open_session, quiet, scripted_engines, voice

TABLE: dict[str, JudgeScore] = {"whether": 0.02, "sundays": 0.98, "second": Judgement(0.02, wait=True)}


class Ear:
    """A recogniser's script: what has been said by now."""

    def __init__(self, hears: str = "") -> None:
        self.hears = hears

    def __call__(self, _pcm: bytes) -> str:
        return self.hears


def judged(time: FedTime, ear: Ear, *judges: ScriptedJudge) -> Engines:
    asr = ScriptedRecognizer(ear, delay_ms=60, sleep=time.sleep)
    return replace(scripted_engines(time, asr=asr), judges=judges)


async def listen(running: RunningSession, **turn_detection: Any) -> None:
    detection = {"type": "semantic_vad", **turn_detection}
    transcription = {"model": "whisper-1", "language": "en"}
    audio = {"input": {"turn_detection": detection, "transcription": transcription}}
    await running.send("session.update", session={"type": "realtime", "audio": audio})


def told(running: RunningSession, kind: str) -> list[dict[str, Any]]:
    return [event for event in running.sent if event["type"] == kind]


async def test_a_pause_after_whether_keeps_the_floor_and_the_whole_sentence_is_answered_early(time: FedTime) -> None:
    ear = Ear("I was wondering whether")
    judge = ScriptedJudge(TABLE, sleep=time.sleep)
    async with open_session(time, judged(time, ear, judge)) as running:
        await listen(running)
        await running.play(voice(1_000), quiet(2_000))
        await running.read()
        assert told(running, "input_audio_buffer.committed") == []
        ear.hears = "I was wondering whether you open on Sundays?"
        await running.play(voice(1_000), quiet(450))
        await running.read()
        (stopped,) = told(running, "input_audio_buffer.speech_stopped")
        assert 4_000 + 250 < stopped["audio_end_ms"] < 4_000 + 400
        (done,) = told(running, "conversation.item.input_audio_transcription.completed")
        assert done["transcript"] == ear.hears
        assert len(told(running, "response.created")) == 1
    assert [asked.text for asked in judge.asked] == ["I was wondering whether", ear.hears]
    assert {asked.language for asked in judge.asked} == {"en"}


async def test_who_asks_for_a_second_gets_six(time: FedTime) -> None:
    ear = Ear("Hold on a second.")
    async with open_session(time, judged(time, ear, ScriptedJudge(TABLE, sleep=time.sleep))) as running:
        await listen(running, eagerness="high")
        await running.play(voice(900), quiet(6_000))
        ear.hears = "Hold on a second. Are you open on Sundays?"
        await running.play(voice(900), quiet(900))
        await running.read()
        assert len(told(running, "input_audio_buffer.committed")) == 1
        (done,) = told(running, "conversation.item.input_audio_transcription.completed")
        assert done["transcript"] == ear.hears


async def test_judges_that_listen_get_the_sound_and_those_that_read_the_words(time: FedTime) -> None:
    ear = Ear("You open on Sundays?")
    audio = ScriptedJudge(lambda _: 0.97, name="audio", listens=True, sleep=time.sleep)
    lexical = ScriptedJudge(TABLE, sleep=time.sleep)
    async with open_session(time, judged(time, ear, audio, lexical)) as running:
        await listen(running)
        await running.play(voice(9_600), quiet(900))
    (sound,), (words,) = audio.asked, lexical.asked
    assert (len(sound.pcm), sound.text) == (bytes_from_samples(SOUND_LONGEST), "")
    tail = sound.pcm[-bytes_from_samples(3 * VAD_FRAME) :]
    assert not any(tail), "no more than 96 ms after the voice"
    assert any(sound.pcm[: -len(tail)][-960:])
    assert (words.pcm, words.text, words.agent_text) == (b"", "You open on Sundays?", "")


async def test_a_judge_that_fails_leaves_the_decision_to_the_others_and_says_so_in_the_log(
    time: FedTime, caplog: pytest.LogCaptureFixture
) -> None:
    broken = ScriptedJudge(lambda _: EngineError("judge_failed", "secret"), name="verdict", sleep=time.sleep)
    lexical = ScriptedJudge(TABLE, sleep=time.sleep)
    async with open_session(time, judged(time, Ear("Open on Sundays?"), broken, lexical)) as running:
        await listen(running)
        await running.play(voice(1_000), quiet(380))
        await running.read()
        assert len(told(running, "input_audio_buffer.committed")) == 1
    assert "judge verdict failed: judge_failed" in caplog.text
    assert "secret" not in caplog.text


async def test_a_judge_that_throws_what_nobody_foresaw_ends_no_session(
    time: FedTime, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: Utterance) -> JudgeScore:
        raise ZeroDivisionError

    async with open_session(time, judged(time, Ear("Well"), ScriptedJudge(broken, sleep=time.sleep))) as running:
        await listen(running)
        await running.play(voice(1_000), quiet(560))
        await running.read()
        assert len(told(running, "input_audio_buffer.committed")) == 1
    assert "judge lexical failed: engine_error" in caplog.text


async def test_a_judge_has_a_deadline(
    time: FedTime, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cascade, "JUDGE_DEADLINE_S", 0.0)
    slow = ScriptedJudge(TABLE, delay_ms=60_000, sleep=time.sleep)
    async with open_session(time, judged(time, Ear("Open on Sundays?"), slow)) as running:
        await listen(running)
        await running.play(voice(1_000), quiet(560))
        await running.read()
        assert len(told(running, "input_audio_buffer.committed")) == 1, "silence decides as soon as nobody is left"
    assert "judge lexical did not answer in time" in caplog.text


async def test_a_recogniser_that_fails_at_a_pause_is_asked_again_at_the_commit(time: FedTime) -> None:
    class Flaky(ScriptedRecognizer):
        async def transcribe(self, pcm: bytes, **options: Any) -> Any:
            heard = await super().transcribe(pcm, **options)
            if len(self.finals) == 1:
                raise EngineError("asr_failed", "It broke.")
            return heard

    engines = scripted_engines(time, asr=Flaky(["Hello there."], delay_ms=60, sleep=time.sleep))
    async with open_session(time, engines) as running:
        await listen(running)
        await running.play(voice(1_000), quiet(900))
        await running.read()
        (done,) = told(running, "conversation.item.input_audio_transcription.completed")
        assert done["transcript"] == "Hello there."


class Unprepared(ScriptedJudge):
    async def prepare(self, agent_text: str, language: str | None = None) -> None:
        raise EngineError("eot_timeout", "Too slow.")


async def test_judges_are_told_what_the_agent_said_last_while_the_user_speaks_and_may_fail(time: FedTime) -> None:
    judge = ScriptedJudge({"": 0.98}, sleep=time.sleep)
    failing = Unprepared({"": 0.98}, name="verdict", sleep=time.sleep)
    async with open_session(time, judged(time, Ear("Hello there."), judge, failing)) as running:
        await listen(running)
        await running.play(voice(1_000))
        assert list(judge.prepared_for) == [""]
        await running.play(quiet(3_000), voice(400))
        await running.read()
        (said,) = told(running, "response.output_audio_transcript.done")
        assert list(judge.prepared_for) == ["", said["transcript"]]
        await running.play(quiet(900))
        assert {asked.agent_text for asked in failing.asked} == {"", said["transcript"]}


async def test_a_user_who_goes_on_cancels_the_recognition_of_the_pause(time: FedTime) -> None:
    recogniser = ScriptedRecognizer(["one", "one two"], delay_ms=400, sleep=time.sleep)
    async with open_session(time, scripted_engines(time, asr=recogniser)) as running:
        await running.play(voice(800), quiet(300), voice(800), quiet(1_000))
        await running.read()
        assert recogniser.cancelled == 1
        (committed,) = told(running, "input_audio_buffer.committed")
        assert committed["item_id"]
    assert recogniser.finals == ["one", "one two"]


async def test_a_recording_sent_at_once_through_the_served_gateway_is_answered_by_its_judge(serve: Serve) -> None:
    judge = ScriptedJudge(TABLE)
    engines = Engines(
        vad=ScriptedVad(),
        asr=ScriptedRecognizer(["Do you open on Sundays?"], delay_ms=5),
        chat=ScriptedChat(["We do."], ttft_ms=1, token_ms=1),
        tts=ScriptedSynthesizer(word_ms=100, ttfb_ms=1),
        judges=(judge,),
    )
    audio = {"input": {"turn_detection": {"type": "semantic_vad", "eagerness": "low"}}}
    update = {"type": "session.update", "session": {"type": "realtime", "audio": audio}}
    recording = base64.b64encode(voice(800) + quiet(400)).decode()
    async with serve(whole=True, engines=engines) as gateway:
        async with websockets.connect(gateway.url("?model=cascade")) as socket, asyncio.timeout(10):
            await socket.send(json.dumps(update))
            await socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": recording}))
            events = [json.loads(await socket.recv())]
            while events[-1]["type"] != "response.done":
                events.append(json.loads(await socket.recv()))
    (stopped,) = [event for event in events if event["type"] == "input_audio_buffer.speech_stopped"]
    assert stopped["audio_end_ms"] <= 1_200
    assert events[-1]["response"]["status"] == "completed"
    assert [asked.text for asked in judge.asked] == ["Do you open on Sundays?"]
