"""What the machine saw and decided, and why: for those who watch a session. Nothing follows from it.

Observations stand in the machine's list at the place where the decision was taken. They carry no audio; words only
where a decision hangs on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from protocol.audio_time import Samples


class PauseVerdict(StrEnum):
    """What became of a pause."""

    COMMIT = "commit"
    HOLD = "hold"
    WAIT = "wait"
    RESUMED = "resumed"


@dataclass(frozen=True, slots=True)
class PauseJudged:
    """A decision about pause number `pause` of the utterance `item_id`, after `silence` of it.

    `by`: who decided: a judge's name, `fusion`, `silence`, `limit` (the eagerness limit), `length` (the longest turn),
    `voice` (the user's, who goes on). A pause too short to be asked about bears the number of the one before.
    `complete`: the fused probability that the turn is over, None where nobody judged; `threshold`: what it was held
    against at this silence.
    """

    item_id: str
    pause: int
    verdict: PauseVerdict
    by: str
    silence: Samples
    complete: float | None = None
    threshold: float | None = None


class OverlapVerdict(StrEnum):
    """What the user's voice over the agent's was judged to be."""

    INTERRUPTION = "interruption"
    BACKCHANNEL = "backchannel"
    NOISE = "noise"
    ECHO = "echo"
    TOO_EARLY = "too_early"
    """Within the grace at the start of a reply."""
    NOT_ALLOWED = "not_allowed"
    """Barge-in is off."""
    ANSWER = "answer"
    """It began over the agent's last words and is the user's turn."""


@dataclass(frozen=True, slots=True)
class OverlapJudged:
    """A decision about the sound that began over the agent's voice at `onset` (input clock), after `held`.

    `reason`: one of a few fixed phrases. `voiced`: how much of it was speech. `level_db`: above (or below) the
    speaker's own level, None if that is not known yet. `echo`: the mean share that the agent's own audio explains.
    `words`: what the recogniser has heard so far, None if it has not answered. `item_id`: the item that it becomes if
    it becomes a turn, "" where it cannot.
    """

    onset: Samples
    verdict: OverlapVerdict
    reason: str
    held: Samples
    voiced: Samples
    level_db: float | None
    echo: float
    words: str | None
    item_id: str = ""


class SpeculationFate(StrEnum):
    """What became of a reply that was begun before the turn was over."""

    STARTED = "started"
    ADOPTED = "adopted"
    DROPPED = "dropped"


class DropReason(StrEnum):
    """Why a speculative reply was dropped."""

    RESUMED = "resumed"
    """The user went on."""
    TRANSCRIPT_CHANGED = "transcript_changed"
    """The recogniser heard other words."""
    CONTEXT_CHANGED = "context_changed"
    """The conversation or its settings are not what they were."""
    CANCELLED = "cancelled"
    """The turn got no answer, or not this one: its input was cleared, its response ended."""
    SUPERSEDED = "superseded"
    """Another response, or the answer to another utterance, came first."""
    FAILED = "failed"
    """The language model failed or was silent for too long."""
    TOO_LONG = "too_long"
    """It outgrew the longest reply."""


@dataclass(frozen=True, slots=True)
class Speculated:
    """A speculative reply to the utterance `item_id` was started, adopted by `response_id`, or dropped and why."""

    speculation_id: str
    item_id: str
    fate: SpeculationFate
    response_id: str = ""
    reason: DropReason | None = None


@dataclass(frozen=True, slots=True)
class LanguagesKnown:
    """The user is taken to speak `user` from now on, the agent to answer in `reply` (primary subtags, "" unknown).

    `detected`: the recogniser found the user's; else the session was told.
    """

    user: str
    reply: str
    detected: bool


Observation = PauseJudged | OverlapJudged | Speculated | LanguagesKnown
