"""Whatever comes, in whatever order: late, double, unknown and impossible inputs at random times break no promise."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.turns.actions import (
    Generate,
    JudgeSound,
    JudgeWords,
    Synthesize,
    Transcribe,
    TranscribeItem,
    TranscribePartial,
    TranscribePause,
)
from gateway.turns.inputs import (
    CancelRequested,
    ClearRequested,
    CommitRequested,
    ContextProvided,
    FunctionCallDelta,
    GenerationEnded,
    GenerationFailed,
    HeardByClient,
    Input,
    InputStalled,
    Judged,
    PartialTranscript,
    PauseTranscript,
    ResponseRequested,
    SynthesisEnded,
    SynthesisFailed,
    SynthesizedSpeech,
    TextDelta,
    Tick,
    ToolCallEnded,
    Transcript,
    TranscriptFailed,
    WordEnd,
)
from gateway.turns.response import Output
from gateway.turns.settings import BargeIn, Deadlines, Detection, Eagerness, TurnSettings
from gateway.turns.states import Agent, User
from protocol.audio_time import samples_from_ms
from protocol.backend_events import ContextForeseen, ContextRequested, EngineFault, FunctionCallStarted, OutputAudio
from tests.simulation.conversation import Conversation

FAULT = EngineFault("broken", "It broke.")
TEXTS = ["Yes. ", "Well, this is a whole sentence. ", "and on ", "<think>", "</think>", "\N{THUMBS UP SIGN}", "", " "]
JUDGES = frozenset({"audio", "probability"})
JUDGED = Detection(semantic=Eagerness.MEDIUM, barge_in=BargeIn.JUDGED)
LOOKS = ["hello you", "hello you there", None, "", "mm-hm", "stop", "whole sentence and"]
WORDS = [
    (),
    (WordEnd(4, 100), WordEnd(9, 400)),
    (WordEnd(9, 0), WordEnd(2, 9_999), WordEnd(99, 480)),
    (WordEnd(0, -1),),
]
QUICK = Deadlines(transcript=40_000, first_token=30_000, next_token=20_000, speech=25_000, tools=15_000)
SETTINGS = [
    TurnSettings(deadlines=QUICK, live_transcript=True),
    TurnSettings(Detection(create_response=False), deadlines=QUICK),
    TurnSettings(Detection(interrupt_response=False, silence_duration=4_800, prefix_padding=0), deadlines=QUICK),
    TurnSettings(Detection(threshold=0.1, silence_duration=0), audio_output=False, deadlines=QUICK),
    TurnSettings(Detection(prefix_padding=480_000, silence_duration=48_000), live_transcript=True),
    TurnSettings(None, live_transcript=True, deadlines=QUICK),
    TurnSettings(Detection(idle_timeout=120_000), deadlines=QUICK),
    TurnSettings(JUDGED, deadlines=QUICK, judges=JUDGES, live_transcript=True),
    TurnSettings(
        Detection(semantic=Eagerness.HIGH, silence_duration=7_200), deadlines=QUICK, judges=frozenset({"audio"})
    ),
    TurnSettings(Detection(semantic=Eagerness.LOW), deadlines=QUICK),
    TurnSettings(Detection(barge_in=BargeIn.JUDGED, idle_timeout=120_000), live_transcript=True, deadlines=QUICK),
    TurnSettings(Detection(barge_in=BargeIn.JUDGED, prefix_padding=0), deadlines=QUICK),
    TurnSettings(Detection(barge_in=BargeIn.OFF), deadlines=QUICK),
]


class Chaos(Conversation):
    """A conversation whose engines answer when, how often and in what order chance says."""

    def __init__(self) -> None:
        super().__init__(SETTINGS[0])
        self.possible: list[Input] = []
        self.said: list[Input] = []

    def feed(self, message: Input) -> list[Output]:
        outputs = super().feed(message)
        self.check_states()
        return outputs

    def _perform(self, output: Output) -> None:
        match output:
            case ContextRequested(response_id=of):
                self.possible += [ContextProvided(of, frozenset({"call_0"}), self.machine.speculation or "")]
            case ContextForeseen(speculation_id=of):
                self.possible += [ContextProvided(of, frozenset({"call_0"}))]
            case FunctionCallStarted(response_id=of, item_id=item):
                self.possible += [ToolCallEnded(of, item)]
            case Transcribe(item_id=item) | TranscribeItem(item_id=item):
                self.possible += [Transcript(item, text) for text in ("hello you there", "")]
                self.possible += [TranscriptFailed(item, FAULT)]
            case TranscribePartial(item_id=item):
                self.possible += [PartialTranscript(item, text) for text in LOOKS]
            case TranscribePause(item_id=item, pause=pause):
                self.possible += [PauseTranscript(item, pause, text) for text in (None, "", "hello you", "hello")]
            case JudgeSound(item_id=item, pause=pause):
                self.possible += [Judged(item, pause, "audio", score) for score in (0.1, None, 0.6, 0.98)]
            case JudgeWords(item_id=item, pause=pause):
                self.possible += [Judged(item, pause, "probability", score) for score in (0.1, None, 0.6, 0.98)]
                self.possible += [Judged(item, pause, "probability", 0.5, wait=True)]
            case Generate(response_id=of):
                self.possible += [TextDelta(of, text) for text in TEXTS]
                self.possible += [FunctionCallDelta(of, n, None, f"call_{n}", "{}") for n in range(2)]
                self.possible += [GenerationEnded(of, reason) for reason in ("stop", "length", "content_filter")]
                self.possible += [GenerationFailed(of, FAULT)]
            case Synthesize(response_id=of, chunk=chunk):
                self.possible += [SynthesizedSpeech(of, chunk, bytes(n)) for n in (0, 480, 48_000, 2_000_000)]
                self.possible += [SynthesizedSpeech(of, chunk, bytes(960), words) for words in WORDS]
                self.possible += [SynthesisEnded(of, chunk), SynthesisFailed(of, FAULT)]
            case _:
                pass

    def check_states(self) -> None:
        machine = self.machine
        assert machine.active_response == self.promises.open_response
        assert all(map(machine.runs, self.promises.open_beside))
        if machine.active_response is not None:
            assert machine.agent is not Agent.IDLE
        if machine.user is not User.SILENT:
            assert self.promises.speaking is not None or machine.holds_overlap
        if machine.holds_overlap:
            assert machine.user is not User.SILENT
            assert self.promises.speaking is None, "what was told is not held"
        assert 0 <= machine.needed_from <= machine.received

    def deliver(self, choice: int) -> None:
        """An engine answers, newest questions first, or says again what it said."""
        if self.possible:
            self.tell(self.possible[-1 - choice % len(self.possible)])

    def bring_to_rest(self) -> None:
        """The session answers, the user falls silent, every deadline passes."""
        for _ in range(400):
            asked = [message for message in self.possible if isinstance(message, ContextProvided)]
            for message in asked:
                if self.machine.runs(message.response_id):
                    self.tell(message)
            if self._timer is None:
                return
            self.run_until(max(self.now, self._timer))
        raise AssertionError("the conversation never comes to rest")


def perform(chaos: Chaos, step: tuple[str, int, int]) -> None:
    kind, a, b = step
    responses = [*chaos.responses()[-3:], "resp_unknown"]
    items = [*{audio.item_id: None for audio in chaos.all(OutputAudio)}][-3:] + ["item_1", "item_unknown"]
    match kind:
        case "audio":
            chaos.echo = (0.0, 0.0, 0.0, 0.7)[a % 4]
            chaos.audio(20 * (1 + a % 60), (0.0, 0.1, 0.3, 0.45, 0.9, 0.9, 0.9)[b % 7], append_ms=(20, 20, 70)[b % 3])
        case "burst":
            chaos.burst((100 * (a % 50), False), (100 * (b % 40), True), (100 * (a % 13), False))
        case "unpaced":
            chaos.audio(100 * (1 + a % 40), bool(b % 2), rate=20)
        case "wait":
            chaos.run_until(chaos.now + (a * 997 % 960_000 if b % 4 == 0 else a % 24_000))
        case "deliver":
            chaos.deliver(a % 14)
        case "deliver old":
            chaos.deliver(a)
        case "commit":
            chaos.tell(CommitRequested("evt"))
        case "clear":
            chaos.tell(ClearRequested())
        case "create":
            chaos.tell(ResponseRequested(chaos.client_ids("client_resp"), bool(a % 3), "evt"))
        case "create beside":
            chaos.create_out_of_band(audio=bool(a % 2), needs_transcripts=bool(b % 2))
        case "give audio":
            chaos.give_audio(chaos.client_ids("given"), 2_400 * (1 + a % 40))
        case "cancel":
            chaos.tell(CancelRequested((None, *responses)[a % (len(responses) + 1)], "evt"))
        case "truncate":
            item = items[a % len(items)]
            chaos.tell(HeardByClient(item, chaos.promises.sent[item] * (b % 5) // 4))
        case "configure":
            chaos.configure(SETTINGS[a % len(SETTINGS)])
        case "stall":
            chaos.tell(InputStalled(min(a * 31 % 60_000, chaos.machine.silent_for(chaos.now) + 9_600)))
        case "tick":
            chaos.tell(Tick())
        case "unknown":
            unknown: list[Input] = [
                Transcript("item_unknown", "x"),
                TranscriptFailed("item_unknown", FAULT),
                PartialTranscript("item_unknown", "x y z"),
                PauseTranscript("item_unknown", 1 + b % 3, "x y z"),
                Judged("item_unknown", 1 + b % 3, "audio", 0.9),
                ContextProvided(responses[b % len(responses)]),
                ToolCallEnded(responses[b % len(responses)], "item_unknown"),
                SynthesizedSpeech(responses[b % len(responses)], b % 4, bytes(960)),
                SynthesisEnded(responses[b % len(responses)], b % 4),
                TextDelta(responses[b % len(responses)], "From nowhere. "),
                GenerationEnded(responses[b % len(responses)], "stop"),
                SynthesisFailed("resp_unknown", FAULT),
            ]
            assert not isinstance(chaos.tell(unknown[a % len(unknown)]), Exception)


WEIGHTED = ["audio"] * 6 + ["deliver"] * 10 + ["wait"] * 3 + ["create", "configure", "commit"] * 2
RARE = [
    "create beside",
    "give audio",
    "burst",
    "unpaced",
    "deliver old",
    "clear",
    "cancel",
    "truncate",
    "stall",
    "tick",
    "unknown",
]
STEPS = st.lists(
    st.tuples(st.sampled_from(WEIGHTED + RARE), st.integers(0, 1_000), st.integers(0, 1_000)), min_size=5, max_size=70
)


def check(steps: list[tuple[str, int, int]]) -> None:
    chaos = Chaos()
    for step in steps:
        before = chaos.now
        perform(chaos, step)
        assert chaos.now >= before
    if chaos.machine.settings.detection is not None:  # else the agent would ask for ever whether anyone is there
        chaos.configure(replace(chaos.machine.settings, detection=Detection()))
    chaos.bring_to_rest()
    assert chaos.machine.active_response is None, "every response ends"
    assert not chaos.promises.open_beside, "every response ends"
    assert chaos.machine.speculation is None, "nobody waits for it any more"
    assert chaos.agent is Agent.IDLE
    owed = {*chaos.promises.commits, *chaos.promises.given}
    assert chaos.promises.transcribed == owed, "every committed item gets its one transcript"
    assert 0 <= chaos.machine.playout_delay <= samples_from_ms(1_000)


NO_CHECKS = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


@given(STEPS)
@settings(max_examples=1_500, deadline=None, derandomize=True, database=None, suppress_health_check=NO_CHECKS)
def test_no_interleaving_breaks_a_promise(steps: list[tuple[str, int, int]]) -> None:
    check(steps)


@pytest.mark.long
@given(STEPS)
@settings(max_examples=int(os.environ.get("EXAMPLES", "20000")), deadline=None, suppress_health_check=NO_CHECKS)
def test_no_interleaving_breaks_a_promise_in_a_long_run(steps: list[tuple[str, int, int]]) -> None:
    check(steps)


@given(st.lists(st.tuples(st.integers(20, 3_000), st.sampled_from([0.02, 0.3, 0.45, 0.9])), min_size=1, max_size=12))
@settings(max_examples=60, deadline=None, derandomize=True, database=None)
def test_speech_times_do_not_depend_on_how_the_audio_is_cut_and_paced(stretches: list[tuple[int, float]]) -> None:
    quiet = TurnSettings(Detection(create_response=False))
    paced, small, at_once = Conversation(quiet), Conversation(quiet), Conversation(quiet)
    for ms, probability in [*stretches, (1_000, 0.02)]:
        paced.audio(ms, probability)
        small.audio(ms, probability, append_ms=7, rate=30)
        at_once.capture(samples_from_ms(ms), probability)
    at_once.append()
    assert at_once.speech_times() == small.speech_times() == paced.speech_times()
