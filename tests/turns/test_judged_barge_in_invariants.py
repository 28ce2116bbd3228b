"""Whatever is said over the agent, however late and odd the looks: what a judged barge-in promises holds."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.turns.actions import TranscribePartial
from gateway.turns.inputs import PartialTranscript
from gateway.turns.observations import OverlapJudged, OverlapVerdict
from gateway.turns.overlap_policy import HOLD
from gateway.turns.response import Output
from gateway.turns.settings import VAD_FRAME, BargeIn, Detection, TurnSettings
from gateway.turns.states import Agent, User
from protocol.audio_time import Samples
from protocol.backend_events import EndStatus, InputCommitted, PlayoutCut, ResponseEnded, SpeechStarted
from tests.simulation.conversation import Conversation

STORY = (
    "This is a long story about tea. It begins in the mountains. It ends in a cup. Nobody knows why it does so. " * 3
)
NODS = ("Mm-hm.", "Yeah.", "Right. Right.", "Okay", "Um.", "")
WORDS = ("Stop.", "Can you", "Yeah, but", "tomorrow morning", "red")
TURNS = (OverlapVerdict.INTERRUPTION, OverlapVerdict.ANSWER)


@dataclass(frozen=True)
class Sound:
    """A stretch of sound over the agent, and what the recogniser writes at each look at it (None: no answer)."""

    voiced_ms: int
    pause_ms: int
    probability: float
    level_dbfs: float
    echo: float
    looks: tuple[str | None, ...]
    look_ms: int


def sounds(
    *, words: tuple[str, ...], echo: st.SearchStrategy[float], answered: bool = False
) -> st.SearchStrategy[Sound]:
    looks = st.sampled_from(words) if answered else st.sampled_from((*words, None))
    return st.builds(
        Sound,
        voiced_ms=st.integers(40, 2_000),
        pause_ms=st.integers(20, 1_500),
        probability=st.sampled_from([0.55, 0.7, 0.9]),
        level_dbfs=st.sampled_from([-100.0, -20.0, -26.0, -50.0]),
        echo=echo,
        looks=st.lists(looks, min_size=1, max_size=6).map(tuple),
        look_ms=st.integers(20, 120) if answered else st.integers(0, 1_200),
    )


class Overlaps(Conversation):
    """A conversation whose looks say what the sound that goes on says, the last one again and again."""

    def __init__(self) -> None:
        super().__init__(TurnSettings(Detection(barge_in=BargeIn.JUDGED)), llm=STORY, piece_every_ms=5)
        self.sound: Sound | None = None
        self._taken = 0
        self._begin()

    def _begin(self) -> None:
        self.level_dbfs = -22.0
        self.speak(700)
        self.silence(500)
        while self.agent is not Agent.SPEAKING:
            self.silence(20)
        self.silence(900)

    def _perform(self, output: Output) -> None:
        if isinstance(output, TranscribePartial) and self.sound is not None:
            looks = self.sound.looks
            self.later(self.sound.look_ms, PartialTranscript(output.item_id, looks[min(self._taken, len(looks) - 1)]))
            self._taken += 1
            return
        super()._perform(output)

    def make(self, sound: Sound) -> None:
        self.sound, self._taken = sound, 0
        self.level_dbfs, self.echo = sound.level_dbfs, sound.echo
        self.audio(sound.voiced_ms, sound.probability)
        self.level_dbfs, self.echo = -100.0, 0.0
        self.silence(sound.pause_ms)

    def onsets(self) -> dict[str, Samples]:
        """Return the gateway time of the onset of each item that an overlap became."""
        return {judged.item_id: judged.onset for judged in self.all(OverlapJudged)}


NO_CHECKS = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
ANY = sounds(words=NODS + WORDS, echo=st.sampled_from([0.0, 0.0, 0.3, 0.49, 0.7]))
NO_FLOOR = sounds(words=NODS, echo=st.sampled_from([0.0, 0.3]), answered=True)
AGENT_ITSELF = sounds(words=NODS + WORDS, echo=st.sampled_from([0.5, 0.8, 1.0]))


@given(st.lists(ANY, min_size=1, max_size=6))
@settings(max_examples=120, deadline=None, derandomize=True, database=None, suppress_health_check=NO_CHECKS)
def test_a_turn_is_told_within_the_hold_or_after_a_verdict_that_it_is_none(made: list[Sound]) -> None:
    conversation = Overlaps()
    offset = conversation.now - conversation.machine.received
    for sound in made:
        conversation.make(sound)
    conversation.silence(1_500)
    refused: set[str] = set()
    told: set[str] = set()
    onsets = conversation.onsets()
    for timed in conversation.timeline:
        match timed.output:
            case OverlapJudged(item_id=item_id, verdict=verdict, onset=onset):
                first = item_id not in refused
                assert not first or timed.at - (onset + offset) <= HOLD + VAD_FRAME, "the verdict is late"
                assert item_id not in told, "judged after it was told"
                if verdict not in TURNS:
                    refused.add(item_id)
            case SpeechStarted(item_id=item_id, start=start):
                if item_id in onsets:
                    late = timed.at - (onsets[item_id] + offset) > HOLD + VAD_FRAME
                    assert not late or item_id in refused
                    assert start <= onsets[item_id] or item_id in refused, "a turn without its beginning"
                told.add(item_id)
            case InputCommitted(item_id=item_id):
                assert item_id in told, "nobody was told of it"
    changes = [(judged.item_id, judged.verdict) for judged in conversation.all(OverlapJudged) if judged.item_id]
    assert all(one != other for one, other in zip(changes, changes[1:], strict=False)), "told twice"
    assert conversation.user is User.SILENT
    assert conversation.machine.received - conversation.machine.needed_from <= 10 * 24_000


def nothing_happened(conversation: Overlaps) -> bool:
    turns, commits = conversation.all(SpeechStarted), conversation.all(InputCommitted)
    ends = {end.status for end in conversation.all(ResponseEnded)}
    return len(turns) == len(commits) == 1 and not conversation.all(PlayoutCut) and ends <= {EndStatus.COMPLETED}


@given(st.lists(NO_FLOOR, min_size=1, max_size=4))
@settings(max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=NO_CHECKS)
def test_nods_and_noise_leave_no_event_and_no_item(made: list[Sound]) -> None:
    conversation = Overlaps()
    for sound in made:
        conversation.make(sound)
    if conversation.machine._player.audible(conversation.now):  # else it was said into silence
        assert nothing_happened(conversation)


@given(st.lists(AGENT_ITSELF, min_size=1, max_size=4))
@settings(max_examples=40, deadline=None, derandomize=True, database=None, suppress_health_check=NO_CHECKS)
def test_the_agents_own_voice_leaves_no_event_and_no_item(made: list[Sound]) -> None:
    conversation = Overlaps()
    for sound in made:
        conversation.make(sound)
    if conversation.machine._player.audible(conversation.now):
        assert nothing_happened(conversation)
        assert not conversation.all(TranscribePartial)
        assert {judged.verdict for judged in conversation.all(OverlapJudged)} <= {OverlapVerdict.ECHO}


@given(st.integers(300, 900), st.integers(20, 70), st.integers(0, 31))
@settings(max_examples=40, deadline=None, derandomize=True, database=None)
def test_stop_is_obeyed_within_450_ms_wherever_it_falls(voiced_ms: int, look_ms: int, phase_ms: int) -> None:
    conversation = Overlaps()
    conversation.silence(phase_ms)
    began_at = conversation.now
    conversation.make(Sound(voiced_ms, 400, 0.9, -22.0, 0.0, ("Stop.",), look_ms))
    started = conversation.all(SpeechStarted)[1]
    assert conversation.at(started) - began_at <= 450 * 24
    assert len(conversation.all(PlayoutCut)) == 1
