"""Responses cut out of scripted streams whose truth is known: levels that jitter, frames of any length."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.turns.duplex_segments import (
    LIVENESS,
    PREROLL,
    TEXT_TAIL,
    ClosedBy,
    DuplexSegments,
    ModelFrame,
    OpenedBy,
    SegmentAudio,
    SegmentClosed,
    SegmentOpened,
    SegmentOutput,
    SegmentText,
)
from gateway.turns.sound_gate import HANGOVER
from protocol.audio_time import Samples, samples_from_ms, samples_from_s

SILENCE, VOICE = 0.0015, 0.05
FRAMES_MS = (20, 40, 80)
JITTERS = (0.05, 0.30)


@dataclass
class Stream:
    """Plays spans of sound to a splitter and keeps what it says, with the time at which it said it."""

    frame_ms: int = 80
    jitter: float = 0.05
    segments: DuplexSegments = field(default_factory=DuplexSegments)
    told: list[tuple[Samples, SegmentOutput]] = field(default_factory=list)
    now: Samples = 0
    dice: random.Random = field(default_factory=lambda: random.Random(7))

    def play(self, ms: int, level: float, *, text: str = "", takes: bool = False, yields: bool = False) -> Samples:
        """Play `ms` of sound, with `text` a word a frame; marks come in its first frame. Return where it began."""
        began, words = self.now, text.split()
        for number in range(ms // self.frame_ms):
            frame = ModelFrame(
                samples_from_ms(self.frame_ms),
                abs(level * (1 + self.jitter * self.dice.uniform(-1, 1))),
                text=words[number] + " " if number < len(words) else "",
                takes_floor=takes and number == 0,
                yields_floor=yields and number == 0,
            )
            self.now += frame.samples
            self.told += [(self.now, output) for output in self.segments.hear(frame)]
        return began

    def cut(self) -> None:
        self.told += [(self.now, output) for output in self.segments.cut()]

    def all(self, kind: type) -> list:
        return [output for _, output in self.told if isinstance(output, kind)]

    def turns(self) -> Iterator[tuple[SegmentOpened, SegmentClosed]]:
        yield from zip(self.all(SegmentOpened), self.all(SegmentClosed), strict=True)


def near(stream: Stream, found: Samples, truth: Samples) -> bool:
    return abs(found - truth) <= 2 * samples_from_ms(stream.frame_ms)


every_stream = pytest.mark.parametrize(
    ("frame_ms", "jitter"), [(frame_ms, jitter) for frame_ms in FRAMES_MS for jitter in JITTERS]
)


@every_stream
def test_a_turn_with_marks_is_one_response_from_mark_to_quiet(frame_ms: int, jitter: float) -> None:
    stream = Stream(frame_ms, jitter)
    stream.play(1_600, SILENCE)
    begins = stream.play(160, SILENCE, text="well", takes=True)
    stream.play(1_600, VOICE, text="this is a reply")
    stream.play(400, SILENCE)
    ends = stream.play(1_200, VOICE, text="of two sentences")
    stream.play(80, VOICE, yields=True)
    ends = stream.now
    stream.play(2_400, SILENCE)
    ((opened, closed),) = stream.turns()
    assert (opened.by, closed.by, closed.spoken) == (OpenedBy.FLOOR, ClosedBy.FLOOR, True)
    assert near(stream, opened.start, begins)
    assert near(stream, closed.end, ends)
    assert near(stream, closed.voiced_until, ends)
    assert "".join(said.text for said in stream.all(SegmentText)).split() == (
        "well this is a reply of two sentences".split()
    )


@every_stream
def test_a_model_without_marks_is_cut_by_its_text_and_its_sound(frame_ms: int, jitter: float) -> None:
    stream = Stream(frame_ms, jitter)
    stream.play(1_600, SILENCE)
    for _ in range(3):
        begins = stream.play(1_600, VOICE, text="so it goes")
        ends = stream.now
        stream.play(2_400, SILENCE)
        opened, closed = list(stream.turns())[-1]
        assert (opened.by, closed.by) == (OpenedBy.TEXT, ClosedBy.QUIET)
        assert near(stream, opened.start, begins)
        assert near(stream, closed.voiced_until, ends)
        assert near(stream, closed.end, ends + TEXT_TAIL)
    assert len(stream.all(SegmentOpened)) == 3


@every_stream
@pytest.mark.parametrize("marks", [True, False])
def test_speech_from_the_first_frame_is_a_response(frame_ms: int, jitter: float, *, marks: bool) -> None:
    stream = Stream(frame_ms, jitter)
    stream.play(1_600, VOICE, text="hello and welcome" if marks else "", takes=marks)
    if marks:
        stream.play(80, SILENCE, yields=True)
    ends = samples_from_ms(1_600)
    stream.play(2_400, SILENCE)
    ((opened, closed),) = stream.turns()
    assert near(stream, opened.start, 0)
    assert near(stream, next(at for at, output in stream.told if isinstance(output, SegmentOpened)), 0)
    assert near(stream, closed.voiced_until, ends)
    assert near(stream, closed.end, ends + (0 if marks else HANGOVER))


@every_stream
def test_a_backchannel_is_heard_and_has_no_text(frame_ms: int, jitter: float) -> None:
    stream = Stream(frame_ms, jitter)
    stream.play(4_000, SILENCE)
    begins = stream.play(320, VOICE)
    ends = stream.now
    stream.play(2_400, SILENCE)
    ((opened, closed),) = stream.turns()
    assert (opened.by, closed.by, closed.spoken) == (OpenedBy.SOUND, ClosedBy.BACKCHANNEL, False)
    assert begins - PREROLL <= opened.start <= begins
    assert near(stream, closed.end, ends + HANGOVER)
    assert stream.all(SegmentText) == []
    voiced = sum(audio.end - audio.start for audio in stream.all(SegmentAudio) if audio.voiced)
    assert near(stream, voiced, samples_from_ms(320))


@every_stream
def test_ten_minutes_are_cut_as_the_first_one_is(frame_ms: int, jitter: float) -> None:
    stream = Stream(frame_ms, jitter)
    stream.play(2_000, SILENCE)
    expected = []
    for number in range(60):
        nods = number % 3 == 2
        begins = stream.play(
            400 if nods else 3_200, VOICE, text="" if nods else "a reply of some length", takes=not nods
        )
        ends = stream.now
        stream.play(80, SILENCE, yields=not nods)
        stream.play(samples_to_ms(samples_from_s(10) * (number + 1) + samples_from_s(2) - stream.now), SILENCE)
        expected.append((begins, ends + (HANGOVER if nods else 0)))
    assert stream.now == samples_from_s(602)
    found = list(stream.turns())
    assert len(found) == 60
    for (opened, closed), (begins, ends) in zip(found, expected, strict=True):
        assert near(stream, closed.end, ends)
        assert near(stream, opened.start + (PREROLL if opened.by is OpenedBy.SOUND else 0), begins)
    told = {
        kind: [at for at, output in stream.told if isinstance(output, kind)] for kind in (SegmentOpened, SegmentClosed)
    }
    for told_open, told_closed, (begins, ends) in zip(told[SegmentOpened], told[SegmentClosed], expected, strict=True):
        assert near(stream, told_open, begins)
        assert near(stream, told_closed, ends)
    texts = [[]]
    for _, output in stream.told:
        if isinstance(output, SegmentText):
            texts[-1].append(output.text)
        elif isinstance(output, SegmentClosed):
            texts.append([])
    assert [len(words) for words in texts] == [5, 5, 0] * 20 + [0]


def samples_to_ms(samples: Samples) -> int:
    return samples // samples_from_ms(1)


@pytest.mark.parametrize("frame_ms", FRAMES_MS)
def test_the_tail_of_a_closed_response_opens_no_second_one(frame_ms: int) -> None:
    stream = Stream(frame_ms)
    stream.play(1_600, SILENCE)
    stream.play(1_600, VOICE, text="goodbye", takes=True)
    stream.play(80, SILENCE, yields=True)
    stream.play(240, 3.2 * SILENCE)  # a breath, just loud enough to open
    stream.play(3_200, SILENCE)
    assert [closed.by for closed in stream.all(SegmentClosed)][:1] == [ClosedBy.FLOOR]
    assert all(closed.by is ClosedBy.BACKCHANNEL for closed in stream.all(SegmentClosed)[1:])


def test_a_model_that_takes_the_floor_anew_ends_what_it_said_before() -> None:
    stream = Stream()
    stream.play(800, SILENCE)
    stream.play(1_600, VOICE, text="one thing", takes=True)
    begins = stream.play(1_600, VOICE, text="another thing", takes=True)
    stream.play(80, SILENCE, yields=True)
    stream.play(1_600, SILENCE)
    (_, first), (second, last) = stream.turns()
    assert (first.by, first.end, second.start, last.by) == (ClosedBy.NEXT, begins, begins, ClosedBy.FLOOR)


def test_a_nod_that_was_over_is_no_part_of_the_turn_that_follows() -> None:
    stream = Stream()
    stream.play(1_600, SILENCE)
    stream.play(320, VOICE)
    stream.play(240, SILENCE)
    began = stream.play(800, VOICE, text="I see that", takes=True)
    closed = stream.all(SegmentClosed)[0]
    assert (closed.by, closed.end, closed.spoken) == (ClosedBy.BACKCHANNEL, began, False)
    assert [opened.by for opened in stream.all(SegmentOpened)] == [OpenedBy.SOUND, OpenedBy.FLOOR]


def test_sound_that_leads_into_the_models_mark_is_part_of_its_turn() -> None:
    stream = Stream()
    stream.play(1_600, SILENCE)
    stream.play(160, VOICE)
    stream.play(800, VOICE, text="I see that", takes=True)
    assert [opened.by for opened in stream.all(SegmentOpened)] == [OpenedBy.SOUND]


def test_a_response_of_which_nothing_is_heard_ends_after_three_seconds() -> None:
    stream = Stream()
    stream.play(800, SILENCE)
    begins = stream.play(80, SILENCE, text="hm", takes=True)
    stream.play(4_000, SILENCE)
    ((_, closed),) = stream.turns()
    assert (closed.by, closed.spoken) == (ClosedBy.STALLED, True)
    assert near(stream, closed.end, begins + LIVENESS)


def test_what_is_cut_stays_silent_until_the_model_is_quiet() -> None:
    stream = Stream()
    stream.play(800, SILENCE)
    stream.play(800, VOICE, text="a long story", takes=True)
    stream.cut()
    stream.play(1_600, VOICE, text="that goes on and on")
    assert stream.all(SegmentClosed)[-1].by is ClosedBy.CUT
    assert not stream.segments.is_open
    stream.play(800, SILENCE)
    begins = stream.play(800, VOICE, text="yes")
    assert stream.segments.is_open
    assert stream.segments.voiced
    assert stream.all(SegmentOpened)[-1].start == begins
    assert len(stream.all(SegmentOpened)) == 2


@pytest.mark.parametrize("takes", [True, False])
def test_what_is_cut_ends_with_the_models_own_mark(*, takes: bool) -> None:
    stream = Stream()
    stream.play(800, VOICE, text="a long story", takes=True)
    stream.cut()
    stream.cut()
    stream.play(80, VOICE, takes=takes, yields=not takes)
    assert stream.segments.is_open is takes
    stream.play(800, SILENCE)
    stream.play(400, VOICE, text="next")
    assert len(stream.all(SegmentOpened)) == (3 if takes else 2)


def test_what_is_cut_and_turns_into_noise_that_stays_does_not_mute_the_model_for_ever() -> None:
    stream = Stream()
    stream.play(800, SILENCE)
    stream.play(800, VOICE, text="a long story", takes=True)
    stream.cut()
    stream.play(1_600, VOICE, text="that goes on and on")
    stream.play(20_000, 0.01)
    assert len(stream.all(SegmentOpened)) == 1
    begins = stream.play(800, 4 * VOICE, text="yes")
    assert stream.all(SegmentOpened)[-1].start == begins


def test_noise_that_begins_and_stays_is_no_endless_response() -> None:
    stream = Stream(jitter=0.3)
    stream.play(4_000, SILENCE)
    stream.play(60_000, 0.01)
    assert stream.all(SegmentClosed) != []
    assert not stream.segments.is_open
    stream.play(1_600, 10 * VOICE, text="still understood", takes=True)
    stream.play(80, 0.01, yields=True)
    assert stream.all(SegmentClosed)[-1].by is ClosedBy.FLOOR


def test_a_response_that_ends_in_noise_is_closed_by_its_mark() -> None:
    stream = Stream()
    stream.play(800, SILENCE)
    stream.play(1_600, VOICE, text="so much for that", takes=True)
    ends = stream.play(8_000, VOICE, yields=True)
    closed = stream.all(SegmentClosed)[0]
    assert closed.by is ClosedBy.FLOOR
    assert closed.end <= ends + LIVENESS


# --- what holds for any stream --------------------------------------------------------------------------------------

frames = st.builds(
    ModelFrame,
    samples=st.sampled_from([480, 960, 1_920]),
    rms=st.sampled_from([0.0, 0.001, 0.0015, 0.004, 0.05, 0.5]),
    text=st.sampled_from(["", "", "", "word "]),
    takes_floor=st.sampled_from([False, False, False, True]),
    yields_floor=st.sampled_from([False, False, False, True]),
)


@settings(max_examples=300)
@given(st.lists(st.one_of(frames, st.none()), max_size=300))
def test_responses_open_and_close_in_turn_and_hold_each_sample_once(stream: list[ModelFrame | None]) -> None:
    segments = DuplexSegments()
    told = [output for frame in stream for output in (segments.cut() if frame is None else segments.hear(frame))]
    is_open, reached = False, 0
    for output in told:
        match output:
            case SegmentOpened(start=start):
                assert not is_open
                assert start >= reached
                is_open, reached = True, start
            case SegmentAudio(start=start, end=end):
                assert is_open
                assert start == reached < end
                reached = end
            case SegmentText(text=text):
                assert is_open
                assert text
            case SegmentClosed(end=end, voiced_until=voiced_until):
                assert is_open
                assert voiced_until <= reached == end
                is_open = False
    assert is_open is segments.is_open
