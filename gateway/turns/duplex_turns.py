"""The whole of a full-duplex conversation as events: what the model does, what the user does, what the client wants.

The model decides when to speak; this only tells of it, in the same events and under the same promises as the cascade.
All durations are audio time: the model's frames are the clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from gateway.turns.duplex_calls import DuplexCalls
from gateway.turns.duplex_observations import FloorTaken, FloorYielded
from gateway.turns.duplex_segments import (
    PREROLL,
    ClosedBy,
    DuplexSegments,
    OpenedBy,
    SegmentAudio,
    SegmentClosed,
    SegmentOpened,
    SegmentText,
)
from gateway.turns.duplex_user import DuplexUser, UserOutput
from gateway.turns.duplex_vocabulary import (
    AnswerCall,
    DuplexOutput,
    DuplexSettings,
    ModelSpoke,
    SpeechStartedPolicy,
    SteerModel,
)
from gateway.turns.overlap_policy import ECHO_SHARE
from gateway.turns.playout import VirtualPlayer
from gateway.turns.settings import DEFAULT_PLAYOUT_DELAY
from gateway.turns.speakable_chunks import SENTENCE_SIGNS
from protocol.audio_time import Samples, bytes_from_samples, samples_from_ms, samples_from_s
from protocol.backend_events import (
    CommandRefused,
    EndReason,
    EndStatus,
    EngineFault,
    FunctionCallArgumentsDelta,
    FunctionCallStarted,
    InputCommitted,
    OutputAudio,
    OutputItemEnded,
    OutputSpoken,
    OutputTextDelta,
    PlayoutCut,
    RefusalKind,
    ResponseEnded,
    ResponseStarted,
)

VOICE_LAG: Samples = samples_from_ms(400)
"""How far the voice is behind its text in such models (VoiceChat: a few frames; estimated, so that of a reply that was
cut hardly a word counts as heard that was not)."""

LETTER: Samples = samples_from_s(1) // 15
"""How long a letter takes to say (as in protocol.speech): text may be written several times as fast as it is voiced."""

START_TIMEOUT: Samples = samples_from_s(5)
"""A model that was asked to speak, or was given a tool's result, begins within this, or the response has failed."""

_AFTER_SENTENCES = " \n\"'”’»)"

STALLED = EngineFault("model_stalled", "The full-duplex model took the floor and said nothing.")
NOT_STARTED = EngineFault("response_not_started", "The full-duplex model did not begin to speak in time.")


@dataclass(slots=True)
class _Wanted:
    """A response that the client waits for, until `until`; `audio`: it is to be spoken."""

    response_id: str
    until: Samples
    audio: bool


@dataclass(slots=True)
class _Reply:
    response_id: str
    audio: bool
    item_id: str = ""
    text_size: int = 0
    sent: Samples = 0
    voiced: Samples = 0
    """Where in its audio the text so far is said by estimate."""
    ended_sentence: bool = False
    """Its text so far ends with a sentence."""
    nods: bool = False
    """It began as a sound, and has no words and no calls so far."""


class DuplexTurns:
    """One session's. `steered`: the model can be made to speak, to stop and to read results.

    `playout_delay`: how long after it was sent the client's user hears audio.
    """

    def __init__(
        self,
        new_id: Callable[[str], str],
        *,
        steered: bool,
        settings: DuplexSettings | None = None,
        playout_delay: Samples = DEFAULT_PLAYOUT_DELAY,
    ) -> None:
        self.settings = settings or DuplexSettings()
        self._new_id = new_id
        self._steered = steered
        self._segments = DuplexSegments()
        self._user = DuplexUser(new_id)
        self._player = VirtualPlayer(playout_delay)
        self._reply: _Reply | None = None
        self._time: Samples = 0
        self._recent: deque[tuple[Samples, bytes]] = deque()
        self._wanted: _Wanted | None = None
        self._calls = DuplexCalls()
        self._behind: Samples = 0  # what the VAD has heard and the model has not
        self._answered_at: Samples | None = None  # a result was given, and what the model says to it has not begun
        self._holding_until: Samples = 0  # the model is to ask for patience by then
        self._fault: EngineFault | None = None
        self._owed = False
        self._busy_at: Samples = 0

    @property
    def is_awaited(self) -> bool:
        """Whether the client waits for a response that has not begun."""
        return self._wanted is not None

    @property
    def is_down(self) -> bool:
        """Whether there is no model: it has failed, and is not tried just now."""
        return self._fault is not None

    @property
    def is_speaking(self) -> bool:
        """Whether a response is open."""
        return self._reply is not None

    @property
    def is_owed(self) -> bool:
        """Whether the user's last turn has got no answer."""
        return self._owed

    @property
    def rests(self) -> Samples:
        """For how long nobody has spoken and no call has waited for its result."""
        return 0 if self._is_busy else self._time - self._busy_at

    @property
    def _is_busy(self) -> bool:
        return self._reply is not None or self._user.speaks or self._calls.wait

    # --- the user and the client -----------------------------------------------------------------------------------

    def heard(self, until: Samples, probability: float, now: Samples, *, echo: float = 0.0) -> list[DuplexOutput]:
        """Take a VAD frame of the user's audio. `echo`: the share 0…1 of it that the agent's own audio explains."""
        out: list[DuplexOutput] = []
        hold = self._reply is not None and self.settings.speech_started is not SpeechStartedPolicy.ALWAYS
        found = self.settings.detection
        own = echo >= ECHO_SHARE
        self._tell_user(lambda told: self._user.hear(until, probability, found, told, echo=own, hold=hold), out)
        self._player.settle(now)
        return self._unheard(out)

    def commit(self, client_event_id: str | None) -> list[DuplexOutput]:
        """The client ends the user's turn by hand. It starts no response: the model decides that."""
        out: list[DuplexOutput] = []
        self._tell_user(lambda told: self._user.commit(client_event_id, self.settings.detection, told), out)
        return self._unheard(out)

    def _unheard(self, out: list[DuplexOutput]) -> list[DuplexOutput]:
        """Say of a turn that ends while there is no model that nobody has heard it."""
        fault = self._fault
        if fault is None or not any(isinstance(event, InputCommitted) for event in out):
            return out
        self._tell_user(lambda told: self._user.complete(told, fault), out)
        self._owed = False
        if self.settings.detection is not None:
            self._fail(self._new_id("resp"), fault, out)
        return out

    def clear(self) -> list[DuplexOutput]:
        """The client drops the uncommitted input."""
        out: list[DuplexOutput] = []
        self._tell_user(self._user.clear, out)
        return out

    def request(
        self, response_id: str, client_event_id: str | None, *, audio: bool = True, out_of_band: bool = False
    ) -> list[DuplexOutput]:
        """The client wants a response: that to a tool's result comes by itself, another one has to be steered."""
        if out_of_band:
            detail = "A full-duplex model has one conversation: it makes no responses beside it."
            return [CommandRefused(RefusalKind.UNSUPPORTED, client_event_id, response_id, detail=detail)]
        if self._fault is not None:
            failed: list[DuplexOutput] = []
            self._fail(response_id, self._fault, failed)
            return failed
        speaks = self._reply is not None and not self._reply.nods
        if self._wanted is not None or (speaks and not self._follows):
            return [CommandRefused(RefusalKind.RESPONSE_ACTIVE, client_event_id, response_id)]
        if not self._steered and not self._follows:
            detail = "This full-duplex model decides by itself when to speak."
            return [CommandRefused(RefusalKind.UNSUPPORTED, client_event_id, response_id, detail=detail)]
        follows = self._follows
        self._wanted = _Wanted(response_id, self._time + START_TIMEOUT, audio)
        return self._read(self._calls.take()) if follows else [SteerModel("start")]

    @property
    def _follows(self) -> bool:
        """Whether what the model says next is its answer to a tool's result."""
        lately = self._answered_at is not None and self._time - self._answered_at < START_TIMEOUT
        return lately or self._calls.have_results

    def cancel(self, response_id: str | None, client_event_id: str | None, now: Samples) -> list[DuplexOutput]:
        """The client ends the running response: what the model goes on to say is not sent."""
        out: list[DuplexOutput] = []
        nods = self._reply is not None and self._reply.nods  # nobody has asked for that: they mean what they asked for
        if self._reply is not None and response_id in (None, self._reply.response_id):
            self._cut(out)
            self._end(EndStatus.CANCELLED, now, out, EndReason.CLIENT_CANCELLED)
        if self._wanted is not None and response_id in (None, self._wanted.response_id) and (nods or not out):
            unborn, self._wanted = self._wanted.response_id, None
            out.append(ResponseStarted(unborn))
            out.append(ResponseEnded(unborn, EndStatus.CANCELLED, reason=EndReason.CLIENT_CANCELLED))
        if not out:
            return [CommandRefused(RefusalKind.NO_ACTIVE_RESPONSE, client_event_id, response_id)]
        if self._steered and (self._reply is None or self._reply.nods):
            self._holding_until = 0
            out.append(SteerModel("stop"))
            if self._wanted is not None and not self._follows:
                out.append(SteerModel("start"))  # that was for another one
        return out

    def heard_by_client(self, item_id: str, heard: Samples, now: Samples) -> None:
        """The client says how much of an item its user heard. The model's own memory cannot be changed."""
        self._player.correct(item_id, heard, now)

    def answered(self, call_id: str, output: str) -> list[DuplexOutput] | None:
        """A tool's result has come. Returns None where the model that runs has made no such call."""
        if not self._calls.answered(call_id, output, self._time):
            return None
        return [] if self._wanted is None else self._read(self._calls.take())

    def _read(self, results: list[str]) -> list[DuplexOutput]:
        """Let the model read results, in their order; what it says next is about them."""
        if results:
            self._answered_at = self._time
            if self._wanted is not None:
                self._wanted.until = self._time + START_TIMEOUT
        return [AnswerCall(output) for output in results]

    def failed(self, fault: EngineFault, now: Samples) -> list[DuplexOutput]:
        """The model has failed: what is waited for has failed with it, and so do all turns until it is `renewed`."""
        out: list[DuplexOutput] = []
        unanswered = self._owed and self._reply is None and self._wanted is None and self.settings.detection is not None
        self._tell_user(lambda told: self._user.complete(told, fault), out)
        self._leave(EndStatus.FAILED, now, out, fault=fault)
        if unanswered:
            self._fail(self._new_id("resp"), fault, out)
        self._give_up(fault, out)
        self._fault = fault
        return out

    def ends(self, now: Samples) -> list[DuplexOutput]:
        """The conversation with the model is ended, to be begun anew: what it is saying stays incomplete."""
        out: list[DuplexOutput] = []
        self._tell_user(self._user.complete, out)
        self._leave(EndStatus.INCOMPLETE, now, out, EndReason.MAX_OUTPUT_TOKENS)
        return out

    def renewed(self) -> None:
        """The model begins a new conversation, and may sound otherwise."""
        self._fault = None
        self._segments = DuplexSegments(self._time)  # whose positions are looked up in what `_recent` holds
        self._recent.clear()

    def _leave(
        self,
        status: EndStatus,
        now: Samples,
        out: list[DuplexOutput],
        reason: EndReason | None = None,
        fault: EngineFault | None = None,
    ) -> None:
        if self._reply is not None:
            self._cut(out)
            self._end(status, now, out, reason, fault)
            self._tell_user(lambda told: self._user.complete(told, fault), out)  # what was said over the agent
        self._calls.clear()
        self._answered_at, self._holding_until, self._owed = None, 0, False

    # --- the model -------------------------------------------------------------------------------------------------

    def spoke(self, step: ModelSpoke, now: Samples) -> list[DuplexOutput]:
        """Take what the model did in one frame, and return what follows, in order."""
        out: list[DuplexOutput] = []
        self._fault, self._behind = None, step.behind
        start, self._time = self._time, self._time + step.frame.samples
        self._recent.append((start, step.pcm))
        while self._recent and self._time - self._recent[0][0] > PREROLL + step.frame.samples:
            self._recent.popleft()
        if step.user_text:
            self._tell_user(lambda told: self._user.wrote(step.user_text, told, step.behind), out)
        for output in self._segments.hear(step.frame):
            match output:
                case SegmentOpened(by=by, start=begins):
                    out.append(FloorTaken(self._open(out, nods=by is OpenedBy.SOUND), by, begins))
                case SegmentText(text=text):
                    self._finds_words(start, now, out)
                    self._write(text, out)
                case SegmentAudio(start=begins, end=ends):
                    self._sound(begins, ends, now, out)
                case _:
                    self._closed(output, now, out)
        if step.call is not None:
            self._call(*step.call, now, out)
        self._tell_user(lambda told: self._user.settle(told, step.behind), out)
        self._expire(out)
        if self._is_busy:
            self._busy_at = self._time
        return out

    def _open(self, out: list[DuplexOutput], *, nods: bool = False, calls: bool = False) -> str:
        wanted = None if nods else self._claimed(calls=calls)
        self._tell_user(lambda told: self._user.agent_begins(told, self._behind), out)
        self._owed = self._owed and nods
        return self._start(wanted, out, nods=nods)

    def _start(self, wanted: _Wanted | None, out: list[DuplexOutput], *, nods: bool = False) -> str:
        response_id = self._new_id("resp") if wanted is None else wanted.response_id
        self._reply = _Reply(response_id, self.settings.audio_output if wanted is None else wanted.audio, nods=nods)
        out.append(ResponseStarted(response_id))
        return response_id

    def _claimed(self, *, calls: bool = False) -> _Wanted | None:
        """Return the request that the model answers now; None if there is none, or it asks for patience meanwhile."""
        if not calls and self._time < self._holding_until:
            self._holding_until = 0
            return None
        self._answered_at, wanted, self._wanted = None, self._wanted, None
        return wanted

    def _finds_words(self, begins: Samples, now: Samples, out: list[DuplexOutput], *, calls: bool = False) -> None:
        """What began as a sound is more: an answer. Where the client waits for one, the sound before was a nod."""
        reply = self._reply
        assert reply is not None
        if not reply.nods:
            return
        reply.nods = self._owed = False
        wanted = self._claimed(calls=calls)
        if wanted is None:
            return
        out.append(FloorYielded(reply.response_id, ClosedBy.NEXT, begins, begins, spoken=False))
        self._end(EndStatus.COMPLETED, now, out, falls_silent=False)
        out.append(FloorTaken(self._start(wanted, out), OpenedBy.TEXT, begins))

    def _item(self) -> tuple[_Reply, str]:
        reply = self._reply
        assert reply is not None
        reply.item_id = reply.item_id or self._new_id("item")
        return reply, reply.item_id

    def _write(self, text: str, out: list[DuplexOutput]) -> None:
        reply, item_id = self._item()
        reply.text_size += len(text)
        if last := text.rstrip(_AFTER_SENTENCES)[-1:]:
            reply.ended_sentence = last in SENTENCE_SIGNS
        reply.voiced = max(reply.sent + VOICE_LAG, reply.voiced + len(text) * LETTER)
        out.append(OutputTextDelta(reply.response_id, item_id, text))
        if reply.audio:
            out.append(OutputSpoken(reply.response_id, item_id, reply.text_size, reply.voiced))

    def _sound(self, begins: Samples, ends: Samples, now: Samples, out: list[DuplexOutput]) -> None:
        if self._reply is None or not self._reply.audio:
            return
        reply, item_id = self._item()
        pcm = b"".join(
            frame[bytes_from_samples(max(0, begins - start)) : bytes_from_samples(max(0, ends - start))]
            for start, frame in self._recent
        )
        reply.sent += ends - begins
        self._player.push(item_id, ends - begins, now)
        out.append(OutputAudio(reply.response_id, item_id, pcm))

    def _closed(self, closed: SegmentClosed, now: Samples, out: list[DuplexOutput]) -> None:
        by = closed.by
        self._tell_yielded(closed, out)
        self._tell_user(self._user.drop_echo, out)  # it has not given way to itself
        if by is ClosedBy.STALLED and not (self._reply and self._reply.sent and closed.spoken):
            self._end(EndStatus.FAILED, now, out, fault=STALLED)
            return
        if by is not ClosedBy.BACKCHANNEL:  # what is said over one is a turn like any other
            quiet = closed.end - closed.voiced_until
            done = self._reply is not None and self._reply.ended_sentence
            self._user.agent_falls_silent(quiet, self._behind, finished=done)
            if self._user.speaks_over:
                self._yielded(now, out)
                return
        self._end(EndStatus.COMPLETED, now, out)

    def _cut(self, out: list[DuplexOutput]) -> None:
        for closed in self._segments.cut():
            assert isinstance(closed, SegmentClosed)
            self._tell_yielded(closed, out)

    def _tell_yielded(self, closed: SegmentClosed, out: list[DuplexOutput]) -> None:
        assert self._reply is not None
        response_id = self._reply.response_id
        out.append(FloorYielded(response_id, closed.by, closed.end, closed.voiced_until, closed.spoken))

    def _yielded(self, now: Samples, out: list[DuplexOutput]) -> None:
        """The model gave way to the user, whose voice becomes an item."""
        if self.settings.speech_started is SpeechStartedPolicy.YIELD:
            self._tell_user(self._user.tell, out)
        self._end(EndStatus.CANCELLED, now, out, EndReason.TURN_DETECTED)

    def _end(
        self,
        status: EndStatus,
        now: Samples,
        out: list[DuplexOutput],
        reason: EndReason | None = None,
        fault: EngineFault | None = None,
        *,
        falls_silent: bool = True,
    ) -> None:
        """End the response. `falls_silent`: the agent's voice ends with it."""
        reply, self._reply = self._reply, None
        assert reply is not None
        heard = self._player.heard(reply.item_id, now) if reply.item_id else 0
        if reply.item_id:
            complete = status is EndStatus.COMPLETED
            if complete and reply.audio and reply.text_size:
                said = max(reply.voiced, reply.sent)
                out.append(OutputSpoken(reply.response_id, reply.item_id, reply.text_size, said))
            if complete:
                out.append(OutputItemEnded(reply.response_id, reply.item_id))
        out.append(ResponseEnded(reply.response_id, status, heard, reason, fault))
        self._busy_at = self._time
        if self._answered_at is not None:
            self._answered_at = self._time
        if self._wanted is not None:
            self._wanted.until = self._time + START_TIMEOUT
        if reason is EndReason.TURN_DETECTED and reply.item_id:
            self._player.flush(now)
            out.append(PlayoutCut(reply.item_id, heard))
        if falls_silent:
            self._tell_user(self._user.agent_ends, out)
            self._tell_user(self._user.tell_held, out)

    # --- tools -----------------------------------------------------------------------------------------------------

    def _call(self, name: str, arguments: str, now: Samples, out: list[DuplexOutput]) -> None:
        """The model called a function: within its response, or in one of its own."""
        own = self._reply is None
        if own:
            self._open(out, calls=True)
        else:
            self._finds_words(self._time, now, out, calls=True)
        assert self._reply is not None
        response_id, item_id, call_id = self._reply.response_id, self._new_id("item"), self._new_id("call")
        out.append(FunctionCallStarted(response_id, item_id, call_id, name))
        out.append(FunctionCallArgumentsDelta(response_id, item_id, arguments))
        out.append(OutputItemEnded(response_id, item_id))
        first = not self._calls.wait
        self._calls.made(call_id, self._time)
        if own:
            self._end(EndStatus.COMPLETED, now, out)
        if first and self.settings.on_hold and self._steered:
            self._holding_until = self._time + START_TIMEOUT
            out.append(SteerModel("say", self.settings.on_hold))

    def _expire(self, out: list[DuplexOutput]) -> None:
        """Give up what has been waited for long enough."""
        out += self._read(self._calls.expire(self._time))
        held = (
            self._reply is not None or self._calls.have_results
        )  # by the result of an earlier call, which comes first
        if self._wanted is not None and not held and self._time >= self._wanted.until:
            self._give_up(NOT_STARTED, out)

    def _give_up(self, fault: EngineFault, out: list[DuplexOutput]) -> None:
        """Fail the response that the client waits for, if there is one."""
        wanted, self._wanted = self._wanted, None
        if wanted is not None:
            self._fail(wanted.response_id, fault, out)

    def _fail(self, response_id: str, fault: EngineFault, out: list[DuplexOutput]) -> None:
        out.append(ResponseStarted(response_id))
        out.append(ResponseEnded(response_id, EndStatus.FAILED, fault=fault))

    def _tell_user(self, act: Callable[[list[UserOutput]], None], out: list[DuplexOutput]) -> None:
        told: list[UserOutput] = []
        act(told)
        self._owed = self._owed or any(isinstance(event, InputCommitted) for event in told)
        out += told
