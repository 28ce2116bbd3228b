"""Runs a recorded session through the pure core again: the same input, then or other settings, what is decided now?"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from itertools import count

from gateway.recording.changed_settings import Changes
from gateway.recording.codec import to_json, told_from_json
from gateway.recording.decisions import Change, Decisions, compared
from gateway.recording.recorded_engines import RecordedEngines
from gateway.recording.recording import Recording, Step
from gateway.turns.inputs import (
    AudioReceived,
    CancelRequested,
    ClearRequested,
    CommitRequested,
    HeardByClient,
    Input,
    InputStalled,
    ItemAudioGiven,
    ResponseRequested,
    SettingsChanged,
    SpeechProbability,
    Tick,
)
from gateway.turns.machine import TurnMachine
from gateway.turns.response import Output
from gateway.turns.settings import STALL_AFTER
from protocol.audio_time import Samples
from protocol.backend_events import OutputTextDelta, ResponseStarted
from protocol.ids import CountingIds

_FROM_OUTSIDE = (
    AudioReceived,
    SpeechProbability,
    CommitRequested,
    ClearRequested,
    ResponseRequested,
    ItemAudioGiven,
    CancelRequested,
    HeardByClient,
    SettingsChanged,
)
"""What the user and the client did: it happens again at its time. All else follows from it."""


@dataclass(frozen=True, slots=True)
class Replay:
    """What came of a replay. `identical`: every answer of the core was the recorded one, to the last bit."""

    identical: bool
    changes: list[Change]

    @property
    def changed(self) -> int:
        """How many decisions stand on one side only."""
        return sum(change.mark != " " for change in self.changes)


def replayed(recording: Recording, changes: Changes) -> Replay:
    """Run `recording` through the core with `changes` to its settings.

    Where those change nothing it is fed exactly as it was, and if the core answers as it did, that is all. Otherwise
    engines are asked anew and answer as `RecordedEngines` says.
    """
    before = Decisions()
    for step in recording.steps:
        before.add(_told(step), step.at)
    if _changes_nothing(recording, changes) and _answers_as_recorded(recording):
        return Replay(True, compared(before.all, before.all))
    return Replay(False, compared(before.all, _Rerun(recording, changes).decisions.all))


def _changes_nothing(recording: Recording, changes: Changes) -> bool:
    """Return whether nothing but settings was ever told under settings that would be others now."""
    settings = recording.settings
    for step in recording.steps:
        if isinstance(step.message, SettingsChanged):
            settings = step.message.settings
        elif changes.applied(settings) != settings:
            return False
    return True


def _told(step: Step) -> list[Output]:
    return [told for record in step.outputs if (told := told_from_json(record)) is not None]


def _answers_as_recorded(recording: Recording) -> bool:
    ids = _RecordedIds()
    machine = TurnMachine(recording.settings, ids)
    for step in recording.steps:
        ids.draw(step.ids)
        outputs = machine.receive(step.message, step.at)
        if [to_json(output) for output in outputs] != list(step.outputs):
            return False
    return True


class _RecordedIds:
    """Gives the ids that were drawn then; counts on where there were fewer."""

    def __init__(self) -> None:
        self._waiting: deque[str] = deque()
        self._own = CountingIds()

    def draw(self, ids: tuple[str, ...]) -> None:
        self._waiting = deque(ids)

    def __call__(self, prefix: str) -> str:
        return self._waiting.popleft() if self._waiting else self._own(f"other_{prefix}")


class _Rerun:
    """The session once more, with the user and the client as recorded and the engines as far as they are known."""

    def __init__(self, recording: Recording, changes: Changes) -> None:
        self.decisions = Decisions()
        self._machine = TurnMachine(changes.applied(recording.settings), CountingIds())
        self._engines = RecordedEngines(recording.steps, lambda: self._machine.speculation)
        self._changes = changes
        self._order = count()
        self._due: list[tuple[Samples, int, Input]] = []
        self._then = _Outputs()
        self._now = _Outputs()
        for step in recording.steps:
            self._pass_time(step.at)
            if isinstance(step.message, _FROM_OUTSIDE) and (message := self._translated(step.message)) is not None:
                self._tell(message, step.at)
            self._then.add(_told(step))
        self._pass_time(recording.steps[-1].at if recording.steps else 0)

    def _translated(self, message: Input) -> Input | None:
        """Return what a client would have said here, with the ids of this run; None if it could not have said it."""
        match message:
            case SettingsChanged(settings=settings):
                return SettingsChanged(self._changes.applied(settings))
            case HeardByClient(item_id=item_id, heard=heard):
                item = self._now.of_number(self._then.number_of(item_id), "item")
                return None if item is None else HeardByClient(item, heard)
            case CancelRequested(response_id=str() as response_id, client_event_id=event_id):
                response = self._now.of_number(self._then.number_of(response_id), "response")
                return CancelRequested(response or response_id, event_id)
            case _:
                return message

    def _pass_time(self, until: Samples) -> None:
        """Let engines answer and deadlines pass up to `until`, in order."""
        now: Samples = -1
        while True:
            at = self._due[0][0] if self._due else None
            deadline = self._machine.next_deadline(max(now, 0))
            if deadline is not None and deadline <= now:
                deadline = now + 1  # an early look that cleared nothing
            if at is not None and at <= until and (deadline is None or at <= deadline):
                now, _, message = heapq.heappop(self._due)
                self._tell(message, now)
            elif deadline is not None and deadline <= until:
                now = deadline
                stalled = self._machine.silent_for(now)
                self._tell(InputStalled(stalled) if stalled >= STALL_AFTER else Tick(), now)
            else:
                return

    def _tell(self, message: Input, now: Samples) -> None:
        outputs = self._machine.receive(message, now)
        self.decisions.add(outputs, now)
        self._now.add(outputs)
        for output in outputs:
            for delay, answer in self._engines.answers(output):
                heapq.heappush(self._due, (now + delay, next(self._order), answer))


class _Outputs:
    """The agent's responses and messages of one run, by number: two runs' n-th ones correspond."""

    def __init__(self) -> None:
        self._numbers: dict[str, tuple[str, int]] = {}
        self._by_number: dict[tuple[str, int], str] = {}
        self._counts = {"response": 0, "item": 0}

    def add(self, outputs: list[Output]) -> None:
        for output in outputs:
            if isinstance(output, ResponseStarted):
                self._note("response", output.response_id)
            elif isinstance(output, OutputTextDelta):
                self._note("item", output.item_id)

    def _note(self, kind: str, name: str) -> None:
        if name not in self._numbers:
            self._counts[kind] += 1
            self._numbers[name] = kind, self._counts[kind]
            self._by_number[kind, self._counts[kind]] = name

    def number_of(self, name: str) -> int | None:
        known = self._numbers.get(name)
        return None if known is None else known[1]

    def of_number(self, number: int | None, kind: str) -> str | None:
        return None if number is None else self._by_number.get((kind, number))
