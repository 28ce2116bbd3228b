"""What a stock client hears of voice over the agent: of a cough nothing, of "stop" what makes it flush its player."""

from __future__ import annotations

from typing import Any

import pytest

from models.engines.scripted import ScriptedChat, ScriptedRecognizer
from tests.gateway.fed_time import FedTime
from tests.gateway.scripted_cascade import RunningSession, kinds, open_session, quiet, scripted_engines, voice

REPLY = "One two three four five six. Seven eight nine ten eleven twelve. And so on and so forth until the end of it."


class Ear:
    """A recogniser's script that the test writes as it goes."""

    def __init__(self) -> None:
        self.hears = "Tell me a story."

    def __call__(self, _pcm: bytes) -> str:
        return self.hears


async def in_mid_reply(running: RunningSession, **turn_detection: Any) -> None:
    session = {"type": "realtime", "audio": {"input": {"turn_detection": {"type": "semantic_vad", **turn_detection}}}}
    await running.send("session.update", session=session)
    await running.play(voice(800))
    for _ in range(500):  # until the turn is over and the reply comes
        await running.play(quiet(20))
        if "response.output_audio.delta" in kinds(await running.read()):
            break
    await running.play(quiet(1_500))
    await running.read()


def engines(time: FedTime, ear: Ear) -> Any:
    asr = ScriptedRecognizer(ear, delay_ms=60, sleep=time.sleep)
    return scripted_engines(time, asr=asr, chat=ScriptedChat([REPLY, "All right."], sleep=time.sleep))


SPEECH_EVENTS = {
    "input_audio_buffer.speech_started",
    "input_audio_buffer.speech_stopped",
    "input_audio_buffer.committed",
}


@pytest.mark.parametrize(("hears", "ms"), [("", 160), ("You know?", 160), ("", 500), ("Mm-hm.", 400), ("Yeah.", 320)])
async def test_a_cough_and_a_nod_over_the_agent_reach_no_client(time: FedTime, hears: str, ms: int) -> None:
    ear = Ear()
    async with open_session(time, engines(time, ear)) as running:
        await in_mid_reply(running)
        ear.hears = hears
        await running.play(voice(ms), quiet(900))
        taken = kinds(await running.read())
        assert not SPEECH_EVENTS & set(taken)
        await running.play(quiet(8_000))
        await running.read()
        added = [sent["item"]["role"] for sent in running.sent if sent["type"] == "conversation.item.added"]
        ended = [sent["response"]["status"] for sent in running.sent if sent["type"] == "response.done"]
        assert (added.count("user"), ended) == (1, ["completed"])


async def test_stop_reaches_the_client_at_once_and_the_next_request_knows_what_was_heard(time: FedTime) -> None:
    ear = Ear()
    async with open_session(time, engines(time, ear)) as running:
        await in_mid_reply(running)
        ear.hears = "Stop."
        await running.play(voice(400))
        assert "input_audio_buffer.speech_started" in kinds(await running.read())
        await running.play(quiet(5_000))
        after = kinds(await running.read())
        assert after.count("input_audio_buffer.committed") == 1
        assert after.count("response.done") == 1


async def test_a_client_that_wants_no_interruptions_is_told_of_all_speech(time: FedTime) -> None:
    ear = Ear()
    async with open_session(time, engines(time, ear)) as running:
        await in_mid_reply(running, interrupt_response=False)
        ear.hears = "Mm-hm."
        await running.play(voice(400))
        assert "input_audio_buffer.speech_started" in kinds(await running.read())
