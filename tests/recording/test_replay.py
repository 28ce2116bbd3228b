"""A recorded session, run through the core again."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from gateway.recording.changed_settings import Changes, WrongChange
from gateway.recording.codec import to_json
from gateway.recording.recorded_engines import RecordedEngines
from gateway.recording.recording import Step
from gateway.recording.replay import Replay, replayed
from gateway.turns.actions import Transcribe
from gateway.turns.inputs import InputStalled, Transcript
from gateway.turns.settings import Detection, Eagerness, TurnSettings
from protocol.audio_time import samples_from_ms as ms
from tests.recording.recorded import record, recorded, recording_of
from tests.simulation.conversation import Conversation, by_hand, semantic, server_vad
from tests.turns.test_invariants import NO_CHECKS, STEPS, Chaos, perform


def changed(replay: Replay, mark: str) -> list[str]:
    return [change.decision.text for change in replay.changes if change.mark == mark]


def two_sentences(conversation: Conversation) -> None:
    conversation.speak(1_000)
    conversation.silence(700)
    conversation.speak(1_000)
    conversation.silence(3_000)


@settings(max_examples=150, deadline=None, derandomize=True, database=None, suppress_health_check=NO_CHECKS)
@given(STEPS)
def test_with_equal_settings_any_session_is_decided_bit_for_bit_as_then(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]]
) -> None:
    chaos = Chaos()
    disk = record(chaos)
    for step in steps:
        perform(chaos, step)

    replay = replayed(recording_of(disk, tmp_path_factory.mktemp("replay")), Changes({}))

    assert replay.identical
    assert replay.changed == 0


def test_settings_that_are_set_to_what_they_were_change_no_bit(tmp_path: Path) -> None:
    then = recorded(tmp_path, server_vad(), two_sentences, context_ms=3)  # a replay answers at once

    replay = replayed(then, Changes({"silence_duration_ms": "500", "eagerness": "none"}))

    assert replay.identical
    assert replay.changed == 0


def test_settings_that_nobody_spoke_under_do_not_count(tmp_path: Path) -> None:
    def act(conversation: Conversation) -> None:
        conversation.configure(semantic(eagerness=Eagerness.HIGH))
        two_sentences(conversation)

    then = recorded(tmp_path, server_vad(), act, context_ms=3)

    assert replayed(then, Changes({"eagerness": "high"})).identical
    assert not replayed(then, Changes({"eagerness": "low"})).identical


def test_more_patience_makes_one_turn_of_two(tmp_path: Path) -> None:
    then = recorded(tmp_path, server_vad(), two_sentences, asr=["first part", "second part"])

    replay = replayed(then, Changes({"silence_duration_ms": "1000"}))

    assert not replay.identical
    assert [text for text in changed(replay, "-") if "says" in text] == [
        "turn 1 says: 'first part'",
        "turn 2 says: 'second part'",
    ]
    assert [text for text in changed(replay, "+") if "says" in text] == ["turn 1 says: 'first part second part'"]


def test_less_patience_moves_every_end_and_changes_no_words(tmp_path: Path) -> None:
    then = recorded(tmp_path, server_vad(), two_sentences, asr=["first part", "second part"])

    replay = replayed(then, Changes({"silence_duration_ms": "300"}))

    said = [[text for text in changed(replay, mark) if "says" in text] for mark in "-+"]
    assert said[0] == said[1] == ["turn 1 says: 'first part'", "turn 2 says: 'second part'"]
    ends = [[change.decision.at for change in replay.changes if change.mark == mark] for mark in "-+"]
    assert ends[1][0] < ends[0][0]


def interrupting(conversation: Conversation) -> None:
    conversation.speak(1_000)
    conversation.silence(1_500)
    conversation.speak(1_000)
    conversation.silence(4_000)


def test_without_barge_in_nothing_is_cut_off(tmp_path: Path) -> None:
    then = recorded(tmp_path, server_vad(), interrupting, llm="One two three four five six seven eight nine ten.")

    replay = replayed(then, Changes({"interrupt_response": "false"}))

    assert any("cut off" in text for text in changed(replay, "-"))
    assert not any("cut off" in text or "cancelled" in text for text in changed(replay, "+"))


def test_a_clients_truncate_finds_the_same_message_in_the_other_run(tmp_path: Path) -> None:
    def truncating(conversation: Conversation) -> None:
        conversation.silence(500)
        conversation.speak(1_000)
        conversation.silence(1_500)
        (item_id,) = conversation.promises.sent
        conversation.truncate(item_id, 2_400)
        conversation.cancel()
        conversation.silence(1_000)

    then = recorded(tmp_path, server_vad(), truncating)

    replay = replayed(then, Changes({"prefix_padding_ms": "0"}))

    # Another padding moves where the turn begins; all that follows is as it was.
    assert {text.split(":")[0].split(" at ")[0] for text in changed(replay, "+")} == {"turn 1 begins", "turn 1 ends"}


def test_a_session_by_hand_stays_by_hand(tmp_path: Path) -> None:
    def typing(conversation: Conversation) -> None:
        conversation.speak(1_000)
        conversation.commit()
        conversation.create()
        conversation.wait(3_000)

    then = recorded(tmp_path, by_hand(), typing)

    assert replayed(then, Changes({"silence_duration_ms": "200"})).changed == 0


def test_an_empty_recording_has_no_decisions(tmp_path: Path) -> None:
    then = recorded(tmp_path, TurnSettings(), lambda conversation: None)

    assert replayed(then, Changes({})) == Replay(True, [])
    assert replayed(then, Changes({"threshold": "0.9"})) == Replay(True, [])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"patience": "1"}, "--set patience: not a setting of turn-taking"),
        ({"silence_duration_ms": "soon"}, "--set silence_duration_ms=soon: give milliseconds."),
        ({"silence_duration_ms": "-5"}, "--set silence_duration_ms=-5: give milliseconds."),
        ({"threshold": "nan"}, "--set threshold=nan: give a number from 0 to 1."),
        ({"threshold": "-1"}, "--set threshold=-1: give a number from 0 to 1."),
        ({"barge_in": "loud"}, "--set barge_in=loud: give judged, immediate or off."),
        ({"speculation": "perhaps"}, "--set speculation=perhaps: give true or false."),
    ],
)
def test_a_change_that_means_nothing_is_told_in_a_sentence(words: dict[str, str], sentence: str) -> None:
    with pytest.raises(WrongChange) as wrong:
        Changes(words)

    assert str(wrong.value).startswith(sentence)


def test_every_setting_of_detection_can_be_changed() -> None:
    changes = Changes(
        {
            "threshold": "0.7",
            "prefix_padding_ms": "100",
            "silence_duration_ms": "200",
            "create_response": "off",
            "interrupt_response": "no",
            "idle_timeout_ms": "6000",
            "eagerness": "low",
            "barge_in": "off",
            "playout_delay_ms": "50",
            "speculation": "off",
            "judges": "audio,lexical",
        }
    )

    after = changes.applied(TurnSettings())

    assert after.detection == Detection(0.7, 2_400, 4_800, False, False, 144_000, after.detection.semantic, "off")
    assert after.detection.semantic == "low"
    assert (after.playout_delay, after.speculation, after.judges) == (1_200, False, {"audio", "lexical"})


def test_words_shorter_than_the_tolerance_are_put_together_once_each() -> None:
    engines = RecordedEngines(
        [
            Step(0, InputStalled(1), (), (to_json(Transcribe("a", 0, ms(200))),)),
            Step(ms(90), Transcript("a", "yes"), (), (to_json(Transcribe("b", ms(1_000), ms(1_300))),)),
            Step(ms(180), Transcript("b", "please"), (), ()),
        ],
        lambda: None,
    )

    ((_, answer),) = engines.answers(Transcribe("c", 0, ms(2_000)))

    assert answer == Transcript("c", "yes please")
