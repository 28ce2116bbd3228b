"""The stopwatch: every stage of a turn, adding up to what the user waited."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from gateway.meter import AUDIBLE_DBFS, GATE_WINDOW, KEPT_STRETCHES, KEPT_TURNS, Meter, TurnTimes
from protocol.audio_time import samples_from_ms as ms
from protocol.backend_events import (
    EndReason,
    EndStatus,
    EngineFault,
    InputCommitted,
    InputTranscriptCompleted,
    InputTranscriptFailed,
    OutputAudio,
    OutputTextDelta,
    ResponseEnded,
    ResponseStarted,
    SpeechStarted,
    SpeechStopped,
)
from protocol.commands import AppendAudio, SpeechFrame

LOUD = 4_000
FRAME = 768


def pcm(*stretches: tuple[int, int]) -> bytes:
    """Return PCM of stretches, each so many samples of one value."""
    return np.concatenate([np.full(samples, value, "<i2") for samples, value in stretches]).tobytes()


class Turn:
    """One session's meter, fed with turns."""

    def __init__(self) -> None:
        self.meter = Meter("sess_1")
        self.now = 0
        self.received = 0
        self.number = 0

    def hear(self, *probabilities: float) -> None:
        """Hear VAD frames as they come."""
        for probability in probabilities:
            self.now += FRAME
            self.received += FRAME
            self.meter.heard_user(AppendAudio(bytes(2 * FRAME), (SpeechFrame(self.received, probability),)), self.now)

    def user_speaks(self) -> None:
        self.number += 1
        start = self.received
        self.hear(0.9, 0.9, 0.9)
        self.meter.saw(SpeechStarted(f"item_{self.number}", start), self.now)

    def user_stops(self) -> None:
        self.hear(0.1, 0.1)
        self.meter.saw(SpeechStopped(f"item_{self.number}", self.received), self.now)
        self.meter.saw(InputCommitted(f"item_{self.number}", 0, self.received), self.now)
        self.meter.saw(ResponseStarted(f"resp_{self.number}"), self.now)

    def transcript(self, after: int) -> None:
        self.now += after
        self.meter.saw(InputTranscriptCompleted(f"item_{self.number}", "Hi.", FRAME), self.now)

    def text(self, after: int) -> None:
        self.now += after
        self.meter.saw(OutputTextDelta(f"resp_{self.number}", "a", "Hi."), self.now)

    def audio(self, after: int, audio: bytes) -> None:
        self.now += after
        self.meter.saw(OutputAudio(f"resp_{self.number}", "a", audio), self.now)

    def end(self) -> TurnTimes:
        self.meter.saw(ResponseEnded(f"resp_{self.number}", EndStatus.COMPLETED), self.now)
        return self.meter.turns[-1]


def test_the_stages_of_a_turn_add_up_to_what_the_user_waited() -> None:
    turn = Turn()
    turn.user_speaks()
    speech_end = turn.now
    turn.user_stops()
    turn.transcript(after=1_003)
    turn.text(after=2_011)
    turn.text(after=500)
    turn.audio(after=1_517, audio=pcm((480, LOUD)))
    waited = turn.now - speech_end
    turn.audio(after=999, audio=pcm((480, LOUD)))
    stages = turn.end().stages_ms()
    assert list(stages) == ["endpointing", "asr", "llm_first_token", "first_clause_tts", "voice_to_voice"]
    assert stages["endpointing"] == 64
    assert stages["voice_to_voice"] == waited // 24
    assert sum(stages.values()) == 2 * stages["voice_to_voice"]


@pytest.mark.parametrize("shift", range(24))
def test_whole_milliseconds_add_up_wherever_the_marks_lie(shift: int) -> None:
    turn = TurnTimes(
        speech_end=shift, stopped=shift + 35, transcribed=2 * shift + 71, first_text=3 * shift + 99, first_audio=999
    )
    stages = turn.stages_ms()
    assert sum(stages.values()) == 2 * stages["voice_to_voice"]


def test_a_stage_that_did_not_happen_is_left_out_and_the_rest_still_adds_up() -> None:
    stages = TurnTimes(speech_end=0, stopped=240, first_text=480, first_audio=720).stages_ms()
    assert stages == {"endpointing": 10, "llm_first_token": 10, "first_clause_tts": 10, "voice_to_voice": 30}
    assert TurnTimes(speech_end=0, stopped=240).stages_ms() == {"endpointing": 10}
    assert TurnTimes(speech_end=0).stages_ms() == {}


# --- when did the user fall silent? --------------------------------------------------------------------------------


@pytest.mark.parametrize(("probability", "counts"), [(0.49, False), (0.5, True), (0.51, True)])
def test_the_reference_vad_counts_frames_from_one_half_on(probability: float, counts: bool) -> None:
    turn = Turn()
    turn.user_speaks()
    turn.hear(probability)
    turn.user_stops()
    assert turn.end().stages_ms()["endpointing"] == (64 if counts else 96)


def test_audio_that_came_late_is_measured_from_when_it_was_spoken() -> None:
    """One append brings speech and the silence that ends the turn: the silence has been waited for all the same."""
    meter = Meter("s")
    frames = tuple(SpeechFrame(FRAME * n, 0.9 if n <= 10 else 0.0) for n in range(1, 31))
    meter.heard_user(AppendAudio(bytes(2 * 30 * FRAME), frames), 50_000)
    meter.saw(SpeechStarted("item_1", 0), 50_000)
    meter.saw(SpeechStopped("item_1", 26 * FRAME), 50_000)
    meter.saw(SpeechStarted("item_2", 40 * FRAME), 60_000)
    assert meter.turns[0].speech_end == 50_000 - 20 * FRAME


def test_each_turn_of_a_recording_sent_at_once_has_its_own_end_of_speech() -> None:
    meter = Meter("s")
    voiced = [*range(1, 11), *range(41, 51)]
    frames = tuple(SpeechFrame(FRAME * n, 0.9 if n in voiced else 0.0) for n in range(1, 81))
    meter.heard_user(AppendAudio(bytes(2 * 80 * FRAME), frames), 80 * FRAME)
    meter.saw(SpeechStarted("item_1", 0), 80 * FRAME)
    meter.saw(SpeechStopped("item_1", 26 * FRAME), 80 * FRAME)
    meter.saw(SpeechStarted("item_2", 35 * FRAME), 80 * FRAME)
    meter.saw(SpeechStopped("item_2", 66 * FRAME), 80 * FRAME)
    meter.saw(SpeechStarted("item_3", 80 * FRAME), 80 * FRAME)
    assert [turn.speech_end for turn in meter.turns] == [10 * FRAME, 50 * FRAME]


def test_a_turn_without_any_speech_for_the_reference_vad_has_no_figures() -> None:
    turn = Turn()
    turn.user_speaks()
    turn.user_stops()
    turn.end()
    turn.hear(0.1, 0.3, 0.3)  # a client's threshold may be lower than the reference
    turn.meter.saw(SpeechStarted("item_2", turn.received - 2 * FRAME), turn.now)
    turn.number = 2
    turn.user_stops()
    turn.end()
    assert [kept.item_id for kept in turn.meter.turns] == ["item_1"]


def test_voice_before_the_turn_began_is_none_of_it() -> None:
    turn = Turn()
    turn.hear(0.9, 0.1, 0.1)  # a click, which opens no turn
    turn.meter.saw(SpeechStarted("item_1", turn.received), turn.now)
    turn.meter.saw(SpeechStopped("item_1", turn.received + FRAME), turn.now)
    turn.meter.saw(SpeechStarted("item_2", turn.received), turn.now)
    assert turn.meter.turns == []


def test_voice_that_belongs_to_no_turn_is_not_remembered_for_ever() -> None:
    turn = Turn()
    for _ in range(KEPT_STRETCHES + 10):
        turn.hear(0.9, 0.0)
    assert len(turn.meter._voices) == KEPT_STRETCHES


# --- when did the user hear the answer? ----------------------------------------------------------------------------


def answered(*pieces: tuple[int, bytes]) -> int | None:
    """Return how long after the response began its audio was heard, in samples; a piece is its delay and PCM."""
    turn = Turn()
    turn.user_speaks()
    turn.user_stops()
    began = turn.now
    for after, audio in pieces:
        turn.audio(after, audio)
    heard = turn.end().first_audio
    return None if heard is None else heard - began


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


# --- turns that do not go as planned -------------------------------------------------------------------------------


def test_an_interrupted_turn_keeps_what_was_measured_and_later_events_of_it_count_for_nobody() -> None:
    turn = Turn()
    turn.user_speaks()
    turn.user_stops()
    turn.transcript(after=240)
    turn.user_speaks()
    turn.meter.saw(OutputTextDelta("resp_1", "a", "late"), turn.now)
    turn.meter.saw(ResponseEnded("resp_1", EndStatus.CANCELLED, 0, EndReason.TURN_DETECTED), turn.now)
    (first,) = turn.meter.turns
    assert list(first.stages_ms()) == ["endpointing", "asr"]
    turn.user_stops()
    turn.transcript(after=480)
    second = turn.end()
    assert second.stages_ms() == {"endpointing": 64, "asr": 20}


def test_a_late_transcript_of_the_turn_before_is_not_taken_for_this_turns() -> None:
    turn = Turn()
    turn.user_speaks()
    turn.user_stops()
    turn.user_speaks()
    turn.user_stops()
    turn.meter.saw(InputTranscriptCompleted("item_1", "Late.", FRAME), turn.now)
    turn.transcript(after=480)
    turn.meter.saw(InputTranscriptCompleted("item_1", "Later.", FRAME), turn.now + 999)
    assert turn.end().stages_ms()["asr"] == 20


def test_a_failed_transcript_ends_its_stage_too() -> None:
    turn = Turn()
    turn.user_speaks()
    turn.user_stops()
    turn.now += 240
    turn.meter.saw(InputTranscriptFailed("item_1", EngineFault("asr_failed", "No.")), turn.now)
    assert turn.end().stages_ms() == {"endpointing": 64, "asr": 10}


def test_responses_that_no_speech_asked_for_are_not_turns() -> None:
    meter = Meter("s")
    for event in (ResponseStarted("r"), OutputTextDelta("r", "a", "Hi."), ResponseEnded("r", EndStatus.COMPLETED)):
        meter.saw(event, 100)
    meter.saw(SpeechStarted("item_1", 0), 200)
    assert meter.turns == []


def test_another_responses_output_is_not_this_turns() -> None:
    turn = Turn()
    turn.user_speaks()
    turn.user_stops()
    turn.meter.saw(ResponseStarted("resp_x"), turn.now)
    turn.meter.saw(OutputTextDelta("resp_x", "a", "Hi."), turn.now)
    turn.meter.saw(OutputAudio("resp_x", "a", pcm((240, LOUD))), turn.now)
    turn.meter.saw(ResponseEnded("resp_x", EndStatus.COMPLETED), turn.now)
    assert turn.meter.turns == []
    assert turn.end().stages_ms() == {"endpointing": 64}


def test_only_the_newest_turns_are_kept() -> None:
    turn = Turn()
    for number in range(KEPT_TURNS + 5):
        turn.user_speaks()
        turn.user_stops()
        turn.transcript(after=ms(number))
        turn.end()
    assert len(turn.meter.turns) == KEPT_TURNS
    assert turn.meter.turns[0].response_id == "resp_6"


def test_one_line_per_turn_names_the_slowest_stage_and_no_words(caplog: pytest.LogCaptureFixture) -> None:
    turn = Turn()
    with caplog.at_level(logging.INFO, logger="gateway.meter"):
        turn.user_speaks()
        turn.user_stops()
        turn.transcript(after=ms(300))
        turn.text(after=ms(90))
        turn.end()
    (record,) = caplog.records
    assert record.getMessage() == (
        "turn session=sess_1 response=resp_1 slowest=asr endpointing_ms=64 asr_ms=300 llm_first_token_ms=90"
    )
