"""What falls back in a language: told once a session in the log, to observers, and at the start."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from gateway.app import create_app
from gateway.backends.language_limits import language_limits
from gateway.observing.observer import SessionObserver
from gateway.settings import Settings
from models.engines.lexical_judge import LexicalJudge
from models.engines.scripted import ScriptedJudge, ScriptedRecognizer, ScriptedSynthesizer
from models.engines.smart_turn import SmartTurnJudge
from models.interfaces import Engines
from models.languages import knows, languages_of, only_language, primary_language
from protocol.commands import Configure, TurnDetection
from tests.gateway.fed_time import FedTime, settle
from tests.gateway.observed import told
from tests.gateway.scripted_cascade import open_session, running, scripted_engines


class EnglishEars(ScriptedRecognizer):
    languages = frozenset({"en"})


class RomanceVoice(ScriptedSynthesizer):
    languages = ("fr", "es", "it", "pt")


class SilentJudge(ScriptedJudge):
    languages = frozenset({"en"})


def engines(time: FedTime) -> Engines:
    found = scripted_engines(time, asr=EnglishEars(["Hello."], sleep=time.sleep), tts=RomanceVoice(sleep=time.sleep))
    return replace(found, judges=(LexicalJudge(), SilentJudge({}, name="probability")))


@pytest.mark.parametrize(
    ("tag", "primary"),
    [("fr", "fr"), ("fr-CA", "fr"), ("zh_Hans", "zh"), ("English", "en"), ("deu", "de"), ("cmn", "zh"), (None, "")],
)
def test_a_language_has_many_names_and_one_code(tag: str | None, primary: str) -> None:
    assert primary_language(tag) == primary


def test_an_engine_says_itself_which_languages_it_knows_and_tries_where_nobody_knows(time: FedTime) -> None:
    found = engines(time)
    assert languages_of(found.tts) == {"fr", "es", "it", "pt"}
    assert languages_of(found.chat) is None
    assert only_language(found.asr) == "en"
    assert only_language(found.tts) == only_language(found.chat) == ""
    assert knows(found.asr, "en-GB")
    assert knows(found.asr, None)
    assert not knows(found.asr, "fr")
    assert knows(found.chat, "xx")
    assert len(SmartTurnJudge.languages - {"nb", "nn"}) == 23


def test_what_falls_back_is_one_sentence_and_nothing_where_nothing_does(time: FedTime) -> None:
    found = engines(time)
    assert not language_limits(found, "", "")
    assert not language_limits(found, "en", "fr")
    french = language_limits(found, "fr-CA", "")
    assert french.fields == {
        "silent_judges": ["probability"],
        "words_over_agent": True,
        "recogniser": False,
        "voice": True,
    }
    assert french.sentence == (
        "the recogniser doesn't know French, what it writes will be wrong (another one: --asr); no opinion on French "
        "from the end-of-turn judges probability, the others or silence decide"
    )
    swahili = language_limits(found, "sw", "sw")
    assert swahili.silent_judges == ("lexical", "probability")
    assert "no list of words in 'sw', an interruption is told by its length and level" in swahili.sentence
    assert "the voice doesn't know 'sw'" in swahili.sentence


async def test_each_limit_is_logged_once_a_session(time: FedTime, caplog: pytest.LogCaptureFixture) -> None:
    def lines() -> list[str]:
        return [record.getMessage() for record in caplog.records if "doesn't know" in record.getMessage()]

    async with running(time, engines(time), Configure(TurnDetection(), language="fr")) as cascade:
        assert len(lines()) == 1
        cascade.backend.submit(Configure(TurnDetection(), language="de"))
        cascade.backend.submit(Configure(TurnDetection(), language="fr"))
        assert len(lines()) == 2
        assert "German" in lines()[1]


async def test_the_gateways_language_holds_where_the_client_names_none(time: FedTime) -> None:
    asked: list[Any] = []

    class Ears(ScriptedRecognizer):
        async def transcribe(self, pcm: bytes, *, language: str | None = None, **others: Any) -> Any:
            asked.append(language)
            return await super().transcribe(pcm, language=language, **others)

    found = scripted_engines(time, asr=Ears(["Bonjour à tous."], sleep=time.sleep))
    async with running(time, found, user_language="fr-FR", reply_language="fr") as cascade:
        await cascade.play(bytes(4_800))
        assert cascade.backend.machine.user_language == "fr"
        cascade.backend.submit(Configure(TurnDetection(), language="es"))
        assert cascade.backend.machine.user_language == "es"
        cascade.backend.submit(Configure(TurnDetection()))
        assert cascade.backend.machine.user_language == "fr"


async def test_a_recogniser_of_one_language_tells_the_users(time: FedTime) -> None:
    async with running(time, engines(time)) as cascade:
        assert cascade.backend.machine.user_language == "en"


async def test_observers_are_told_of_the_languages_and_their_limits(time: FedTime) -> None:
    found = engines(time)
    observer = SessionObserver(
        "sess_1", time.now, limits=lambda user, reply: language_limits(found, user, reply).fields
    )
    async with open_session(time, found, observer=observer) as talk:
        audio = {"input": {"transcription": {"model": "whisper-1", "language": "de"}}}
        await talk.send("session.update", session={"type": "realtime", "audio": audio})
        assert "error" not in [sent["type"] for sent in await talk.read()]
    first, second = told(observer.ring, "session.languages")
    assert (first["user"], first["reply"], first["detected"], first["voice"]) == ("en", "en", False, False)
    assert (second["user"], second["recogniser"], second["silent_judges"]) == ("de", False, ["probability"])


async def test_a_language_set_for_the_gateway_that_its_engines_lack_is_told_at_the_start(
    caplog: pytest.LogCaptureFixture, time: FedTime
) -> None:
    async def load(_settings: Settings) -> Engines:
        return engines(time)

    app = create_app(Settings(profile="scripted", asr_language="ja"), load=load)
    async with app.router.lifespan_context(app):
        await settle()
    (line,) = [record for record in caplog.records if "doesn't know Japanese" in record.getMessage()]
    assert line.levelno == logging.WARNING
