"""The cascade: VAD → ASR → LLM → TTS, carried out as the turn-taking machine decides.

This shell decides nothing. It tells the machine what happened, performs the machine's list in order, and reports
results. What arrives for a response that is over is dropped by the machine.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import assert_never

from gateway.backends.engine_work import EngineWork, answer_of, pieces_of
from gateway.backends.input_audio import InputAudio
from gateway.backends.interface import Capabilities
from gateway.backends.language_limits import LanguageLimits, language_limits
from gateway.turns.actions import (
    Action,
    Generate,
    JudgeSound,
    JudgeWords,
    PrepareJudges,
    StopGenerating,
    StopResponse,
    StopTranscribing,
    Synthesize,
    Transcribe,
    TranscribeItem,
    TranscribePartial,
    TranscribePause,
)
from gateway.turns.inputs import (
    AudioReceived,
    CancelRequested,
    ClearRequested,
    CommitRequested,
    ContextProvided,
    FunctionCallDelta,
    GenerationAlive,
    GenerationEnded,
    GenerationFailed,
    HeardByClient,
    Input,
    InputStalled,
    ItemAudioGiven,
    Judged,
    PartialTranscript,
    PauseTranscript,
    ResponseRequested,
    SettingsChanged,
    SpeechProbability,
    SynthesisEnded,
    SynthesisFailed,
    SynthesizedSpeech,
    TextDelta,
    Tick,
    ToolCallEnded,
    Transcript,
    TranscriptFailed,
    WordEnd,
)
from gateway.turns.machine import TurnMachine
from gateway.turns.observations import LanguagesKnown, Observation, Speculated, SpeculationFate
from gateway.turns.response import Output
from gateway.turns.settings import (
    DEFAULT_PLAYOUT_DELAY,
    STALL_AFTER,
    BargeIn,
    Deadlines,
    Detection,
    Eagerness,
    TurnSettings,
)
from models.interfaces import (
    ChatAlive,
    ChatEnd,
    ChatRequest,
    ChatText,
    ChatToolCall,
    EndOfTurnJudge,
    EngineError,
    Engines,
    Judgement,
    PreparedJudge,
    SpeechPiece,
    Transcription,
    Utterance,
)
from models.languages import only_language, primary_language
from protocol import commands
from protocol.audio_time import Samples, s_from_samples, samples_from_bytes
from protocol.backend_events import BackendEvent, EngineFault, ResponseEnded, TokenLogprob, TokenUsage
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
    ToolResult,
    WithholdContext,
)
from protocol.ids import IdSource

logger = logging.getLogger(__name__)

Tap = Callable[[Input, Samples, Sequence[Output]], None]
"""Sees what the machine was told, when (gateway clock), and what it answered. Returns at once, raises nothing."""

RECOGNITIONS_AT_A_TIME = 4
"""Final transcripts that one session asks the shared recogniser for at a time (chosen): a client that commits a hundred
turns at once waits for its own, in their order, and other sessions' turns come in between."""

JUDGE_DEADLINE_S = 1.0
"""How long an end-of-turn judge may take (chosen: twice what a decision waits for it, `end_of_turn.AWAIT_JUDGES`, since
a late answer still counts while the pause lasts)."""


class CascadeBackend:
    """One session's cascade. `now` tells the gateway clock in samples."""

    capabilities = Capabilities()

    def __init__(
        self,
        engines: Engines,
        *,
        new_id: IdSource,
        now: Callable[[], Samples],
        session_key: str = "",
        deadlines: Deadlines | None = None,
        playout_delay: Samples = DEFAULT_PLAYOUT_DELAY,
        user_language: str = "",
        reply_language: str = "",
        taps: Sequence[Tap] = (),
    ) -> None:
        """`taps` see each input of the machine and all that follows from it, before it is performed.

        `user_language` holds where the client names none, `reply_language` is the voice's; "": as it turns out.
        """
        self._engines = engines
        self._taps = tuple(taps)
        self._now = now
        self._session_key = session_key
        self._deadlines = deadlines or Deadlines()
        settings = TurnSettings(
            deadlines=self._deadlines,
            playout_delay=playout_delay,
            judges=frozenset(judge.name for judge in engines.judges),
            user_language=primary_language(user_language) or only_language(engines.asr),
            reply_language=primary_language(reply_language),
        )
        self._default_language = user_language
        self._machine = TurnMachine(settings, new_id)
        self._audio = InputAudio()
        self._language: str | None = user_language or None
        """What the recogniser is told; None: it finds out by itself, if it can."""
        self._told_limits: list[LanguageLimits] = []
        self._prompt = ""
        self._logprobs = False
        self._contexts: dict[str, ResponseContext] = {}
        self._item_audio: dict[str, bytes] = {}  # until it is handed to the recogniser, in the same call
        self._recognising = asyncio.Semaphore(RECOGNITIONS_AT_A_TIME)
        self._work = EngineWork(self._crash)
        self._events: deque[BackendEvent] = deque()  # drained each loop turn; the outbox bounds what follows
        self._event_ready = asyncio.Event()
        self._early: deque[Command] = deque()  # what comes in the loop turn or two before `run` begins
        self._over = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: Samples = 0
        self._crashed: asyncio.Future[None] | None = None

    @property
    def machine(self) -> TurnMachine:
        """The machine that decides, to be looked at only."""
        return self._machine

    # --- the session's side ----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until cancelled. Raises if the machine or an adapter has a bug."""
        self._crashed = asyncio.get_running_loop().create_future()
        try:
            while self._early:
                self._obey(self._early.popleft())
            await self._crashed
        finally:
            self._over = True  # what the stopped engines still report goes nowhere
            if self._timer is not None:
                self._timer.cancel()
            self._event_ready.set()
            await self._work.close()

    async def events(self) -> AsyncGenerator[BackendEvent, None]:
        """Yield events in order until `run` has ended."""
        while True:
            while self._events:
                yield self._events.popleft()
            if self._over:
                return
            self._event_ready.clear()
            await self._event_ready.wait()

    def submit(self, command: Command) -> None:
        """Obey a command; before `run` has begun it waits for that."""
        if self._crashed is None:
            self._early.append(command)
        else:
            self._obey(command)

    def _obey(self, command: Command) -> None:
        """Translate a command into the machine's input."""
        match command:
            case AppendAudio():
                self._hear(command)
            case CommitInput(client_event_id=client_event_id):
                self._tell(CommitRequested(client_event_id))
            case ClearInput():
                self._tell(ClearRequested())
            case CreateResponse():
                self._tell(
                    ResponseRequested(
                        command.response_id,
                        command.audio,
                        command.client_event_id,
                        command.out_of_band,
                        command.needs_transcripts,
                    )
                )
            case RecogniseItem(item_id=item_id, pcm=pcm):
                self._item_audio[item_id] = pcm
                self._tell(ItemAudioGiven(item_id, samples_from_bytes(len(pcm))))
            case CancelResponse(response_id=wanted, client_event_id=client_event_id):
                self._tell(CancelRequested(wanted, client_event_id))
            case ItemTruncated(item_id=item_id, audio_end=audio_end):
                self._tell(HeardByClient(item_id, audio_end))
            case ProvideContext(response_id=response_id, context=context):
                foreseen = self._foreseen(context)
                self._contexts[response_id] = context
                self._tell(ContextProvided(response_id, context.server_tools, foreseen))
                if not self._machine.runs(response_id):
                    self._contexts.pop(response_id, None)
            case WithholdContext(response_id=response_id, fault=fault):
                self._tell(GenerationFailed(response_id, fault))
            case commands.ToolCallEnded(response_id=response_id, item_id=item_id):
                self._tell(ToolCallEnded(response_id, item_id))
            case ToolResult() | ContextChanged():
                pass  # the next response's context holds it
            case Configure():
                self._configure(command)
            case _:
                assert_never(command)

    def _configure(self, command: Configure) -> None:
        found = command.turn_detection
        detection = (
            None
            if found is None
            else Detection(
                threshold=found.threshold,
                prefix_padding=found.prefix_padding,
                silence_duration=found.silence_duration,
                create_response=found.create_response,
                interrupt_response=found.interrupt_response,
                idle_timeout=found.idle_timeout,
                semantic=None if found.eagerness is None else Eagerness(found.eagerness),
                barge_in=BargeIn(found.barge_in),
            )
        )
        self._language = command.language or self._default_language or None
        self._prompt = command.transcript_prompt
        self._logprobs = command.transcript_logprobs
        settings = replace(
            self._machine.settings,
            detection=detection,
            audio_output=command.audio_output,
            live_transcript=command.live_transcript,
            speculation=command.speculation,
            user_language=primary_language(self._language) or only_language(self._engines.asr),
        )
        self._tell(SettingsChanged(settings))

    def _foreseen(self, context: ResponseContext) -> str:
        """Return the id of the speculation that was given this very context, "" if none was."""
        speculation = self._machine.speculation
        return speculation if speculation is not None and self._contexts.get(speculation) == context else ""

    def _hear(self, command: AppendAudio) -> None:
        self._audio.append(command.pcm)
        self._tell(AudioReceived(samples_from_bytes(len(command.pcm))))
        for frame in command.frames:
            self._tell(SpeechProbability(frame.until, frame.probability, frame.level_dbfs, frame.echo))
        self._audio.forget_before(self._machine.needed_from)

    # --- the machine's side ----------------------------------------------------------------------------------------

    def _tell(self, message: Input) -> None:
        if self._over:
            return
        now = self._now()
        outputs = self._machine.receive(message, now)
        for tap in self._taps:
            tap(message, now, outputs)
        for output in outputs:
            if isinstance(output, Action):
                self._perform(output)
                continue
            if isinstance(output, Observation):
                if isinstance(output, Speculated) and output.fate is not SpeculationFate.STARTED:
                    self._contexts.pop(output.speculation_id, None)
                elif isinstance(output, LanguagesKnown):
                    self._say_what_falls_back(output)
                continue
            self._events.append(output)
            self._event_ready.set()
            if isinstance(output, ResponseEnded):
                self._contexts.pop(output.response_id, None)
        self._arm_timer(now)

    def _say_what_falls_back(self, known: LanguagesKnown) -> None:
        """Log, once a session, what can't be done in a language and what holds instead."""
        limits = language_limits(self._engines, known.user, known.reply)
        if limits and limits not in self._told_limits:
            self._told_limits.append(limits)
            logger.warning("session %s: %s", self._session_key, limits.sentence)

    def _perform(self, action: Action) -> None:
        match action:
            case Transcribe(item_id=item_id, start=start, end=end):
                self._work.start(item_id, self._transcribe(item_id, self._audio.between(start, end)))
            case TranscribeItem(item_id=item_id):
                self._work.start(item_id, self._transcribe(item_id, self._item_audio.pop(item_id)))
            case TranscribePartial(item_id=item_id, start=start, end=end):
                self._work.start(item_id, self._look(item_id, self._audio.between(start, end)))
            case TranscribePause(item_id=item_id, pause=pause, start=start, end=end):
                work = self._transcribe_pause(item_id, pause, self._audio.between(start, end))
                self._work.start(_pause_of(item_id, pause), work)
            case StopTranscribing(item_id=item_id, pause=pause):
                self._work.cancel(_pause_of(item_id, pause))
            case PrepareJudges(item_id=item_id, agent_text=agent_text):
                for judge in self._engines.judges:
                    if isinstance(judge, PreparedJudge):
                        self._work.start(_pause_of(item_id, 0, judge.name), self._prepare(judge, agent_text))
            case JudgeSound(item_id=item_id, pause=pause, start=start, end=end):
                sound = Utterance(pcm=self._audio.between(start, end), language=self._machine.user_language or None)
                self._ask_judges(item_id, pause, sound, listens=True)
            case JudgeWords(item_id=item_id, pause=pause, text=text, agent_text=agent_text):
                words = Utterance(text=text, agent_text=agent_text, language=self._machine.user_language or None)
                self._ask_judges(item_id, pause, words, listens=False)
            case Generate(response_id=response_id):
                self._work.start(_text_of(response_id), self._generate(response_id, self._contexts[response_id]))
            case StopGenerating(response_id=response_id):
                self._work.cancel(_text_of(response_id))
            case Synthesize(response_id=response_id):
                self._work.start(response_id, self._synthesize(action, self._contexts[response_id]))
            case StopResponse(response_id=response_id):
                # The end is decided and told; the calls end in their own time and nobody waits for them.
                self._work.cancel(_text_of(response_id))
                self._work.cancel(response_id)
            case _:
                assert_never(action)

    def _ask_judges(self, item_id: str, pause: int, utterance: Utterance, *, listens: bool) -> None:
        for judge in self._engines.judges:
            if judge.listens is listens:
                self._work.start(_pause_of(item_id, pause, judge.name), self._judge(judge, item_id, pause, utterance))

    # --- time ------------------------------------------------------------------------------------------------------

    def _arm_timer(self, now: Samples) -> None:
        deadline = self._machine.next_deadline(now)
        if deadline is None or (self._timer is not None and self._timer_at <= deadline):
            return  # an early timer only looks again
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(0.0, s_from_samples(deadline - now)), self._time_passed)

    def _time_passed(self) -> None:
        self._timer = None
        try:
            stalled = self._machine.silent_for(self._now())
            self._tell(InputStalled(stalled) if stalled >= STALL_AFTER else Tick())
        except Exception as bug:  # a timer has no caller: run() ends the session with it
            self._crash(bug)

    def _crash(self, bug: BaseException) -> None:
        """Let run() end with a bug that no caller would see."""
        if self._crashed is not None and not self._crashed.done():
            self._crashed.set_exception(bug)

    # --- the engines' side -----------------------------------------------------------------------------------------

    async def _recognise(self, pcm: bytes) -> Transcription:
        """Return the final words of `pcm`. Raises EngineError."""
        recogniser = self._engines.asr
        async with self._recognising:
            heard = await answer_of(
                recogniser.transcribe(pcm, language=self._language, prompt=self._prompt, logprobs=self._logprobs)
            )
        return heard or Transcription("")

    async def _transcribe(self, item_id: str, pcm: bytes) -> None:
        try:
            heard = await self._recognise(pcm)
        except EngineError as error:
            self._tell(TranscriptFailed(item_id, _fault(error)))
        else:
            self._tell(Transcript(item_id, heard.text, _logprobs(heard), primary_language(heard.language)))

    async def _transcribe_pause(self, item_id: str, pause: int, pcm: bytes) -> None:
        try:
            heard = await self._recognise(pcm)
        except EngineError as error:
            _fault(error)  # for the log; the client is told if the turn's own recognition fails, too
            self._tell(PauseTranscript(item_id, pause, None))
        else:
            self._tell(PauseTranscript(item_id, pause, heard.text, _logprobs(heard), primary_language(heard.language)))

    async def _look(self, item_id: str, pcm: bytes) -> None:
        try:
            heard = await answer_of(
                self._engines.asr.transcribe(pcm, language=self._language, prompt=self._prompt, partial_of=item_id)
            )
        except EngineError:
            heard = None  # the final transcript will tell what is wrong
        self._tell(PartialTranscript(item_id, None if heard is None else heard.text))

    async def _prepare(self, judge: PreparedJudge, agent_text: str) -> None:
        try:
            await answer_of(judge.prepare(agent_text, self._machine.user_language or None))
        except EngineError as error:  # its next judgement will tell, too
            logger.debug("judge %s could not get ready: %s", judge.name, error.code)

    async def _judge(self, judge: EndOfTurnJudge, item_id: str, pause: int, utterance: Utterance) -> None:
        asked = self._now()
        try:
            async with asyncio.timeout(JUDGE_DEADLINE_S):
                judgement = await answer_of(judge.judge(utterance))
        except EngineError as error:
            logger.warning("judge %s failed: %s, caused by %s", judge.name, error.code, type(error.__cause__).__name__)
            judgement = Judgement(None)
        except TimeoutError:
            logger.warning("judge %s did not answer in time", judge.name)
            judgement = Judgement(None)
        took = self._now() - asked
        self._tell(Judged(item_id, pause, judge.name, judgement.complete, judgement.wait, took))

    async def _generate(self, response_id: str, context: ResponseContext) -> None:
        request = ChatRequest(
            messages=context.messages,
            tools=context.tools,
            tool_choice=context.tool_choice,
            parallel_tool_calls=context.parallel_tool_calls,
            max_output_tokens=context.max_output_tokens,
            temperature=context.temperature,
            reasoning_effort=context.reasoning_effort,
            session_key=self._session_key,
        )
        try:
            async with aclosing(pieces_of(self._engines.chat.stream(request))) as stream:
                async for event in stream:
                    match event:
                        case ChatText(text=text):
                            self._tell(TextDelta(response_id, text))
                        case ChatToolCall(index=index, call_id=call_id, name=name, arguments=arguments):
                            self._tell(FunctionCallDelta(response_id, index, call_id, name, arguments))
                        case ChatAlive(characters=characters):
                            self._tell(GenerationAlive(response_id, characters))
                        case ChatEnd():
                            self._tell(GenerationEnded(response_id, event.finish_reason, _usage(event)))
        except EngineError as error:
            self._tell(GenerationFailed(response_id, _fault(error)))

    async def _synthesize(self, action: Synthesize, context: ResponseContext) -> None:
        response_id, chunk = action.response_id, action.chunk
        try:
            speech = self._engines.tts.synthesize(
                action.text,
                voice=context.voice,
                speed=context.speed,
                first=action.first,
                language=action.language,
            )
            async with aclosing(pieces_of(speech)) as pieces:
                async for piece in pieces:
                    self._tell(SynthesizedSpeech(response_id, chunk, piece.pcm, _word_ends(piece)))
        except EngineError as error:
            self._tell(SynthesisFailed(response_id, _fault(error)))
        else:
            self._tell(SynthesisEnded(response_id, chunk))


def _text_of(response_id: str) -> str:
    """Return the key of the language model's work for a response; its speech has the response's own id."""
    return f"{response_id} text"


def _pause_of(item_id: str, pause: int, engine: str = "words") -> str:
    """Return the key of an engine's work for a pause: the recogniser's, or a judge's by its name."""
    return f"{item_id} pause {pause} {engine}"


def _fault(error: EngineError) -> EngineFault:
    """Return what the client is told; the log says what was behind it, by kind, since its text may hold words."""
    logger.warning("engine failure %s, caused by %s", error.code, type(error.__cause__).__name__)
    return EngineFault(error.code, error.message)


def _logprobs(heard: Transcription) -> tuple[TokenLogprob, ...] | None:
    tokens = heard.logprobs
    return None if tokens is None else tuple(TokenLogprob(t.token, t.logprob, t.utf8) for t in tokens)


def _word_ends(piece: SpeechPiece) -> tuple[WordEnd, ...] | None:
    return (
        None if piece.words is None else tuple(WordEnd(word.text_end, word.audio_end_samples) for word in piece.words)
    )


def _usage(end: ChatEnd) -> TokenUsage:
    return TokenUsage(end.input_tokens, end.cached_tokens, end.output_tokens)
