"""False cut-offs and endpointing delay of presented stimuli (turn-taking.md §3: M1, M2). Pure.

M1: a response is committed within a pause, or before speech has been seen to go on after it. M2: from the last sample
of the user's speech to the response's commit, timeouts included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from clients.turnlab.presenting import Presented
from clients.turnlab.statistics import Interval, bootstrap, mean, quantile, wilson
from clients.turnlab.stimuli import PAUSE_STRATA_MS, PAUSE_WEIGHTS, Pause, Stimulus
from protocol.audio_time import Samples, samples_from_ms

GOING_ON: Samples = samples_from_ms(100)
"""A response committed this soon after a pause belongs to it: a VAD needs two frames to see that speech goes on."""


@dataclass(frozen=True, slots=True)
class PauseOutcome:
    """A pause, and whether the turn was taken in it."""

    stimulus: Stimulus
    pause: Pause
    cut_off: bool


@dataclass(frozen=True, slots=True)
class EndOutcome:
    """The end of an utterance: how long the answer took, None if none came. `intact`: nothing was cut off before."""

    stimulus: Stimulus
    delay: Samples | None
    intact: bool


@dataclass(frozen=True, slots=True)
class Outcomes:
    """All pauses and ends of a run. `elsewhere`: turns taken before the end, in no pause of ours: the voice's own."""

    pauses: tuple[PauseOutcome, ...]
    ends: tuple[EndOutcome, ...]
    elsewhere: int


def outcomes(presented: Sequence[Presented]) -> Outcomes:
    """Return what became of each pause and each end."""
    pauses: list[PauseOutcome] = []
    ends: list[EndOutcome] = []
    elsewhere = 0
    for one in presented:
        stimulus = one.stimulus
        early = [at for at in one.taken_at if at <= stimulus.speech_end]
        late = [at for at in one.taken_at if at > stimulus.speech_end]
        explained: set[Samples] = set()
        for pause in stimulus.pauses:
            inside = {at for at in early if pause.start < at <= pause.end + GOING_ON}
            explained |= inside
            pauses.append(PauseOutcome(stimulus, pause, bool(inside)))
        elsewhere += len(set(early) - explained)
        ends.append(EndOutcome(stimulus, late[0] - stimulus.speech_end if late else None, not early))
    return Outcomes(tuple(pauses), tuple(ends), elsewhere)


@dataclass(frozen=True, slots=True)
class CutOffs:
    """Of `pauses` pauses, `cut_off` were taken for the end; `rate` with Wilson's interval."""

    pauses: int
    cut_off: int
    rate: Interval


@dataclass(frozen=True, slots=True)
class Delays:
    """Milliseconds from the last word to the commit, over the `ends` that were answered; `unanswered` were not."""

    ends: int
    unanswered: int
    mean_ms: Interval
    p50_ms: Interval
    p95_ms: Interval


def cut_offs(found: Sequence[PauseOutcome]) -> CutOffs:
    """Return the false cut-off rate, each pause counting the same."""
    count = sum(outcome.cut_off for outcome in found)
    return CutOffs(len(found), count, wilson(count, len(found)))


def weighted_cut_offs(found: Sequence[PauseOutcome]) -> Interval:
    """Return the false cut-off rate with pauses as frequent by their length as in real calls (PAUSE_WEIGHTS)."""
    dealt = [outcome for outcome in found if outcome.pause.stratum is not None]
    return bootstrap(dealt, _text, _weighted_rate)


def _weighted_rate(found: Sequence[PauseOutcome]) -> float:
    total = weights = 0.0
    for stratum, weight in enumerate(PAUSE_WEIGHTS):
        inside = [outcome.cut_off for outcome in found if outcome.pause.stratum == stratum]
        if inside:
            total += weight * mean(inside)
            weights += weight
    return total / weights if weights else float("nan")


def delays(found: Sequence[EndOutcome]) -> Delays:
    """Return the endpointing delay over `found`, with bootstrap intervals over texts."""
    answered = [outcome for outcome in found if outcome.delay is not None]

    def over(statistic: Callable[[Sequence[float]], float]) -> Interval:
        return bootstrap(answered, _text, lambda drawn: statistic(_ms(drawn)))

    return Delays(
        len(answered),
        len(found) - len(answered),
        over(mean),
        over(lambda values: quantile(values, 0.5)),
        over(lambda values: quantile(values, 0.95)),
    )


def _ms(found: Sequence[EndOutcome]) -> list[float]:
    return [outcome.delay / samples_from_ms(1) for outcome in found if outcome.delay is not None]


def _text(outcome: PauseOutcome | EndOutcome) -> str:
    return outcome.stimulus.card.text


def pauses_by(outcomes: Outcomes) -> dict[str, dict[str, CutOffs]]:
    """Return the false cut-off rates by length and kind of the pause, lengthening, voice and level."""
    return {
        "pause": _grouped(outcomes.pauses, lambda found: _length(found.pause)),
        "after": _grouped(outcomes.pauses, lambda found: found.pause.kind),
        "last word": _grouped(outcomes.pauses, lambda found: "lengthened" if found.stimulus.lengthened else "as said"),
        "voice": _grouped(outcomes.pauses, lambda found: found.stimulus.voice),
        "level": _grouped(outcomes.pauses, lambda found: f"{found.stimulus.level_dbfs:.0f} dBFS"),
    }


def _length(pause: Pause) -> str:
    if pause.stratum is None:
        return "between groups"
    low, high = PAUSE_STRATA_MS[pause.stratum]
    return f"{low}–{high} ms"


def _grouped(found: Sequence[PauseOutcome], by: Callable[[PauseOutcome], str]) -> dict[str, CutOffs]:
    groups: dict[str, list[PauseOutcome]] = {}
    for outcome in found:
        groups.setdefault(by(outcome), []).append(outcome)
    return {name: cut_offs(group) for name, group in sorted(groups.items(), key=lambda entry: _order(entry[0]))}


def _order(name: str) -> tuple[int, str]:
    digits = name.split("–")[0]
    return (int(digits) if digits.isdigit() else 10**6, name)


def ends_by(outcomes: Outcomes) -> dict[str, dict[str, Delays]]:
    """Return the delays of whole utterances by voice, level and kind of text."""
    whole = [outcome for outcome in outcomes.ends if not outcome.stimulus.pauses]
    by: dict[str, Callable[[EndOutcome], str]] = {
        "voice": lambda found: found.stimulus.voice,
        "level": lambda found: f"{found.stimulus.level_dbfs:.0f} dBFS",
        "text": lambda found: found.stimulus.card.kind,
    }
    result = {}
    for name, key in by.items():
        groups: dict[str, list[EndOutcome]] = {}
        for outcome in whole:
            groups.setdefault(key(outcome), []).append(outcome)
        result[name] = {group: delays(members) for group, members in sorted(groups.items())}
    return result
