"""The native backend: one full-duplex model hears and speaks; this carries its frames and tells what it does.

The input is the clock. A frame of the user's audio goes in, a frame of the agent's comes out; when the client sends
nothing, silence goes in after a short grace, so that the model can finish its sentence. A conversation with the model
is begun anew, with what was said so far, where it has failed, grows too long, or was to have read something else.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from typing import Protocol, assert_never

from gateway.backends.frame_queue import FrameQueue
from gateway.backends.interface import Capabilities
from gateway.backends.model_pace import ModelPace
from gateway.backends.native_prompt import prompt_from
from gateway.turns.duplex_notices import DuplexNotice, NoticeKind
from gateway.turns.duplex_observations import DuplexObservation
from gateway.turns.duplex_renewal import LONG_REST, DuplexRenewal, Why
from gateway.turns.duplex_segments import ModelFrame
from gateway.turns.duplex_turns import DuplexTurns
from gateway.turns.duplex_vocabulary import AnswerCall, DuplexOutput, DuplexSettings, ModelSpoke, SteerModel
from gateway.turns.input_pace import InputPace
from gateway.turns.overlap_policy import ECHO_SHARE
from gateway.turns.settings import DEFAULT_PLAYOUT_DELAY, Detection
from models.duplex_interface import DuplexAbilities, DuplexModel, DuplexPrompt, DuplexStep, DuplexStream
from models.interfaces import EngineError
from protocol.audio_time import (
    Samples,
    ms_from_samples,
    s_from_samples,
    samples_from_bytes,
    samples_from_ms,
    samples_from_s,
)
from protocol.backend_events import (
    BackendEvent,
    ContextForeseen,
    ContextSettled,
    EngineFault,
    InputCommitted,
    InputTranscriptFailed,
)
from protocol.commands import (
    AppendAudio,
    CancelResponse,
    ClearInput,
    Command,
    CommitInput,
    Configure,
    ContextChanged,
    CreateResponse,
    ItemTruncated,
    ProvideContext,
    RecogniseItem,
    ResponseContext,
    ToolCallEnded,
    ToolResult,
    WithholdContext,
)
from protocol.duplex_limits import DuplexLimits
from protocol.ids import IdSource

logger = logging.getLogger(__name__)

GRACE: Samples = samples_from_ms(40)
"""How late a client's audio may be before silence is put in its place (chosen: two appends of 20 ms)."""

OPEN_DEADLINE_S = 120.0
"""How long a model may read its prompt (VoiceChat: one step a token, 25 s for a long one; chosen)."""

STEP_DEADLINE_S = 10.0
"""How long a model may take for one frame before it counts as dead (chosen)."""

VOICED_FROM = 0.5
"""Probability from which a VAD frame counts as voice when silence is left out (Silero's own threshold)."""

CLOSE_DEADLINE_S = 5.0
"""How long a conversation that is over may take to be freed (chosen)."""

TOOL_RESULT_CHARACTERS = 1_000
"""Longest result of a tool that the model reads, one token a frame: some 20 s (chosen). Longer ones are cut."""

PROMPT = "prompt"
_NO_RECOGNISER = EngineFault("unsupported_by_backend", "A full-duplex model hears live audio only.")


class Timer(Protocol):
    """A timer that is set."""

    def cancel(self) -> None:
        """Let it not go off."""


CallLater = Callable[[float, Callable[[], None]], Timer]
"""Calls a function after so many seconds."""

LevelOf = Callable[[bytes], float]
"""Returns the RMS level (0…1) of a frame."""

Tap = Callable[[DuplexOutput | DuplexNotice, Samples], None]
"""Sees all that the core says before it is performed, and the backend's own notices, with the gateway clock."""


class NativeBackend:
    """One session's conversation with a full-duplex model. `now` tells the gateway clock in samples."""

    def __init__(
        self,
        model: DuplexModel,
        *,
        new_id: IdSource,
        now: Callable[[], Samples],
        level: LevelOf,
        settings: DuplexSettings | None = None,
        playout_delay: Samples = DEFAULT_PLAYOUT_DELAY,
        call_later: CallLater | None = None,
        taps: Sequence[Tap] = (),
    ) -> None:
        """`call_later` sets a timer (None: the event loop's own does). `taps` see what happens and change nothing."""
        abilities = model.abilities
        self.capabilities = capabilities_of(model)
        self._model = model
        self._now = now
        self._level = level
        self._call_later = call_later
        self._taps = tuple(taps)
        self._core = DuplexTurns(new_id, steered=abilities.steered, settings=settings, playout_delay=playout_delay)
        self._queue = FrameQueue(model.frame_samples)
        longest_s = abilities.longest_s
        self._renewal = DuplexRenewal(None if longest_s is None else samples_from_s(longest_s))
        self._stream: DuplexStream | None = None
        self._pace = InputPace()
        self._prompt: asyncio.Future[ResponseContext] | None = None
        self._woken: asyncio.Future[None] | None = None
        self._speed = ModelPace(model.frame_samples)
        self._owes = False  # the conversation was ended while the user waited for an answer
        self._settled = False  # something was said, so that what the model has read is what it has read
        self._events: deque[BackendEvent] = deque()
        self._event_ready = asyncio.Event()
        self._early: deque[Command] = deque()
        self._running = False
        self._over = False

    @property
    def real_time_factor(self) -> float:
        """Time that the model needs for a second of audio, over the last frames; above 1 it falls behind."""
        return self._speed.real_time_factor

    # --- the session's side ----------------------------------------------------------------------------------------

    def submit(self, command: Command) -> None:
        """Obey a command; before `run` has begun it waits for that."""
        if self._over:
            return
        if self._running:
            self._obey(command)
        else:
            self._early.append(command)

    async def events(self) -> AsyncGenerator[BackendEvent, None]:
        """Yield events in order until `run` has ended."""
        while True:
            while self._events:
                yield self._events.popleft()
            if self._over:
                return
            self._event_ready.clear()
            await self._event_ready.wait()

    async def run(self) -> None:
        """Carry frames until cancelled. A model that fails fails what it was doing; it is tried again."""
        self._running = True
        try:
            while self._early:
                self._obey(self._early.popleft())
            while True:
                await self._until_due()
                await self._converse()
        finally:
            self._over = True
            self._event_ready.set()

    def _obey(self, command: Command) -> None:
        now = self._now()
        match command:
            case AppendAudio():
                self._hear(command, now)
            case CommitInput(client_event_id=client_event_id):
                self._say(self._core.commit(client_event_id))
                self._turn_ended(now)
            case ClearInput():
                self._queue.clear()
                self._say(self._core.clear())
            case CreateResponse(response_id=response_id, client_event_id=client_event_id):
                self._say(
                    self._core.request(
                        response_id, client_event_id, audio=command.audio, out_of_band=command.out_of_band
                    )
                )
                self._wanted(now)
            case CancelResponse(response_id=wanted, client_event_id=client_event_id):
                self._say(self._core.cancel(wanted, client_event_id, now))
            case ItemTruncated(item_id=item_id, audio_end=audio_end):
                self._core.heard_by_client(item_id, audio_end, now)
            case ToolResult(call_id=call_id, output=output):
                self._answer(call_id, output, now)
            case ProvideContext(response_id=response_id, context=context):
                if response_id == PROMPT and self._prompt is not None and not self._prompt.done():
                    self._prompt.set_result(context)
            case WithholdContext(fault=fault):
                if self._prompt is not None and not self._prompt.done():
                    self._prompt.set_exception(EngineError(fault.code, fault.message))
            case RecogniseItem(item_id=item_id):
                self._tell(InputTranscriptFailed(item_id, _NO_RECOGNISER))
            case Configure():
                self._configure(command)
                self._renewal.set_up(now, stale=False)
                self._wake()
            case ContextChanged():
                self._renewal.set_up(now, stale=True)
                self._wake()
            case ToolCallEnded():
                pass  # the model waits for results by itself
            case _:
                assert_never(command)

    def _hear(self, command: AppendAudio, now: Samples) -> None:
        first = not self._pace.has_begun
        pace = self._pace.take(samples_from_bytes(len(command.pcm)), now)
        voices = [frame.echo for frame in command.frames if frame.probability >= VOICED_FROM]
        own_voice = bool(voices) and min(voices) >= ECHO_SHARE
        self._queue.put(command.pcm, voiced=bool(voices), own_voice=own_voice, pace=pace)
        for frame in command.frames:
            told = self._core.heard(frame.until, frame.probability, now, echo=frame.echo)
            if any(isinstance(event, InputCommitted) for event in told):
                self._turn_ended(now)
            self._say(told)
        if first or self._queue.waiting:
            self._wake()

    def _turn_ended(self, now: Samples) -> None:
        """The user waits for an answer; one that nobody has heard is not for the next conversation to answer."""
        if self._core.is_down:
            self._queue.clear()
        self._wanted(now)

    def _wanted(self, now: Samples) -> None:
        """The model is waited for: if there is none, one is tried."""
        self._renewal.asked(now)
        self._wake()

    def _answer(self, call_id: str, output: str, now: Samples) -> None:
        """Give the model a tool's result; another conversation than the one that made the call reads it beforehand."""
        told = self._core.answered(call_id, output[:TOOL_RESULT_CHARACTERS])
        if told is None:
            self._renewal.set_up(now, stale=True)
        elif len(output) > TOOL_RESULT_CHARACTERS:
            self._note(NoticeKind.TOOL_RESULT_CUT, call_id=call_id, characters=len(output), kept=TOOL_RESULT_CHARACTERS)
        self._say(told or [])
        self._wake()

    def _configure(self, command: Configure) -> None:
        found = command.turn_detection
        detection = None
        if found is not None:
            detection = Detection(
                threshold=found.threshold,
                prefix_padding=found.prefix_padding,
                silence_duration=found.silence_duration,
            )
        self._core.settings = replace(self._core.settings, detection=detection, audio_output=command.audio_output)

    # --- the model's side ------------------------------------------------------------------------------------------

    async def _until_due(self) -> None:
        """Wait until a conversation with the model is to be opened."""
        while True:
            at, now = self._renewal.opens_at, self._now()
            if at is not None and at <= now:
                return
            await self._rest(None if at is None else at - now)

    async def _converse(self) -> None:
        """Hold one conversation with the model, to its end or its failure."""
        try:
            self._stream = stream = await self._open()
            try:
                why = await self._talk(stream) if stream is not None else Why.CHANGED
            finally:
                self._stream = None
                if stream is not None:
                    await _closed(stream)
        except EngineError as error:
            logger.error("the full-duplex model failed: %s", error.code)
            self._renewal.failed(self._now())
            self._failed(error)
        else:
            self._note(NoticeKind.CONVERSATION_ENDED, why=why.value, length_ms=ms_from_samples(self._renewal.length))
            self._renewal.ended(why, self._now())
            self._owes = self._core.is_owed and self._core.rests < LONG_REST
            self._say(self._core.ends(self._now()))

    def _failed(self, error: EngineError) -> None:
        at, now = self._renewal.opens_at, self._now()
        retry_ms = -1 if at is None else ms_from_samples(at - now)
        self._note(NoticeKind.MODEL_FAILED, code=error.code, attempts=self._renewal.attempts, retry_ms=retry_ms)
        self._say(self._core.failed(EngineFault(error.code, error.message), now))

    async def _open(self) -> DuplexStream | None:
        """Have the model read what it is to know; None if that has changed meanwhile. What the user says waits."""
        began = self._now()
        why = self._renewal.why
        self._queue.hold()
        self._core.renewed()
        self._renewal.opening(began)
        self._prompt = asyncio.get_running_loop().create_future()
        self._note(NoticeKind.CONVERSATION_OPENING, why=why.value)
        self._tell(ContextForeseen(PROMPT, ""))
        prompt = prompt_from(await self._prompt)
        try:
            async with asyncio.timeout(OPEN_DEADLINE_S):
                stream = await self._read(prompt)
        except TimeoutError as error:
            raise EngineError("duplex_timeout", "The full-duplex model took too long to begin.") from error
        if stream is None:
            return None
        took_ms = ms_from_samples(self._now() - began)
        self._note(NoticeKind.CONVERSATION_OPENED, why=why.value, prompt_ms=took_ms, history=len(prompt.history))
        return stream

    async def _read(self, prompt: DuplexPrompt) -> DuplexStream | None:
        """Return a conversation that has read `prompt`, or None as soon as that is not what it is to read any more."""
        opening = asyncio.ensure_future(self._model.open(prompt))
        opening.add_done_callback(lambda _opening: self._wake())
        try:
            while not opening.done() and not self._renewal.is_stale:
                await self._rest(None)
        finally:
            if not opening.done():
                opening.cancel()
                await asyncio.wait((opening,), timeout=CLOSE_DEADLINE_S)
        return None if opening.cancelled() or not opening.done() else opening.result()

    async def _talk(self, stream: DuplexStream) -> Why:
        """Step the model until the conversation is to be begun anew, and return why."""
        if (self._core.is_awaited or self._owes) and self._model.abilities.steered:
            stream.start()
        self._owes = False
        while not self._pace.has_begun and not self._core.is_awaited:
            if (why := self._due()) is not None:
                return why
            await self._rest(None)
        due = self._now()
        while (why := self._due()) is None:
            pcm = await self._next_frame(due)
            began = self._now()
            due = max(due + self._model.frame_samples, began - GRACE)
            try:
                async with asyncio.timeout(STEP_DEADLINE_S):
                    step = await stream.step(pcm, own_voice=self._queue.gave_own_voice)
            except TimeoutError as error:
                raise EngineError("duplex_timeout", "The full-duplex model took too long for a frame.") from error
            self._measure(s_from_samples(self._now() - began))
            self._renewal.stepped(self._model.frame_samples)
            self._say(self._core.spoke(self._spoken(step), self._now()))
            self._settle()
        return why

    def _due(self) -> Why | None:
        core = self._core
        return self._renewal.due(core.rests, begun=self._settled, owed=core.is_owed, awaited=core.is_awaited)

    def _settle(self) -> None:
        """From the first word on, the user's or the agent's, what the model has read cannot be changed any more."""
        if not self._settled and (self._queue.gave_voice or self._core.is_speaking):
            self._settled = True
            self._tell(ContextSettled())

    async def _next_frame(self, due: Samples) -> bytes:
        """Return the next frame of input as soon as it is whole, or with silence once it is overdue."""
        while (frame := self._queue.take()) is None:
            left = due + self._model.frame_samples + GRACE - self._now()
            if left <= 0:
                return self._queue.take_padded()
            await self._rest(left)
        return frame

    async def _rest(self, within: Samples | None) -> None:
        """Return once something has happened (`_wake`), or after so long; None: however long that takes."""
        loop = asyncio.get_running_loop()
        self._woken = loop.create_future()
        call_later = self._call_later or loop.call_later
        timer = None if within is None else call_later(s_from_samples(within), self._wake)
        try:
            await self._woken
        finally:
            if timer is not None:
                timer.cancel()

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    def _spoken(self, step: DuplexStep) -> ModelSpoke:
        frame = ModelFrame(
            self._model.frame_samples, self._level(step.pcm), step.text, step.takes_floor, step.yields_floor
        )
        call = None if step.call is None else (step.call.name, step.call.arguments)
        return ModelSpoke(frame, step.pcm, step.user_text, call, self._queue.behind)

    def _measure(self, took_s: float) -> None:
        told = self._speed.stepped(took_s)
        if not told:
            return
        dropped = self._queue.dropped
        fields = {
            "real_time_factor": round(self.real_time_factor, 2),
            "backlog_ms": ms_from_samples(self._queue.waiting),
            "silence_ms": ms_from_samples(dropped.silent),
            "too_old_ms": ms_from_samples(dropped.old),
        }
        for kind in told:
            lengths = self._speed.step_lengths() if kind is NoticeKind.MODEL_PACE else {}
            self._note(kind, **fields, **lengths)
        if NoticeKind.MODEL_BEHIND in told:
            logger.warning(
                "the full-duplex model is slower than real time (factor %.2f): silence is left out (%.1f s so far)",
                self.real_time_factor,
                s_from_samples(dropped.silent + dropped.old),
            )

    def _note(self, kind: NoticeKind, **fields: str | int | float) -> None:
        for tap in self._taps:
            tap(DuplexNotice(kind, fields), self._now())

    def _say(self, outputs: list[DuplexOutput]) -> None:
        for output in outputs:
            for tap in self._taps:
                tap(output, self._now())
            if isinstance(output, DuplexObservation):
                continue  # for the taps
            match output:
                case AnswerCall(output=result):
                    if self._stream is not None:
                        self._stream.answer_call(result)
                case SteerModel(command=what, text=text):
                    self._steer(what, text)
                case _:
                    self._tell(output)

    def _steer(self, what: str, text: str) -> None:
        """Steer the model that runs; one that is still to be opened is told what is awaited then."""
        if self._stream is None or (what == "start" and self._renewal.is_stale):
            return
        if what == "start":
            self._stream.start()
        elif what == "stop":
            self._stream.stop()
        else:
            self._stream.say(text)

    def _tell(self, event: BackendEvent) -> None:
        self._events.append(event)
        self._event_ready.set()


async def _closed(stream: DuplexStream) -> None:
    """Free a conversation that is over; one that cannot be freed in time is left to its engine."""
    try:
        async with asyncio.timeout(CLOSE_DEADLINE_S):
            await stream.aclose()
    except (TimeoutError, EngineError) as error:
        logger.warning("a conversation with the full-duplex model could not be freed: %s", type(error).__name__)


def limits_of(abilities: DuplexAbilities, *, restarts: bool = False) -> DuplexLimits:
    """Return what a client is told that a model of these `abilities` cannot do; see DuplexLimits."""
    return DuplexLimits(
        voice=abilities.voices[0] if abilities.voices else "",
        instructions=abilities.instructions,
        tools=abilities.tools,
        hears_words=abilities.hears_words,
        restarts=restarts,
    )


def capabilities_of(model: DuplexModel) -> Capabilities:
    """Return what a session with `model` can do."""
    abilities = model.abilities
    return Capabilities(
        interruptible=abilities.steered,
        truncatable=False,
        manual_response=abilities.steered,
        text_input=False,
        mutable_instructions=False,
        tools=abilities.tools,
        backchannels=True,
        frame_ms=ms_from_samples(model.frame_samples),
    )
