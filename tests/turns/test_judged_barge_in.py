"""Voice over the agent's is held until it is judged: only a real interruption or an answer is ever told."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from gateway.turns.actions import TranscribePartial
from gateway.turns.observations import OverlapJudged
from gateway.turns.overlap_policy import HOLD, KEPT
from gateway.turns.settings import VAD_FRAME, BargeIn
from gateway.turns.states import Agent, User
from protocol.audio_time import samples_from_ms
from protocol.backend_events import (
    InputCommitted,
    InputTranscriptDelta,
    OutputAudio,
    PlayoutCut,
    SpeechStarted,
)
from tests.simulation.conversation import HANG, Conversation, by_hand, server_vad
from tests.turns.voice_over_agent import (
    ANSWER,
    BACKCHANNEL,
    INTERRUPTION,
    NOISE,
    PLAYOUT_DELAY,
    STORY,
    aligned,
    judged,
    near_the_end,
    reasons,
    talking,
    turns,
    untouched,
    verdicts,
)

# --- what interrupts ------------------------------------------------------------------------------------------------


def test_stop_interrupts_within_450_ms_and_history_ends_where_the_player_stood() -> None:
    conversation = talking(looks=["Stop."])
    first_audio = conversation.at(conversation.all(OutputAudio)[0])
    onset = aligned(conversation)
    began_at = conversation.now
    conversation.speak(350)
    conversation.silence(200)
    started = conversation.all(SpeechStarted)[1]
    assert conversation.at(started) - began_at <= samples_from_ms(450)
    assert started.start == onset - samples_from_ms(300)
    cut = conversation.only(PlayoutCut)
    assert cut.heard == conversation.at(started) - first_audio - PLAYOUT_DELAY
    assert conversation.agent is Agent.IDLE
    (judgement,) = conversation.all(OverlapJudged)
    assert (judgement.verdict, judgement.reason, judgement.words) == (INTERRUPTION, "stop word", "Stop.")
    assert (judgement.onset, judgement.item_id) == (onset, started.item_id)
    at = conversation.outputs.index(judgement)
    assert conversation.names(at)[:3] == ["OverlapJudged", "SpeechStarted", "PlayoutCut"]


def test_a_running_response_is_cancelled_right_behind_the_decision() -> None:
    conversation = talking(looks=["Stop."], llm=[[STORY, HANG], "All right."], piece_every_ms=95, for_ms=1_000)
    conversation.speak(350)
    conversation.silence(800)
    since = conversation.outputs.index(conversation.all(SpeechStarted)[1])
    assert conversation.names(since)[:3] == ["SpeechStarted", "OutputSpoken", "ResponseEnded"]
    assert conversation.ends()[0] == ("resp_1", "cancelled", "turn_detected")
    conversation.run_dry()
    assert conversation.text("resp_2") == "All right."


def test_the_turn_goes_on_as_any_turn_and_stands_for_all_that_was_said_from_the_onset_on() -> None:
    conversation = talking(looks=["Wait."], asr=["Tell me a story.", "Wait, which tea is it?"])
    conversation.speak(1_500)
    conversation.silence(900)
    conversation.run_dry()
    commit = conversation.all(InputCommitted)[1]
    assert abs(commit.end - commit.start - samples_from_ms(300 + 1_500 + 500)) <= VAD_FRAME
    assert conversation.transcripts()[commit.item_id] == "Wait, which tea is it?"
    assert conversation.text("resp_2") == "All right."


def test_a_turn_of_which_all_is_silent_when_it_is_told_stops_where_its_silence_began() -> None:
    conversation = talking(looks=["Stop."], look_ms=700)
    conversation.speak(320)
    conversation.silence(1_200)
    start, end = conversation.speech_times()[1]
    assert end - start <= samples_from_ms(300 + 320 + 64 + 500)
    assert [INTERRUPTION] == verdicts(conversation)[-1:]


@pytest.mark.parametrize(
    ("looks", "after_looks"),
    [
        (["Can you tell"], 1),
        (["Yeah.", "Yeah, but what"], 2),
        (["Tomorrow.", "Tomorrow."], 2),
        (["", "Tomorrow."], 2),
        (["Right.", "Right.", "Right, so can you"], 3),
        (["Oh,", "Hold on."], 2),
    ],
)
def test_words_interrupt_as_soon_as_they_are_sure(looks: list[str], after_looks: int) -> None:
    conversation = talking(looks=looks)
    conversation.speak(900)
    taken = [
        look for look in conversation.all(TranscribePartial) if look.end <= conversation.all(SpeechStarted)[1].start
    ]
    assert taken == []
    before = conversation.outputs[: conversation.outputs.index(conversation.all(SpeechStarted)[1])]
    assert len([look for look in before if isinstance(look, TranscribePartial)]) == after_looks
    assert verdicts(conversation)[-1] is INTERRUPTION


@pytest.mark.parametrize("look_ms", [60, 5_000])
def test_without_a_word_from_the_recogniser_half_a_second_of_voice_interrupts_at_the_holds_end(look_ms: int) -> None:
    conversation = talking(look_ms=look_ms)  # its looks are superseded or late
    onset = aligned(conversation)
    began_at = conversation.now
    conversation.speak(600)
    assert HOLD - VAD_FRAME <= conversation.at(conversation.all(SpeechStarted)[1]) - began_at <= HOLD + VAD_FRAME
    assert reasons(conversation) == ["sustained voice"]
    assert conversation.only(OverlapJudged).onset == onset


@pytest.mark.parametrize(("ms", "interrupts"), [(384, False), (416, True), (448, True)])
def test_without_a_recogniser_the_voice_has_to_last_for_400_ms(ms: int, interrupts: bool) -> None:
    conversation = talking()
    aligned(conversation)
    conversation.speak(ms)
    conversation.silence(300)
    assert (turns(conversation) == 2) is interrupts
    assert verdicts(conversation) == [INTERRUPTION if interrupts else NOISE]


def test_a_recogniser_that_heard_something_early_and_then_nothing_leaves_it_to_the_voice() -> None:
    conversation = talking(looks=[""])
    conversation.speak(900)
    assert reasons(conversation)[0] == "sustained voice"


def test_a_voice_that_the_vad_doubts_does_not_interrupt_by_lasting() -> None:
    conversation = talking()
    conversation.audio(600, 0.6)
    conversation.silence(500)
    assert verdicts(conversation) == [NOISE]
    assert untouched(conversation)


def test_a_nod_that_goes_on_into_an_objection_interrupts_then() -> None:
    conversation = talking(looks=["Mm-hm.", "Mm-hm.", "Mm-hm.", "Mm-hm, but", "Mm-hm, but wait."])
    conversation.speak(1_200)
    assert verdicts(conversation) == [BACKCHANNEL, INTERRUPTION]
    assert turns(conversation) == 2
    first, second = conversation.all(OverlapJudged)
    assert conversation.at(first) < conversation.at(second)
    assert first.onset == second.onset


def test_an_interruption_after_a_nod_and_a_pause_of_thought_is_one_turn_from_the_nod_on() -> None:
    conversation = talking(looks=["Mm-hm.", "Mm-hm.", "Mm-hm.", "Mm-hm, stop."])
    onset = aligned(conversation)
    conversation.speak(350)
    conversation.silence(250)
    conversation.speak(600)
    assert verdicts(conversation) == [BACKCHANNEL, INTERRUPTION]
    assert conversation.all(SpeechStarted)[1].start == onset - samples_from_ms(300)


def test_live_words_of_an_interruption_come_as_deltas() -> None:
    settings = replace(judged(), live_transcript=True)
    looks = ["Stop."] + ["Stop. And go back to the start"] * 8
    conversation = talking(settings, asr=["Tell me a story.", "Stop. And go back."])
    conversation.looks.clear()
    conversation.looks.extend(looks)
    conversation.speak(1_500)
    conversation.silence(900)
    conversation.run_dry()
    item_id = conversation.all(SpeechStarted)[1].item_id
    delta = next(delta for delta in conversation.all(InputTranscriptDelta) if delta.item_id == item_id)
    assert conversation.at(delta) < conversation.at(conversation.all(InputCommitted)[1])
    assert conversation.transcripts()[item_id].startswith("Stop. And go back")


# --- what does not --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("looks", [[""], ["You know?", ""], ["Uh-huh"], ["No."], [None, None], ["You have.", "You"]])
def test_a_cough_leaves_no_event_and_no_item_whatever_the_recogniser_writes(looks: list[str | None]) -> None:
    conversation = talking(looks=looks)
    aligned(conversation)
    conversation.speak(160)
    conversation.silence(400)
    assert conversation.user is User.SILENT
    assert len(conversation.all(OverlapJudged)) == 1
    assert INTERRUPTION not in verdicts(conversation)
    assert untouched(conversation)


@pytest.mark.parametrize("nod", ["Mm-hm.", "Uh-huh", "Yeah. Yeah.", "Right.", "Okay.", "I see.", "Um."])
def test_rb19_a_nod_lets_the_agent_go_on(nod: str) -> None:
    conversation = talking(looks=[nod] * 4)
    conversation.speak(400)
    conversation.silence(400)
    assert verdicts(conversation) == [BACKCHANNEL]
    assert untouched(conversation)


def test_rb19_three_nods_add_up_to_nothing_and_yes_into_the_silence_is_a_turn() -> None:
    conversation = talking(looks=["Mm-hm."] * 20, for_ms=1_000, asr=["Tell me a story.", "Yes."])
    for _ in range(3):
        conversation.speak(400)
        conversation.silence(900)
    assert verdicts(conversation) == [BACKCHANNEL] * 3
    assert conversation.all(PlayoutCut) == []
    while conversation.agent is not Agent.IDLE:
        conversation.silence(100)
    conversation.speak(300)
    conversation.silence(900)
    conversation.run_dry()
    assert turns(conversation) == 2
    assert conversation.text("resp_2") == "All right."


def test_noise_that_the_vad_takes_for_speech_is_none_as_long_as_the_recogniser_finds_no_word() -> None:
    conversation = talking(looks=[""] * 40)
    conversation.speak(2_500)
    conversation.silence(400)
    assert verdicts(conversation) == [NOISE]
    assert untouched(conversation)


def test_a_word_with_too_little_voice_for_it_is_not_believed() -> None:
    conversation = talking(looks=["Banana."] * 3)
    aligned(conversation)
    conversation.speak(192)
    conversation.silence(400)
    assert reasons(conversation) == ["words not believed"]
    assert untouched(conversation)


@pytest.mark.parametrize(("drop_db", "interrupts"), [(14, True), (16, False), (40, False)])
def test_talk_far_below_the_speakers_own_level_is_somebody_elses(drop_db: int, interrupts: bool) -> None:
    conversation = talking(looks=["Did you see him yesterday"] * 9, level_dbfs=-25.0)
    conversation.level_dbfs = -25.0 - drop_db
    conversation.speak(900)
    conversation.silence(400)
    assert (turns(conversation) == 2) is interrupts
    judgement = conversation.all(OverlapJudged)[0]
    assert judgement.level_db == pytest.approx(-drop_db)
    assert judgement.verdict is (INTERRUPTION if interrupts else NOISE)


def test_a_faint_stop_stops_all_the_same() -> None:
    conversation = talking(looks=["Stop."], level_dbfs=-25.0)
    conversation.level_dbfs = -50.0
    conversation.speak(400)
    assert verdicts(conversation) == [INTERRUPTION]


def test_a_speaker_whose_level_is_not_known_yet_is_not_measured_by_it() -> None:
    conversation = talking(looks=["Did you see him"] * 3)
    conversation.level_dbfs = -60.0
    conversation.speak(500)
    assert conversation.all(OverlapJudged)[0].level_db is None
    assert verdicts(conversation) == [INTERRUPTION]


# --- after a refusal ------------------------------------------------------------------------------------------------


def test_a_turn_right_behind_a_nod_keeps_its_padding_and_holds_nothing_of_the_nod() -> None:
    conversation = talking(looks=["Mm-hm."] * 4 + ["Wait."])
    aligned(conversation)
    conversation.speak(384)
    nod_end = conversation.machine.received
    conversation.silence(320)
    onset = aligned(conversation)
    conversation.speak(700)
    started = conversation.all(SpeechStarted)[1]
    assert nod_end <= started.start == onset - samples_from_ms(300)


def test_the_longest_padding_does_not_bring_a_nod_back() -> None:
    conversation = talking(judged(prefix_padding=samples_from_ms(2_000)), looks=["Mm-hm."] * 4 + ["Wait."])
    aligned(conversation)
    conversation.speak(384)
    nod_end = conversation.machine.received
    conversation.silence(400)
    conversation.speak(700)
    assert conversation.all(SpeechStarted)[1].start == nod_end


def test_an_overlap_is_over_after_300_ms_of_silence_and_not_before() -> None:
    conversation = talking(looks=["Mm-hm."] * 5)
    aligned(conversation)
    conversation.frames(*[0.9] * 12, *[0.02] * 9)
    assert conversation.machine.holds_overlap
    conversation.frames(0.02)
    assert not conversation.machine.holds_overlap
    assert conversation.user is User.SILENT


def test_a_look_that_is_under_way_is_waited_for_before_an_overlap_is_forgotten() -> None:
    conversation = talking(looks=["Stop."], look_ms=900)
    conversation.speak(350)
    conversation.silence(900)
    assert verdicts(conversation) == [NOISE, INTERRUPTION]


def test_it_is_not_waited_for_for_ever() -> None:
    conversation = talking(looks=["Stop."], look_ms=3_000)
    conversation.speak(350)
    conversation.silence(1_340)
    assert not conversation.machine.holds_overlap
    conversation.silence(2_000)
    assert verdicts(conversation) == [NOISE]


def test_noise_that_lasts_keeps_seconds_not_minutes_of_its_audio() -> None:
    conversation = talking(looks=[""] * 400, llm=[STORY * 12], asr="Go on.")
    conversation.speak(20_000)
    machine = conversation.machine
    assert machine.holds_overlap
    assert machine.received - machine.needed_from <= KEPT + samples_from_ms(300) + VAD_FRAME
    looks = conversation.all(TranscribePartial)
    assert max(look.end - look.start for look in looks) <= KEPT
    assert len(looks) <= 8 + 2 * 20, "two a second beyond the first second"
    conversation.looks.clear()
    conversation.looks.extend(["Please stop talking"] * 2)
    conversation.speak(900)
    assert verdicts(conversation) == [NOISE, INTERRUPTION]
    started = conversation.all(SpeechStarted)[1]
    assert machine.received - started.start <= KEPT + samples_from_ms(300 + 900)


def test_looks_come_one_at_a_time_and_stop_when_there_is_nothing_new() -> None:
    conversation = talking(looks=["Mm-hm."] * 9)
    onset = aligned(conversation)
    conversation.speak(384)
    conversation.silence(400)
    ends = [look.end - onset for look in conversation.all(TranscribePartial)]
    assert ends == [samples_from_ms(ms) for ms in (224, 352, 480)]
    slow = talking(looks=["Mm-hm."] * 9, look_ms=240)
    slow.speak(900)
    taken = [slow.at(look) for look in slow.all(TranscribePartial)]
    assert all(then - before >= samples_from_ms(240) for before, then in pairwise(taken))


# --- other settings, and the client in between ------------------------------------------------------------------------


def test_immediate_interrupts_at_the_onset() -> None:
    conversation = talking(server_vad(barge_in=BargeIn.IMMEDIATE))
    conversation.echo = 0.9
    conversation.frames(0.9, 0.9, 0.9)
    assert (turns(conversation), conversation.all(OverlapJudged)) == (2, [])
    assert len(conversation.all(PlayoutCut)) == 1


@pytest.mark.parametrize("mode", BargeIn)
def test_without_interruptions_speech_over_the_agent_is_a_turn_of_its_own_whatever_the_mode(mode: BargeIn) -> None:
    conversation = talking(server_vad(barge_in=mode, interrupt_response=False))
    conversation.speak(600)
    conversation.silence(900)
    assert (turns(conversation), len(conversation.all(InputCommitted))) == (2, 2)
    assert (conversation.all(OverlapJudged), conversation.all(PlayoutCut)) == ([], [])


def test_without_automatic_responses_an_interruption_still_interrupts() -> None:
    conversation = Conversation(judged(create_response=False), llm=[STORY], look_ms=60, looks=["Stop."])
    conversation.create()
    conversation.silence(2_000)
    conversation.speak(400)
    conversation.silence(900)
    conversation.run_dry()
    assert (verdicts(conversation), len(conversation.all(PlayoutCut))) == ([INTERRUPTION], 1)
    assert conversation.responses() == ["client_resp_1"]


def test_a_burst_client_is_not_judged() -> None:
    settings = judged()
    conversation = Conversation(settings, llm=STORY)
    conversation.burst((300, False), (900, True), (5_000, False))
    conversation.wait(1_500)
    assert conversation.agent is Agent.SPEAKING
    conversation.echo = 0.9
    conversation.burst((900, True), (800, False))
    assert (turns(conversation), conversation.all(OverlapJudged)) == (2, [])


def test_a_commit_by_hand_takes_what_is_held_under_its_item() -> None:
    conversation = talking(look_ms=5_000)
    onset = aligned(conversation)
    conversation.speak(300)
    (look,) = conversation.all(TranscribePartial)
    conversation.commit()
    commit = conversation.all(InputCommitted)[1]
    assert (commit.item_id, commit.start) == (look.item_id, onset - samples_from_ms(300))
    assert not conversation.machine.holds_overlap
    conversation.silence(600)
    conversation.run_dry()
    assert (turns(conversation), conversation.all(PlayoutCut)) == (1, [])
    assert len(conversation.transcripts()) == 2


def test_a_clear_drops_what_is_held() -> None:
    conversation = talking(looks=["Stop."])
    conversation.speak(200)
    assert conversation.machine.holds_overlap
    conversation.clear()
    assert conversation.user is User.SILENT
    assert untouched(conversation)


def test_a_cancel_leaves_what_is_held_to_be_judged() -> None:
    conversation = talking(looks=["Stop."], llm=[[STORY, HANG], "All right."])
    conversation.speak(200)
    conversation.cancel()
    conversation.speak(200)
    assert verdicts(conversation) == [INTERRUPTION]
    assert conversation.ends() == [("resp_1", "cancelled", "client_cancelled")]


def test_a_client_that_cuts_its_player_leaves_the_floor_to_who_speaks() -> None:
    conversation = talking(look_ms=5_000)
    conversation.speak(200)
    item_id = conversation.all(OutputAudio)[0].item_id
    conversation.truncate(item_id, samples_from_ms(2_000))
    conversation.speak(20)
    assert verdicts(conversation) == [ANSWER]
    assert turns(conversation) == 2


def test_another_mode_holds_from_the_next_onset_on() -> None:
    conversation = talking(looks=["Mm-hm."] * 9)
    conversation.speak(200)
    conversation.configure(server_vad())
    conversation.speak(200)
    conversation.silence(400)
    assert (verdicts(conversation), turns(conversation)) == ([BACKCHANNEL], 1)
    conversation.speak(70)
    assert (verdicts(conversation), turns(conversation)) == ([BACKCHANNEL], 2)


def test_who_takes_the_turns_over_finds_what_was_held_in_the_buffer() -> None:
    conversation = talking(look_ms=5_000)
    onset = aligned(conversation)
    conversation.speak(300)
    conversation.configure(by_hand())
    assert (conversation.user, conversation.machine.holds_overlap) == (User.SILENT, False)
    conversation.commit()
    commit = conversation.all(InputCommitted)[1]
    assert commit.start < onset
    assert commit.end == conversation.machine.received
    conversation.run_dry()


def test_input_that_stops_in_mid_word_is_judged_when_the_hold_ends() -> None:
    conversation = talking()
    conversation.speak(460)
    began = conversation.now
    conversation.wait(2_000)
    assert conversation.at(conversation.only(OverlapJudged)) - began <= samples_from_ms(64)
    assert verdicts(conversation) == [INTERRUPTION]
    assert len(conversation.all(InputCommitted)) == 2


def test_input_that_stops_after_a_nod_lets_it_be_forgotten() -> None:
    conversation = talking(looks=["Mm-hm."] * 9)
    conversation.speak(300)
    conversation.wait(600)
    assert (verdicts(conversation), conversation.user) == ([BACKCHANNEL], User.SILENT)
    assert turns(conversation) == 1


def test_input_that_stops_while_a_look_is_under_way_waits_for_it_and_no_longer() -> None:
    conversation = talking(looks=["Stop."], look_ms=3_000)
    conversation.speak(300)
    conversation.wait(1_000)
    assert conversation.machine.holds_overlap
    conversation.wait(400)
    assert not conversation.machine.holds_overlap


def test_the_idle_timeout_runs_from_the_end_of_the_playout_whatever_was_refused() -> None:
    timeout = samples_from_ms(3_000)
    conversation = talking(judged(idle_timeout=timeout), looks=["Mm-hm."] * 9)
    ends_at = near_the_end(conversation, 900)
    conversation.speak(300)
    conversation.silence(5_000)
    commits = conversation.all(InputCommitted)
    assert len(commits) == 2
    assert conversation.at(commits[1]) - ends_at <= timeout + samples_from_ms(20)
