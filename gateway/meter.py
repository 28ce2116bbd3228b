"""Measures a session at its border, on the gateway clock, whatever backend stands behind it.

It sees all input, all output and all events, judges speech by the session's one VAD and audible output by one gate, and
is the only source of figures that compare backends.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from statistics import median

import numpy as np

from protocol.audio_time import Samples, ms_from_samples, samples_from_ms
from protocol.backend_events import (
    BackendEvent,
    InputTranscriptCompleted,
    InputTranscriptFailed,
    OutputAudio,
    OutputTextDelta,
    ResponseEnded,
    ResponseStarted,
    SpeechStarted,
    SpeechStopped,
)
from protocol.commands import AppendAudio

logger = logging.getLogger(__name__)

SPEECH_THRESHOLD = 0.5
"""Reference VAD: a frame at or above this is speech (Silero's default), whatever threshold the client asked for."""

AUDIBLE_DBFS = -45.0
"""Output counts as heard from this level on (turn-taking metrics: agent speech is above −45 dBFS)."""

GATE_WINDOW: Samples = samples_from_ms(10)
"""Window of the audibility gate."""

KEPT_TURNS = 200
"""Turns whose figures are kept per session (chosen)."""

_AUDIBLE_RMS = 32768.0 * 10.0 ** (AUDIBLE_DBFS / 20.0)


@dataclass(slots=True)
class TurnTimes:
    """When the stages of one spoken turn were passed (gateway clock); None where a stage has not happened."""

    speech_end: Samples
    stopped: Samples | None = None
    transcribed: Samples | None = None
    response_id: str | None = None
    first_text: Samples | None = None
    first_audio: Samples | None = None

    def stages_ms(self) -> dict[str, int]:
        """Return the length of each stage that has ended, in ms, by name, and their sum as `voice_to_voice`."""
        marks = {
            "endpointing": self.stopped,
            "asr": self.transcribed,
            "llm_first_token": self.first_text,
            "first_clause_tts": self.first_audio,
        }
        stages: dict[str, int] = {}
        before = self.speech_end
        for name, at in marks.items():
            if at is not None:
                stages[name] = ms_from_samples(at - before)
                before = at
        if self.first_audio is not None:
            stages["voice_to_voice"] = ms_from_samples(self.first_audio - self.speech_end)
        return stages


class Meter:
    """The stopwatch of one session."""

    def __init__(self, session_id: str) -> None:
        self.turns: list[TurnTimes] = []
        self._session_id = session_id
        self._last_voiced: Samples = 0
        self._received: Samples = 0
        self._open: TurnTimes | None = None

    def heard_user(self, append: AppendAudio, now: Samples) -> None:
        """Note user audio that arrived by `now`, with the VAD frames that it completed."""
        self._received += len(append.pcm) // 2
        for frame in append.frames:
            if frame.probability >= SPEECH_THRESHOLD:
                self._last_voiced = now - (self._received - frame.until)

    def saw(self, event: BackendEvent, now: Samples) -> None:
        """Note a backend event at `now`."""
        turn = self._open
        match event:
            case SpeechStopped():
                self._open = TurnTimes(speech_end=self._last_voiced, stopped=now)
            case SpeechStarted():
                self._close()
            case InputTranscriptCompleted() | InputTranscriptFailed() if turn is not None and turn.transcribed is None:
                turn.transcribed = now
            case ResponseStarted(response_id=response_id) if turn is not None and turn.response_id is None:
                turn.response_id = response_id
            case OutputTextDelta(response_id=response_id) if turn is not None and turn.response_id == response_id:
                turn.first_text = turn.first_text or now
            case OutputAudio(response_id=response_id, pcm=pcm) if turn is not None and turn.response_id == response_id:
                if turn.first_audio is None and (at := _audible_from(pcm)) is not None:
                    turn.first_audio = now + at
            case ResponseEnded(response_id=response_id) if turn is not None and turn.response_id == response_id:
                self._close()
            case _:
                pass

    def _close(self) -> None:
        turn, self._open = self._open, None
        if turn is None:
            return
        self.turns = [*self.turns[1 - KEPT_TURNS :], turn]
        stages = turn.stages_ms()
        parts = [name for name in stages if name != "voice_to_voice"]
        slowest = max(parts, key=lambda name: stages[name], default="none")
        logger.info(
            "turn session=%s response=%s slowest=%s %s",
            self._session_id,
            turn.response_id,
            slowest,
            " ".join(f"{name}_ms={length}" for name, length in stages.items()),
        )

    def medians_ms(self) -> dict[str, int]:
        """Return the median of each stage over the turns kept."""
        per_stage: dict[str, list[int]] = {}
        for turn in self.turns:
            for name, length in turn.stages_ms().items():
                per_stage.setdefault(name, []).append(length)
        return {name: int(median(lengths)) for name, lengths in per_stage.items()}


def _audible_from(pcm: bytes) -> Samples | None:
    """Return where `pcm` becomes audible, in whole gate windows, or None."""
    samples = np.frombuffer(pcm, dtype="<i2").astype(np.float32)
    whole = len(samples) - len(samples) % GATE_WINDOW
    windows = samples[:whole].reshape(-1, GATE_WINDOW) if whole else samples.reshape(1, -1)
    loud = np.flatnonzero(np.sqrt(np.mean(windows**2, axis=1)) >= _AUDIBLE_RMS)
    return int(loud[0]) * GATE_WINDOW if len(loud) else None
