"""What a session decided, one line each, so that two runs of it can be laid side by side.

Ids differ from run to run where decisions do, so that turns and responses are told by their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from gateway.turns.observations import OverlapJudged, PauseJudged, PauseVerdict, Speculated
from gateway.turns.response import Output
from protocol.audio_time import Samples, ms_from_samples, s_from_samples
from protocol.backend_events import (
    CommandRefused,
    InputCleared,
    InputCommitted,
    InputTimedOut,
    InputTranscriptCompleted,
    InputTranscriptFailed,
    PlayoutCut,
    ResponseEnded,
    ResponseStarted,
    SpeechStarted,
)


@dataclass(frozen=True, slots=True)
class Decision:
    """Something that was decided `at` (gateway clock), in words."""

    at: Samples
    text: str

    def __str__(self) -> str:
        return f"{s_from_samples(self.at):9.3f} s  {self.text}"


@dataclass(slots=True)
class Decisions:
    """The decisions of one run, in order."""

    all: list[Decision] = field(default_factory=list)
    _turns: dict[str, int] = field(default_factory=dict)
    _responses: dict[str, int] = field(default_factory=dict)

    def add(self, outputs: Sequence[Output], now: Samples) -> None:
        """Add what the machine decided at `now`."""
        self.all += [Decision(now, text) for output in outputs if (text := self._told(output))]

    def _told(self, output: Output) -> str:
        match output:
            case SpeechStarted(item_id=item_id, start=start):
                return f"turn {self._turn(item_id)} begins at {ms_from_samples(start)} ms of input"
            case PauseJudged():
                return self._pause(output)
            case InputCommitted(item_id=item_id, start=start, end=end):
                return f"turn {self._turn(item_id)} ends: {ms_from_samples(start)}–{ms_from_samples(end)} ms of input"
            case InputTranscriptCompleted(item_id=item_id, transcript=transcript):
                return f"turn {self._turn(item_id)} says: {transcript!r}"
            case InputTranscriptFailed(item_id=item_id, fault=fault):
                return f"turn {self._turn(item_id)} has no transcript: {fault.code}"
            case InputTimedOut(item_id=item_id):
                return f"turn {self._turn(item_id)} is the idle timeout's"
            case InputCleared():
                return "the input is cleared"
            case OverlapJudged(onset=onset, verdict=verdict, reason=reason, held=held):
                return (
                    f"voice over the agent at {ms_from_samples(onset)} ms of input: {verdict} ({reason}) "
                    f"after {ms_from_samples(held)} ms"
                )
            case Speculated(fate=fate, reason=reason):
                return f"speculative reply {fate}" + (f" ({reason})" if reason else "")
            case ResponseStarted(response_id=response_id):
                return f"response {self._response(response_id)} starts"
            case ResponseEnded(response_id=response_id, status=status, heard=heard, reason=reason):
                why = f", {reason}" if reason else ""
                return f"response {self._response(response_id)}: {status}{why}, {ms_from_samples(heard)} ms heard"
            case PlayoutCut(heard=heard):
                return f"the agent is cut off after {ms_from_samples(heard)} ms of its reply"
            case CommandRefused(kind=kind):
                return f"refused: {kind}"
            case _:
                return ""

    def _pause(self, judged: PauseJudged) -> str:
        turn, silence = self._turn(judged.item_id), ms_from_samples(judged.silence)
        evidence = ""
        if judged.complete is not None and judged.threshold is not None:
            evidence = f", {judged.complete:.2f} against {judged.threshold:.2f}"
        word = {
            PauseVerdict.COMMIT: "is over",
            PauseVerdict.HOLD: "is held open",
            PauseVerdict.WAIT: "waits, as asked",
            PauseVerdict.RESUMED: "goes on",
        }[judged.verdict]
        return f"turn {turn} {word} after {silence} ms of silence (by {judged.by}{evidence})"

    def _turn(self, item_id: str) -> int:
        return self._turns.setdefault(item_id, len(self._turns) + 1)

    def _response(self, response_id: str) -> int:
        return self._responses.setdefault(response_id, len(self._responses) + 1)


@dataclass(frozen=True, slots=True)
class Change:
    """A decision of one run only: `mark` is "-" for the first, "+" for the second, " " for one of both."""

    mark: str
    decision: Decision


def compared(before: Sequence[Decision], after: Sequence[Decision]) -> list[Change]:
    """Return all decisions of both runs in order, each with the run that it belongs to."""
    changes: list[Change] = []
    for tag, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            changes += [Change(" ", decision) for decision in before[a:b]]
        else:
            changes += [Change("-", decision) for decision in before[a:b]]
            changes += [Change("+", decision) for decision in after[c:d]]
    return changes
