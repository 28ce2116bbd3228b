"""The cascade's own account of a turn: when its stages ran, as seen between the machine's inputs and outputs.

It explains and is never compared: what is compared is measured at the session's border (`gateway/meter.py`), which any
backend has.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from gateway.turns.actions import Generate, JudgeSound, JudgeWords, Synthesize, Transcribe, TranscribePause
from gateway.turns.inputs import FunctionCallDelta, Input, Judged, PauseTranscript, SynthesizedSpeech, TextDelta
from gateway.turns.observations import Speculated, SpeculationFate
from gateway.turns.response import Output
from gateway.turns.states import User
from gateway.waterfall import Span, Stage
from protocol.audio_time import Samples
from protocol.backend_events import (
    ContextRequested,
    InputTranscriptCompleted,
    InputTranscriptFailed,
    SpeechStopped,
)

KEPT_ACCOUNTS = 160
"""Items and responses whose marks are kept; the oldest leave first (chosen: the turns that may wait, their responses,
those beside the conversation, and some that are over)."""


@dataclass(slots=True)
class _Account:
    """What is known of one item or one response."""

    spans: dict[Stage, Span] = field(default_factory=dict)
    asked: dict[Stage, Samples] = field(default_factory=dict)
    pause: int = -1
    closed: bool = False

    def end(self, stage: Stage, now: Samples, default_start: Samples | None = None) -> None:
        start = self.asked.get(stage, now if default_start is None else default_start)
        self.spans[stage] = Span(stage, start, now)

    def end_once(self, stage: Stage, now: Samples) -> bool:
        """End a stage at its first mark; return whether this was it."""
        if stage in self.spans:
            return False
        self.end(stage, now)
        return True


class TurnMarks:
    """Collects the spans of stages by item and by response. One per session; `told` is its tap on the machine."""

    def __init__(self) -> None:
        self._accounts: OrderedDict[str, _Account] = OrderedDict()
        self._adopted: OrderedDict[str, str] = OrderedDict()  # responses by the speculation that they adopted
        self._user = User.SILENT
        self._paused_at: Samples | None = None

    def take(self, key: str) -> dict[Stage, Span]:
        """Return what is known of an item or a response, by its id, and forget it: its turn's account is closed."""
        account = self._accounts.pop(key, None)
        return {} if account is None else account.spans

    def user_moved(self, user: User, now: Samples) -> None:
        """Note the state of the user after a message was dealt with."""
        if user is not self._user:
            self._user = user
            self._paused_at = now if user is User.PAUSED else None

    def told(self, message: Input, now: Samples, outputs: Sequence[Output]) -> None:
        """Note what the machine was told at `now` and what followed."""
        match message:
            case TextDelta(response_id=key) | FunctionCallDelta(response_id=key):
                account = self._accounts.get(self._adopted.get(key, key))
                if account is not None and account.end_once(Stage.LLM_TTFT, now):
                    account.asked[Stage.FIRST_CLAUSE] = account.asked[Stage.TOOL_CALL] = now
            case SynthesizedSpeech(response_id=key):
                account = self._accounts.get(key)
                if account is not None:
                    account.end_once(Stage.TTS_TTFA, now)
            case Judged(item_id=item_id, pause=pause):
                account = self._account(item_id)
                if not account.closed and account.pause == pause:
                    account.end(Stage.EOT_MODEL, now)
            case PauseTranscript(item_id=item_id):
                account = self._account(item_id)
                if not account.closed:
                    account.end(Stage.STT_FINAL, now)
            case _:
                pass
        for output in outputs:
            self._follows(output, now)

    def _follows(self, output: Output, now: Samples) -> None:
        match output:
            case JudgeSound(item_id=item_id, pause=pause) | JudgeWords(item_id=item_id, pause=pause):
                account = self._account(item_id)
                if account.pause != pause:
                    account.pause = pause
                    account.spans.pop(Stage.EOT_MODEL, None)
                    account.asked[Stage.EOT_MODEL] = now
            case TranscribePause(item_id=item_id) | Transcribe(item_id=item_id):
                account = self._account(item_id)
                account.spans.pop(Stage.STT_FINAL, None)
                account.asked[Stage.STT_FINAL] = now
            case SpeechStopped(item_id=item_id):
                account = self._account(item_id)
                account.closed = True
                if self._paused_at is not None:
                    account.end(Stage.VAD_HANG, self._paused_at)  # when it began only the border knows
            case InputTranscriptCompleted(item_id=item_id) | InputTranscriptFailed(item_id=item_id):
                self._account(item_id).end_once(Stage.STT_FINAL, now)
            case ContextRequested(response_id=key):
                self._account(key).asked[Stage.QUEUE] = now
            case Generate(response_id=key):
                account = self._account(key)
                account.end(Stage.QUEUE, now)
                account.asked[Stage.LLM_TTFT] = now
            case Synthesize(response_id=key, first=True):
                account = self._account(key)
                account.end_once(Stage.FIRST_CLAUSE, now)
                account.asked[Stage.TTS_TTFA] = now
            case Speculated(fate=SpeculationFate.ADOPTED):
                # What was begun for a turn that might end is from here on the response's, and so is what follows.
                begun = self._accounts.pop(output.speculation_id, None)
                if begun is not None:
                    self._accounts[output.response_id] = begun
                    self._adopted[output.speculation_id] = output.response_id
                    if len(self._adopted) > KEPT_ACCOUNTS:
                        self._adopted.popitem(last=False)
            case _:
                pass

    def _account(self, key: str) -> _Account:
        account = self._accounts.get(key)
        if account is None:
            account = self._accounts[key] = _Account()
            if len(self._accounts) > KEPT_ACCOUNTS:
                self._accounts.popitem(last=False)
        return account
