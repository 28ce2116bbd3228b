"""The end of a turn: when a pause is asked about, and how much silence ends the turn, given what the judges say.

All numbers of the decision stand here. Judges say how probable it is that the turn is over; this page says what that is
worth and how long to wait for it. Pure: no state, no time but what is passed in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, log

from gateway.turns.settings import VAD_FRAME, Detection, Eagerness
from gateway.turns.user_turn import ASR_TAIL
from protocol.audio_time import Samples, samples_from_ms, samples_from_s

# --- when a pause is asked about -----------------------------------------------------------------------------------

ASK_AFTER: Samples = ASR_TAIL
"""Silence after which a pause is asked about, 128 ms. The recogniser's tail is complete then, so that the words of the
pause are the very words of a commit that follows; hardly a stop closure within a word lasts that long (60…100 ms in
phonetics' textbooks), and a judge that takes 130 ms has answered when the earliest end is due."""

WORDS_AHEAD_FROM: Samples = samples_from_ms(300)
"""Where silence alone ends turns, a pause is recognised ahead of its end only if that leaves the recogniser at least
some 100 ms (chosen: what it needs for a short sentence on one core)."""

WORDS_STEP: Samples = samples_from_ms(480)
WORDS_STEP_SHARE = 16
WORDS_LONGEST: Samples = samples_from_s(60)
"""Pauses of one utterance are recognised at least 480 ms apart, and a sixteenth of its length: a monologue with many
pauses is heard at most some 17 times over, about as often as interim looks hear 12 s of speech. None is recognised
ahead of the commit beyond a minute (chosen)."""

SOUND_TAIL: Samples = 3 * VAD_FRAME
"""Audio after the last voiced frame that the judges that listen get, 96 ms: Smart Turn tells ends from cuts worse with
every further 100 ms of silence (measured: AUC .92 without, .76 with 200 ms, .58 with 1 s)."""

SOUND_LONGEST: Samples = samples_from_s(8)
"""The last stretch of an utterance that judges listen to: Smart Turn's window."""

AGENT_WORDS = 300
"""The last characters of the agent that judges read before the user's words: two sentences (chosen)."""

LISTENERS = frozenset({"audio"})
"""The judges that listen; all others read. What a listener says holds for its pause, what a reader says for as long as
the words stay the same."""

AWAIT_JUDGES: Samples = samples_from_ms(500)
"""How long after a pause was asked about the judges are awaited (gateway clock): the recogniser's 95th percentile,
350 ms, and the slowest judge's 140 ms (turn-taking anchors, stage budget). After that those decide that have
answered; if none has, silence alone does. A later answer still counts."""


def recognises_pauses(detection: Detection) -> bool:
    """Return whether the words of a pause are asked for before it is known whether it ends the turn."""
    return detection.semantic is not None or detection.silence_duration >= WORDS_AHEAD_FROM


def words_step(length: Samples) -> Samples:
    """Return how far apart two recognitions of an utterance of `length` must lie at least."""
    return max(WORDS_STEP, length // WORDS_STEP_SHARE)


# --- what the judges' answers are worth ----------------------------------------------------------------------------

WEIGHTS: Mapping[str, float] = {"audio": 0.9, "probability": 0.5, "verdict": 0.8, "lexical": 0.3}
OTHER_WEIGHT = 0.5
"""Shares of each judge's log-odds in the sum. Those of `audio`, `probability` and `lexical` are near what logistic
regression gives on the judgements of TurnLab's dev half (390 pauses and ends, two synthetic voices, 2026-11-29); that
of `verdict` and of others is chosen. They add up to more than one because the judges see different things, and to less
than their number because they agree by nature."""

PRIOR = log(400 / 705)
"""Log-odds that a pause of 200 ms or more ends the turn, before anyone is asked: eot-bench's 400 ends beside 705
pauses. Judges are calibrated on as many of one kind as of the other."""

SUREST = 0.99
"""No single judge counts as surer than this (chosen): one broken judge must not outvote the others."""

BELIEVABLE = 0.4
"""From this probability on a pause is worth beginning the reply for (chosen, within the 0.3–0.9 that the
field uses for eager ends of turn): such an end is committed within a good second, or the user goes on."""


def fused(opinions: Mapping[str, float]) -> float | None:
    """Return the probability that the turn is over by all `opinions` (judge → 0…1); None if there is none.

    Judges that are left out pass their weight on, so that a single judge counts in full.
    """
    if not opinions:
        return None
    weights = {judge: WEIGHTS.get(judge, OTHER_WEIGHT) for judge in opinions}
    scale = max(1.0, 1.0 / sum(weights.values()))
    return _probability(PRIOR + scale * sum(weights[judge] * _log_odds(p) for judge, p in sorted(opinions.items())))


def _log_odds(probability: float) -> float:
    bounded = min(max(probability, 1 - SUREST), SUREST)
    return log(bounded / (1 - bounded))


def _probability(log_odds: float) -> float:
    return 1 / (1 + exp(-log_odds))


# --- how much silence ends a turn ----------------------------------------------------------------------------------

LIMITS: Mapping[Eagerness, Samples] = {
    Eagerness.LOW: samples_from_s(8),
    Eagerness.MEDIUM: samples_from_s(4),
    Eagerness.HIGH: samples_from_s(2),
}
"""The silence that ends a turn whatever the judges say (OpenAI: `eagerness`)."""

COMMIT_FROM: Samples = 8 * VAD_FRAME
"""The shortest silence at which a judged turn ends, 256 ms: four frames after it was asked about (chosen, within the
200–350 ms at which people answer and the best systems commit)."""

WAIT_LIMIT: Samples = samples_from_s(15)
"""How long a user who asked for time ("hold on a second") may be silent. Chosen: beyond the 10 s after which others
nudge a user who asked for long, and a line that stays silent for longer has no one on it."""

SURE_ODDS = 6.0
"""A turn ends when the odds of its end reach this: at most one end in seven is false where judges are calibrated.
On TurnLab's dev half medium eagerness then cuts 24 % of the pauses, of which 500 ms of silence cuts 62 %, and answers
60 ms sooner in the mean (2026-11-29). Odds of 4 would cut one in five more of those, and answer another 40 ms sooner.
"""

SHORTEST_PAUSE: Samples = samples_from_ms(200)
PAUSE_TAIL = 1.43
"""Of the pauses within a turn that last 200 ms, the share that lasts longer than s falls as (s / 200 ms)^−1.43: fits
eot-bench's silence-only row (55.6 % at 300 ms, 21.7 % at 600 ms, 10 % at 1 s, 5 % at 1.6 s) within a tenth."""


def share_of_longer_pauses(silence: Samples) -> float:
    """Return the share of pauses within a turn that last longer than `silence`, of those of 200 ms or more."""
    return 1.0 if silence <= SHORTEST_PAUSE else float((silence / SHORTEST_PAUSE) ** -PAUSE_TAIL)


def threshold(silence: Samples, eagerness: Eagerness, pace: float = 1.0) -> float:
    """Return the probability from which a pause that has lasted `silence` ends the turn; 0 from the limit on.

    Bayes' rule: the longer the silence, the fewer pauses within a turn are left that it could be, and the less the
    judges need to say. The more eager, the faster time runs on this curve, which is the same for all. `pace`: how much
    longer than usual this speaker's pauses are (1 or more); it never raises the threshold above that of a sure end.
    """
    limit = LIMITS[eagerness]
    if silence >= limit:
        return 0.0
    felt = round(silence * LIMITS[Eagerness.MEDIUM] / limit / pace)
    odds = SURE_ODDS * share_of_longer_pauses(felt) * (1 - silence / limit)
    return odds / (1 + odds)


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known about whether a pause ends the turn.

    `opinions`: judge → probability. `awaited`: a judge that has not answered may still be waited for. `wordless`: the
    recogniser understood nothing. `wait`: the user asked for time. `pace`: as in `threshold`.
    """

    opinions: Mapping[str, float]
    awaited: bool = False
    wordless: bool = False
    wait: bool = False
    pace: float = 1.0

    @property
    def complete(self) -> float | None:
        """The probability that the turn is over; None where nobody judged or there is nothing to judge."""
        return None if self.wordless else fused(self.opinions)


def silence_needed(evidence: Evidence, detection: Detection) -> Samples:
    """Return the silence that ends the turn as things stand. `detection.semantic` None: silence alone decides."""
    eagerness = detection.semantic
    if eagerness is None:
        return detection.silence_duration
    if evidence.wait:
        return WAIT_LIMIT
    limit = LIMITS[eagerness]
    if evidence.awaited and not evidence.wordless:
        return limit
    complete = evidence.complete
    if complete is None:
        return min(detection.silence_duration, limit)
    return _silence_until(complete, eagerness, evidence.pace)


def _silence_until(complete: float, eagerness: Eagerness, pace: float) -> Samples:
    """Return the shortest silence at which `complete` reaches the threshold, to the sample."""
    if complete >= threshold(COMMIT_FROM, eagerness, pace):
        return COMMIT_FROM
    short, enough = COMMIT_FROM, LIMITS[eagerness]
    while enough - short > 1:
        middle = (short + enough) // 2
        if complete >= threshold(middle, eagerness, pace):
            enough = middle
        else:
            short = middle
    return enough


def decided_by(evidence: Evidence, silence: Samples, detection: Detection) -> str:
    """Return who ended the turn after `silence`: a judge's name, `fusion`, `silence` or `limit`."""
    if detection.semantic is None:
        return "silence"
    if evidence.wait or silence >= LIMITS[detection.semantic]:
        return "limit"
    if evidence.complete is None:
        return "silence"
    return judged_by(evidence)


def judged_by(evidence: Evidence) -> str:
    """Return whose opinion it is: the only judge's name, or `fusion`."""
    return next(iter(evidence.opinions)) if len(evidence.opinions) == 1 else "fusion"
