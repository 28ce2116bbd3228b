"""Watches for the user's voice over the agent's, holds it back, and has it judged.

While an overlap is held nothing of it has been told: the user speaks or pauses, and no client knows. It ends as a turn,
which the machine announces, or it is over and forgotten, and its input enters no item.
"""

from __future__ import annotations

from collections import deque

from gateway.turns.actions import TranscribePartial
from gateway.turns.inputs import SpeechProbability
from gateway.turns.observations import OverlapJudged, OverlapVerdict
from gateway.turns.overlap import Overlap
from gateway.turns.overlap_policy import (
    ANSWER_WITHIN,
    ECHO_SHARE,
    ECHO_TAIL,
    GAP,
    GRACE,
    HOLD,
    KEPT,
    LINGER,
    OFF_REACH,
    OFF_TAIL,
    OVER_AFTER,
    SUSTAINED,
    Evidence,
    Judgement,
    judge,
)
from gateway.turns.playout import VirtualPlayer
from gateway.turns.response import Output, Response
from gateway.turns.settings import MIN_SPEECH, STALL_AFTER, VAD_FRAME, BargeIn, Detection
from gateway.turns.speaker_level import SpeakerLevel
from gateway.turns.spoken_languages import SpokenLanguages
from gateway.turns.states import User
from gateway.turns.user_turn import UserTurn
from protocol.audio_time import Samples

LOOK_BACK: Samples = Detection().prefix_padding
"""How far before the onset a look begins, however long the prefix padding is: soft first sounds (chosen)."""

_TURNS = (OverlapVerdict.INTERRUPTION, OverlapVerdict.ANSWER)
_NOT_ALLOWED = Judgement(OverlapVerdict.NOT_ALLOWED, "barge-in is off")
_OUTLASTED = Judgement(OverlapVerdict.ANSWER, "it outlasts the agent's words")
_AGENT_ITSELF = Judgement(OverlapVerdict.ECHO, "the agent's own audio explains it")


class OverlapWatch:
    """One session's. `reply` is the response that was last heard, if there was one."""

    def __init__(self, user: UserTurn, player: VirtualPlayer, languages: SpokenLanguages) -> None:
        self.reply: Response | None = None
        self._user = user
        self._player = player
        self._languages = languages
        self._level = SpeakerLevel()
        self._overlap: Overlap | None = None
        self._recent: deque[SpeechProbability] = deque(maxlen=MIN_SPEECH // VAD_FRAME)
        self._echo_frames = 0
        self._echo_until: Samples = 0

    @property
    def holds(self) -> bool:
        """Whether there is an overlap of which nobody was told."""
        return self._overlap is not None

    def deadlines(self, now: Samples) -> list[Samples]:
        """Return when a held overlap is to be looked at even if no audio comes (gateway clock)."""
        overlap, due_at = self._overlap, self._user.clock.due_at
        if overlap is None:
            return []
        assert due_at is not None  # there is voice, so there was audio
        silent = self._user.clock.received - self._user.voiced_until
        due = [due_at + max(STALL_AFTER, patience - silent) for patience in (OVER_AFTER, OVER_AFTER + LINGER)]
        return [at for at in (overlap.held_until, *due) if at > now]

    # --- frames ----------------------------------------------------------------------------------------------------

    def hear(self, frame: SpeechProbability, detection: Detection, out: list[Output]) -> float:
        """Take a VAD frame; return the probability that it is the user's speech, which the agent's own echo is not."""
        self._recent.append(frame)
        if self._overlap is not None:
            self._overlap.hear(frame, detection.threshold)
        voiced = frame.probability >= detection.threshold
        if self._is_echo(frame, detection):
            if voiced:
                self._note_echo(frame, out)
            return 0.0
        if voiced and self._overlap is None and self._user.state is User.SPEAKING:
            self._level.learn(frame.level_dbfs)
        return frame.probability

    def _is_echo(self, frame: SpeechProbability, detection: Detection) -> bool:
        """Return whether `frame` is the agent's own audio, unless a turn is open: whoever has the floor keeps it."""
        if frame.echo < ECHO_SHARE or not self._guards(detection):
            return False
        if self._overlap is None and self._user.state is not User.SILENT:
            return False
        return self._player.played_lately(self._user.clock.gateway_time(frame.until), ECHO_TAIL)

    def _note_echo(self, frame: SpeechProbability, out: list[Output]) -> None:
        """Tell once of each stretch of echo that would have been speech."""
        if frame.until - self._echo_until > OVER_AFTER:
            self._echo_frames = 0
        self._echo_until = frame.until
        self._echo_frames += 1
        voiced = self._echo_frames * VAD_FRAME
        if self._overlap is None and voiced == MIN_SPEECH:
            level_db = self._level.above(frame.level_dbfs)
            onset = frame.until - voiced
            out.append(_told(_AGENT_ITSELF, "", onset, voiced, voiced, level_db, frame.echo, None))

    # --- the beginning ---------------------------------------------------------------------------------------------

    def _guards(self, detection: Detection) -> bool:
        """Return whether voice over the agent is judged at all; a burst client's was recorded before it."""
        judged = detection.interrupt_response and detection.barge_in is not BargeIn.IMMEDIATE
        return judged and not self._user.clock.is_burst

    def begins(self, detection: Detection, now: Samples, out: list[Output], *, speaks_on: bool) -> bool:
        """Return whether the speech that just began is held. `speaks_on`: more of the reply may come."""
        user, player = self._user, self._player
        at = user.clock.gateway_time(user.onset)
        tail = OFF_TAIL if detection.barge_in is BargeIn.OFF else 0
        if not self._guards(detection) or not player.played_lately(at, GAP if speaks_on else tail):
            return False
        began = player.playing_since(at)
        self._overlap = overlap = Overlap(
            detection.barge_in,
            user.item_id,
            user.onset,
            padding=user.onset - user.start,
            held_until=now + HOLD - MIN_SPEECH,
            grace_until=None if began is None or at >= began + GRACE else began + GRACE + SUSTAINED,
            at_end=not speaks_on and (player.ends_at or at) - at <= ANSWER_WITHIN,
        )
        for frame in self._recent:
            overlap.hear(frame, detection.threshold)
        if overlap.mode is BargeIn.OFF:
            self._tell(overlap, _NOT_ALLOWED, self._evidence(overlap, now, speaks_on=speaks_on), out)
        return True

    def look(self) -> TranscribePartial | None:
        """Return the look to take now at the held overlap, or None."""
        overlap = self._overlap
        if overlap is None or overlap.mode is BargeIn.OFF:
            return None
        start = max(self._user.start, overlap.onset - LOOK_BACK, overlap.until - KEPT)
        return overlap.look(start, self._user.voiced_until)

    def saw(self, item_id: str, text: str | None) -> bool:
        """Take what a look saw; return whether it was one at the held overlap."""
        if self._overlap is None or self._overlap.item_id != item_id:
            return False
        self._overlap.saw(text)
        return True

    # --- the decision ----------------------------------------------------------------------------------------------

    def decide(self, now: Samples, out: list[Output], *, speaks_on: bool) -> bool:
        """Judge the held overlap; return whether it is the user's turn, which is to be announced now."""
        overlap = self._overlap
        if overlap is None:
            return False
        if overlap.mode is BargeIn.OFF:
            return self._decide_half_duplex(overlap, now, out, speaks_on=speaks_on)
        evidence = self._evidence(overlap, now, speaks_on=speaks_on)
        judgement = judge(evidence)
        if judgement is None:
            return False
        self._tell(overlap, judgement, evidence, out)
        if judgement.verdict in _TURNS:
            self._overlap = None
            return True
        awaits_end = overlap.at_end and evidence.agent_audible and judgement.verdict is OverlapVerdict.BACKCHANNEL
        if self._is_over(overlap, now) and not awaits_end:
            self._forget()
        else:
            self._keep_recent(overlap)
        return False

    def _decide_half_duplex(self, overlap: Overlap, now: Samples, out: list[Output], *, speaks_on: bool) -> bool:
        user, ended_at = self._user, self._player.ended_at
        if ended_at is not None and not self._audible(now, speaks_on=speaks_on):
            ended = user.clock.position_at(ended_at)
            if user.voiced_until >= max(ended, overlap.onset) + OFF_TAIL:
                self._tell(overlap, _OUTLASTED, self._evidence(overlap, now, speaks_on=speaks_on), out)
                if overlap.onset < ended - OFF_REACH:
                    user.keep_from(ended)
                self._overlap = None
                return True
        if self._is_over(overlap, now):
            self._forget()
        else:
            self._keep_recent(overlap)
        return False

    def _keep_recent(self, overlap: Overlap) -> None:
        """Let go of the audio of a refused overlap that goes on and on."""
        self._user.keep_from(overlap.until - KEPT - overlap.padding)

    def _audible(self, now: Samples, *, speaks_on: bool) -> bool:
        return self._player.played_lately(now, GAP if speaks_on else 0)

    def _silence(self, overlap: Overlap, now: Samples) -> Samples:
        """Return how long the voice has been silent: heard silence, or input that has stopped."""
        clock = self._user.clock
        stalled = clock.silent_for(now)
        until = overlap.until if stalled < STALL_AFTER else clock.received + stalled
        return until - self._user.voiced_until

    def _is_over(self, overlap: Overlap, now: Samples) -> bool:
        return self._silence(overlap, now) >= OVER_AFTER + (LINGER if overlap.looking else 0)

    def _evidence(self, overlap: Overlap, now: Samples, *, speaks_on: bool) -> Evidence:
        return overlap.evidence(
            now,
            self._user.voiced_until,
            self._level,
            "" if self.reply is None else self.reply.said_near(now),
            self._languages.user,
            agent_audible=self._audible(now, speaks_on=speaks_on),
            speaking=self._user.state is User.SPEAKING,
            due=now >= overlap.held_until or overlap.until - overlap.onset >= HOLD or self._is_over(overlap, now),
        )

    def _tell(self, overlap: Overlap, judgement: Judgement, evidence: Evidence, out: list[Output]) -> None:
        """Tell of the first verdict and of each change."""
        if judgement.verdict is overlap.verdict:
            return
        overlap.verdict = judgement.verdict
        held = overlap.until - overlap.onset
        voiced, level_db, echo, words = evidence.voiced, evidence.level_db, evidence.echo, evidence.words
        out.append(_told(judgement, overlap.item_id, overlap.onset, held, voiced, level_db, echo, words))

    def _forget(self) -> None:
        self._overlap = None
        self._user.forget_overlap()

    def drop(self) -> None:
        """Hold nothing any more: the client has taken the input, or dropped it."""
        self._overlap = None


def _told(
    judgement: Judgement,
    item_id: str,
    onset: Samples,
    held: Samples,
    voiced: Samples,
    level_db: float | None,
    echo: float,
    words: str | None,
) -> OverlapJudged:
    return OverlapJudged(onset, judgement.verdict, judgement.reason, held, voiced, level_db, echo, words, item_id)
