"""An answer that the language model begins at a silence which may be the end of the turn (design: speculation).

It is written in the dark: what it says is held back until the turn has been committed and its response has got its
context. If that is, word for word, the one that the speculation was given, the response adopts what was written and
what is still to come; else it is dropped and the response asks afresh. Until then there is no id, no usage, no history
of it anywhere but in here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto

from gateway.turns.actions import Generate, StopGenerating
from gateway.turns.inputs import (
    ContextProvided,
    FunctionCallDelta,
    GenerationAlive,
    GenerationEnded,
    GenerationFailed,
    TextDelta,
)
from gateway.turns.observations import DropReason, Speculated, SpeculationFate
from gateway.turns.response import Output, ResponseInput
from gateway.turns.settings import LONGEST_REPLY, STARTS_A_TURN, Deadlines
from protocol.audio_time import Samples
from protocol.backend_events import ContextForeseen

Piece = TextDelta | FunctionCallDelta | GenerationEnded
"""What a language model writes."""


class _Stage(Enum):
    """How far a speculation is."""

    AWAITING_CONTEXT = auto()
    WRITING = auto()
    WRITTEN = auto()


@dataclass(slots=True)
class _Running:
    """The speculation that runs. `answering`: the response that is to adopt it, once its turn has been committed."""

    speculation_id: str
    item_id: str
    voiced_until: Samples
    words: str
    deadline: Samples | None
    answering: str = ""
    stage: _Stage = _Stage.AWAITING_CONTEXT
    pieces: list[Piece] = field(default_factory=list)
    size: int = 0


class Speculation:
    """The answer that is being written before its turn is over, if there is one; at most one at a time."""

    def __init__(self, new_id: Callable[[str], str]) -> None:
        self._new_id = new_id
        self._running: _Running | None = None
        self._turn = ""
        self._starts = 0

    @property
    def speculation_id(self) -> str | None:
        """The id under which the language model writes, or None."""
        return None if self._running is None else self._running.speculation_id

    @property
    def item_id(self) -> str | None:
        """The utterance that is being answered, or None."""
        return None if self._running is None else self._running.item_id

    @property
    def voiced_until(self) -> Samples:
        """Where that utterance had fallen silent (input clock)."""
        return 0 if self._running is None else self._running.voiced_until

    @property
    def answering(self) -> str:
        """The response that is to adopt it, "" while its turn is not committed."""
        return "" if self._running is None else self._running.answering

    @property
    def deadline(self) -> Samples | None:
        """When the language model has been silent for too long (gateway clock), or None."""
        return None if self._running is None else self._running.deadline

    # --- its life --------------------------------------------------------------------------------------------------

    def begin(
        self, item_id: str, voiced_until: Samples, words: str, now: Samples, deadlines: Deadlines, out: list[Output]
    ) -> None:
        """Begin the answer to the utterance `item_id`, should it have ended at `voiced_until` and consist of `words`.

        One that is being written for the same words goes on. A turn has STARTS_A_TURN of them at most.
        """
        self.heard(item_id, words, out)
        if self._running is not None:
            return
        if item_id != self._turn:
            self._turn, self._starts = item_id, 0
        if self._starts >= STARTS_A_TURN:
            return
        self._starts += 1
        speculation_id = self._new_id("spec")
        self._running = _Running(speculation_id, item_id, voiced_until, words, now + deadlines.first_token)
        out.append(Speculated(speculation_id, item_id, SpeculationFate.STARTED))
        out.append(ContextForeseen(speculation_id, words))

    def heard(self, item_id: str, words: str, out: list[Output]) -> None:
        """The recogniser says that the utterance `item_id` consists of `words`: an answer to others is dropped."""
        running = self._running
        if running is None:
            return
        if running.item_id != item_id:
            self.drop(DropReason.SUPERSEDED, out)
        elif running.words != words:
            self.drop(DropReason.TRANSCRIPT_CHANGED, out)

    def committed(self, item_id: str, response_id: str) -> None:
        """The turn `item_id` is over and `response_id` is its response: it decides once it has its context."""
        if self._running is not None and self._running.item_id == item_id:
            self._running.answering = response_id

    def receive(self, message: ResponseInput, now: Samples, deadlines: Deadlines, out: list[Output]) -> None:
        """Take what came for the speculation; it is kept until the response wants it."""
        running = self._running
        assert running is not None
        match message:
            case ContextProvided():
                if running.stage is _Stage.AWAITING_CONTEXT:
                    running.stage = _Stage.WRITING
                    out.append(Generate(running.speculation_id))
            case GenerationFailed():
                running.stage = _Stage.WRITTEN
                self.drop(DropReason.FAILED, out)
            case _ if running.stage is not _Stage.WRITING:
                pass
            case TextDelta(text=written) | FunctionCallDelta(arguments=written):
                running.deadline = now + deadlines.next_token
                running.pieces.append(message)
                self._count(running, len(written) + 1, out)  # empty pieces take memory, too
            case GenerationAlive(characters=thought):
                running.deadline = now + deadlines.next_token
                self._count(running, thought, out)
            case GenerationEnded():
                running.deadline = None
                running.stage = _Stage.WRITTEN
                running.pieces.append(message)
            case _:
                pass  # no voice and no tool works for it

    def _count(self, running: _Running, characters: int, out: list[Output]) -> None:
        """Overflow rule: an answer that outgrows the longest reply is dropped; nobody was told of it."""
        running.size += characters
        if running.size > LONGEST_REPLY:
            self.drop(DropReason.TOO_LONG, out)

    def settle(self, now: Samples, out: list[Output]) -> None:
        """Let time pass: a language model that is silent for too long is given up; the response asks it afresh."""
        if self.deadline is not None and now >= self.deadline:
            self.drop(DropReason.FAILED, out)

    def has_begun(self, speculation_id: str) -> bool:
        """Return whether that is the one that runs and the language model has its context."""
        running = self._running
        if running is None or running.speculation_id != speculation_id:
            return False
        return running.stage is not _Stage.AWAITING_CONTEXT

    def adopt(self, out: list[Output]) -> list[Piece]:
        """Hand over what was written. What is still to come bears the speculation's id."""
        running, self._running = self._running, None
        assert running is not None
        adopted = SpeculationFate.ADOPTED
        out.append(Speculated(running.speculation_id, running.item_id, adopted, running.answering))
        return running.pieces

    def drop(self, reason: DropReason, out: list[Output]) -> None:
        """Forget what runs, if anything does, and stop the language model at once."""
        running, self._running = self._running, None
        if running is None:
            return
        dropped = SpeculationFate.DROPPED
        out.append(Speculated(running.speculation_id, running.item_id, dropped, running.answering, reason))
        if running.stage is _Stage.WRITING:
            out.append(StopGenerating(running.speculation_id))
