"""When a turn of the user begins and ends: every rule just under, exactly at and just over its limit, in samples."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.turns.settings import LONGEST_INPUT, MIN_SPEECH, SILENT_RETENTION, VAD_FRAME, Detection, TurnSettings
from gateway.turns.states import User
from protocol.audio_time import samples_from_ms, samples_from_s
from protocol.backend_events import InputCommitted, SpeechStarted, SpeechStopped
from tests.simulation.conversation import SILENCE, SPEECH, Conversation, by_hand, server_vad

NO_PADDING = server_vad(prefix_padding=0)


# --- onset ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("frames", "starts"), [(1, False), (2, True), (3, True)])
def test_speech_counts_once_it_lasts_two_vad_frames(frames: int, starts: bool) -> None:
    assert MIN_SPEECH == 1_536
    conversation = Conversation()
    conversation.frames(SILENCE, *[SPEECH] * frames, SILENCE)
    assert bool(conversation.all(SpeechStarted)) is starts


def test_clicks_of_one_frame_never_add_up_to_speech() -> None:
    conversation = Conversation()
    conversation.frames(*[SPEECH, SILENCE] * 20)
    assert conversation.outputs == []


@pytest.mark.parametrize(("probability", "starts"), [(0.4999, False), (0.5, True), (0.5001, True)])
def test_speech_begins_at_the_threshold(probability: float, starts: bool) -> None:
    conversation = Conversation(server_vad(threshold=0.5))
    conversation.frames(*[probability] * 10)
    assert bool(conversation.all(SpeechStarted)) is starts


@pytest.mark.parametrize(("dip", "starts"), [(0.3499, False), (0.35, True), (0.3501, True)])
def test_the_second_frame_may_dip_by_the_hysteresis(dip: float, starts: bool) -> None:
    conversation = Conversation(server_vad(threshold=0.5))
    conversation.frames(SPEECH, dip, SILENCE)
    assert bool(conversation.all(SpeechStarted)) is starts


def test_frames_below_the_threshold_never_begin_speech_however_many() -> None:
    conversation = Conversation(server_vad(threshold=0.5))
    conversation.frames(*[0.45] * 50)
    assert conversation.outputs == []


def test_a_low_threshold_still_has_a_level_that_is_silence() -> None:
    conversation = Conversation(server_vad(threshold=0.1))
    conversation.frames(0.1, 0.1)
    assert conversation.user is User.SPEAKING
    conversation.frames(0.009)
    assert conversation.user is User.PAUSED


def test_speech_started_leaves_at_the_onset_frame_and_names_the_first_voiced_sample() -> None:
    conversation = Conversation(NO_PADDING)
    conversation.frames(SILENCE, SILENCE, SPEECH)
    assert conversation.outputs == []
    conversation.frames(SPEECH)
    started = conversation.only(SpeechStarted)
    assert started == SpeechStarted("item_1", 2 * VAD_FRAME)
    assert conversation.at(started) == 4 * VAD_FRAME


# --- prefix padding -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("padding", "start"), [(7_679, 1), (7_680, 0), (7_681, 0)])
def test_the_prefix_padding_reaches_back_from_the_onset_but_not_before_the_session(padding: int, start: int) -> None:
    conversation = Conversation(server_vad(prefix_padding=padding))
    conversation.frames(*[SILENCE] * 10, SPEECH, SPEECH)
    assert conversation.only(SpeechStarted).start == start


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_the_prefix_padding_never_reaches_into_a_committed_turn(more: int) -> None:
    conversation = Conversation(server_vad(prefix_padding=0, silence_duration=VAD_FRAME))
    conversation.frames(SPEECH, SPEECH, SILENCE)
    committed_until = conversation.only(InputCommitted).end
    conversation.configure(server_vad(prefix_padding=5 * VAD_FRAME + more, silence_duration=VAD_FRAME))
    conversation.frames(*[SILENCE] * 5, SPEECH, SPEECH)
    assert conversation.all(SpeechStarted)[1].start == committed_until + max(0, -more)


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_the_prefix_padding_never_reaches_into_cleared_audio(more: int) -> None:
    conversation = Conversation(server_vad(prefix_padding=5 * VAD_FRAME + more))
    conversation.frames(*[SILENCE] * 10)
    conversation.clear()
    cleared_until = conversation.machine.received
    conversation.frames(*[SILENCE] * 5, SPEECH, SPEECH)
    assert conversation.only(SpeechStarted).start == cleared_until + max(0, -more)


def test_a_padding_longer_than_the_silent_retention_is_still_obeyed_exactly() -> None:
    padding = samples_from_s(15)
    conversation = Conversation(server_vad(prefix_padding=padding))
    silent = samples_from_s(20) // VAD_FRAME
    conversation.frames(*[SILENCE] * silent, SPEECH, SPEECH)
    assert conversation.only(SpeechStarted).start == silent * VAD_FRAME - padding


@pytest.mark.parametrize(("frames", "kept_from"), [(312, 0), (313, 384), (314, 1_152)])
def test_while_nobody_speaks_the_last_ten_seconds_are_kept(frames: int, kept_from: int) -> None:
    assert SILENT_RETENTION == 312.5 * VAD_FRAME
    conversation = Conversation()
    conversation.frames(*[SILENCE] * frames)
    assert conversation.machine.needed_from == kept_from


def test_audio_of_running_speech_is_kept_however_long_it_is() -> None:
    conversation = Conversation(NO_PADDING)
    conversation.frames(*[SPEECH] * 1_000)
    assert conversation.machine.needed_from == 0


# --- pauses and the end ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("probability", "user"), [(0.3499, User.PAUSED), (0.35, User.SPEAKING), (0.3501, User.SPEAKING)]
)
def test_speech_goes_on_until_the_probability_falls_by_the_hysteresis(probability: float, user: User) -> None:
    conversation = Conversation(server_vad(threshold=0.5))
    conversation.frames(SPEECH, SPEECH, probability)
    assert conversation.user is user


@pytest.mark.parametrize(
    ("probability", "user"), [(0.4999, User.PAUSED), (0.5, User.SPEAKING), (0.5001, User.SPEAKING)]
)
def test_after_a_pause_speech_resumes_at_the_threshold_only(probability: float, user: User) -> None:
    conversation = Conversation(server_vad(threshold=0.5))
    conversation.frames(SPEECH, SPEECH, SILENCE, probability)
    assert conversation.user is user


@pytest.mark.parametrize(("more", "frames"), [(-1, 4), (0, 4), (1, 5)])
def test_the_turn_ends_at_the_first_frame_that_completes_the_silence(more: int, frames: int) -> None:
    silence = 4 * VAD_FRAME + more
    conversation = Conversation(server_vad(silence_duration=silence))
    conversation.frames(SPEECH, SPEECH, *[SILENCE] * (frames - 1))
    assert conversation.all(SpeechStopped) == []
    conversation.frames(SILENCE)
    # audio_end_ms includes the silence that decided it, to the sample and whatever the frame size.
    assert conversation.only(SpeechStopped).end == 2 * VAD_FRAME + silence


def test_speech_that_resumes_in_the_last_frame_of_the_silence_goes_on() -> None:
    conversation = Conversation(server_vad(silence_duration=4 * VAD_FRAME))
    conversation.frames(SPEECH, SPEECH, SILENCE, SILENCE, SILENCE, SPEECH, SILENCE, SILENCE, SILENCE)
    assert conversation.all(SpeechStopped) == []
    conversation.frames(SILENCE)
    assert conversation.only(SpeechStopped).end == (6 + 4) * VAD_FRAME


def test_speech_that_resumes_just_after_the_silence_is_a_second_turn() -> None:
    conversation = Conversation(server_vad(silence_duration=4 * VAD_FRAME, prefix_padding=0))
    conversation.frames(SPEECH, SPEECH, SILENCE, SILENCE, SILENCE, SILENCE, SPEECH, SPEECH)
    assert [event.start for event in conversation.all(SpeechStarted)] == [0, 6 * VAD_FRAME]


def test_no_silence_at_all_ends_the_turn_with_the_voice() -> None:
    conversation = Conversation(server_vad(silence_duration=0))
    conversation.frames(SPEECH, SPEECH, SPEECH, SILENCE)
    assert conversation.only(SpeechStopped).end == 3 * VAD_FRAME


def test_rb16_a_dictated_number_is_one_turn_if_its_pauses_are_shorter_than_the_silence() -> None:
    conversation = Conversation(server_vad(silence_duration=samples_from_ms(1_100)))
    for _ in range(3):
        conversation.speak(900)
        conversation.silence(700)
    conversation.silence(1_300)
    assert len(conversation.all(InputCommitted)) == 1


def test_rb16_a_dictated_number_is_three_turns_if_its_pauses_are_longer_than_the_silence() -> None:
    conversation = Conversation(server_vad(silence_duration=samples_from_ms(300)), asr=["555", "012", "4498"])
    for _ in range(3):
        conversation.speak(900)
        conversation.silence(700)
    conversation.silence(1_300)
    assert list(conversation.transcripts().values()) == ["555", "012", "4498"]


def test_one_item_id_names_an_utterance_from_its_start_to_its_transcript() -> None:
    conversation = Conversation()
    conversation.speak(600)
    conversation.silence(800)
    item_id = conversation.only(SpeechStarted).item_id
    assert conversation.only(SpeechStopped).item_id == item_id
    assert conversation.only(InputCommitted).item_id == item_id
    assert list(conversation.transcripts()) == [item_id]


# --- the longest turn -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("padding", "commits"), [(767, False), (768, True), (769, True)])
def test_speech_without_a_pause_is_committed_when_it_reaches_the_longest_input(padding: int, commits: bool) -> None:
    frames = LONGEST_INPUT // VAD_FRAME - 1
    assert frames * VAD_FRAME + 768 == LONGEST_INPUT
    conversation = Conversation(server_vad(prefix_padding=padding, create_response=False), engines=False)
    conversation.frames(SILENCE, SILENCE, *[SPEECH] * frames)
    assert bool(conversation.all(InputCommitted)) is commits
    if commits:
        assert conversation.only(SpeechStopped).end == (2 + frames) * VAD_FRAME
        assert conversation.user is User.SILENT


def test_speech_that_runs_past_the_longest_input_goes_on_as_the_next_turn() -> None:
    conversation = Conversation(server_vad(prefix_padding=0, create_response=False), engines=False)
    frames = LONGEST_INPUT // VAD_FRAME
    conversation.frames(*[SPEECH] * (frames + 2))
    first, second = conversation.all(SpeechStarted)
    assert second.start == conversation.only(InputCommitted).end == frames * VAD_FRAME
    assert second.item_id != first.item_id


# --- settings changed in mid-speech ---------------------------------------------------------------------------------


def test_turning_the_vad_off_in_mid_speech_forgets_the_speech_and_keeps_the_audio() -> None:
    conversation = Conversation(NO_PADDING)
    conversation.frames(*[SPEECH] * 20)
    conversation.configure(by_hand())
    conversation.silence(5_000)
    assert conversation.names() == ["SpeechStarted"]
    assert conversation.user is User.SILENT
    conversation.commit()
    assert conversation.only(InputCommitted).start == 0
    conversation.run_dry()
    assert conversation.responses() == []
    assert list(conversation.transcripts().values()) == ["hello there"]


def test_turning_the_vad_off_in_mid_speech_disarms_the_stall() -> None:
    conversation = Conversation()
    conversation.frames(*[SPEECH] * 20)
    conversation.configure(by_hand())
    conversation.wait(10_000)
    assert conversation.names() == ["SpeechStarted"]


def test_turning_the_vad_on_in_mid_speech_begins_a_turn_there() -> None:
    conversation = Conversation(by_hand())
    conversation.frames(*[SPEECH] * 10)
    conversation.configure(NO_PADDING)
    conversation.frames(SPEECH, SPEECH)
    assert conversation.only(SpeechStarted).start == 10 * VAD_FRAME


def test_a_shorter_silence_set_in_mid_pause_holds_at_once() -> None:
    conversation = Conversation(server_vad(silence_duration=50 * VAD_FRAME))
    conversation.frames(SPEECH, SPEECH, *[SILENCE] * 20)
    conversation.configure(server_vad(silence_duration=10 * VAD_FRAME))
    conversation.frames(SILENCE)
    assert conversation.only(SpeechStopped).end == (2 + 10) * VAD_FRAME


def test_a_higher_threshold_set_in_mid_speech_holds_from_the_next_frame() -> None:
    conversation = Conversation(server_vad(threshold=0.5))
    conversation.frames(0.6, 0.6, 0.6)
    conversation.configure(server_vad(threshold=0.8))
    conversation.frames(0.6)
    assert conversation.user is User.PAUSED


def test_settings_that_leave_the_detection_alone_leave_running_speech_alone() -> None:
    conversation = Conversation()
    conversation.speak(500)
    conversation.configure(replace(TurnSettings(), audio_output=False))
    conversation.silence(1_000)
    assert conversation.only(SpeechStopped).item_id == conversation.only(SpeechStarted).item_id


# --- one append, any size -------------------------------------------------------------------------------------------

FILE = [(1_500, False), (2_000, True), (1_200, False), (900, True), (25_000, False), (3_000, True), (1_000, False)]


def test_a_whole_file_in_one_append_has_the_speech_times_of_a_paced_client() -> None:
    detection = Detection(create_response=False)
    paced, at_once = (Conversation(TurnSettings(detection=detection)) for _ in range(2))
    for ms, speech in FILE:
        paced.audio(ms, speech)
    at_once.burst(*FILE)
    assert at_once.speech_times() == paced.speech_times()
    assert len(paced.speech_times()) == 3


@pytest.mark.parametrize("append_ms", [1, 7, 20, 100, 380])
def test_the_size_of_a_live_clients_appends_does_not_move_a_single_sample(append_ms: int) -> None:
    reference, other = (Conversation(server_vad(create_response=False)) for _ in range(2))
    for conversation, size in ((reference, 20), (other, append_ms)):
        for ms, speech in FILE[:5]:
            conversation.audio(ms, speech, append_ms=size)
    assert other.speech_times() == reference.speech_times()
