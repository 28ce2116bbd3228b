"""Which language a session is in: what it was told, what the recogniser finds, and what follows for a reply."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.turns.actions import Synthesize
from gateway.turns.inputs import PauseTranscript, SettingsChanged, Transcript
from gateway.turns.machine import TurnMachine
from gateway.turns.observations import LanguagesKnown, OverlapVerdict
from gateway.turns.settings import TurnSettings
from gateway.turns.spoken_languages import SpokenLanguages, primary_language
from protocol.ids import CountingIds
from tests.simulation.conversation import Conversation, server_vad
from tests.turns.voice_over_agent import BACKCHANNEL, INTERRUPTION, NOISE, judged, talking, verdicts


def known(machine: TurnMachine, *messages: object) -> list[LanguagesKnown]:
    outputs = [output for message in messages for output in machine.receive(message, 0)]
    return [output for output in outputs if isinstance(output, LanguagesKnown)]


@pytest.mark.parametrize(("tag", "primary"), [("pt-BR", "pt"), ("PT_br", "pt"), (" fr ", "fr"), ("", "")])
def test_the_primary_subtag_of_a_tag_counts(tag: str, primary: str) -> None:
    assert primary_language(tag) == primary


def test_what_a_session_is_told_holds_whatever_the_recogniser_finds() -> None:
    machine = TurnMachine(TurnSettings(), CountingIds())
    told = SettingsChanged(replace(machine.settings, user_language="fr-CA"))
    heard = Transcript("item_1", "this is surely english", language="en")
    assert known(machine, told, heard) == [LanguagesKnown("fr", "fr", detected=False)]
    assert machine.user_language == "fr"


def test_where_nobody_tells_the_recogniser_finds_out_and_is_believed_from_three_words_on() -> None:
    machine = TurnMachine(TurnSettings(), CountingIds())
    found = [
        known(machine, Transcript("item_1", "Okay.", language="de")),
        known(machine, Transcript("item_2", "Okay ja.", language="nl")),
        known(machine, PauseTranscript("item_3", 1, "Je voudrais un café.", language="fr")),
        known(machine, PauseTranscript("item_3", 2, None)),
        known(machine, Transcript("item_4", "うん", language="ja")),
        known(machine, Transcript("item_5", "はいはい", language="ja")),
        known(machine, Transcript("item_6", "and now what is this")),
    ]
    assert [[(told.user, told.reply, told.detected) for told in at] for at in found] == [
        [("de", "de", True)],
        [],
        [("fr", "fr", True)],
        [],
        [],
        [("ja", "ja", True)],
        [],
    ]


def test_the_voices_language_is_the_replys() -> None:
    languages = SpokenLanguages(TurnSettings(reply_language="en-GB"))
    languages.heard("fr", "Bonjour à tous.")
    assert (languages.user, languages.reply, languages.detected) == ("fr", "en", True)
    languages.change(TurnSettings(user_language="es"))
    assert (languages.user, languages.reply, languages.detected) == ("es", "es", False)


@pytest.mark.parametrize(
    ("language", "reply", "spoken"),
    [
        ("de", "Das ist z. B. am 3. Mai. Gut so.", ["Das ist zum Beispiel am dritten Mai.", "Gut so."]),
        ("fr", "Bonjour ! M. Dupont est là. Bien.", ["Bonjour! Monsieur Dupont est là. Bien."]),
        ("ja", "こんにちは。元気ですか？", ["こんにちは。", "元気ですか？"]),
        ("", "Dr. Lee pays $5 for it. Fine.", ["Doctor Lee pays 5 dollars for it.", "Fine."]),
        ("", "Voilà le Dr. Lee et la rue.", ["Voilà le Dr. Lee et la rue."]),
        ("", "Dr. Ли заплатил $5. Да.", ["Dr. Ли заплатил $5.", "Да."]),
    ],
)
def test_a_reply_is_cut_and_worded_in_its_language_which_the_voice_is_told(
    language: str, reply: str, spoken: list[str]
) -> None:
    conversation = Conversation(server_vad(), llm=reply)
    conversation.feed(SettingsChanged(replace(conversation.machine.settings, user_language=language)))
    conversation.speak(800)
    conversation.silence(3_000)
    chunks = conversation.all(Synthesize)
    assert " ".join(chunk.text for chunk in chunks) == " ".join(spoken)
    assert {chunk.language for chunk in chunks} == {language}


@pytest.mark.parametrize(
    ("language", "look", "ms", "verdict"),
    [
        ("fr", "Attendez", 400, INTERRUPTION),
        ("fr", "D'accord", 400, BACKCHANNEL),
        ("ja", "ちょっと待って", 400, INTERRUPTION),
        ("ja", "なるほど", 400, BACKCHANNEL),
        ("ja", "明日の天気は", 400, INTERRUPTION),
        ("sw", "subiri kidogo tafadhali", 300, NOISE),
        ("sw", "subiri kidogo tafadhali", 600, INTERRUPTION),
        ("sw", "", 600, NOISE),
    ],
)
def test_words_over_the_agent_are_read_in_the_users_language_or_not_at_all(
    language: str, look: str, ms: int, verdict: OverlapVerdict
) -> None:
    conversation = talking(replace(judged(), user_language=language), looks=[look] * 9)
    conversation.speak(ms)
    conversation.silence(600)
    assert verdicts(conversation)[-1] is verdict
