"""The pauses of the running utterance: what is asked about them, what is known of the one that lasts, what it needs."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.turns.actions import (
    JudgeSound,
    JudgeWords,
    PrepareJudges,
    StopTranscribing,
    Transcribe,
    TranscribePause,
)
from gateway.turns.end_of_turn import (
    ASK_AFTER,
    AWAIT_JUDGES,
    BELIEVABLE,
    COMMIT_FROM,
    LIMITS,
    LISTENERS,
    SOUND_LONGEST,
    SOUND_TAIL,
    WORDS_LONGEST,
    Evidence,
    decided_by,
    judged_by,
    recognises_pauses,
    silence_needed,
    threshold,
    words_step,
)
from gateway.turns.inputs import Judged, PauseTranscript
from gateway.turns.observations import PauseJudged, PauseVerdict
from gateway.turns.response import Output
from gateway.turns.settings import VAD_FRAME, Detection, TurnSettings
from gateway.turns.speakers_pauses import FALSE_END_WITHIN, SpeakersPauses
from gateway.turns.stable_transcript import has_words, words_of
from gateway.turns.user_turn import ASR_TAIL
from protocol.audio_time import Samples


@dataclass(slots=True)
class _Answers:
    """What the judges answered to the question asked at pause number `pause`, by their names."""

    pause: int
    words: list[str] = field(default_factory=list)
    by: dict[str, Judged] = field(default_factory=dict)


@dataclass(slots=True)
class Pause:
    """A silence of at least ASK_AFTER since `voiced_until`, number `number` of the utterance `item_id`.

    `order`: what the recogniser was asked. `words`: its answer; one without text says that it failed. `needed`: the
    silence that ends the turn as things stand. `own`: nothing but the speaker's will made it as long as it is.
    """

    item_id: str
    number: int
    voiced_until: Samples
    awaited_until: Samples
    sound: _Answers
    own: bool
    read: _Answers | None = None
    order: TranscribePause | None = None
    words: PauseTranscript | None = None
    given_up: bool = False
    needed: Samples = 0
    evidence: Evidence = field(default_factory=lambda: Evidence({}))
    told: tuple[float | None, bool] = (None, False)
    believed: bool = False

    @property
    def recognising(self) -> bool:
        """Whether the recogniser has been asked and has not answered."""
        return self.order is not None and self.words is None

    @property
    def wordless(self) -> bool:
        """Whether the recogniser heard no words."""
        return self.words is not None and self.words.text is not None and not has_words(self.words.text)

    @property
    def answers(self) -> dict[str, Judged]:
        """The judges' answers that hold for it."""
        return self.sound.by if self.read is None else {**self.sound.by, **self.read.by}


class Pauses:
    """Follows the pauses of one utterance after the other. At most one is being recognised at a time.

    What the user sent recorded, faster than real time, is not asked about: its silence passes before anyone can answer,
    so that silence alone decides there, up to the burst's end. Appends of up to a second are live: what their silence
    needs is settled when the judges have answered, wherever the next append takes up.
    """

    def __init__(self) -> None:
        self.current: Pause | None = None
        self.speaker = SpeakersPauses()
        self._item_id = ""
        self._start: Samples = 0
        self._count = 0
        self._recognised_until: Samples | None = None
        self._read: _Answers | None = None
        self._unanswered_end: Samples | None = None

    # --- the utterance -------------------------------------------------------------------------------------------

    def begin(self, item_id: str, start: Samples, onset: Samples, *, live: bool) -> None:
        """Follow the utterance `item_id`, heard from `start`, spoken from `onset` on; `live`: not recorded."""
        if self._unanswered_end is not None and live:
            if ASK_AFTER <= (gap := onset - self._unanswered_end) <= FALSE_END_WITHIN:
                self.speaker.learn(gap)
        self._unanswered_end = None
        self._item_id, self._start = item_id, start
        self._count = 0
        self._recognised_until = self._read = None

    def prepare(self, agent_text: str, settings: TurnSettings, out: list[Output]) -> None:
        """Let the judges that read get ready for the utterance that began, after `agent_text`."""
        if is_judged(settings) and settings.judges - LISTENERS:
            out.append(PrepareJudges(self._item_id, agent_text))

    def heard_answer(self) -> None:
        """The agent is audible: whoever speaks after that does not go on."""
        self._unanswered_end = None

    def end(self, out: list[Output], wanted: Transcribe | None = None) -> Pause | None:
        """The utterance is over. Return the pause whose words, known or awaited, are those of `wanted`; or None.

        Where it failed, and where voice came since, or more audio is wanted than it covers, it is of no use.
        """
        pause, self.current = self.current, None
        self._item_id = ""
        if pause is not None and pause.order is not None and wanted is not None:
            order = pause.order
            covers = (order.item_id, order.start, order.end) == (wanted.item_id, wanted.start, wanted.end)
            if covers and (pause.words is None or pause.words.text is not None):
                return pause
        _stop_recognising(pause, out)
        return None

    # --- the pause -----------------------------------------------------------------------------------------------

    def silent(
        self,
        voiced_until: Samples,
        heard: Samples,
        silence: Samples,
        now: Samples,
        settings: TurnSettings,
        out: list[Output],
        *,
        own: bool,
    ) -> None:
        """Nobody has spoken since `voiced_until`, for `silence`, of which input holds what is up to `heard`.

        Ask what is to be asked. `own`: nothing but the speaker makes them silent: the agent is, and input flows.
        """
        detection = settings.detection
        if detection is None or not self._item_id or silence < ASK_AFTER:
            return
        pause = self.current
        if pause is None:
            self._count += 1
            sound = _Answers(self._count)
            pause = Pause(self._item_id, self._count, voiced_until, now + AWAIT_JUDGES, sound, own)
            self.current = pause
            if is_judged(settings) and settings.judges & LISTENERS:
                end = min(voiced_until + SOUND_TAIL, heard)
                out.append(JudgeSound(pause.item_id, pause.number, max(self._start, end - SOUND_LONGEST), end))
            self._weigh(pause, silence, settings)
        pause.own = pause.own and own
        if pause.order is None and self._recognition_is_due(voiced_until + silence, detection):
            end = min(voiced_until + ASR_TAIL, heard)
            pause.order = TranscribePause(pause.item_id, pause.number, self._start, end)
            self._recognised_until = end
            out.append(pause.order)

    def _recognition_is_due(self, at: Samples, detection: Detection) -> bool:
        length = at - self._start
        if length > WORDS_LONGEST or not recognises_pauses(detection):
            return False
        return self._recognised_until is None or at - self._recognised_until >= words_step(length)

    def voiced(self, until: Samples, out: list[Output], *, own: bool) -> None:
        """The user speaks in the frame that ends at `until`: a pause that lasted until then is over.

        `own`: as in `silent`; what the speaker did not do by themselves teaches nothing about them.
        """
        pause, self.current = self.current, None
        if pause is None:
            return
        lasted = until - VAD_FRAME - pause.voiced_until
        if own and pause.own and not pause.evidence.wait:
            self.speaker.learn(lasted)
        _stop_recognising(pause, out)
        complete = pause.evidence.complete
        out.append(PauseJudged(pause.item_id, pause.number, PauseVerdict.RESUMED, "voice", lasted, complete))

    # --- what is answered ----------------------------------------------------------------------------------------

    def transcribed(
        self, words: PauseTranscript, silence: Samples, settings: TurnSettings, agent_text: str, out: list[Output]
    ) -> bool:
        """Take the words of a pause and have them judged; return False if it is over or they were not awaited."""
        pause = self.current
        if pause is None or not pause.recognising or (words.item_id, words.pause) != (pause.item_id, pause.number):
            return False
        pause.words = words
        if is_judged(settings) and settings.judges - LISTENERS and words.text is not None and not pause.wordless:
            said = words_of(words.text)
            if self._read is None or self._read.words != said:
                self._read = _Answers(pause.number, said)
                out.append(JudgeWords(pause.item_id, pause.number, words.text, agent_text))
            pause.read = self._read
        self._weigh(pause, silence, settings)
        return True

    def judged(self, answer: Judged, silence: Samples, settings: TurnSettings) -> bool:
        """Take a judge's answer; return False if it answers nothing that holds for the pause that lasts."""
        pause = self.current
        if pause is None or answer.item_id != pause.item_id or answer.judge not in settings.judges:
            return False
        question = pause.sound if answer.judge in LISTENERS else pause.read
        if question is None or answer.pause != question.pause:
            return False
        question.by[answer.judge] = answer
        self._weigh(pause, silence, settings)
        return True

    @property
    def deadline(self) -> Samples | None:
        """Until when answers are awaited that the decision waits for (gateway clock); None if it waits for none."""
        pause = self.current
        return pause.awaited_until if pause is not None and pause.evidence.awaited else None

    def give_up(self, silence: Samples, settings: TurnSettings) -> None:
        """The deadline is there: decide by what is known."""
        assert self.current is not None
        self.current.given_up = True
        self._weigh(self.current, silence, settings)

    def reconsider(self, silence: Samples, settings: TurnSettings) -> None:
        """Other settings hold from now on, for the pause that lasts, too."""
        if self.current is not None:
            self._weigh(self.current, silence, settings)

    def _weigh(self, pause: Pause, silence: Samples, settings: TurnSettings) -> None:
        """Reckon how much silence the turn's end needs by what is known now, which is `silence` after the voice."""
        assert settings.detection is not None
        answers = pause.answers
        opinions = {judge: answer.complete for judge, answer in answers.items() if answer.complete is not None}
        wait = any(answer.wait for answer in answers.values())
        awaited = is_judged(settings) and not pause.given_up and bool(_outstanding(pause, settings))
        pause.evidence = Evidence(opinions, awaited, pause.wordless, wait, self.speaker.pace)
        pause.needed = max(silence, silence_needed(pause.evidence, settings.detection))

    # --- what follows --------------------------------------------------------------------------------------------

    def needed(self, settings: TurnSettings) -> Samples:
        """Return the silence that ends the turn as things stand."""
        detection = settings.detection
        assert detection is not None
        if detection.semantic is None or not is_judged(settings):
            return detection.silence_duration
        return LIMITS[detection.semantic] if self.current is None else self.current.needed

    def next_needed(self, settings: TurnSettings) -> Samples:
        """Return the silence after which there is something to do: end the turn, or ask whether it is over."""
        return ASK_AFTER if is_judged(settings) and self.current is None else self.needed(settings)

    def believable(self, settings: TurnSettings) -> str | None:
        """Return the words of the pause the first time that it may well end the turn; else None."""
        pause = self.current
        if pause is None or pause.believed or pause.words is None or pause.wordless or pause.words.text is None:
            return None
        complete = pause.evidence.complete
        if is_judged(settings):
            if pause.evidence.wait or pause.evidence.awaited and complete is None:
                return None
            if complete is not None and complete < BELIEVABLE:
                return None
        pause.believed = True
        return pause.words.text

    def held(self, silence: Samples, settings: TurnSettings, out: list[Output]) -> None:
        """The pause goes on: tell why, once for each change of the judges' minds.

        Where it ends the turn as soon as any pause can, there is nothing to tell.
        """
        pause, detection = self.current, settings.detection
        if pause is None or detection is None or detection.semantic is None or pause.needed <= COMMIT_FROM:
            return
        evidence = pause.evidence
        complete = evidence.complete
        if (complete, evidence.wait) == pause.told or (complete is None and not evidence.wait):
            return
        pause.told = complete, evidence.wait
        if evidence.wait:
            verdict, by = PauseVerdict.WAIT, next(name for name, answer in pause.answers.items() if answer.wait)
        else:
            verdict, by = PauseVerdict.HOLD, judged_by(evidence)
        needs = threshold(silence, detection.semantic, evidence.pace)
        out.append(PauseJudged(pause.item_id, pause.number, verdict, by, silence, complete, needs))

    def committed(
        self, item_id: str, voiced_until: Samples, silence: Samples, enough: bool, detection: Detection
    ) -> PauseJudged:
        """The turn ends after `silence`, because it is `enough` or else because of the turn's length; return why."""
        pause = self.current
        self._unanswered_end = voiced_until
        number = self._count if pause is None else pause.number
        evidence = Evidence({}) if pause is None else pause.evidence
        complete = evidence.complete
        by = decided_by(evidence, silence, detection) if enough else "length"
        needs = None
        if detection.semantic is not None and complete is not None:
            needs = threshold(silence, detection.semantic, evidence.pace)
        return PauseJudged(item_id, number, PauseVerdict.COMMIT, by, silence, complete, needs)


def is_judged(settings: TurnSettings) -> bool:
    """Return whether judges have a say in when turns end."""
    return bool(settings.judges) and settings.detection is not None and settings.detection.semantic is not None


def _outstanding(pause: Pause, settings: TurnSettings) -> frozenset[str]:
    """Return the judges that may still answer."""
    left = settings.judges - pause.answers.keys()
    failed = pause.words is not None and pause.words.text is None
    return left & LISTENERS if failed else left


def _stop_recognising(pause: Pause | None, out: list[Output]) -> None:
    if pause is not None and pause.recognising:
        out.append(StopTranscribing(pause.item_id, pause.number))
