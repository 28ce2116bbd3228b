"""Measures a session at its border, on the gateway clock, whatever backend stands behind it.

It sees all input, all output and all events, judges speech by the session's one VAD and audible output by one gate, and
is the only source of figures that compare backends.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from models.interfaces import VAD_FRAME_SAMPLES
from protocol.audio_time import Samples, ms_from_samples, samples_from_bytes, samples_from_ms
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

KEPT_STRETCHES = 256
"""Stretches of voice that are remembered until the turn that holds them ends (chosen; newer ones win)."""

_AUDIBLE_RMS = 32768.0 * 10.0 ** (AUDIBLE_DBFS / 20.0)


@dataclass(slots=True)
class TurnTimes:
    """When the stages of one spoken turn were passed (gateway clock); None where a stage has not happened.

    `item_id` is that of the user's speech, `response_id` that of the answer.
    """

    speech_end: Samples
    item_id: str = ""
    stopped: Samples | None = None
    transcribed: Samples | None = None
    response_id: str | None = None
    first_text: Samples | None = None
    first_audio: Samples | None = None

    def stages_ms(self) -> dict[str, int]:
        """Return the length of each stage that has ended, in ms, by name, and their sum as `voice_to_voice`.

        A stage begins where the one before it ended, on whole milliseconds, so that they add up exactly.
        """
        marks = {
            "endpointing": self.stopped,
            "asr": self.transcribed,
            "llm_first_token": self.first_text,
            "first_clause_tts": self.first_audio,
        }
        stages: dict[str, int] = {}
        began_ms = before_ms = ms_from_samples(self.speech_end)
        for name, at in marks.items():
            if at is not None:
                at_ms = ms_from_samples(at)
                stages[name] = at_ms - before_ms
                before_ms = at_ms
        if self.first_audio is not None:
            stages["voice_to_voice"] = before_ms - began_ms
        return stages


class _Voice(NamedTuple):
    """An unbroken stretch of voiced VAD frames: where it ends in the input, and when that had been said."""

    until: Samples
    at: Samples


class Meter:
    """The stopwatch of one session."""

    def __init__(self, session_id: str) -> None:
        self.turns: list[TurnTimes] = []
        self._session_id = session_id
        self._voices: deque[_Voice] = deque(maxlen=KEPT_STRETCHES)
        self._received: Samples = 0
        self._speech_start: Samples = 0
        self._open: TurnTimes | None = None
        self._silent_until: Samples = 0

    def heard_user(self, append: AppendAudio, now: Samples) -> None:
        """Note user audio that arrived by `now`, with the VAD frames that it completed."""
        self._received += samples_from_bytes(len(append.pcm))
        for frame in append.frames:
            if frame.probability >= SPEECH_THRESHOLD:
                if self._voices and self._voices[-1].until == frame.until - VAD_FRAME_SAMPLES:
                    self._voices.pop()
                self._voices.append(_Voice(frame.until, now - (self._received - frame.until)))

    def saw(self, event: BackendEvent, now: Samples) -> None:
        """Note a backend event at `now`."""
        turn = self._open
        match event:
            case SpeechStopped(item_id=item_id, end=end):
                speech_end = self._spoken_by(end)
                if speech_end is not None:
                    self._open = TurnTimes(speech_end=speech_end, item_id=item_id, stopped=now)
            case SpeechStarted(start=start):
                self._close()
                self._speech_start = start
            case InputTranscriptCompleted(item_id=item_id) | InputTranscriptFailed(item_id=item_id) if (
                turn is not None and turn.item_id == item_id
            ):
                turn.transcribed = now
            case ResponseStarted(response_id=response_id, out_of_band=False) if (
                turn is not None and turn.response_id is None
            ):
                turn.response_id = response_id
                self._silent_until = now
            case OutputTextDelta(response_id=response_id) if turn is not None and turn.response_id == response_id:
                if turn.first_text is None:
                    turn.first_text = now
            case OutputAudio(response_id=response_id, pcm=pcm) if turn is not None and turn.response_id == response_id:
                if turn.first_audio is None:
                    self._play(turn, pcm, now)
            case ResponseEnded(response_id=response_id) if turn is not None and turn.response_id == response_id:
                self._close()
            case _:
                pass

    def _spoken_by(self, end: Samples) -> Samples | None:
        """Return when the voice of the turn that ends at `end` (input clock) fell silent; None if there was none."""
        speech_end = None
        while self._voices and self._voices[0].until <= end:
            voice = self._voices.popleft()
            if voice.until > self._speech_start:
                speech_end = voice.at
        return speech_end

    def _play(self, turn: TurnTimes, pcm: bytes, now: Samples) -> None:
        """Note when `pcm` is heard, if it is: it plays at 1× after the silence that was sent before it."""
        start = max(now, self._silent_until)
        at = _audible_from(pcm)
        if at is None:
            self._silent_until = start + samples_from_bytes(len(pcm))
        else:
            turn.first_audio = start + at

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


def _audible_from(pcm: bytes) -> Samples | None:
    """Return where `pcm` becomes audible, in whole gate windows, or None."""
    if not pcm:
        return None
    samples = np.frombuffer(pcm, dtype="<i2").astype(np.float32)
    whole = len(samples) - len(samples) % GATE_WINDOW
    windows = samples[:whole].reshape(-1, GATE_WINDOW) if whole else samples.reshape(1, -1)
    loud = np.flatnonzero(np.sqrt(np.mean(windows**2, axis=1)) >= _AUDIBLE_RMS)
    return int(loud[0]) * GATE_WINDOW if len(loud) else None
