"""When the user's voice over the agent's is an interruption: the policy and its numbers, apart from all bookkeeping.

Measured with Silero and Moonshine tiny on a synthetic voice, synthetic coughs and hums (2026-11): one-word commands and
nods have 288 ms of voiced frames or more and are right in the look at their first 224 ms ("Stop.", "Wait.", "Yeah."),
longer words only from 352 ms on ("Can't." became "Cancel.", "X." "Excuse me."). A voiced cough has 128–192 ms, and the
recogniser writes "You know?" or "Uh-huh" for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.turns.observations import OverlapVerdict
from gateway.turns.overlap_words import read_words
from protocol.audio_time import Samples, samples_from_ms, samples_from_s

HOLD: Samples = samples_from_ms(500)
"""The longest time from an onset to its first verdict (design §5)."""

LOOK_FIRST: Samples = samples_from_ms(224)
LOOK_STEP: Samples = samples_from_ms(128)
LOOK_EARLY_UNTIL: Samples = samples_from_s(1)
LOOK_STEP_LATE: Samples = samples_from_ms(480)
LOOK_SLACK: Samples = samples_from_ms(64)
"""Looks at an overlap: the first as soon as a short word is recognised (measured, above), then so that the hold sees a
second one answered, two a second beyond its first second; an answer counts as covering the voice for one step and two
VAD frames more."""

WINDOW: Samples = samples_from_s(1)
"""Voice further back than this no longer speaks for or against what goes on now (chosen)."""

KEPT: Samples = samples_from_s(3)
"""A refused overlap that goes on keeps this much of its audio, and a look covers no more (chosen)."""

OVER_AFTER: Samples = samples_from_ms(300)
"""Silence after which an overlap is over: the default prefix padding of what follows reaches back to its end."""

LINGER: Samples = samples_from_s(1)
"""How much longer an overlap waits for a look at it that is under way (chosen: a recogniser on another machine)."""

STOP_VOICED: Samples = samples_from_ms(192)
STOP_PROBABILITY = 0.6
WORDS_VOICED: Samples = samples_from_ms(224)
WORDS_PROBABILITY = 0.7
"""Words are believed where there was voice enough to say them (measured, above) that the VAD takes for speech (0.7:
the usual start threshold of other frameworks)."""

ONE_WORD_LOOK: Samples = samples_from_ms(320)
"""A single word is believed from a look at this much, or at all there is (measured, above)."""

SUSTAINED: Samples = samples_from_ms(448)
SUSTAINED_UNHEARD: Samples = samples_from_ms(400)
"""Voice that is an interruption without words: half a second, as is usual, less the one or two frames that dip; a
little less where no recogniser has said anything, since cutting in is the safer error then."""

SIDE_TALK_DB = -15.0
"""So far below the speaker's own level somebody else speaks, or a loudspeaker (chosen: twice the distance is −6 dB)."""

ECHO_SHARE = 0.5
"""Sound of which the agent's own audio explains at least half is the agent's."""

ECHO_TAIL: Samples = samples_from_ms(500)
"""Echo of the agent's last words may arrive this late (50–400 ms, and the error of the virtual player)."""

REPEATED_BELOW_DB = -6.0
REPEATED_ECHO_SHARE = 0.2
"""The agent's words in the microphone are its echo unless they are as loud as the speaker and nothing else tells of an
echo: people do repeat what they hear ("the red one?")."""

GRACE: Samples = samples_from_ms(500)
"""Sound that begins this soon after a reply was first heard needs words: the user's own last sounds, and echo control
that has not settled (chosen; others suppress 1–3 s)."""

ANSWER_WITHIN: Samples = samples_from_ms(700)
"""Who begins in the last moments of a complete reply answers it (chosen: people begin up to half a second early)."""

GAP: Samples = samples_from_ms(500)
"""A synthesiser that runs dry for less than this has not ended the agent's speech (chosen)."""

OFF_TAIL: Samples = samples_from_ms(400)
"""With barge-in off, voice is the user's once it outlasts the playout by this: by then a loudspeaker is silent."""

OFF_REACH: Samples = samples_from_s(1)
"""With barge-in off, who began this shortly before the playout's end and speaks on answers it, first words included;
who began earlier talked over the agent, and their turn begins where it ended."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of an overlap at some moment.

    `voiced`: its voiced samples in the last WINDOW; `probability`, `level_db` (against the speaker's own level) and
    `echo` are means over them. `words`: the newest look, None if none was answered; it covered `looked` of the overlap
    and all its voice but `unheard`. `language`: what the user speaks, "" if unknown. `look_step`: how far apart looks
    are now. `repeats_agent`: the words are the agent's own. `in_grace`, `at_end`: it began at the reply's very
    beginning or end. `agent_audible`: the agent still speaks. `speaking`: the voice goes on; `due`: a verdict has to be
    given.
    """

    voiced: Samples
    probability: float
    level_db: float | None
    echo: float
    words: str | None
    language: str
    looked: Samples
    unheard: Samples
    look_step: Samples
    repeats_agent: bool
    in_grace: bool
    at_end: bool
    agent_audible: bool
    speaking: bool
    due: bool

    @property
    def heard_through(self) -> bool:
        """Whether the newest look covers the voice so far, as far as looks can."""
        if self.words is None:
            return False
        return self.unheard <= 0 or (self.looked >= ONE_WORD_LOOK and self.unheard <= self.look_step + LOOK_SLACK)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict and the fixed phrase that says why."""

    verdict: OverlapVerdict
    reason: str


_ECHO = Judgement(OverlapVerdict.ECHO, "the agent's own audio explains it")
_REPEATED = Judgement(OverlapVerdict.ECHO, "it repeats the agent's words")
_STOP = Judgement(OverlapVerdict.INTERRUPTION, "stop word")
_WORDS = Judgement(OverlapVerdict.INTERRUPTION, "words")
_VOICE = Judgement(OverlapVerdict.INTERRUPTION, "sustained voice")
_ANSWER = Judgement(OverlapVerdict.ANSWER, "the agent has finished")
_SIDE_TALK = Judgement(OverlapVerdict.NOISE, "far below the speaker's level")
_NO_WORDS = Judgement(OverlapVerdict.NOISE, "no words in it")
_DOUBTFUL = Judgement(OverlapVerdict.NOISE, "words not believed")
_SHORT = Judgement(OverlapVerdict.NOISE, "too short to tell")
_NOD = Judgement(OverlapVerdict.BACKCHANNEL, "backchannel words only")
_GRACE = Judgement(OverlapVerdict.TOO_EARLY, "the reply has just begun")


def judge(evidence: Evidence) -> Judgement | None:
    """Return what the overlap is, None while that is open and a verdict is not yet due.

    A real interruption is told at once; that it is none is told when it is due, and holds as long as the evidence does.
    """
    found = _find(evidence)
    at_once = found is not None and found.verdict in (OverlapVerdict.INTERRUPTION, OverlapVerdict.ANSWER)
    return found if at_once or evidence.due else None


def _find(evidence: Evidence) -> Judgement | None:
    if evidence.echo >= ECHO_SHARE:
        return _ECHO
    if evidence.repeats_agent and _may_be_echo(evidence):
        return _REPEATED
    words = read_words(evidence.words or "", evidence.language)
    if words.stop and evidence.voiced >= STOP_VOICED and evidence.probability >= STOP_PROBABILITY:
        return _STOP
    if evidence.level_db is not None and evidence.level_db <= SIDE_TALK_DB:
        return _SIDE_TALK
    if words.empty or not words.readable:
        return _without_words(evidence, nothing_said=words.empty)
    if not evidence.agent_audible and (evidence.at_end or evidence.speaking):
        return _ANSWER if evidence.voiced >= WORDS_VOICED else _DOUBTFUL
    if not words.content and not words.stop:
        return _NOD if evidence.voiced >= STOP_VOICED else _DOUBTFUL
    if not _believed(evidence, words.content):
        return _by_duration(evidence, SUSTAINED, else_=_DOUBTFUL)
    if evidence.at_end and evidence.agent_audible and not evidence.due:
        return None  # the agent's last words may be heard to their end
    return _WORDS


def _may_be_echo(evidence: Evidence) -> bool:
    return evidence.level_db is None or evidence.level_db <= REPEATED_BELOW_DB or evidence.echo >= REPEATED_ECHO_SHARE


def _believed(evidence: Evidence, content: int) -> bool:
    """Return whether that many words can have been said; recognisers write odd short ones for noise."""
    if evidence.voiced < WORDS_VOICED or evidence.probability < WORDS_PROBABILITY:
        return False
    return content >= 2 or evidence.looked >= ONE_WORD_LOOK or evidence.unheard <= 0


def _without_words(evidence: Evidence, *, nothing_said: bool) -> Judgement | None:
    if nothing_said and evidence.heard_through:
        return _NO_WORDS
    if not evidence.agent_audible and (evidence.speaking or (evidence.at_end and evidence.due)):
        return _ANSWER
    return _by_duration(evidence, SUSTAINED_UNHEARD if evidence.words is None else SUSTAINED, else_=_SHORT)


def _by_duration(evidence: Evidence, needed: Samples, *, else_: Judgement) -> Judgement | None:
    """Return what the voice alone says, which it can't before it is due."""
    if not evidence.due:
        return None
    if evidence.voiced < needed or evidence.probability < WORDS_PROBABILITY:
        return else_
    return _GRACE if evidence.in_grace else _VOICE
