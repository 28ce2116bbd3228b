"""Whatever the interleaving, a response says only what was written from its own context, all of it and in order.

Every piece names the generation that wrote it; every generation is known by the context that it was given. Users pause,
go on and resume after the commit, recognisers change their minds, clients change the conversation, cancel and update,
and a language model that was stopped goes on talking.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.turns.actions import (
    Generate,
    StopGenerating,
    StopResponse,
    Synthesize,
    Transcribe,
    TranscribePartial,
    TranscribePause,
)
from gateway.turns.inputs import (
    ContextProvided,
    FunctionCallDelta,
    GenerationEnded,
    GenerationFailed,
    Input,
    PartialTranscript,
    PauseTranscript,
    SynthesisEnded,
    SynthesizedSpeech,
    TextDelta,
    Transcript,
)
from gateway.turns.observations import Speculated, SpeculationFate
from gateway.turns.response import Output
from gateway.turns.settings import Deadlines, Detection, TurnSettings
from gateway.turns.states import User
from protocol.audio_time import samples_from_ms
from protocol.backend_events import (
    ContextForeseen,
    ContextRequested,
    EndStatus,
    EngineFault,
    FunctionCallArgumentsDelta,
    FunctionCallStarted,
    OutputAudio,
    OutputTextDelta,
    ResponseEnded,
    ResponseStarted,
)
from tests.simulation.conversation import Conversation

FAULT = EngineFault("broken", "It broke.")
QUICK = Deadlines(first_token=samples_from_ms(4_000), next_token=samples_from_ms(3_000))
SETTINGS = [
    TurnSettings(Detection(silence_duration=samples_from_ms(900)), deadlines=QUICK),
    TurnSettings(Detection(silence_duration=samples_from_ms(600)), audio_output=False, deadlines=QUICK),
    TurnSettings(Detection(silence_duration=samples_from_ms(700), interrupt_response=False), deadlines=QUICK),
    TurnSettings(Detection(silence_duration=samples_from_ms(900)), live_transcript=True, deadlines=QUICK),
    TurnSettings(Detection(silence_duration=samples_from_ms(500)), speculation=False, deadlines=QUICK),
]
NAMED = re.compile(r"<((?:spec|resp|client_resp)_\d+):(\d+)>")


class Witness(Conversation):
    """A conversation whose engines answer when chance says, and which notes what came of every piece."""

    def __init__(self, settings: TurnSettings) -> None:
        super().__init__(settings)
        self.possible: list[Input] = []
        self.written_by: Counter[str] = Counter()
        self.accepted: defaultdict[str, list[int]] = defaultdict(list)
        self.said: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
        self.adopted: dict[str, str] = {}
        self.stopped: set[str] = set()
        self.fates: Counter[str] = Counter()

    def _perform(self, output: Output) -> None:
        match output:
            case ContextRequested() | ContextForeseen():
                before = len(self._due)
                super()._perform(output)
                answers = [due[2] for due in self._due if isinstance(due[2], ContextProvided)]
                assert len(self._due) == before + 1
                self._due.clear()  # nothing else is due here: chance delivers it
                self.possible += answers
            case TranscribePause(item_id=item, pause=pause):
                self.possible += [PauseTranscript(item, pause, text) for text in ("yes", "yes please", "yes", None)]
            case TranscribePartial(item_id=item):
                self.possible += [PartialTranscript(item, text) for text in ("YES please sir", "yes please", None)]
            case Transcribe(item_id=item):
                self.possible += [Transcript(item, text) for text in ("yes", "yes please", "")]
            case Generate(response_id=writer):
                self.possible += [TextDelta(writer, ""), TextDelta(writer, ""), GenerationEnded(writer, "stop")]
                self.possible += [FunctionCallDelta(writer, 0, "", "look_up", ""), GenerationFailed(writer, FAULT)]
            case Synthesize(response_id=response, chunk=chunk):
                self.possible += [SynthesizedSpeech(response, chunk, bytes(9_600)), SynthesisEnded(response, chunk)]
            case Speculated():
                self.fates[str(output.reason or output.fate)] += 1
                if output.fate is SpeculationFate.ADOPTED:
                    self.adopted[output.response_id] = output.speculation_id
                if output.fate is SpeculationFate.DROPPED:
                    self.stopped.add(output.speculation_id)
            case StopGenerating(response_id=stopped) | StopResponse(response_id=stopped):
                self.stopped.add(stopped)
            case OutputTextDelta(response_id=response, delta=text):
                self._check(response, text)
            case FunctionCallArgumentsDelta(response_id=response, delta=text):
                self._check(response, text)
            case ResponseEnded(response_id=response, status=EndStatus.COMPLETED):
                self._check_whole(response)
            case _:
                super()._perform(output)

    def _writer_of(self, response: str) -> str:
        return self.adopted.get(response, response)

    def _check(self, response: str, text: str) -> None:
        found = NAMED.findall(text)
        assert "".join(f"<{writer}:{number}>" for writer, number in found) == text.replace(" ", ""), "words of nobody"
        for writer, number in found:
            assert writer == self._writer_of(response), "written for another"
            assert self.contexts[writer] == self.contexts[response], "written from another context"
            assert writer not in self.stopped, "written by one that was stopped"
            self.said[response].append((writer, int(number)))

    def _check_whole(self, response: str) -> None:
        writer = self._writer_of(response)
        expected = [(writer, number) for number in self.accepted[writer]]
        assert self.said[response] == expected, "a piece is missing, double or out of place"

    def deliver(self, choice: int) -> None:
        """An engine answers, the newest questions first."""
        if not self.possible:
            return
        message = self.possible[-1 - choice % len(self.possible)]
        match message:
            case TextDelta(response_id=writer):
                message = TextDelta(writer, self._piece(writer) + " ")
            case FunctionCallDelta(response_id=writer):
                message = FunctionCallDelta(writer, 0, "", "look_up", self._piece(writer))
            case GenerationEnded(response_id=writer) | GenerationFailed(response_id=writer):
                self.possible = [other for other in self.possible if getattr(other, "response_id", "") != writer]
            case _:
                self.possible.remove(message)
        self.tell(message)

    def provide_context(self) -> None:
        """The session answers the newest question."""
        questions = [message for message in self.possible if isinstance(message, ContextProvided)]
        if questions:
            self.possible.remove(questions[-1])
            self.tell(questions[-1])

    def _piece(self, writer: str) -> str:
        """Return the writer's next piece, and note it if somebody still listens."""
        self.written_by[writer] += 1
        number = self.written_by[writer]
        listening = writer not in self.stopped and self._listens(writer)
        if listening:
            self.accepted[writer].append(number)
        return f"<{writer}:{number}>"

    def _listens(self, writer: str) -> bool:
        return self.machine.runs(writer) or writer == self.adopted.get(self.machine.active_response or "")


def perform(witness: Witness, step: tuple[str, int]) -> None:
    kind, a = step
    match kind:
        case "speak":
            witness.speak(60 + 20 * (a % 20))
        case "pause":
            witness.silence(200 + 20 * (a % 10))
        case "silence":
            witness.silence(20 * (1 + a % 60))
        case "long silence":
            witness.silence(600 + 20 * (a % 30))
        case "deliver":
            witness.deliver(a % 4)
        case "context":
            witness.provide_context()
        case "deliver any":
            witness.deliver(a)
        case "wait":
            witness.wait(10 * (a % 500))
        case "change":
            witness.context_changes += 1
        case "cancel":
            witness.cancel()
        case "create":
            witness.create(audio=bool(a % 2))
        case "beside":
            witness.create_out_of_band()
        case "clear":
            witness.clear()
        case "commit":
            witness.commit()
        case "give audio":
            witness.give_audio(witness.client_ids("given"), 24_000)
        case "configure":
            witness.configure(SETTINGS[a % len(SETTINGS)])
        case "looks":  # two interim looks agree on what the pause's words will not say
            if witness.promises.speaking is not None:
                for _ in range(2):
                    witness.tell(PartialTranscript(witness.promises.speaking.item_id, "YES please sir"))
        case "turn":  # what mostly happens, disturbed at a random place
            disturbance = DISTURBANCES[a % len(DISTURBANCES)]
            course = [
                "speak",
                "pause",
                "deliver",
                "context",
                "deliver",
                "deliver",
                "long silence",
                "context",
                "deliver",
            ]
            course.insert(a % len(course), disturbance)
            for number, each in enumerate(course):
                perform(witness, (each, a // 4 + number))


DISTURBANCES = ["deliver", "deliver", "tick", "change", "looks", "create", "cancel", "speak", "give audio", "configure"]
OFTEN = ["turn"] * 8 + ["deliver"] * 6 + ["speak", "pause", "silence"] * 2
RARE = [
    "deliver any",
    "wait",
    "change",
    "cancel",
    "create",
    "beside",
    "clear",
    "commit",
    "give audio",
    "configure",
    "looks",
]
STEPS = st.lists(st.tuples(st.sampled_from(OFTEN + RARE), st.integers(0, 999)), min_size=8, max_size=80)
NO_CHECKS = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


def check(settings: TurnSettings, steps: list[tuple[str, int]]) -> Counter[str]:
    """Run one interleaving; return what became of its speculations."""
    witness = Witness(settings)
    for step in steps:
        perform(witness, step)
        running = witness.machine.speculation is not None
        assert not running or witness.user is User.PAUSED or witness.machine.active_response, "nobody can adopt it"
    started = {event.response_id for event in witness.all(ResponseStarted)}
    outputs = witness.all(OutputTextDelta) + witness.all(OutputAudio) + witness.all(FunctionCallStarted)
    assert {output.response_id for output in outputs} <= started
    running = witness.fates["started"] - sum(count for fate, count in witness.fates.items() if fate != "started")
    assert running == (witness.machine.speculation is not None), "at most one runs, and each has one fate"
    return witness.fates


def test_nothing_of_a_dropped_answer_is_ever_said_whatever_the_interleaving() -> None:
    seen: Counter[str] = Counter()

    @given(st.sampled_from(SETTINGS), STEPS)
    @settings(max_examples=800, deadline=None, derandomize=True, database=None, suppress_health_check=NO_CHECKS)
    def run(turns: TurnSettings, steps: list[tuple[str, int]]) -> None:
        seen.update(check(turns, steps))

    run()
    # What chance tries depends a little on which modules are imported, so that rare fates are left to the scenarios.
    for fate in ("adopted", "resumed", "context_changed", "superseded", "failed"):
        assert seen[fate] >= 5, f"{fate} is hardly ever tried: {seen}"


@pytest.mark.long
@given(st.sampled_from(SETTINGS), STEPS)
@settings(max_examples=int(os.environ.get("EXAMPLES", "20000")), deadline=None, suppress_health_check=NO_CHECKS)
def test_nothing_of_a_dropped_answer_is_ever_said_in_a_long_run(
    turns: TurnSettings, steps: list[tuple[str, int]]
) -> None:
    check(turns, steps)
