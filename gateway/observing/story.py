"""From what the machine was told and what followed to what observers read: pure, in the machine's order.

Texts of the conversation are in it, audio never is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gateway.observing.conversation import Tell, tell_event
from gateway.observing.kinds import Kind
from gateway.observing.reply import Replies
from gateway.turns.actions import (
    Generate,
    JudgeSound,
    JudgeWords,
    Synthesize,
    Transcribe,
    TranscribeItem,
    TranscribePartial,
    TranscribePause,
)
from gateway.turns.inputs import (
    CommitRequested,
    GenerationEnded,
    HeardByClient,
    Input,
    InputStalled,
    Judged,
    PartialTranscript,
    PauseTranscript,
    ResponseRequested,
    SettingsChanged,
    SpeechProbability,
    SynthesisEnded,
    SynthesizedSpeech,
    TextDelta,
)
from gateway.turns.observations import LanguagesKnown, OverlapJudged, PauseJudged, PauseVerdict, Speculated
from gateway.turns.response import Output
from gateway.turns.settings import LONGEST_INPUT, VAD_FRAME, TurnSettings
from protocol import backend_events as events
from protocol.audio_time import Samples, ms_from_samples
from protocol.backend_events import EndReason

VAD_FRAMES = 5
"""VAD frames in one event: 160 ms, six events a second instead of 31 (chosen)."""

IMMEDIATE = "immediate"
"""The verdict on speech that interrupted at its onset, unjudged, as `server_vad` has it."""

Limits = Callable[[str, str], Mapping[str, Any]]
"""Returns what can't be done where the user speaks one language and the agent another (primary subtags)."""


class Story:
    """Tells one session's events to `tell`, as the machine goes on."""

    def __init__(self, tell: Tell, limits: Limits = lambda _user, _reply: {}) -> None:
        self._tell = tell
        self._limits = limits
        self._replies = Replies(tell)
        self._frames: list[SpeechProbability] = []
        self._settings: TurnSettings | None = None

    @property
    def replies(self) -> Replies:
        """The replies that are on their way."""
        return self._replies

    def told(self, message: Input, now: Samples, outputs: Sequence[Output]) -> None:
        """Tell of a message to the machine at `now`, then of what followed."""
        if isinstance(message, SpeechProbability):
            self.frame_heard(message)
            if outputs:
                self.frames_heard()
        else:
            self._told(message, now)
        if _unjudged_barge_in(outputs):
            self._tell(Kind.OVERLAP_VERDICT, verdict=IMMEDIATE, reason="at speech onset")
        for output in outputs:
            self._follows(output, message, outputs, now)

    def frame_heard(self, frame: SpeechProbability) -> None:
        """Tell of a VAD frame, together with others."""
        self._frames.append(frame)
        if len(self._frames) >= VAD_FRAMES:
            self.frames_heard()

    def frames_heard(self) -> None:
        """Tell of the VAD frames since the last time."""
        frames, self._frames = self._frames, []
        if not frames:
            return
        echo = {"echo": [round(frame.echo, 3) for frame in frames]} if any(frame.echo for frame in frames) else {}
        self._tell(
            Kind.VAD,
            start_ms=ms_from_samples(frames[0].until - VAD_FRAME),
            frame_ms=ms_from_samples(VAD_FRAME),
            probability=[round(frame.probability, 3) for frame in frames],
            level_dbfs=[round(frame.level_dbfs, 1) for frame in frames],
            **echo,
        )

    # --- what the machine was told ---------------------------------------------------------------------------------

    def _told(self, message: Input, now: Samples) -> None:
        tell = self._tell
        match message:
            case TextDelta():
                self._replies.text_written(message.response_id, message.text)
            case SynthesizedSpeech(response_id=response_id, chunk=chunk):
                self._replies.chunk_sounds(response_id, chunk, now)
            case SynthesisEnded(response_id=response_id, chunk=chunk):
                self._replies.chunk_spoken(response_id, chunk)
            case PartialTranscript(item_id=item_id, text=text):
                tell(Kind.ASR_PARTIAL, item_id=item_id, text=text)
            case PauseTranscript(item_id=item_id, pause=pause, text=text):
                tell(Kind.ASR_PAUSE, item_id=item_id, pause=pause, text=text)
            case Judged():
                tell(
                    Kind.END_OF_TURN_SCORE,
                    item_id=message.item_id,
                    pause=message.pause,
                    judge=message.judge,
                    complete=_rounded(message.complete),
                    wait=message.wait,
                    took_ms=ms_from_samples(message.took),
                )
            case InputStalled(duration=duration):
                tell(Kind.INPUT_STALLED, for_ms=ms_from_samples(duration))
            case SettingsChanged(settings=settings):
                if settings != self._settings:
                    self._settings = settings
                    tell(Kind.SESSION_SETTINGS, **_settings(settings))
            case HeardByClient(item_id=item_id, heard=heard):
                tell(Kind.CLIENT_TRUNCATED, item_id=item_id, heard_ms=ms_from_samples(heard))
            case GenerationEnded(response_id=response_id, finish_reason=reason):
                self._replies.text_ended(response_id, reason, message.usage)
            case _:
                pass

    # --- what followed ---------------------------------------------------------------------------------------------

    def _follows(self, output: Output, message: Input, outputs: Sequence[Output], now: Samples) -> None:
        tell = self._tell
        match output:
            case events.InputCommitted():
                tell_event(tell, self._replies, output, _commit_reason(output, message, outputs))
            case events.ResponseStarted():
                tell_event(tell, self._replies, output, _start_reason(message, outputs))
            case LanguagesKnown(user=user, reply=reply, detected=detected):
                limits = self._limits(user, reply)
                tell(Kind.SESSION_LANGUAGES, user=user, reply=reply, detected=detected, **limits)
            case PauseJudged():
                tell(
                    Kind.END_OF_TURN_VERDICT,
                    item_id=output.item_id,
                    pause=output.pause,
                    verdict=output.verdict,
                    by=output.by,
                    silence_ms=ms_from_samples(output.silence),
                    complete=_rounded(output.complete),
                    threshold=_rounded(output.threshold),
                )
            case OverlapJudged():
                tell(
                    Kind.OVERLAP_VERDICT,
                    audio_onset_ms=ms_from_samples(output.onset),
                    verdict=output.verdict,
                    reason=output.reason,
                    held_ms=ms_from_samples(output.held),
                    voiced_ms=ms_from_samples(output.voiced),
                    level_db=_rounded(output.level_db),
                    echo=_rounded(output.echo),
                    words=output.words,
                )
            case Speculated():
                tell(
                    Kind.SPECULATION,
                    speculation_id=output.speculation_id,
                    item_id=output.item_id,
                    fate=output.fate,
                    response_id=output.response_id,
                    reason=output.reason,
                )
                self._replies.speculated(output)
            case Transcribe(item_id=item_id, start=start, end=end):
                self._asr_asked("final", item_id, start, end)
            case TranscribePartial(item_id=item_id, start=start, end=end):
                self._asr_asked("partial", item_id, start, end)
            case TranscribePause(item_id=item_id, start=start, end=end):
                self._asr_asked("pause", item_id, start, end)
            case TranscribeItem(item_id=item_id):
                tell(Kind.ASR_ASKED, what="item", item_id=item_id)
            case JudgeSound(item_id=item_id, pause=pause):
                tell(Kind.END_OF_TURN_ASKED, item_id=item_id, pause=pause, judges="sound")
            case JudgeWords(item_id=item_id, pause=pause, text=text):
                tell(Kind.END_OF_TURN_ASKED, item_id=item_id, pause=pause, judges="words", text=text)
            case Generate(response_id=response_id):
                tell(Kind.LLM_ASKED, response_id=response_id)
            case Synthesize():
                self._replies.chunk_started(output, now)
            case _:
                tell_event(tell, self._replies, output)

    def _asr_asked(self, what: str, item_id: str, start: Samples, end: Samples) -> None:
        self._tell(
            Kind.ASR_ASKED,
            what=what,
            item_id=item_id,
            audio_start_ms=ms_from_samples(start),
            audio_end_ms=ms_from_samples(end),
        )


def _unjudged_barge_in(outputs: Sequence[Output]) -> bool:
    """Return whether the user's speech cut the agent short without having been judged."""
    cut = False
    for output in outputs:
        if isinstance(output, OverlapJudged):
            return False
        cut = cut or isinstance(output, events.PlayoutCut)
        cut = cut or (isinstance(output, events.ResponseEnded) and output.reason is EndReason.TURN_DETECTED)
    return cut


def _commit_reason(commit: events.InputCommitted, message: Input, outputs: Sequence[Output]) -> str:
    """Return why a turn was committed: who or what decided."""
    for output in outputs:
        if isinstance(output, PauseJudged) and output.item_id == commit.item_id:
            if output.verdict is PauseVerdict.COMMIT:
                return output.by
        if isinstance(output, events.InputTimedOut):
            return "idle_timeout"
    if isinstance(message, CommitRequested):
        return "client"
    if isinstance(message, InputStalled):
        return "input_stalled"
    return "length" if commit.end - commit.start >= LONGEST_INPUT else "silence"


def _start_reason(message: Input, outputs: Sequence[Output]) -> str:
    """Return why a response began."""
    if isinstance(message, ResponseRequested):
        return "client"
    if any(isinstance(output, events.InputTimedOut) for output in outputs):
        return "idle_timeout"
    return "turn" if any(isinstance(output, events.InputCommitted) for output in outputs) else "queued_turn"


def _settings(settings: TurnSettings) -> dict[str, Any]:
    found = settings.detection
    detection = (
        None
        if found is None
        else {
            "threshold": found.threshold,
            "prefix_padding_ms": ms_from_samples(found.prefix_padding),
            "silence_duration_ms": ms_from_samples(found.silence_duration),
            "create_response": found.create_response,
            "interrupt_response": found.interrupt_response,
            "idle_timeout_ms": None if found.idle_timeout is None else ms_from_samples(found.idle_timeout),
            "eagerness": found.semantic,
            "barge_in": found.barge_in,
        }
    )
    return {
        "turn_detection": detection,
        "judges": sorted(settings.judges),
        "speculation": settings.speculation,
        "audio_output": settings.audio_output,
        "playout_delay_ms": ms_from_samples(settings.playout_delay),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
