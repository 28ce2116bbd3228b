"""The stopwatch: every stage of a turn, adding up to what the user waited."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from gateway.audible_output import AUDIBLE_DBFS, GATE_WINDOW
from gateway.measured_turn import Outcome, Turn, TurnKind
from gateway.meter import (
    ASSUMED_PLAYOUT_DELAY,
    KEPT_STRETCHES,
    KEPT_TURNS,
    OPEN_TURNS,
    WAITING_TURNS,
    Meter,
)
from gateway.waterfall import Span, Stage
from protocol.audio_time import samples_from_ms as ms
from protocol.backend_events import (
    CommandRefused,
    EndReason,
    EndStatus,
    EngineFault,
    FunctionCallStarted,
    InputCommitted,
    InputTimedOut,
    InputTranscriptCompleted,
    InputTranscriptFailed,
    OutputAudio,
    OutputItemEnded,
    OutputTextDelta,
    PlayoutCut,
    RefusalKind,
    ResponseEnded,
    ResponseStarted,
    SpeechStarted,
    SpeechStopped,
)
from protocol.commands import AppendAudio, SpeechFrame

LOUD = 4_000
FRAME = 768
DELAY = ASSUMED_PLAYOUT_DELAY


def pcm(*stretches: tuple[int, int]) -> bytes:
    """Return PCM of stretches, each so many samples of one value."""
    return np.concatenate([np.full(samples, value, "<i2") for samples, value in stretches]).tobytes()


def stages(turn: Turn) -> dict[str, int]:
    """Return a closed turn's stages, which add up."""
    assert turn.waterfall is not None
    lengths = {str(stage): length for stage, length in turn.waterfall.stages_ms().items()}
    assert sum(lengths.values()) == turn.waterfall.total_ms
    return lengths


class Talk:
    """One session's meter, fed with turns; its socket takes audio at once."""

    def __init__(self, **arguments: object) -> None:
        self.meter = Meter("sess_1", **arguments)
        self.now = 0
        self.received = 0
        self.number = 0

    def hear(self, *probabilities: float, echo: float = 0.0) -> None:
        """Hear VAD frames as they come; of each the agent's own audio explains the share `echo`."""
        for probability in probabilities:
            self.now += FRAME
            self.received += FRAME
            frame = SpeechFrame(self.received, probability, echo=echo)
            self.meter.heard_user(AppendAudio(bytes(2 * FRAME), (frame,)), self.now)

    def saw(self, event: object, after: int = 0) -> None:
        self.now += after
        self.meter.saw(event, self.now)

    @property
    def response_id(self) -> str:
        return f"resp_{self.number}"

    def user_speaks(self) -> None:
        self.number += 1
        start = self.received
        self.hear(0.9, 0.9, 0.9)
        self.saw(SpeechStarted(f"item_{self.number}", start))

    def user_stops(self, *, answered: bool = True) -> None:
        self.hear(0.1, 0.1)
        self.saw(SpeechStopped(f"item_{self.number}", self.received))
        self.saw(InputCommitted(f"item_{self.number}", 0, self.received))
        if answered:
            self.saw(ResponseStarted(self.response_id))

    def transcript(self, after: int) -> None:
        self.saw(InputTranscriptCompleted(f"item_{self.number}", "Hi.", FRAME), after)

    def text(self, after: int) -> None:
        self.saw(OutputTextDelta(self.response_id, "a", "Hi."), after)

    def audio(self, after: int, audio: bytes, *, taken: bool = True) -> None:
        self.saw(OutputAudio(self.response_id, "a", audio), after)
        if taken:
            self.meter.sent(self.response_id, len(audio) // 2, self.now)

    def end(self, status: EndStatus = EndStatus.COMPLETED, reason: EndReason | None = None) -> Turn:
        """End the response, let its audio play, and return the newest closed account."""
        self.saw(ResponseEnded(self.response_id, status, reason=reason))
        self.now += ms(2_000)
        self.meter.settle(self.now)
        return self.meter.turns[-1]


def test_the_stages_of_a_turn_add_up_to_what_the_user_waited() -> None:
    talk = Talk()
    talk.user_speaks()
    speech_end = talk.now
    talk.user_stops()
    talk.transcript(after=1_003)
    talk.text(after=2_011)
    talk.text(after=500)
    talk.audio(after=1_517, audio=pcm((480, LOUD)), taken=False)
    talk.now += 333
    talk.meter.sent(talk.response_id, 480, talk.now)
    waited = talk.now + DELAY - speech_end
    talk.audio(after=999, audio=pcm((480, LOUD)))
    turn = talk.end()
    assert list(stages(turn)) == [
        "eot_wait", "stt_final", "request", "llm_ttft", "tts_ttfa", "send", "playout",
    ]  # fmt: skip
    assert stages(turn)["eot_wait"] == 64
    assert stages(turn)["playout"] == 150
    assert sum(stages(turn).values()) == waited // 24
    assert (turn.kind, turn.outcome, turn.barge_in) == (TurnKind.SPEECH, Outcome.HEARD, False)


def test_a_stage_that_did_not_happen_is_left_out_and_the_rest_still_adds_up() -> None:
    talk = Talk()
    talk.user_speaks()
    talk.user_stops()
    talk.audio(after=ms(40), audio=pcm((480, LOUD)))
    assert stages(talk.end()) == {"eot_wait": 64, "request": 0, "tts_ttfa": 40, "send": 0, "playout": 150}


def test_a_backends_own_account_goes_before_the_borders() -> None:
    own = {
        "item_1": {Stage.VAD_HANG: Span(Stage.VAD_HANG, ms(96), ms(128))},
        "resp_1": {Stage.FIRST_CLAUSE: Span(Stage.FIRST_CLAUSE, ms(165), ms(180))},
    }
    talk = Talk(explain=lambda key: own.get(key, {}))
    talk.user_speaks()
    talk.user_stops()  # at 160 ms
    talk.text(after=ms(10))
    talk.audio(after=ms(20), audio=pcm((480, LOUD)))
    found = stages(talk.end())
    assert list(found) == ["vad_hang", "eot_wait", "request", "llm_ttft", "first_clause", "tts_ttfa", "send", "playout"]
    assert list(found.values()) == [32, 32, 0, 10, 10, 10, 0, 150]


# --- when did the user fall silent? --------------------------------------------------------------------------------


@pytest.mark.parametrize(("probability", "counts"), [(0.49, False), (0.5, True), (0.51, True)])
def test_the_reference_vad_counts_frames_from_one_half_on(probability: float, counts: bool) -> None:
    talk = Talk()
    talk.user_speaks()
    talk.hear(probability)
    talk.user_stops()
    assert stages(talk.end())["eot_wait"] == (64 if counts else 96)


def stop(meter: Meter, item_id: str, end: int, now: int) -> None:
    meter.saw(SpeechStopped(item_id, end), now)
    meter.saw(InputCommitted(item_id, 0, end), now)


def test_audio_that_came_late_is_measured_from_when_it_was_spoken() -> None:
    """One append brings speech and the silence that ends the turn: the silence has been waited for all the same."""
    meter = Meter("s")
    frames = tuple(SpeechFrame(FRAME * n, 0.9 if n <= 10 else 0.0) for n in range(1, 31))
    meter.heard_user(AppendAudio(bytes(2 * 30 * FRAME), frames), 50_000)
    meter.saw(SpeechStarted("item_1", 0), 50_000)
    stop(meter, "item_1", 26 * FRAME, 50_000)
    meter.close(60_000)
    assert meter.turns[0].begin == 50_000 - 20 * FRAME


def test_each_turn_of_a_recording_sent_at_once_has_its_own_end_of_speech() -> None:
    meter = Meter("s")
    voiced = [*range(1, 11), *range(41, 51)]
    frames = tuple(SpeechFrame(FRAME * n, 0.9 if n in voiced else 0.0) for n in range(1, 81))
    meter.heard_user(AppendAudio(bytes(2 * 80 * FRAME), frames), 80 * FRAME)
    meter.saw(SpeechStarted("item_1", 0), 80 * FRAME)
    stop(meter, "item_1", 26 * FRAME, 80 * FRAME)
    meter.saw(SpeechStarted("item_2", 35 * FRAME), 80 * FRAME)
    stop(meter, "item_2", 66 * FRAME, 80 * FRAME)
    meter.close(80 * FRAME)
    assert [turn.begin for turn in meter.turns] == [10 * FRAME, 50 * FRAME]


def test_a_turn_without_any_speech_for_the_reference_vad_begins_with_its_commit() -> None:
    talk = Talk()
    talk.user_speaks()
    talk.user_stops()
    talk.end()
    talk.hear(0.1, 0.3, 0.3)  # a client's threshold may be lower than the reference
    talk.number = 2
    talk.saw(SpeechStarted("item_2", talk.received - 2 * FRAME))
    talk.user_stops()
    committed_at = talk.now
    turn = talk.end()
    assert (turn.item_id, turn.kind, turn.begin) == ("item_2", TurnKind.COMMIT, committed_at)


def test_voice_before_the_turn_began_is_none_of_it() -> None:
    talk = Talk()
    talk.hear(0.9, 0.1, 0.1)  # a click, which opens no turn
    talk.saw(SpeechStarted("item_1", talk.received))
    talk.saw(SpeechStopped("item_1", talk.received + FRAME))
    talk.saw(InputCommitted("item_1", 0, talk.received))
    talk.meter.close(talk.now)
    (turn,) = talk.meter.turns
    assert (turn.kind, turn.begin) == (TurnKind.COMMIT, talk.now)


def test_voice_that_belongs_to_no_turn_is_not_remembered_for_ever() -> None:
    talk = Talk()
    for _ in range(KEPT_STRETCHES + 10):
        talk.hear(0.9, 0.0)
    assert len(talk.meter._voices) == KEPT_STRETCHES


# --- when did the user hear the answer? ----------------------------------------------------------------------------


def answered(*pieces: tuple[int, bytes]) -> int | None:
    """Return how long after the response began its audio was heard, but for the delay; a piece is its delay and PCM."""
    talk = Talk()
    talk.user_speaks()
    talk.user_stops()
    began = talk.now
    for after, audio in pieces:
        talk.audio(after, audio)
    heard = talk.end().heard
    return None if heard is None else heard - began - DELAY


def test_the_gate_is_just_under_at_and_over_its_level() -> None:
    """184 and 185 lie around −45 dBFS; a window with 65 samples of the louder is the first to reach it."""
    level = 32_768 * 10 ** (AUDIBLE_DBFS / 20)
    assert 184 < level < 185
    assert 64 * 185**2 + 176 * 184**2 < 240 * level**2 < 65 * 185**2 + 175 * 184**2
    assert answered((0, pcm((240, 184)))) is None
    assert answered((0, pcm((64, 185), (176, 184)))) is None
    assert answered((0, pcm((65, 185), (175, 184)))) == 0
    assert answered((0, pcm((240, 185)))) == 0


def test_an_inaudible_lead_in_is_not_the_first_audio() -> None:
    assert answered((100, pcm((ms(50), 0), (ms(50), LOUD)))) == 100 + ms(50)


def test_a_lead_in_is_played_before_what_follows_however_early_that_arrives() -> None:
    silence, sound = pcm((ms(200), 0)), pcm((ms(20), LOUD))
    assert answered((100, silence), (10, sound)) == 100 + ms(200)
    assert answered((100, silence), (10, silence), (10, sound)) == 100 + ms(400)
    assert answered((100, silence), (ms(300), sound)) == 100 + ms(300)


@pytest.mark.parametrize("samples", [1, GATE_WINDOW - 1, GATE_WINDOW, GATE_WINDOW + 1])
def test_short_pieces_are_judged_as_well(samples: int) -> None:
    assert answered((5, pcm((samples, LOUD)))) == 5


def test_silence_and_no_audio_at_all_are_never_heard() -> None:
    assert answered((0, b""), (0, pcm((ms(500), 100)))) is None


def test_audio_that_the_socket_takes_late_is_heard_late() -> None:
    talk = Talk()
    talk.user_speaks()
    talk.user_stops()
    talk.audio(0, pcm((ms(10), 0), (480, LOUD)), taken=False)
    made_at = talk.now
    talk.saw(ResponseEnded("resp_1", EndStatus.COMPLETED))
    assert not talk.meter.turns
    heard = talk.meter.sent("resp_1", ms(10) + 480, made_at + ms(700))
    assert heard == made_at + ms(700) + DELAY + ms(10)
    talk.meter.settle(heard - 1)
    assert not talk.meter.turns
    talk.meter.settle(heard)
    found = stages(talk.meter.turns[0])
    assert (found["send"], found["playout"]) == (700, 160)


def test_an_answer_waits_for_what_still_plays() -> None:
    """One player plays all of a session's audio: what is sent behind three seconds of it is heard after them."""
    talk = Talk()
    talk.number = 1
    talk.meter.asked("resp_1", talk.now)
    talk.saw(ResponseStarted("resp_1"))
    talk.audio(0, pcm((ms(3_000), LOUD)))
    talk.saw(ResponseEnded("resp_1", EndStatus.COMPLETED))
    talk.number = 2
    talk.meter.asked("resp_2", talk.now)
    talk.saw(ResponseStarted("resp_2"), after=ms(1_000))
    talk.audio(0, pcm((480, LOUD)))
    talk.saw(ResponseEnded("resp_2", EndStatus.COMPLETED))
    talk.meter.settle(ms(4_000))
    first, second = talk.meter.turns
    assert (first.heard, second.heard) == (DELAY, DELAY + ms(3_000))
    assert (second.kind, second.begin) == (TurnKind.REQUEST, 0)
    assert stages(second)["playout"] == 2_150


def test_what_is_said_beside_the_conversation_goes_through_no_player() -> None:
    talk = Talk()
    talk.saw(ResponseStarted("resp_x", out_of_band=True))
    talk.saw(OutputAudio("resp_x", "a", pcm((ms(3_000), LOUD))))
    assert talk.meter.sent("resp_x", ms(3_000), talk.now) is None
    talk.number = 1
    talk.saw(ResponseStarted("resp_1"))
    talk.audio(0, pcm((480, LOUD)))
    assert stages(talk.end())["playout"] == 150
    assert len(talk.meter.turns) == 1


# --- what a turn begins with ---------------------------------------------------------------------------------------


def test_a_turn_ended_by_hand_begins_with_the_commit_and_the_clients_own_time_has_a_stage() -> None:
    talk = Talk()
    talk.number = 1
    talk.hear(0.9, 0.9, 0.1)
    talk.saw(InputCommitted("item_1", 0, talk.received))
    began = talk.now
    talk.transcript(after=ms(30))
    talk.now += ms(200)
    talk.meter.asked("resp_1", talk.now)
    talk.saw(ResponseStarted("resp_1"))
    talk.audio(ms(10), pcm((480, LOUD)))
    turn = talk.end()
    assert (turn.kind, turn.begin) == (TurnKind.COMMIT, began)
    assert stages(turn) == {"stt_final": 30, "request": 200, "tts_ttfa": 10, "send": 0, "playout": 150}


def test_a_typed_turn_begins_with_the_clients_request() -> None:
    talk = Talk()
    talk.number = 1
    talk.meter.asked("resp_1", talk.now)
    talk.saw(ResponseStarted("resp_1"), after=ms(5))
    talk.text(after=ms(20))
    talk.audio(ms(10), pcm((480, LOUD)))
    turn = talk.end()
    assert (turn.kind, turn.begin) == (TurnKind.REQUEST, 0)
    assert stages(turn) == {"request": 5, "llm_ttft": 20, "tts_ttfa": 10, "send": 0, "playout": 150}


def test_an_idle_prompt_begins_with_the_timeout() -> None:
    talk = Talk()
    talk.number = 1
    talk.now = ms(9_000)
    talk.saw(InputTimedOut("item_1", 0, 100))
    talk.saw(InputCommitted("item_1", 0, 100))
    talk.saw(ResponseStarted("resp_1"))
    talk.audio(ms(10), pcm((480, LOUD)))
    turn = talk.end()
    assert (turn.kind, turn.begin, turn.outcome) == (TurnKind.IDLE, ms(9_000), Outcome.HEARD)


def test_a_turn_that_calls_a_tool_ends_with_the_answer_that_speaks_of_its_result() -> None:
    talk = Talk()
    talk.user_speaks()
    speech_end = talk.now
    talk.user_stops()
    talk.saw(FunctionCallStarted("resp_1", "call_item", "call_1", "look_up"), after=ms(50))
    talk.saw(OutputItemEnded("resp_1", "call_item"), after=ms(20))
    talk.saw(ResponseEnded("resp_1", EndStatus.COMPLETED))
    assert not talk.meter.turns
    talk.meter.asked("resp_2", talk.now + ms(400))
    talk.number = 2
    talk.saw(ResponseStarted("resp_2"), after=ms(400))
    talk.text(after=ms(60))
    talk.audio(ms(10), pcm((480, LOUD)))
    turn = talk.end()
    assert len(talk.meter.turns) == 1
    assert turn.heard is not None
    found = stages(turn)
    assert [answer.response_id for answer in turn.rounds] == ["resp_1", "resp_2"]
    assert (found["tool_call"], found["tools"], found["llm_ttft"]) == (20, 400, 50 + 60)
    assert sum(found.values()) == (turn.heard - speech_end) // 24


def test_a_call_whose_result_nobody_asks_about_is_closed_by_the_next_turn() -> None:
    talk = Talk()
    talk.user_speaks()
    talk.user_stops()
    talk.saw(FunctionCallStarted("resp_1", "call_item", "call_1", "look_up"))
    talk.saw(ResponseEnded("resp_1", EndStatus.COMPLETED))
    talk.user_speaks()
    talk.user_stops()
    assert [turn.outcome for turn in talk.meter.turns] == [Outcome.TOOL_CALL]
    talk.audio(0, pcm((480, LOUD)))
    assert talk.end().item_id == "item_2"


def test_turns_in_line_are_answered_in_their_order() -> None:
    """A burst client's turns are committed while a response runs; each next one begins as one ends."""
    talk = Talk()
    for _ in range(3):
        talk.user_speaks()
        talk.user_stops(answered=talk.number == 1)
    for number in (1, 2, 3):
        talk.number = number
        if number > 1:
            talk.saw(ResponseStarted(f"resp_{number}"))
        talk.audio(ms(10), pcm((480, LOUD)))
        talk.saw(ResponseEnded(f"resp_{number}", EndStatus.COMPLETED))
    talk.meter.settle(talk.now + ms(1_000))
    assert [(turn.item_id, turn.response_id) for turn in talk.meter.turns] == [
        (f"item_{number}", f"resp_{number}") for number in (1, 2, 3)
    ]


def test_one_response_that_a_client_asks_for_answers_the_last_of_several_turns() -> None:
    talk = Talk()
    for _ in range(3):
        talk.user_speaks()
        talk.user_stops(answered=False)
    talk.meter.asked("resp_3", talk.now)
    talk.saw(ResponseStarted("resp_3"))
    talk.audio(0, pcm((480, LOUD)))
    talk.end()
    assert [(turn.item_id, turn.outcome) for turn in talk.meter.turns] == [
        ("item_1", Outcome.UNANSWERED),
        ("item_2", Outcome.UNANSWERED),
        ("item_3", Outcome.HEARD),
    ]


def test_a_turn_that_is_refused_its_response_is_unanswered_and_the_next_one_is_itself() -> None:
    talk = Talk()
    talk.user_speaks()
    talk.user_stops()
    talk.user_speaks()  # over a response that goes on: interrupt_response is off
    talk.user_stops(answered=False)
    talk.saw(CommandRefused(RefusalKind.RESPONSE_ACTIVE))
    talk.saw(ResponseEnded("resp_1", EndStatus.COMPLETED))
    talk.user_speaks()
    talk.user_stops()
    talk.audio(0, pcm((480, LOUD)))
    talk.end()
    assert [(turn.item_id, turn.outcome) for turn in talk.meter.turns] == [
        ("item_2", Outcome.UNANSWERED),
        ("item_1", Outcome.SILENT),
        ("item_3", Outcome.HEARD),
    ]


# --- turns that do not go as planned -------------------------------------------------------------------------------


def test_a_turn_interrupted_before_its_answer_keeps_what_was_measured_and_the_next_one_says_so() -> None:
    talk = Talk()
    talk.user_speaks()
    talk.user_stops()
    talk.transcript(after=240)
    talk.user_speaks()
    talk.saw(ResponseEnded("resp_1", EndStatus.CANCELLED, 0, EndReason.TURN_DETECTED))
    talk.saw(OutputTextDelta("resp_1", "a", "late"))
    (first,) = talk.meter.turns
    assert (first.outcome, stages(first)) == (Outcome.CUT, {"eot_wait": 64, "stt_final": 10, "request": 0})
    talk.user_stops()
    talk.transcript(after=480)
    second = talk.end()
    assert stages(second) == {"eot_wait": 64, "stt_final": 20, "request": 0}
    assert (first.barge_in, second.barge_in) == (False, True)


@pytest.mark.parametrize(("after_ms", "outcome"), [(149, Outcome.CUT), (150, Outcome.HEARD), (151, Outcome.HEARD)])
def test_an_answer_that_was_sent_and_cut_counts_as_heard_from_its_first_sample_on(
    after_ms: int, outcome: Outcome
) -> None:
    talk = Talk()
    talk.user_speaks()
    talk.user_stops()
    talk.audio(ms(20), pcm((ms(2_000), LOUD)))
    talk.now += ms(after_ms)
    talk.saw(ResponseEnded("resp_1", EndStatus.CANCELLED, 0, EndReason.TURN_DETECTED))
    talk.saw(PlayoutCut("a", 0))
    (turn,) = talk.meter.turns
    assert turn.outcome is outcome
    assert ("playout" in stages(turn)) is (outcome is Outcome.HEARD)


def test_an_answer_that_is_whole_and_waits_to_be_played_is_cut_with_the_player() -> None:
    talk = Talk()
    talk.user_speaks()
    talk.user_stops()
    talk.audio(0, pcm((480, LOUD)))
    talk.saw(ResponseEnded("resp_1", EndStatus.COMPLETED))
    talk.now += ms(100)
    talk.saw(PlayoutCut("a", 0))
    assert [turn.outcome for turn in talk.meter.turns] == [Outcome.CUT]
    assert talk.meter._player_end == talk.now


@pytest.mark.parametrize(("heard", "outcome"), [(ms(10), Outcome.CUT), (ms(10) + 1, Outcome.HEARD)])
def test_the_clients_own_word_on_what_was_heard_is_the_last(heard: int, outcome: Outcome) -> None:
    talk = Talk()
    talk.user_speaks()
    talk.user_stops()
    talk.audio(0, pcm((ms(10), 0), (480, LOUD)))
    talk.saw(ResponseEnded("resp_1", EndStatus.COMPLETED))
    talk.meter.truncated("a", heard, talk.now + ms(50))
    talk.meter.settle(talk.now + ms(500))
    assert [turn.outcome for turn in talk.meter.turns] == [outcome]


def test_a_cancelled_answer_whose_sound_had_been_sent_is_heard_all_the_same() -> None:
    """A client's cancel stops the making; what it holds it may play."""
    talk = Talk()
    talk.user_speaks()
    talk.user_stops()
    talk.audio(0, pcm((480, LOUD)))
    turn = talk.end(EndStatus.CANCELLED, EndReason.CLIENT_CANCELLED)
    assert turn.outcome is Outcome.HEARD


def test_a_failed_response_and_one_without_sound_say_so() -> None:
    talk = Talk()
    talk.user_speaks()
    talk.user_stops()
    assert talk.end(EndStatus.FAILED).outcome is Outcome.FAILED
    talk.user_speaks()
    talk.user_stops()
    talk.text(after=ms(5))
    turn = talk.end()
    assert (turn.outcome, stages(turn)) == (Outcome.SILENT, {"eot_wait": 64, "request": 0, "llm_ttft": 5})


def test_a_late_transcript_of_the_turn_before_is_not_taken_for_this_turns() -> None:
    talk = Talk()
    talk.user_speaks()
    talk.user_stops()
    talk.user_speaks()
    talk.saw(ResponseEnded("resp_1", EndStatus.CANCELLED, 0, EndReason.TURN_DETECTED))
    talk.user_stops()
    talk.saw(InputTranscriptCompleted("item_1", "Late.", FRAME))
    talk.transcript(after=480)
    talk.saw(InputTranscriptCompleted("item_1", "Later.", FRAME), after=999)
    assert stages(talk.end())["stt_final"] == 20


def test_a_failed_transcript_ends_its_stage_too() -> None:
    talk = Talk()
    talk.user_speaks()
    talk.user_stops()
    talk.saw(InputTranscriptFailed("item_1", EngineFault("asr_failed", "No.")), after=240)
    assert stages(talk.end()) == {"eot_wait": 64, "stt_final": 10, "request": 0}


def test_another_responses_output_is_not_this_turns() -> None:
    talk = Talk()
    talk.user_speaks()
    talk.user_stops()
    talk.saw(OutputTextDelta("resp_x", "a", "Hi."))
    talk.saw(OutputAudio("resp_x", "a", pcm((240, LOUD))))
    talk.saw(ResponseEnded("resp_x", EndStatus.COMPLETED))
    assert not talk.meter.turns
    assert stages(talk.end()) == {"eot_wait": 64, "request": 0}


def test_the_end_of_a_session_closes_all_accounts() -> None:
    talk = Talk()
    talk.user_speaks()
    talk.user_stops()
    talk.audio(0, pcm((480, LOUD)))
    talk.user_speaks()
    talk.user_stops(answered=False)
    talk.meter.close(talk.now)
    assert [turn.outcome for turn in talk.meter.turns] == [Outcome.HEARD, Outcome.UNANSWERED]
    talk.meter.close(talk.now)
    assert len(talk.meter.turns) == 2


def test_turns_that_wait_and_answers_on_their_way_are_bounded() -> None:
    talk = Talk()
    talk.saw(ResponseStarted("resp_first"))
    for _ in range(WAITING_TURNS + 5):
        talk.user_speaks()
        talk.user_stops(answered=False)
    assert len(talk.meter.turns) == 5
    for number in range(OPEN_TURNS + 5):
        talk.saw(ResponseStarted(f"resp_{number}"))
    assert len(talk.meter._open) == OPEN_TURNS


def test_only_the_newest_turns_are_kept() -> None:
    talk = Talk()
    for number in range(KEPT_TURNS + 5):
        talk.user_speaks()
        talk.user_stops()
        talk.transcript(after=ms(number))
        talk.end()
    assert len(talk.meter.turns) == KEPT_TURNS
    assert talk.meter.turns[0].response_id == "resp_6"


def test_one_line_per_turn_names_the_slowest_stage_and_no_words(caplog: pytest.LogCaptureFixture) -> None:
    talk = Talk()
    with caplog.at_level(logging.INFO, logger="gateway.meter"):
        talk.user_speaks()
        talk.user_stops()
        talk.transcript(after=ms(300))
        talk.text(after=ms(90))
        talk.audio(ms(70), pcm((480, LOUD)))
        talk.end()
    (record,) = caplog.records
    assert record.getMessage() == (
        "turn session=sess_1 response=resp_1 kind=speech outcome=heard slowest=stt_final total_ms=674 "
        "eot_wait_ms=64 stt_final_ms=300 request_ms=0 llm_ttft_ms=90 tts_ttfa_ms=70 send_ms=0 playout_ms=150"
    )
