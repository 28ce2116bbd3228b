"""Input that stops, and input that comes faster than the clock."""

from __future__ import annotations

import pytest

from gateway.turns.input_clock import LONGEST_GAP, InputClock
from gateway.turns.inputs import AudioReceived, InputStalled, SpeechProbability
from gateway.turns.settings import BURST_LEAD, QUEUED_TURNS, STALL_AFTER, VAD_FRAME
from gateway.turns.states import Agent, User
from protocol.audio_time import samples_from_ms, samples_from_s
from protocol.backend_events import (
    EndReason,
    EndStatus,
    EngineFault,
    InputCommitted,
    InputTranscriptFailed,
    OutputAudio,
    PlayoutCut,
    RefusalKind,
    ResponseEnded,
    ResponseStarted,
    SpeechStarted,
    SpeechStopped,
)
from tests.simulation.conversation import HANG, SILENCE, SPEECH, Conversation, by_hand, server_vad

TURN = [(400, False), (800, True), (800, False)]

# --- stalls ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("stalled", "ends"), [(9_599, False), (9_600, True), (9_601, True)])
def test_input_that_stops_counts_as_silence_after_400_ms(stalled: int, ends: bool) -> None:
    assert STALL_AFTER == 9_600
    conversation = Conversation(server_vad(silence_duration=samples_from_ms(100)), engines=False)
    conversation.frames(SPEECH, SPEECH)
    conversation.feed(InputStalled(stalled))
    assert bool(conversation.all(SpeechStopped)) is ends


@pytest.mark.parametrize(("more", "ends"), [(-1, False), (0, True), (1, True)])
def test_the_silence_before_the_input_stopped_and_the_stall_add_up(more: int, ends: bool) -> None:
    conversation = Conversation(server_vad(silence_duration=20 * VAD_FRAME), engines=False)
    conversation.frames(SPEECH, SPEECH, *[SILENCE] * 5)
    conversation.feed(InputStalled(15 * VAD_FRAME + more))
    assert bool(conversation.all(SpeechStopped)) is ends


def test_a_stall_never_adds_to_the_input_clock() -> None:
    conversation = Conversation(server_vad(silence_duration=samples_from_ms(1_000)))
    conversation.frames(SPEECH, SPEECH, *[SILENCE] * 5)
    conversation.wait(5_000)
    assert conversation.only(SpeechStopped).end == conversation.machine.received == 7 * VAD_FRAME
    assert conversation.only(InputCommitted).end == 7 * VAD_FRAME


def test_the_end_of_a_turn_lies_no_further_than_its_silence_even_if_the_input_stopped_in_mid_frame() -> None:
    silence = 2 * VAD_FRAME + 100
    conversation = Conversation(server_vad(silence_duration=silence))
    conversation.frames(SPEECH, SPEECH, SILENCE, SILENCE)
    conversation.capture(200, False)
    conversation.append()
    conversation.wait(400)
    assert conversation.only(SpeechStopped).end == 2 * VAD_FRAME + silence


@pytest.mark.parametrize(
    ("silence_ms", "ends_after_ms"), [(100, 400), (399, 400), (400, 400), (401, 401), (2_000, 2_000)]
)
def test_mute_in_mid_speech_ends_the_turn_by_the_timer_to_the_sample(silence_ms: int, ends_after_ms: int) -> None:
    conversation = Conversation(server_vad(silence_duration=samples_from_ms(silence_ms)))
    conversation.frames(*[SPEECH] * 30)
    stopped_at = conversation.now
    conversation.wait(10_000)
    assert conversation.at(conversation.only(SpeechStopped)) == stopped_at + samples_from_ms(ends_after_ms)
    assert conversation.names()[-1] == "ResponseEnded"


def test_input_that_comes_back_before_the_stall_counts_does_not_end_the_turn() -> None:
    conversation = Conversation(server_vad(silence_duration=samples_from_ms(500)))
    conversation.speak(1_000)
    conversation.wait(380)  # the next append comes 20 ms later
    conversation.speak(1_000)
    conversation.silence(1_000)
    assert len(conversation.all(SpeechStopped)) == 1
    assert conversation.only(InputCommitted).end > samples_from_ms(2_000)


def test_the_user_who_unmutes_after_the_end_begins_a_new_turn() -> None:
    conversation = Conversation()
    conversation.speak(1_000)
    conversation.wait(20_000)
    conversation.speak(1_000)
    conversation.silence(1_000)
    first, second = conversation.all(InputCommitted)
    assert (first.end, second.start) == (samples_from_ms(1_000), samples_from_ms(1_000))


def test_a_stall_while_nobody_speaks_means_nothing() -> None:
    conversation = Conversation()
    conversation.silence(2_000)
    assert conversation.machine.next_deadline(conversation.now) is None
    conversation.feed(InputStalled(samples_from_s(5)))
    assert conversation.outputs == []


def test_a_stall_without_turn_detection_means_nothing() -> None:
    conversation = Conversation(by_hand())
    conversation.speak(2_000)
    conversation.feed(InputStalled(samples_from_s(5)))
    assert conversation.outputs == []


def test_before_the_first_audio_nothing_stalls() -> None:
    assert Conversation().machine.silent_for(samples_from_s(9)) == 0


@pytest.mark.parametrize("append_ms", [100, 300, 500, 1_000])
def test_a_live_client_of_large_appends_is_not_stalled_between_them(append_ms: int) -> None:
    conversation = Conversation(server_vad(silence_duration=samples_from_ms(500)))
    for _ in range(6_000 // append_ms):
        conversation.wait(append_ms)
        conversation.capture(samples_from_ms(append_ms), True)
        conversation.append()
    assert conversation.all(SpeechStopped) == []


@pytest.mark.parametrize(
    ("append_ms", "due_after_ms"), [(200, 0), (201, 201), (999, 999), (1_000, 1_000), (5_000, 1_000)]
)
def test_audio_is_due_again_after_as_much_time_as_a_large_append_holds(append_ms: int, due_after_ms: int) -> None:
    clock = InputClock()
    clock.advance(samples_from_ms(append_ms), 0)
    assert clock.silent_for(samples_from_ms(due_after_ms)) == 0
    assert clock.silent_for(samples_from_ms(due_after_ms) + 1) == 1


# --- the input clock ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("more", "burst"), [(-1, False), (0, False), (1, True)])
def test_a_client_more_than_two_seconds_ahead_of_the_clock_is_a_burst_client(more: int, burst: bool) -> None:
    assert BURST_LEAD == samples_from_s(2)
    clock = InputClock()
    clock.advance(480, 480)
    clock.advance(BURST_LEAD - 480 + more, 480)
    assert clock.lead == BURST_LEAD + more
    assert clock.is_burst is burst


def test_an_append_of_two_seconds_that_was_captured_live_is_no_burst() -> None:
    clock = InputClock()
    for second in range(2, 60, 2):
        clock.advance(samples_from_s(2), samples_from_s(second))
        assert not clock.is_burst


def test_a_live_client_whose_packets_jitter_is_never_a_burst_client() -> None:
    clock = InputClock()
    for packet in range(1, 3_000):
        delay = samples_from_ms(packet * 37 % 300)
        clock.advance(480, packet * 480 + delay)
        assert not clock.is_burst


def test_input_maps_to_the_time_at_which_it_was_spoken() -> None:
    clock = InputClock()
    clock.advance(480, 10_000)
    clock.advance(480, 10_960)  # 480 late
    assert clock.gateway_time(480) == 10_000
    assert clock.gateway_time(960) == 10_480


def test_the_mapping_begins_anew_after_a_stall() -> None:
    clock = InputClock()
    clock.advance(samples_from_s(10), 0)
    assert clock.is_burst
    clock.advance(480, LONGEST_GAP + STALL_AFTER)
    assert not clock.is_burst
    assert clock.gateway_time(clock.received) == LONGEST_GAP + STALL_AFTER


# --- bursts ---------------------------------------------------------------------------------------------------------


def three_turns() -> Conversation:
    return Conversation(
        asr=["first question", "second question", "third question"],
        llm=["The first answer.", "The second answer.", "The third answer."],
    )


def answers(conversation: Conversation) -> list[str]:
    return [conversation.text(response_id) for response_id in conversation.responses()]


THREE_ANSWERS = ["The first answer.", "The second answer.", "The third answer."]


def test_three_turns_in_one_append_get_three_responses_one_after_the_other() -> None:
    conversation = three_turns()
    conversation.burst(*TURN * 3)
    conversation.run_dry()
    assert answers(conversation) == THREE_ANSWERS
    assert [status for _, status, _ in conversation.ends()] == ["completed"] * 3
    assert conversation.all(PlayoutCut) == []
    assert conversation.refusals() == []


def test_three_turns_in_one_append_have_the_speech_times_of_a_paced_client() -> None:
    at_once, paced = three_turns(), Conversation(server_vad(create_response=False))
    at_once.burst(*TURN * 3)
    for ms, speech in TURN * 3:
        paced.audio(ms, speech)
    assert at_once.speech_times() == paced.speech_times()


@pytest.mark.parametrize("rate", [4, 10, 50])
def test_a_file_sent_in_small_appends_without_pacing_is_a_burst_too(rate: int) -> None:
    conversation = three_turns()
    conversation.audio(2_500, False, rate=rate)
    for ms, speech in TURN * 3:
        conversation.audio(ms, speech, rate=rate)
    conversation.run_dry()
    assert answers(conversation) == THREE_ANSWERS
    assert [status for _, status, _ in conversation.ends()] == ["completed"] * 3


def test_a_queued_turn_waits_for_its_own_words_only() -> None:
    conversation = Conversation(asr=["first", "second", HANG], llm=["One.", "Two.", "Three."])
    conversation.burst(*TURN * 3)
    conversation.run_dry()
    ends = conversation.all(ResponseEnded)
    assert [end.status for end in ends] == [EndStatus.COMPLETED, EndStatus.COMPLETED, EndStatus.FAILED]
    assert conversation.at(ends[1]) < samples_from_s(5)
    assert [failed.item_id for failed in conversation.all(InputTranscriptFailed)] == ["item_3"]


def test_a_queued_turn_without_words_is_not_answered() -> None:
    conversation = Conversation(asr=["first", "", "third"], llm=["One.", "Three."])
    conversation.burst(*TURN * 3)
    conversation.run_dry()
    assert answers(conversation) == ["One.", "Three."]


def test_a_queued_turn_whose_recognition_fails_is_not_answered() -> None:
    fault = EngineFault("asr_failed", "It broke.")
    conversation = Conversation(asr=["first", fault, "third"], llm=["One.", "Three."])
    conversation.burst(*TURN * 3)
    conversation.run_dry()
    assert answers(conversation) == ["One.", "Three."]


def test_a_burst_of_coughs_gets_no_answer() -> None:
    conversation = Conversation(asr=["", "", ""], llm=[])
    conversation.burst(*TURN * 3)
    conversation.run_dry()
    assert conversation.all(OutputAudio) == []
    assert conversation.agent is Agent.IDLE
    assert conversation.machine.active_response is None


def test_the_queue_of_a_burst_client_is_bounded_and_drops_the_newest_turns() -> None:
    turns = QUEUED_TURNS + 3
    conversation = Conversation(asr=[f"question {n}" for n in range(turns)], llm=[f"Answer {n}." for n in range(turns)])
    conversation.burst(*TURN * turns)
    conversation.run_dry(600_000)
    assert len(conversation.all(InputCommitted)) == turns
    assert len(conversation.transcripts()) == turns
    assert answers(conversation) == [f"Answer {n}." for n in range(QUEUED_TURNS + 1)]


def test_the_end_of_a_burst_in_mid_speech_is_found_by_the_stall() -> None:
    conversation = Conversation()
    conversation.burst((2_500, False), (2_000, True))
    conversation.run_dry()
    assert conversation.only(SpeechStopped).end == samples_from_ms(4_500)
    assert conversation.ends() == [("resp_1", "completed", None)]


def test_a_failing_response_does_not_hold_up_the_turns_behind_it() -> None:
    fault = EngineFault("llm_failed", "It broke.")
    conversation = Conversation(asr=["first", "second"], llm=[[fault], "Two."])
    conversation.burst(*TURN * 2, (1_000, False))
    conversation.run_dry()
    assert [status for _, status, _ in conversation.ends()] == ["failed", "completed"]


def test_a_live_barge_in_after_a_burst_cuts_the_answer_and_drops_what_was_queued() -> None:
    conversation = Conversation(
        asr=["first", "second", "third", "stop"],
        llm=["This is a rather long first answer.", ["Well,", HANG], "Yes?"],
        word_ms=1_000,
    )
    conversation.burst(*TURN * 3)
    conversation.silence(3_000)  # the microphone goes on, live
    assert conversation.agent is Agent.SPEAKING
    conversation.speak(600)
    conversation.silence(1_000)
    conversation.run_dry()
    assert answers(conversation) == ["This is a rather long first answer.", "Well,", "Yes?"]
    cut = conversation.only(PlayoutCut)
    assert 0 < cut.heard < conversation.audio_of("resp_1")
    assert [reason for _, _, reason in conversation.ends()] == [None, "turn_detected", None]


def test_a_live_barge_in_on_a_response_that_still_generates_after_a_burst_cancels_it() -> None:
    conversation = Conversation(asr=["first", "second", "stop"], llm=[["Well,", HANG], "Yes?"])
    conversation.burst(*TURN * 2)
    conversation.silence(3_000)
    conversation.speak(600)
    conversation.silence(1_000)
    conversation.run_dry()
    assert conversation.ends() == [("resp_1", "cancelled", "turn_detected"), ("resp_2", "completed", None)]


def test_a_cancel_ends_the_queue_too_so_that_the_next_create_is_accepted() -> None:
    conversation = Conversation(asr=["first", "second", "third"], llm=[[HANG], "Yes?"])
    conversation.burst(*TURN * 3)
    conversation.wait(1_000)
    conversation.cancel("resp_1")
    assert conversation.machine.active_response is None
    conversation.create()
    conversation.run_dry()
    assert conversation.refusals() == []
    assert conversation.ends() == [("resp_1", "cancelled", "client_cancelled"), ("client_resp_1", "completed", None)]


def test_speech_recorded_before_the_response_but_sent_late_is_no_barge_in() -> None:
    conversation = Conversation(asr=["first", "second"], llm=["One two three four five six.", "Two."], word_ms=1_000)
    conversation.create()
    conversation.wait(1_000)
    conversation.burst((3_000, False), (800, True), (2_500, False))  # ended 1.5 s before the response began
    conversation.run_dry()
    assert [reason for _, _, reason in conversation.ends()] == [None, None]
    assert conversation.all(PlayoutCut) == []


def test_a_push_to_talk_client_that_sends_what_it_recorded_meanwhile_does_barge_in() -> None:
    conversation = Conversation(llm=["One two three four five six seven eight nine ten.", "Yes?"], word_ms=1_000)
    conversation.create()
    conversation.wait(6_000)
    assert conversation.agent is Agent.SPEAKING
    conversation.burst((200, False), (2_500, True), (600, False))  # recorded while the agent spoke
    assert conversation.only(PlayoutCut).heard > 0


def test_the_flush_of_a_stalled_network_is_no_burst_of_recorded_speech() -> None:
    conversation = Conversation(llm=["One two three four five six seven eight nine ten.", "Yes?"], word_ms=1_000)
    conversation.silence(1_000)
    conversation.create()
    conversation.silence(3_000)
    assert conversation.agent is Agent.SPEAKING
    conversation.wait(3_000)  # the network stalls
    conversation.audio(2_000, False, rate=100)
    conversation.audio(1_000, True, rate=100)
    assert conversation.only(PlayoutCut).heard > 0


def test_a_client_that_refuses_interruptions_has_its_burst_turns_queued_as_well() -> None:
    conversation = Conversation(server_vad(interrupt_response=False), asr=["first", "second"], llm=["One.", "Two."])
    conversation.burst((1_000, False), *TURN * 2)
    conversation.run_dry()
    assert answers(conversation) == ["One.", "Two."]


def test_a_frame_that_completes_later_than_its_audio_arrived_is_still_placed_by_its_own_position() -> None:
    conversation = Conversation(server_vad(prefix_padding=0), engines=False)
    conversation.feed(AudioReceived(samples_from_s(60)))
    conversation.feed(SpeechProbability(100 * VAD_FRAME, SPEECH))
    conversation.feed(SpeechProbability(101 * VAD_FRAME, SPEECH))
    assert conversation.only(SpeechStarted).start == 99 * VAD_FRAME
    assert conversation.user is User.SPEAKING


def test_a_live_turn_that_may_not_interrupt_is_committed_and_its_response_refused() -> None:
    conversation = Conversation(server_vad(interrupt_response=False), llm=[[HANG]])
    conversation.speak(800)
    conversation.silence(800)
    conversation.speak(800)
    conversation.silence(800)
    assert len(conversation.all(InputCommitted)) == 2
    (refusal,) = conversation.refusals()
    assert (refusal.kind, refusal.client_event_id, refusal.response_id) == (RefusalKind.RESPONSE_ACTIVE, None, None)
    assert len(conversation.all(ResponseStarted)) == 1
    assert EndReason.TURN_DETECTED not in [end.reason for end in conversation.all(ResponseEnded)]
