import pytest

from clients.turnlab.presenting import Presented
from clients.turnlab.scoring import GOING_ON, cut_offs, delays, outcomes, pauses_by, weighted_cut_offs
from clients.turnlab.stimuli import PAUSE_WEIGHTS, Pause, Stimulus
from clients.turnlab.texts import card
from protocol.audio_time import Samples, samples_from_ms

END = samples_from_ms(3000)
PAUSE = Pause(samples_from_ms(1000), samples_from_ms(1800), "function", 2)


def presented(*taken_ms: float, pauses: tuple[Pause, ...] = (PAUSE,), text: str = "one") -> Presented:
    stimulus = Stimulus(text, card("question", text), "tone", -20.0, False, b"", END, pauses)
    return Presented(stimulus, tuple(round(ms * 24) for ms in taken_ms))


def test_a_turn_taken_within_a_pause_is_a_false_cut_off() -> None:
    found = outcomes([presented(1500, 3400)])
    assert [pause.cut_off for pause in found.pauses] == [True]
    assert [(end.delay, end.intact) for end in found.ends] == [(samples_from_ms(400), False)]
    assert found.elsewhere == 0


@pytest.mark.parametrize(
    ("at", "cut_off", "elsewhere"),
    [
        (PAUSE.start, False, 1),
        (PAUSE.start + 1, True, 0),
        (PAUSE.end + GOING_ON, True, 0),
        (PAUSE.end + GOING_ON + 1, False, 1),
    ],
)
def test_a_pause_lasts_until_its_end_could_be_heard(at: Samples, cut_off: bool, elsewhere: int) -> None:
    found = outcomes([Presented(presented().stimulus, (at,))])
    assert ([pause.cut_off for pause in found.pauses], found.elsewhere) == ([cut_off], elsewhere)


def test_the_delay_runs_from_the_last_sample_of_speech_to_the_first_turn_taken_after_it() -> None:
    (end,) = outcomes([presented(3250, 3900)]).ends
    assert (end.delay, end.intact) == (samples_from_ms(250), True)


def test_a_turn_taken_at_the_very_end_is_early() -> None:
    (end,) = outcomes([presented(3000)]).ends
    assert (end.delay, end.intact) == (None, False)


def test_an_end_that_nobody_answered_is_counted_and_has_no_delay() -> None:
    found = delays(outcomes([presented(), presented(3500)]).ends)
    assert (found.ends, found.unanswered, found.mean_ms.value) == (1, 1, 500)


def test_two_pauses_of_one_utterance_are_two_chances() -> None:
    second = Pause(samples_from_ms(2000), samples_from_ms(2400), "function", 1)
    found = outcomes([presented(2300, 3400, pauses=(PAUSE, second))])
    assert [pause.cut_off for pause in found.pauses] == [False, True]
    assert cut_offs(found.pauses).rate.value == 0.5


def test_the_weighted_rate_counts_pauses_as_often_as_calls_have_them() -> None:
    short = Pause(samples_from_ms(1000), samples_from_ms(1250), "function", 0)
    long = Pause(samples_from_ms(1000), samples_from_ms(2900), "function", 4)
    runs = [presented(pauses=(short,), text="a"), presented(1500, pauses=(long,), text="b")]
    rate = weighted_cut_offs(outcomes(runs).pauses).value
    assert rate == pytest.approx(PAUSE_WEIGHTS[4] / (PAUSE_WEIGHTS[0] + PAUSE_WEIGHTS[4]))


def test_pauses_are_grouped_by_their_length_the_shortest_first() -> None:
    short = Pause(samples_from_ms(1000), samples_from_ms(1250), "content", 0)
    grouped = pauses_by(outcomes([presented(1500), presented(pauses=(short,))]))
    assert list(grouped["pause"]) == ["200–300 ms", "600–1000 ms"]
    assert grouped["after"]["function"].cut_off == 1
    assert grouped["after"]["content"].cut_off == 0
