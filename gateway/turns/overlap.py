"""One stretch of the user's voice over the agent's: what is known of it, and which looks the recogniser takes at it."""

from __future__ import annotations

from collections import deque

from gateway.turns.actions import TranscribePartial
from gateway.turns.inputs import SpeechProbability
from gateway.turns.observations import OverlapVerdict
from gateway.turns.overlap_policy import (
    ECHO_SHARE,
    LOOK_EARLY_UNTIL,
    LOOK_FIRST,
    LOOK_STEP,
    LOOK_STEP_LATE,
    WINDOW,
    Evidence,
)
from gateway.turns.overlap_words import repeats
from gateway.turns.settings import VAD_FRAME, BargeIn
from gateway.turns.speaker_level import SpeakerLevel
from gateway.turns.user_turn import ASR_TAIL
from protocol.audio_time import Samples


class Overlap:
    """What is known of one overlap. `held_until` (gateway clock): when its first verdict is due."""

    def __init__(
        self,
        mode: BargeIn,
        item_id: str,
        onset: Samples,
        *,
        padding: Samples,
        held_until: Samples,
        grace_until: Samples | None,
        at_end: bool,
    ) -> None:
        self.mode = mode
        self.item_id = item_id
        self.onset = onset
        self.padding = padding
        self.held_until = held_until
        self.grace_until = grace_until
        self.at_end = at_end
        self.until = onset
        self.verdict: OverlapVerdict | None = None
        self.words: str | None = None
        self.looking = False
        self._looked_until = onset
        self._answered_until = onset
        self._frames: deque[tuple[SpeechProbability, bool]] = deque(maxlen=WINDOW // VAD_FRAME)

    def hear(self, frame: SpeechProbability, threshold: float) -> None:
        """Take the next VAD frame."""
        self.until = frame.until
        self._frames.append((frame, frame.probability >= threshold))

    @property
    def look_step(self) -> Samples:
        """How far apart looks are now."""
        return LOOK_STEP if self.until - self.onset < LOOK_EARLY_UNTIL else LOOK_STEP_LATE

    def look(self, start: Samples, voiced_until: Samples) -> TranscribePartial | None:
        """Return the look to take now at the audio from `start` on, None while one runs or there is nothing new."""
        end = min(self.until, voiced_until + ASR_TAIL)
        first = self._looked_until == self.onset
        if self.looking or self._looked_until >= voiced_until:
            return None
        if (self.until - self.onset < LOOK_FIRST) if first else (self.until - self._looked_until < self.look_step):
            return None
        self.looking = True
        self._looked_until = end
        return TranscribePartial(self.item_id, start, end)

    def saw(self, text: str | None) -> None:
        """Take what the look saw, None if it was superseded or failed."""
        self.looking = False
        if text is not None:
            self.words = text
            self._answered_until = self._looked_until

    def evidence(
        self,
        now: Samples,
        voiced_until: Samples,
        level: SpeakerLevel,
        agent_text: str,
        language: str,
        *,
        agent_audible: bool,
        speaking: bool,
        due: bool,
    ) -> Evidence:
        """Return what is known at `now`. `agent_text`: what the agent says about now. `language`: the user's, or ""."""
        sound = [frame for frame, voiced in self._frames if voiced]
        own = [frame for frame in sound if frame.echo < ECHO_SHARE]
        return Evidence(
            voiced=len(own) * VAD_FRAME,
            probability=_mean([frame.probability for frame in own]),
            level_db=level.above(_mean([frame.level_dbfs for frame in own])) if own else None,
            echo=_mean([frame.echo for frame in sound]),
            words=self.words,
            language=language,
            looked=self._answered_until - self.onset,
            unheard=voiced_until - self._answered_until,
            look_step=self.look_step,
            repeats_agent=self.words is not None and repeats(self.words, agent_text),
            in_grace=self.grace_until is not None and now < self.grace_until,
            at_end=self.at_end,
            agent_audible=agent_audible,
            speaking=speaking,
            due=due,
        )


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0
