"""One turn as the meter follows it: from what it answers to the moment in which the answer is heard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from gateway.waterfall import LISTENING, ROUND, Span, Stage, Waterfall, in_order
from protocol.audio_time import Samples


class TurnKind(StrEnum):
    """What a turn begins with."""

    SPEECH = "speech"
    """The end of the user's voice, in a turn that the VAD ended."""
    COMMIT = "commit"
    """The commit: of the client's hand, or of a turn in which the reference VAD heard no voice."""
    REQUEST = "request"
    """The client's request for a response that no new speech stands behind: a typed turn, a tool's result."""
    IDLE = "idle"
    """The silence in which the agent speaks up by itself."""
    OWN = "own"
    """The model's own will: what it says when nobody has finished speaking, nor asked for anything."""


class Outcome(StrEnum):
    """How the waiting ended."""

    HEARD = "heard"
    """The user heard the answer, by estimate."""
    CUT = "cut"
    """The answer was stopped, or the session ended, before any of it was heard."""
    SILENT = "silent"
    """The response ended without audible audio: it was text, or there was nothing to answer."""
    TOOL_CALL = "tool_call"
    """The response called functions, and no response followed their results."""
    FAILED = "failed"
    """The response failed."""
    BACKCHANNEL = "backchannel"
    """It was a sound without words, as in "mm-hm", and answered nothing."""
    UNANSWERED = "unanswered"
    """No response came for it."""


Explain = Callable[[str], dict[Stage, Span]]
"""Returns a backend's own spans of an item or a response, by its id, once; they go before the border's."""


@dataclass(slots=True)
class Round:
    """One response of a turn, at the border: its marks, and its audio on the way to the first audible sample."""

    response_id: str
    began: Samples
    item_id: str = ""
    marks: dict[Stage, Span] = field(default_factory=dict)
    first_text: Samples | None = None
    calls: set[str] = field(default_factory=set)
    made: Samples = 0
    sent: Samples = 0
    audible_at: Samples | None = None
    """Where in the response's audio its first audible sample lies; None as long as all was silence."""
    audible_until: Samples = 0
    """Where its last one lies."""

    def sounds(self, samples: Samples, spans: Sequence[tuple[Samples, Samples]]) -> None:
        """Note audio that was made; `spans`: where in the response it is audible."""
        self.made += samples
        if spans:
            self.audible_at = spans[0][0] if self.audible_at is None else self.audible_at
            self.audible_until = spans[-1][1]

    @property
    def audible_for(self) -> Samples:
        """From its first audible sample to the last one so far."""
        return self.audible_until - (self.audible_at or 0)

    def mark(self, stage: Stage, start: Samples, end: Samples) -> None:
        """Note a stage's first end."""
        self.marks.setdefault(stage, Span(stage, start, end))


@dataclass(slots=True)
class Turn:
    """A turn's marks (gateway clock). `heard` may lie ahead of now; `barge_in`: its speech cut the agent short."""

    kind: TurnKind
    begin: Samples
    item_id: str = ""
    barge_in: bool = False
    outcome: Outcome | None = None
    heard: Samples | None = None
    listening: dict[Stage, Span] = field(default_factory=dict)
    rounds: list[Round] = field(default_factory=list)
    tools_from: Samples | None = None
    waterfall: Waterfall | None = None

    @property
    def response_id(self) -> str:
        """The response that answers it, the last one of several; "" without."""
        return self.rounds[-1].response_id if self.rounds else ""

    def start_round(self, response_id: str, now: Samples) -> Round:
        """Note that a response to it began."""
        if not self.rounds:
            self.listening.setdefault(Stage.REQUEST, Span(Stage.REQUEST, self._committed, now))
        self.rounds.append(Round(response_id, now))
        if self.tools_from is not None:
            self.rounds[-1].mark(Stage.TOOLS, self.tools_from, now)
        self.tools_from = None
        return self.rounds[-1]

    @property
    def _committed(self) -> Samples:
        wait = self.listening.get(Stage.EOT_WAIT)
        return self.begin if wait is None else wait.end

    def finish(self, outcome: Outcome, explain: Explain) -> Waterfall:
        """Close the account and return it, once."""
        self.outcome = outcome
        spans = in_order(LISTENING, explain(self.item_id), self.listening)
        if spans and spans[0].stage is Stage.VAD_HANG:
            spans[0] = replace(spans[0], start=min(self.begin, spans[0].end))
        own = [explain(answer.response_id) for answer in self.rounds]
        if own and (floor := own[0].get(Stage.FLOOR)) is not None:
            spans = [replace(floor, start=min(self.begin, floor.end))]  # such a model waits for no commit
        for answer, account in zip(self.rounds, own, strict=True):
            marks = answer.marks
            if outcome is not Outcome.HEARD:
                marks = {stage: span for stage, span in marks.items() if stage is not Stage.PLAYOUT}
            spans += in_order((Stage.TOOLS,), marks)
            spans += in_order(ROUND, account, marks)
            answer.marks = {}
        self.listening = {}
        self.waterfall = Waterfall(self.begin, tuple(spans))
        return self.waterfall
