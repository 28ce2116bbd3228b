"""Stages that overlap and still add up; the cascade's own account of them."""

from __future__ import annotations

import random

import pytest

from gateway.turn_marks import KEPT_ACCOUNTS, TurnMarks
from gateway.turns.actions import Generate, JudgeSound, JudgeWords, Synthesize, Transcribe, TranscribePause
from gateway.turns.inputs import (
    FunctionCallDelta,
    Input,
    Judged,
    PauseTranscript,
    SynthesizedSpeech,
    TextDelta,
    Tick,
    Transcript,
)
from gateway.turns.observations import Speculated, SpeculationFate
from gateway.turns.response import Output
from gateway.turns.states import User
from gateway.waterfall import LISTENING, ROUND, Span, Stage, Waterfall, in_order
from protocol.audio_time import samples_from_ms as ms
from protocol.backend_events import ContextRequested, InputTranscriptCompleted, SpeechStopped


def waterfall(begin: int, **ends: int) -> Waterfall:
    """Return a waterfall of stages that end when they are said to, in ms."""
    spans = [Span(Stage(name), ms(begin), ms(end)) for name, end in ends.items()]
    return Waterfall(ms(begin), tuple(spans))


def test_a_stage_counts_what_it_added_to_the_latest_mark_before_it() -> None:
    it = waterfall(100, vad_hang=130, eot_wait=600, stt_final=750, llm_ttft=900)
    assert it.stages_ms() == {"vad_hang": 30, "eot_wait": 470, "stt_final": 150, "llm_ttft": 150}
    assert (it.total_ms, it.slowest) == (800, "eot_wait")


def test_what_was_ready_before_the_decision_that_it_served_adds_nothing() -> None:
    it = waterfall(0, vad_hang=32, eot_model=250, eot_wait=700, stt_final=400, llm_ttft=650, first_clause=720)
    assert it.stages_ms() == {
        "vad_hang": 32, "eot_model": 218, "eot_wait": 450, "stt_final": 0, "llm_ttft": 0, "first_clause": 20,
    }  # fmt: skip
    assert it.total_ms == 720


def test_a_mark_before_the_beginning_takes_nothing_away() -> None:
    assert waterfall(100, vad_hang=90, eot_wait=150).stages_ms() == {"vad_hang": 0, "eot_wait": 50}


def test_a_turn_without_any_mark_has_waited_for_nothing() -> None:
    assert (waterfall(100).total_ms, waterfall(100).slowest, waterfall(100).stages_ms()) == (0, "none", {})


@pytest.mark.parametrize("seed", range(50))
def test_stages_add_up_wherever_the_marks_lie(seed: int) -> None:
    draw = random.Random(seed)
    begin = draw.randrange(50_000)
    stages = draw.sample([*Stage, Stage.LLM_TTFT, Stage.TOOLS], draw.randrange(1, len(Stage)))
    spans = [Span(stage, begin, begin + draw.randrange(-500, 50_000)) for stage in stages]
    it = Waterfall(begin, tuple(spans))
    assert sum(it.stages_ms().values()) == it.total_ms
    assert abs(it.total_ms - max(0, max(span.end for span in spans) - begin) / 24) < 1


def test_every_stage_has_its_place_on_the_critical_path() -> None:
    assert {*LISTENING, *ROUND, Stage.TOOLS, Stage.FLOOR} == set(Stage)
    assert len(LISTENING) + len(ROUND) + 2 == len(Stage)


def test_the_first_account_that_knows_a_stage_tells_it() -> None:
    own = {Stage.QUEUE: Span(Stage.QUEUE, 1, 2)}
    border = {Stage.QUEUE: Span(Stage.QUEUE, 3, 4), Stage.SEND: Span(Stage.SEND, 5, 6)}
    assert in_order(ROUND, own, border) == [own[Stage.QUEUE], border[Stage.SEND]]


# --- the cascade's own account -------------------------------------------------------------------------------------


class Told:
    """A tap, fed message by message; times in ms."""

    def __init__(self) -> None:
        self.marks = TurnMarks()

    def at(self, now: int, message: Input, *outputs: Output) -> None:
        self.marks.told(message, ms(now), outputs)

    def _known(self, key: str) -> dict[Stage, Span]:
        account = self.marks._accounts.get(key)
        return {} if account is None else account.spans

    def spans(self, key: str) -> dict[str, tuple[int, int]]:
        return {str(stage): (span.start // 24, span.end // 24) for stage, span in self._known(key).items()}


def test_the_stages_of_a_plain_turn() -> None:
    told = Told()
    told.marks.user_moved(User.SPEAKING, ms(10))
    told.marks.user_moved(User.PAUSED, ms(32))
    told.at(500, Tick(), SpeechStopped("i", 0), Transcribe("i", 0, 1))
    told.marks.user_moved(User.SILENT, ms(500))
    told.at(600, Transcript("i", "Hi."), InputTranscriptCompleted("i", "Hi.", 1), ContextRequested("r"))
    told.at(601, Tick(), Generate("r"))
    told.at(700, TextDelta("r", "Hel"))
    told.at(710, TextDelta("r", "lo."), Synthesize("r", 0, "Hello.", first=True))
    told.at(760, SynthesizedSpeech("r", 0, b""))
    told.at(780, SynthesizedSpeech("r", 0, b""), Synthesize("r", 1, "You.", first=False))
    assert told.spans("i") == {"vad_hang": (32, 32), "stt_final": (500, 600)}
    assert told.spans("r") == {
        "queue": (600, 601), "llm_ttft": (601, 700), "first_clause": (700, 710), "tts_ttfa": (710, 760),
    }  # fmt: skip


def test_only_the_pause_that_ended_the_turn_counts_and_only_answers_that_came_in_time() -> None:
    told = Told()
    told.at(200, Tick(), JudgeSound("i", 0, 0, 1))
    told.at(230, Judged("i", 0, "audio", 0.1))
    told.at(900, Tick(), JudgeSound("i", 1, 0, 1))
    told.at(905, Judged("i", 0, "probability", 0.9))  # about the pause before
    told.at(910, Tick(), JudgeWords("i", 1, "So", ""))
    told.at(940, Judged("i", 1, "audio", 0.8))
    told.at(960, Judged("i", 1, "probability", 0.9), SpeechStopped("i", 0))
    told.at(990, Judged("i", 1, "verdict", 1.0))  # too late
    assert told.spans("i") == {"eot_model": (900, 960)}


def test_words_recognised_in_the_pause_are_the_final_ones_unless_it_was_asked_again() -> None:
    told = Told()
    told.at(200, Tick(), TranscribePause("i", 0, 0, 1))
    told.at(280, PauseTranscript("i", 0, "Hi."))
    told.at(700, Tick(), SpeechStopped("i", 0), InputTranscriptCompleted("i", "Hi.", 1))
    assert told.spans("i")["stt_final"] == (200, 280)
    told.at(900, Tick(), TranscribePause("j", 0, 0, 1))
    told.at(950, PauseTranscript("j", 0, "Hi."))
    told.at(990, Tick(), SpeechStopped("j", 0), Transcribe("j", 0, 2))
    told.at(1_050, Transcript("j", "Hi you."), InputTranscriptCompleted("j", "Hi you.", 1))
    told.at(1_060, PauseTranscript("j", 1, "Hi you."))
    assert told.spans("j")["stt_final"] == (990, 1_050)


def test_an_adopted_speculation_brings_its_marks_to_the_response() -> None:
    told = Told()
    told.at(300, Tick(), ContextRequested("spec"), Generate("spec"))
    told.at(420, TextDelta("spec", "Hi."))
    told.at(700, Tick(), Speculated("spec", "i", SpeculationFate.ADOPTED, "r"), Synthesize("r", 0, "Hi.", first=True))
    assert told.spans("spec") == {}
    assert told.spans("r") == {"queue": (300, 300), "llm_ttft": (300, 420), "first_clause": (420, 700)}
    told.at(800, Tick(), Speculated("gone", "i", SpeculationFate.ADOPTED, "q"))
    assert told.spans("q") == {}


def test_the_first_token_of_an_adopted_speculation_may_come_after_its_adoption() -> None:
    told = Told()
    told.at(300, Tick(), Generate("spec"))
    told.at(700, Tick(), ContextRequested("r"), Speculated("spec", "i", SpeculationFate.ADOPTED, "r"))
    told.at(720, TextDelta("spec", "Hi."), Synthesize("r", 0, "Hi.", first=True))
    told.at(740, TextDelta("spec", "Ho."))
    assert told.spans("r") == {"queue": (300, 300), "llm_ttft": (300, 720), "first_clause": (720, 720)}


def test_a_function_calls_first_piece_is_a_first_token_and_late_work_is_nobodys() -> None:
    told = Told()
    told.at(0, Tick(), Generate("r"))
    told.at(80, FunctionCallDelta("r", 0, "c", "look_up", ""))
    told.at(90, TextDelta("late", "Hi."))
    told.at(90, SynthesizedSpeech("late", 0, b""))
    assert told.spans("r")["llm_ttft"] == (0, 80)
    assert told.spans("late") == {}


def test_an_account_is_handed_over_once_and_late_work_opens_none() -> None:
    told = Told()
    told.at(0, Tick(), Generate("r"))
    assert set(told.marks.take("r")) == {Stage.QUEUE}
    assert told.marks.take("r") == {}
    told.at(90, SynthesizedSpeech("r", 0, b""), Synthesize("r", 1, "You.", first=False))
    assert not told.marks._accounts


def test_accounts_are_bounded() -> None:
    told = Told()
    for number in range(KEPT_ACCOUNTS + 3):
        told.at(number, Tick(), Generate(f"r{number}"))
    assert told.spans("r2") == {}
    assert told.spans("r3") != {}
    assert len(told.marks._accounts) == KEPT_ACCOUNTS
