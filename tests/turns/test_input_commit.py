"""Turns that the client ends by hand, and the input buffer's other commands."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.turns.actions import Transcribe
from gateway.turns.settings import LONGEST_INPUT, MIN_COMMIT, VAD_FRAME
from gateway.turns.states import User
from gateway.turns.user_turn import ASR_TAIL
from protocol.audio_time import samples_from_ms, samples_from_s
from protocol.backend_events import (
    CommandRefused,
    InputCleared,
    InputCommitted,
    InputTranscriptCompleted,
    InputTranscriptDelta,
    RefusalKind,
    ResponseStarted,
    SpeechStarted,
    SpeechStopped,
)
from tests.simulation.conversation import SILENCE, SPEECH, Conversation, by_hand, server_vad


@pytest.mark.parametrize(("samples", "accepted"), [(0, False), (2_399, False), (2_400, True), (2_401, True)])
def test_a_commit_needs_a_tenth_of_a_second(samples: int, accepted: bool) -> None:
    assert MIN_COMMIT == 2_400
    conversation = Conversation(by_hand())
    if samples:
        conversation.capture(samples, True)
        conversation.append()
    conversation.commit("evt_1")
    if accepted:
        assert conversation.only(InputCommitted) == InputCommitted("item_1", 0, samples)
        assert conversation.refusals() == []
    else:
        assert conversation.outputs == [CommandRefused(RefusalKind.INPUT_TOO_SHORT, "evt_1", buffered=samples)]


def test_rb48_a_refused_commit_keeps_the_buffer_and_a_second_commit_finds_it_empty() -> None:
    conversation = Conversation(by_hand())
    conversation.commit("c1")
    conversation.audio(40, True)
    conversation.commit("c2")
    conversation.audio(80, True)
    conversation.commit("c3")
    conversation.commit("c4")
    conversation.run_dry()
    assert [refusal.client_event_id for refusal in conversation.refusals()] == ["c1", "c2", "c4"]
    assert conversation.only(InputCommitted).end == samples_from_ms(120)
    assert len(conversation.transcripts()) == 1


def test_rb48_a_commit_after_the_vad_took_the_audio_is_refused() -> None:
    conversation = Conversation()
    conversation.speak(600)
    conversation.silence(580)
    assert conversation.only(InputCommitted)
    conversation.commit("late")
    assert conversation.refusals()[0].client_event_id == "late"
    assert conversation.refusals()[0].buffered == conversation.machine.received - conversation.only(InputCommitted).end


def test_a_commit_creates_no_response() -> None:
    conversation = Conversation(by_hand())
    conversation.speak(600)
    conversation.commit()
    conversation.run_dry()
    assert conversation.responses() == []


def test_without_turn_detection_there_are_no_speech_events() -> None:
    conversation = Conversation(by_hand())
    conversation.speak(2_000)
    conversation.silence(2_000)
    conversation.wait(5_000)
    assert conversation.outputs == []
    assert conversation.machine.next_deadline(conversation.now) is None


def test_commits_by_hand_follow_each_other_without_gap_or_overlap() -> None:
    conversation = Conversation(by_hand())
    for _ in range(3):
        conversation.speak(510)
        conversation.commit()
    spans = [(event.start, event.end) for event in conversation.all(InputCommitted)]
    step = samples_from_ms(510)
    assert spans == [(0, step), (step, 2 * step), (2 * step, 3 * step)]


def test_a_commit_in_mid_speech_ends_the_turn_with_the_announced_id_and_no_speech_stopped() -> None:
    conversation = Conversation()
    conversation.silence(1_000)
    conversation.speak(1_000)
    conversation.commit()
    started = conversation.only(SpeechStarted)
    committed = conversation.only(InputCommitted)
    assert (committed.item_id, committed.start) == (started.item_id, started.start)
    assert committed.end == conversation.machine.received
    assert conversation.all(SpeechStopped) == []
    assert conversation.user is User.SILENT
    assert conversation.all(ResponseStarted) == [], "a commit by hand does not create a response"


@pytest.mark.parametrize("live", [False, True])
def test_speech_whose_turn_detection_is_switched_off_keeps_its_announced_id(live: bool) -> None:
    conversation = Conversation(replace(server_vad(), live_transcript=live))
    conversation.silence(1_000)
    conversation.speak(1_000)
    conversation.configure(by_hand(live_transcript=live))
    conversation.speak(500)
    conversation.silence(500)
    conversation.commit()
    conversation.run_dry()
    item_id = conversation.only(SpeechStarted).item_id
    assert conversation.only(InputCommitted) == InputCommitted(item_id, 0, conversation.machine.received)
    assert {delta.item_id for delta in conversation.all(InputTranscriptDelta)} <= {item_id}
    assert conversation.all(SpeechStopped) == []
    conversation.speak(500)
    conversation.commit()
    assert conversation.all(InputCommitted)[1].item_id != item_id


def test_a_clear_after_turn_detection_was_switched_off_forgets_the_announced_id() -> None:
    conversation = Conversation()
    conversation.speak(1_000)
    conversation.configure(by_hand())
    conversation.clear()
    conversation.speak(500)
    conversation.commit()
    assert conversation.only(InputCommitted).item_id != conversation.only(SpeechStarted).item_id


def test_turn_detection_that_is_switched_on_again_announces_anew() -> None:
    conversation = Conversation()
    conversation.speak(1_000)
    conversation.configure(by_hand())
    conversation.configure(server_vad())
    conversation.speak(500)
    first, second = conversation.all(SpeechStarted)
    assert first.item_id != second.item_id
    conversation.commit()
    assert conversation.only(InputCommitted).item_id == second.item_id


def test_speech_that_runs_on_after_a_commit_by_hand_begins_a_new_turn_right_there() -> None:
    conversation = Conversation(server_vad(create_response=False))
    conversation.speak(1_010)  # the commit falls inside a VAD frame
    conversation.commit()
    conversation.speak(500)
    conversation.silence(1_000)
    first, second = conversation.all(SpeechStarted)
    assert second.item_id != first.item_id
    assert second.start == conversation.all(InputCommitted)[0].end
    assert conversation.only(SpeechStopped).item_id == second.item_id


def test_a_commit_in_mid_speech_that_is_still_too_short_is_refused_and_the_speech_goes_on() -> None:
    conversation = Conversation(server_vad(prefix_padding=0))
    conversation.frames(SPEECH, SPEECH)
    conversation.commit("early")
    assert conversation.refusals() == [CommandRefused(RefusalKind.INPUT_TOO_SHORT, "early", buffered=2 * VAD_FRAME)]
    assert conversation.user is User.SPEAKING


def test_a_commit_in_a_pause_ends_the_turn() -> None:
    conversation = Conversation()
    conversation.speak(1_000)
    conversation.silence(200)
    assert conversation.user is User.PAUSED
    conversation.commit()
    assert conversation.user is User.SILENT
    conversation.silence(2_000)
    assert len(conversation.all(InputCommitted)) == 1


# --- clear ----------------------------------------------------------------------------------------------------------


def test_clear_empties_the_buffer() -> None:
    conversation = Conversation(by_hand())
    conversation.speak(1_000)
    conversation.clear()
    conversation.commit()
    assert conversation.names() == ["InputCleared", "CommandRefused"]
    assert conversation.refusals()[0].buffered == 0


def test_clear_is_answered_when_there_is_nothing_to_clear() -> None:
    conversation = Conversation()
    assert conversation.clear() == [InputCleared()]


def test_clear_in_mid_speech_drops_the_turn_without_a_trace() -> None:
    conversation = Conversation()
    conversation.speak(1_000)
    conversation.clear()
    assert conversation.user is User.SILENT
    conversation.silence(3_000)
    conversation.wait(3_000)
    assert conversation.names() == ["SpeechStarted", "InputCleared"]


def test_clear_in_a_pause_drops_the_turn_without_a_trace() -> None:
    conversation = Conversation()
    conversation.speak(1_000)
    conversation.silence(200)
    conversation.clear()
    conversation.silence(3_000)
    assert conversation.names() == ["SpeechStarted", "TranscribePause", "StopTranscribing", "InputCleared"]


def test_speech_that_runs_on_after_a_clear_is_a_new_turn_from_there_on() -> None:
    conversation = Conversation()
    conversation.speak(1_000)
    conversation.clear()
    cleared_until = conversation.machine.received
    conversation.speak(1_000)
    conversation.silence(1_000)
    first, second = conversation.all(SpeechStarted)
    assert second.item_id != first.item_id
    assert second.start == cleared_until


# --- what the recogniser gets ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("probability", [0.0, 0.1, 0.1999])
def test_rb29_silence_and_noise_committed_by_hand_never_reach_the_recogniser(probability: float) -> None:
    conversation = Conversation(by_hand(), asr=[])
    conversation.audio(3_000, probability)
    conversation.commit()
    conversation.run_dry()
    assert conversation.all(Transcribe) == []
    assert conversation.only(InputTranscriptCompleted) == InputTranscriptCompleted("item_1", "", samples_from_s(3))


@pytest.mark.parametrize("probability", [0.2, 0.2001])
def test_anything_that_could_be_speech_reaches_the_recogniser(probability: float) -> None:
    conversation = Conversation(by_hand())
    conversation.frames(*[SILENCE] * 10, probability, *[SILENCE] * 10)
    conversation.commit()
    assert conversation.only(Transcribe) == Transcribe("item_1", 0, 21 * VAD_FRAME)


def test_speech_of_an_earlier_commit_does_not_make_the_next_silence_speech() -> None:
    conversation = Conversation(by_hand())
    conversation.frames(*[SPEECH] * 10)
    conversation.commit()
    conversation.frames(*[SILENCE] * 10)
    conversation.commit()
    conversation.run_dry()
    assert list(conversation.transcripts().values()) == ["hello there", ""]


def test_silence_committed_by_hand_beside_the_vad_gives_an_empty_transcript_too() -> None:
    conversation = Conversation(asr=[])
    conversation.silence(2_000)
    conversation.commit()
    conversation.run_dry()
    assert list(conversation.transcripts().values()) == [""]


@pytest.mark.parametrize(
    ("silence", "tail"), [(ASR_TAIL - 1, ASR_TAIL - 1), (ASR_TAIL, ASR_TAIL), (ASR_TAIL + 1, ASR_TAIL)]
)
def test_the_recogniser_gets_a_short_tail_and_not_the_silence_that_ended_the_turn(silence: int, tail: int) -> None:
    conversation = Conversation(server_vad(silence_duration=silence, prefix_padding=0))
    conversation.frames(*[SPEECH] * 10, *[SILENCE] * 10)
    assert conversation.only(Transcribe) == Transcribe("item_1", 0, 10 * VAD_FRAME + tail)


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_turn_ended_by_hand_keeps_its_last_five_minutes(more: int) -> None:
    conversation = Conversation(by_hand())
    conversation.capture(LONGEST_INPUT + more, True)
    conversation.append()
    conversation.commit()
    start = max(0, more)
    assert conversation.only(InputCommitted) == InputCommitted("item_1", start, LONGEST_INPUT + more)
    assert conversation.machine.needed_from == LONGEST_INPUT + more
