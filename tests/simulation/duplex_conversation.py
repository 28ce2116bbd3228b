"""A full-duplex conversation on a fed clock: the scripted model, a user who speaks by plan, the core between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Coroutine
from itertools import count
from typing import Any, TypeVar

import numpy as np

from gateway.turns.duplex_observations import DuplexObservation
from gateway.turns.duplex_segments import ModelFrame
from gateway.turns.duplex_turns import DuplexTurns
from gateway.turns.duplex_vocabulary import AnswerCall, DuplexOutput, DuplexSettings, ModelSpoke, SteerModel
from gateway.turns.settings import DEFAULT_PLAYOUT_DELAY, VAD_FRAME
from models.duplex_interface import DuplexPrompt
from models.engines.scripted_duplex import DuplexReply, DuplexScript, ScriptedDuplex, ScriptedDuplexStream
from protocol.audio_time import Samples
from protocol.backend_events import OutputAudio, OutputTextDelta, ResponseEnded, ResponseStarted

T = TypeVar("T")

VOICE_PCM = (0.1 * 32_767 * np.sin(np.arange(240_000) / 20)).astype("<i2").tobytes()


class DuplexConversation:
    """`replies`, and further words of the script, say what the model does.

    `steered` False: it can't be steered; `marks` False: it doesn't say when it takes and yields the floor.
    """

    def __init__(
        self,
        *replies: DuplexReply,
        settings: DuplexSettings | None = None,
        steered: bool = True,
        marks: bool = True,
        playout_delay: Samples = DEFAULT_PLAYOUT_DELAY,
        frame_ms: int = 80,
        **script: Any,
    ) -> None:
        model = ScriptedDuplex(DuplexScript(replies or (DuplexReply("I heard you."),), **script), frame_ms=frame_ms)
        self.model: ScriptedDuplexStream = finished(model.open(DuplexPrompt()))
        numbers = {kind: count(1) for kind in ("item", "resp", "call")}
        self.core = DuplexTurns(
            lambda kind: f"{kind}_{next(numbers[kind])}",
            steered=steered,
            settings=settings or DuplexSettings(),
            playout_delay=playout_delay,
        )
        self._marks = marks
        self.frame: Samples = model.frame_samples
        self.told: list[tuple[Samples, DuplexOutput]] = []
        self.now: Samples = 0
        self._vad_until: Samples = 0
        self._waiting: deque[tuple[Samples, bool]] = deque()  # for the model: when, and whether one speaks

    def user(self, ms: int, *, speaks: bool, echo: float = 0.0) -> None:
        """Let the user speak, or be silent, for `ms` (whole frames of the model); of that the agent's `echo` share."""
        for _ in range(ms * 24 // self.frame):
            self._hear(speaks=speaks, echo=echo)
            self._step(speaks=speaks)

    def vad(self, ms: int, *, speaks: bool) -> None:
        """Let the user speak, or be silent, while there is no model that could hear it, or none that keeps up."""
        for _ in range(ms * 24 // self.frame):
            self._hear(speaks=speaks)
            self._waiting.append((self.now - self.frame, speaks))

    def catch_up(self, until_ms: int | None = None) -> None:
        """Let the model hear what has waited, faster than real time: all of it, or the first so many milliseconds."""
        left = len(self._waiting) if until_ms is None else until_ms * 24 // self.frame
        for _ in range(left):
            self._step(speaks=self._waiting.popleft()[1])

    def leave_out_silence(self, keep_ms: int) -> None:
        """Drop silence that waits, the oldest first, but for so much."""
        silent = [at for at, speaks in self._waiting if not speaks]
        dropped = set(silent[: max(0, len(silent) - keep_ms * 24 // self.frame)])
        self._waiting = deque(waiting for waiting in self._waiting if waiting[0] not in dropped)

    def _step(self, *, speaks: bool) -> None:
        step = finished(self.model.step(VOICE_PCM[: 2 * self.frame] if speaks else bytes(2 * self.frame)))
        rms = float(np.sqrt((np.frombuffer(step.pcm, "<i2") / 32_768.0) ** 2).mean())
        takes, yields = self._marks and step.takes_floor, self._marks and step.yields_floor
        frame = ModelFrame(self.frame, rms, step.text, takes, yields)
        call = None if step.call is None else (step.call.name, step.call.arguments)
        behind = self.now - self._waiting[0][0] if self._waiting else 0
        self.take(self.core.spoke(ModelSpoke(frame, step.pcm, step.user_text, call, behind), self.now))

    def _hear(self, *, speaks: bool, echo: float = 0.0) -> None:
        self.now += self.frame
        while self._vad_until + VAD_FRAME <= self.now:
            self._vad_until += VAD_FRAME
            self.take(self.core.heard(self._vad_until, float(speaks), self.now, echo=echo))

    def take(self, outputs: list[DuplexOutput]) -> list[DuplexOutput]:
        """Perform and keep what the core says."""
        for output in outputs:
            self.told.append((self.now, output))
            if isinstance(output, AnswerCall):
                self.model.answer_call(output.output)
            elif isinstance(output, SteerModel) and output.command == "say":
                self.model.say(output.text)
            elif isinstance(output, SteerModel):
                getattr(self.model, output.command)()
        return outputs

    def all(self, kind: type[T]) -> list[T]:
        """Return everything of `kind` that was told."""
        return [output for _, output in self.told if isinstance(output, kind)]

    def names(self) -> list[str]:
        """Return the kinds of all that was told but observations, repetitions once."""
        told = [output for _, output in self.told if not isinstance(output, DuplexObservation)]
        names = [type(output).__name__ for output in told]
        return [name for at, name in enumerate(names) if at == 0 or names[at - 1] != name]

    def of(self, response_id: str) -> list[DuplexOutput]:
        """Return what was told of one response."""
        return [output for _, output in self.told if getattr(output, "response_id", None) == response_id]

    def text(self, response_id: str) -> str:
        """Return the words of one response."""
        return "".join(output.delta for output in self.of(response_id) if isinstance(output, OutputTextDelta)).strip()

    def sent(self, response_id: str) -> Samples:
        """Return how much audio of one response was sent."""
        return sum(len(output.pcm) // 2 for output in self.of(response_id) if isinstance(output, OutputAudio))

    def responses(self) -> list[tuple[ResponseStarted, ResponseEnded]]:
        """Return all responses that have ended."""
        ends = {end.response_id: end for end in self.all(ResponseEnded)}
        return [(start, ends[start.response_id]) for start in self.all(ResponseStarted) if start.response_id in ends]


def finished(work: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine returns that never waits."""
    try:
        work.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    raise AssertionError("it waits")
