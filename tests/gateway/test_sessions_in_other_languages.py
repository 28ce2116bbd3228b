"""Whole sessions in French and Japanese: turns that wait, replies cut and worded in their language, nods and stops."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.observing.observer import SessionObserver
from models.engines.lexical_judge import LexicalJudge
from models.engines.scripted import ScriptedChat, ScriptedRecognizer, ScriptedSynthesizer
from models.interfaces import Transcription
from tests.gateway.fed_time import FedTime
from tests.gateway.observed import told
from tests.gateway.scripted_cascade import RunningSession, kinds, open_session, quiet, scripted_engines, voice


class Ear(ScriptedRecognizer):
    """A recogniser that hears what the test says, and finds its language out where nobody names it."""

    def __init__(self, time: FedTime, hears: str, finds: str = "") -> None:
        super().__init__(lambda _pcm: self.hears, delay_ms=60, sleep=time.sleep)
        self.hears = hears
        self.finds = finds
        self.told: set[str | None] = set()

    async def transcribe(self, pcm: bytes, *, language: str | None = None, **others: Any) -> Transcription | None:
        self.told.add(language)
        heard = await super().transcribe(pcm, language=language, **others)
        return None if heard is None else replace(heard, language=language or self.finds)


FRENCH = (
    "Oui ! M. Dupont arrive le 3 mai, à 10h30. Il a dit « d'accord, très bien ! » Puis il a pris le n° 5, etc. "
    "Voulez-vous autre chose ? Je peux aussi vous réserver une table pour ce soir si vous le voulez."
)
FRENCH_SAID = (
    "Oui! Monsieur Dupont arrive le 3 mai, à 10h30. Il a dit « d'accord, très bien! » Puis il a pris le numéro 5, et "
    "cetera. Voulez-vous autre chose? Je peux aussi vous réserver une table pour ce soir si vous le voulez."
)
JAPANESE = (
    "はい、ございます。土曜日は10時から開いています。「三階」へどうぞ。他に何かございますか？お待ちしております。"
)

TALKS = {
    "fr": ("Je voudrais savoir si", "Je voudrais savoir si vous ouvrez le samedi", FRENCH, FRENCH_SAID),
    "ja": ("土曜日は何時から", "土曜日は何時から開いていますか", JAPANESE, JAPANESE),
}
OVER_IT = {"fr": ("D'accord.", "Non, attendez !"), "ja": ("なるほど。", "ちょっと待ってください。")}
WAITS = {"fr": "Un instant, je cherche ma carte", "ja": "少々お待ちください"}


async def listen(running: RunningSession, language: str | None) -> None:
    transcription = {"model": "whisper-1"} | ({"language": language} if language else {})
    audio = {"input": {"turn_detection": {"type": "semantic_vad"}, "transcription": transcription}}
    await running.send("session.update", session={"type": "realtime", "audio": audio})


def of(running: RunningSession, kind: str) -> list[dict[str, Any]]:
    return [event for event in running.sent if event["type"] == kind]


async def in_mid_reply(running: RunningSession) -> None:
    for _ in range(100):
        await running.read()
        if of(running, "response.output_audio.delta"):
            break
        await running.play(quiet(20))
    await running.play(quiet(1_200))
    await running.read()


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("language", ["fr", "ja"])
async def test_a_conversation_in_another_language(time: FedTime, language: str, named: bool) -> None:
    begun, whole, reply, said = TALKS[language]
    nod, stop = OVER_IT[language]
    ear = Ear(time, begun, finds=language)
    tts = ScriptedSynthesizer(sleep=time.sleep, word_ms=300 if language == "fr" else 2_000)
    engines = scripted_engines(time, asr=ear, tts=tts, chat=ScriptedChat([reply], sleep=time.sleep))
    engines = replace(engines, judges=(LexicalJudge(),))
    observer = SessionObserver("sess_1", time.now)
    async with open_session(time, engines, observer=observer) as running:
        await listen(running, language if named else None)
        await running.play(voice(1_000), quiet(2_000))  # "I would like to know whether …"
        await running.read()
        assert of(running, "input_audio_buffer.committed") == []

        ear.hears = whole
        await running.play(voice(1_000), quiet(1_000))
        await running.read()
        assert len(of(running, "input_audio_buffer.committed")) == 1
        (heard,) = of(running, "conversation.item.input_audio_transcription.completed")
        assert heard["transcript"] == whole

        await in_mid_reply(running)
        ear.hears = nod
        await running.play(voice(400), quiet(700))
        assert "input_audio_buffer.speech_started" not in kinds(await running.read())
        ear.hears = stop
        await running.play(voice(400))
        assert "input_audio_buffer.speech_started" in kinds(await running.read())
        ear.hears = WAITS[language]
        await running.play(voice(400), quiet(9_000))
        await running.read()
        assert len(of(running, "input_audio_buffer.committed")) == 1  # they asked for time, and get it

    assert ear.told == {language if named else None}
    assert {call.language for call in tts.calls} == {language}
    spoken = " ".join(call.text for call in tts.calls)
    assert said.replace(" ", "").startswith(spoken.replace(" ", ""))
    assert len(spoken) > 20
    (known,) = told(observer.ring, "session.languages")
    assert (known["user"], known["reply"], known["detected"]) == (language, language, not named)


async def test_an_accepted_language_is_never_an_error_however_odd(time: FedTime) -> None:
    ear = Ear(time, "subiri kidogo")
    engines = replace(scripted_engines(time, asr=ear), judges=(LexicalJudge(),))
    async with open_session(time, engines) as running:
        for language in ("sw", "xx-YY", "tlh"):
            await listen(running, language)
        await running.play(voice(800), quiet(1_500))
        await running.read()
        assert of(running, "error") == []
        assert len(of(running, "response.created")) == 1
