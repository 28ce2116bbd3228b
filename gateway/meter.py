"""Measures a session at its border, on the gateway clock, whatever backend stands behind it.

It sees all input, all output and all events, judges speech by the session's one VAD and audible output by one gate, and
is the only source of figures that compare backends: when a turn began and when its answer was heard, and how soon the
agent gave way to a voice over its own. A backend may explain what it did in between.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from gateway.audible_output import AudibleOutput
from gateway.measured_turn import Explain, Outcome, Round, Turn, TurnKind
from gateway.overlaps import Overlap, Overlaps
from gateway.turns.overlap_policy import ECHO_SHARE
from gateway.waterfall import Span, Stage
from models.interfaces import VAD_FRAME_SAMPLES
from protocol.audio_time import Samples, samples_from_bytes, samples_from_ms
from protocol.backend_events import (
    BackendEvent,
    CommandRefused,
    EndReason,
    EndStatus,
    FunctionCallStarted,
    InputCleared,
    InputCommitted,
    InputTimedOut,
    InputTranscriptCompleted,
    InputTranscriptFailed,
    OutputAudio,
    OutputItemEnded,
    OutputTextDelta,
    PlayoutCut,
    RefusalKind,
    ResponseEnded,
    ResponseStarted,
    SpeechStarted,
    SpeechStopped,
)
from protocol.commands import AppendAudio

logger = logging.getLogger(__name__)

SPEECH_THRESHOLD = 0.5
"""Reference VAD: a frame at or above this is speech (Silero's default), whatever threshold the client asked for."""

KEPT_TURNS = 32
"""Turns whose figures are kept per session (chosen)."""

KEPT_STRETCHES = 256
"""Stretches of voice that are remembered until the turn that holds them ends (chosen; newer ones win)."""

WAITING_TURNS = 64
"""Turns that may wait for their response (chosen: twice what the cascade lets wait); the oldest closes unanswered."""

BESIDE = 64
"""Out-of-band responses whose audio is known to be none of the conversation's (chosen: four times what may run)."""

OPEN_TURNS = 64
"""Turns whose answer runs or is on its way to the user's ear (chosen); the oldest is closed as cut."""

ASSUMED_PLAYOUT_DELAY: Samples = samples_from_ms(150)
"""From the socket to the user's ear (design: playout): the same for all backends, or they could not be compared."""

LONGEST_BACKCHANNEL: Samples = samples_from_ms(1_000)
"""A sound without words that is shorter than this takes no turn (the rule of Full-Duplex-Bench)."""


class _Voice(NamedTuple):
    """An unbroken stretch of voiced VAD frames: where it ends in the input, and when that had been said."""

    until: Samples
    at: Samples


class Meter:
    """The stopwatch of one session.

    `explain`: the backend's own spans, {} where it has none. `on_turn` gets each turn when its account is closed: at
    the moment in which its answer is heard, or will never be.
    """

    def __init__(
        self,
        session_id: str,
        *,
        playout_delay: Samples = ASSUMED_PLAYOUT_DELAY,
        explain: Explain = lambda _key: {},
        on_turn: Callable[[Turn, Samples], None] = lambda _turn, _now: None,
        on_overlap: Callable[[Overlap, Samples], None] = lambda _overlap, _now: None,
        backchannels: bool = False,
    ) -> None:
        self.turns: deque[Turn] = deque(maxlen=KEPT_TURNS)
        self._session_id = session_id
        self._playout_delay = playout_delay
        self._explain = explain
        self._on_turn = on_turn
        self._voices: deque[_Voice] = deque(maxlen=KEPT_STRETCHES)
        self._received: Samples = 0
        self._speech_start: Samples = 0
        self._cut_agent = False
        self._idle_item = ""
        self._waiting: deque[Turn] = deque()  # committed, and no response has begun for them yet
        self._just_committed = False
        self._asked: dict[str, Samples] = {}  # what the client asked for and has not begun
        self._open: dict[str, Turn] = {}  # by the response that answers it, until it is heard or never will be
        self._with_calls: Turn | None = None  # its response called functions; the next one speaks of their results
        self._running = ""
        self._player_end: Samples = 0
        self._beside: deque[str] = deque(maxlen=BESIDE)
        self._backchannels = backchannels
        self._user_speaks = False
        self._early: Turn | None = None  # began while the user's turn was not known to be over
        self._output_heard = AudibleOutput()
        self.overlaps = Overlaps(self._output_heard, on_overlap)

    # --- what passes the border ------------------------------------------------------------------------------------

    def heard_user(self, append: AppendAudio, now: Samples) -> None:
        """Note user audio that arrived by `now`, with the VAD frames that it completed."""
        self.settle(now)
        self._received += samples_from_bytes(len(append.pcm))
        for frame in append.frames:
            if frame.probability >= SPEECH_THRESHOLD:
                if self._voices and self._voices[-1].until == frame.until - VAD_FRAME_SAMPLES:
                    self._voices.pop()
                at = now - (self._received - frame.until)
                self._voices.append(_Voice(frame.until, at))
                echo = frame.echo >= ECHO_SHARE
                self.overlaps.voice(at - VAD_FRAME_SAMPLES, at, self._running, now, echo=echo)

    def asked(self, response_id: str, now: Samples) -> None:
        """Note that the client asked for a response of the conversation."""
        self._asked[response_id] = now

    def sent(self, response_id: str, samples: Samples, now: Samples) -> Samples | None:
        """Note that the socket took `samples` of a response's audio; return when its first sound is heard, once known.

        All audio goes through one player: it begins after the delay, or behind what it still plays.
        """
        if response_id in self._beside:
            return None
        start = max(now + self._playout_delay, self._player_end)
        self._player_end = start + samples
        self._output_heard.sent(response_id, samples, start, now)
        turn = self._open.get(response_id)
        if turn is None:
            return None
        answer = turn.rounds[-1]
        before, answer.sent = answer.sent, answer.sent + samples
        made = answer.marks.get(Stage.TTS_TTFA)
        answer.mark(Stage.SEND, now if made is None else made.end, now)
        at = answer.audible_at
        if turn.heard is not None or at is None or answer.sent <= at:
            return None
        turn.heard = start + at - before
        answer.mark(Stage.PLAYOUT, now, turn.heard)
        return turn.heard

    def truncated(self, item_id: str, heard: Samples, now: Samples) -> None:
        """Note that the client's player stopped the item `item_id` after `heard` samples: its word is the last."""
        self._player_end = min(self._player_end, now)
        stopped = self._output_heard.stop_item(item_id, heard, now)
        if stopped is not None:
            self.overlaps.client_stopped(item_id, stopped)
        for turn in list(self._open.values()):
            answer = turn.rounds[-1]
            if answer.item_id == item_id and (answer.audible_at is None or heard <= answer.audible_at):
                self._close(turn, Outcome.CUT, now)

    def settle(self, now: Samples) -> None:
        """Let time pass up to `now`: an answer that is due has been heard."""
        for turn in list(self._open.values()) if self._open else ():
            if turn.heard is not None and turn.heard <= now and self._is_answer(turn):
                self._close(turn, Outcome.HEARD, now)
        self.overlaps.settle(self._running, now)

    def close(self, now: Samples) -> None:
        """The session is over: nothing that is awaited comes any more."""
        self.settle(now)
        self.overlaps.close(self._running, now)
        for turn in list(self._open.values()):
            heard = turn.heard is not None and turn.heard <= now
            self._close(turn, Outcome.HEARD if heard else Outcome.CUT, now)
        self._close_calls(now)
        self._drop_waiting(now)

    def saw(self, event: BackendEvent, now: Samples) -> None:
        """Note a backend event at `now`."""
        self.settle(now)
        match event:
            case SpeechStarted(start=start):
                self._speech_start = start
                self._user_speaks = True
            case InputCleared():
                self._user_speaks = False
            case SpeechStopped(item_id=item_id, end=end):
                speech_end = self._spoken_by(end)
                if speech_end is not None:
                    self._wait(Turn(TurnKind.SPEECH, speech_end, item_id), now)
            case InputTimedOut(item_id=item_id):
                self._idle_item = item_id
            case InputCommitted(item_id=item_id):
                self._committed(item_id, now)
            case InputTranscriptCompleted(item_id=item_id) | InputTranscriptFailed(item_id=item_id):
                self._transcribed(item_id, now)
            case ResponseStarted(response_id=response_id, out_of_band=out_of_band):
                asked_at = self._asked.pop(response_id, None)
                if out_of_band:
                    self._beside.append(response_id)
                else:
                    self._begin_answer(response_id, asked_at, now)
            case CommandRefused(response_id=response_id):
                self._asked.pop(response_id or "", None)
                if event.kind is RefusalKind.RESPONSE_ACTIVE and event.client_event_id is None and self._waiting:
                    self._close(self._waiting.pop(), Outcome.UNANSWERED, now)
            case PlayoutCut():
                self._cut_agent = True
                self.overlaps.gave_way(now)
                self._flushed(now)
            case _:
                self._output(event, now)

    # --- what the user did -----------------------------------------------------------------------------------------

    def _spoken_by(self, end: Samples) -> Samples | None:
        """Return when the voice of the turn that ends at `end` (input clock) fell silent; None if there was none."""
        speech_end = None
        while self._voices and self._voices[0].until <= end:
            voice = self._voices.popleft()
            if voice.until > self._speech_start:
                speech_end = voice.at
        return speech_end

    def _wait(self, turn: Turn, now: Samples) -> None:
        if not self._running:
            self._drop_waiting(now)  # with nothing running they were not in line: nobody has asked for an answer
        elif len(self._waiting) >= WAITING_TURNS:
            self._close(self._waiting.popleft(), Outcome.UNANSWERED, now)
        turn.barge_in, self._cut_agent = self._cut_agent, False
        self._waiting.append(turn)

    def _drop_waiting(self, now: Samples) -> None:
        while self._waiting:
            self._close(self._waiting.popleft(), Outcome.UNANSWERED, now)

    def _committed(self, item_id: str, now: Samples) -> None:
        if not self._waiting or self._waiting[-1].item_id != item_id:
            kind = TurnKind.IDLE if item_id == self._idle_item else TurnKind.COMMIT
            self._wait(Turn(kind, now, item_id), now)
        turn = self._waiting[-1]
        self._user_speaks = False
        if turn.kind is TurnKind.SPEECH:
            turn.listening[Stage.EOT_WAIT] = Span(Stage.EOT_WAIT, turn.begin, now)
            if (early := self._early_answer()) is not None:
                self._waiting.pop()
                early.kind, early.item_id, early.barge_in = TurnKind.SPEECH, turn.item_id, turn.barge_in
                early.begin = turn.begin if early.heard is None else min(turn.begin, early.heard)
                return
        self._just_committed = True

    def _early_answer(self) -> Turn | None:
        """Return the answer that the agent began before the user's turn was known to be over, once."""
        early, self._early = self._early, None
        if early is None or early.response_id not in self._open or early.rounds[-1].first_text is None:
            return None
        return early

    def _is_answer(self, turn: Turn) -> bool:
        """Return whether what is heard of a response is known to be a turn, and whose it is."""
        answer = turn.rounds[-1]
        if turn is self._early and self._user_speaks:
            return False  # perhaps the answer to a turn that is not known to be over yet
        if not self._backchannels or answer.first_text is not None or answer.response_id != self._running:
            return True
        return answer.audible_for >= LONGEST_BACKCHANNEL

    def _transcribed(self, item_id: str, now: Samples) -> None:
        for turn in (*self._open.values(), *self._waiting):
            if turn.item_id == item_id:
                committed = turn.listening.get(Stage.EOT_WAIT)
                start = turn.begin if committed is None else committed.end
                turn.listening.setdefault(Stage.STT_FINAL, Span(Stage.STT_FINAL, start, now))

    # --- what the agent did ----------------------------------------------------------------------------------------

    def _begin_answer(self, response_id: str, asked_at: Samples | None, now: Samples) -> None:
        turn = self._answered_turn(asked_at, now)
        if turn is self._with_calls:
            self._with_calls = None
        self._close_calls(now)
        if len(self._open) >= OPEN_TURNS:
            self._close(next(iter(self._open.values())), Outcome.CUT, now)
        if turn.kind is TurnKind.OWN and self._user_speaks:
            self._early = turn
        turn.start_round(response_id, now)
        self._open[response_id] = turn
        self._running = response_id
        self._just_committed = False

    def _answered_turn(self, asked_at: Samples | None, now: Samples) -> Turn:
        """Return the turn that the response which begins now answers."""
        if self._waiting and asked_at is None and not self._just_committed:
            return self._waiting.popleft()  # the next in a burst client's line
        if self._waiting:
            turn = self._waiting.pop()  # one response answers all that was said so far; the last has waited for it
            self._drop_waiting(now)
            return turn
        if self._with_calls is not None:
            return self._with_calls
        return Turn(TurnKind.OWN, now) if asked_at is None else Turn(TurnKind.REQUEST, asked_at)

    def _close_calls(self, now: Samples) -> None:
        turn, self._with_calls = self._with_calls, None
        if turn is not None:
            self._close(turn, Outcome.TOOL_CALL, now)

    def _flushed(self, now: Samples) -> None:
        """The player was emptied by the user's voice: what waits to be heard never will be."""
        self._player_end = min(self._player_end, now)
        self._output_heard.flush(now)
        for response_id, turn in list(self._open.items()):
            if response_id != self._running:
                self._close(turn, Outcome.CUT, now)

    def _output(self, event: BackendEvent, now: Samples) -> None:
        response_id = getattr(event, "response_id", "")
        if isinstance(event, ResponseEnded) and response_id == self._running:
            self._running = ""
            self._just_committed = False
            self._cut_agent = self._cut_agent or event.reason is EndReason.TURN_DETECTED
            if event.reason is EndReason.TURN_DETECTED:
                self.overlaps.gave_way(now)
            elif event.status is EndStatus.CANCELLED:
                self.overlaps.client_cancelled(response_id)
        spans = []
        if isinstance(event, OutputAudio) and response_id not in self._beside:
            spans = self._output_heard.made(response_id, event.item_id, event.pcm)
        turn = self._open.get(response_id)
        if turn is None:
            return
        answer = turn.rounds[-1]
        match event:
            case OutputTextDelta():
                self._first_text(answer, now)
            case FunctionCallStarted(item_id=item_id):
                self._first_text(answer, now)
                answer.calls.add(item_id)
            case OutputItemEnded(item_id=item_id) if item_id in answer.calls and not answer.made:
                assert answer.first_text is not None
                answer.marks[Stage.TOOL_CALL] = Span(Stage.TOOL_CALL, answer.first_text, now)
            case OutputAudio(item_id=item_id, pcm=pcm):
                answer.item_id = item_id
                answer.mark(Stage.TTS_TTFA, answer.began if answer.first_text is None else answer.first_text, now)
                answer.sounds(samples_from_bytes(len(pcm)), spans)
            case ResponseEnded():
                self._ended(turn, answer, event, now)
            case _:
                pass

    def _first_text(self, answer: Round, now: Samples) -> None:
        if answer.first_text is None:
            answer.first_text = now
            if answer.audible_at is not None:
                return  # words that come behind their sound were not waited for
            answer.mark(Stage.LLM_TTFT, answer.began, now)

    def _ended(self, turn: Turn, answer: Round, event: ResponseEnded, now: Samples) -> None:
        if event.status is EndStatus.CANCELLED and turn.heard is None:
            self._close(turn, Outcome.CUT, now)  # what had been made of it is not sent any more
        elif answer.audible_at is not None:
            if self._was_backchannel(answer, event):
                self._not_an_answer(turn, now)
            return  # its sound is on the way
        elif event.status is EndStatus.FAILED:
            self._close(turn, Outcome.FAILED, now)
        elif answer.calls:
            written = answer.marks.get(Stage.TOOL_CALL)
            turn.tools_from = now if written is None else written.end
            del self._open[answer.response_id]
            self._close_calls(now)
            self._with_calls = turn
        else:
            self._close(turn, Outcome.SILENT, now)

    def _was_backchannel(self, answer: Round, event: ResponseEnded) -> bool:
        if not self._backchannels or answer.first_text is not None or answer.calls:
            return False
        return answer.audible_for < LONGEST_BACKCHANNEL and event.status is EndStatus.COMPLETED

    def _not_an_answer(self, turn: Turn, now: Samples) -> None:
        """What was taken for an answer was a nod: it has an account of its own, and the turn waits on."""
        answer = turn.rounds.pop()
        self._open.pop(answer.response_id, None)
        self.overlaps.forget(answer.response_id)
        nod = Turn(TurnKind.OWN, answer.began, heard=turn.heard, rounds=[answer])
        turn.heard = None
        if turn.rounds:
            self._with_calls = turn
        elif turn.kind is not TurnKind.OWN:
            turn.listening.pop(Stage.REQUEST, None)
            self._waiting.appendleft(turn)
        self._close(nod, Outcome.BACKCHANNEL, now)

    # --- a closed account ------------------------------------------------------------------------------------------

    def _close(self, turn: Turn, outcome: Outcome, now: Samples) -> None:
        self._open.pop(turn.response_id, None)
        self.turns.append(turn)
        account = turn.finish(outcome, self._explain)
        logger.info(
            "turn session=%s response=%s kind=%s outcome=%s slowest=%s total_ms=%d %s",
            self._session_id,
            turn.response_id or "none",
            turn.kind,
            outcome,
            account.slowest,
            account.total_ms,
            " ".join(f"{stage}_ms={length}" for stage, length in account.stages_ms().items()),
        )
        self._on_turn(turn, now)
