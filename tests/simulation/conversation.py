"""A simulated conversation: the turn-taking core, a fed clock, a scripted user and scripted engines.

Nothing here waits and nothing reads a clock: `now` moves only because a test says so. The driver does to the machine
exactly what gateway/backends/cascade.py does, its timer included, and checks every output against a backend's promises.
"""

from __future__ import annotations

import heapq
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from gateway.turns.actions import (
    Generate,
    JudgeSound,
    JudgeWords,
    Synthesize,
    Transcribe,
    TranscribeItem,
    TranscribePartial,
    TranscribePause,
)
from gateway.turns.end_of_turn import LISTENERS
from gateway.turns.inputs import (
    AudioReceived,
    CancelRequested,
    ClearRequested,
    CommitRequested,
    ContextProvided,
    FunctionCallDelta,
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
from gateway.turns.observations import Speculated, SpeculationFate
from gateway.turns.response import Output
from gateway.turns.settings import SILENT_DBFS, STALL_AFTER, VAD_FRAME, Detection, Eagerness, TurnSettings
from gateway.turns.states import Agent, User
from protocol.audio_time import Samples, bytes_from_samples, samples_from_ms
from protocol.backend_events import (
    CommandRefused,
    ContextForeseen,
    ContextRequested,
    EngineFault,
    FunctionCallStarted,
    InputTranscriptCompleted,
    OutputAudio,
    OutputItemEnded,
    OutputTextDelta,
    PlayoutCut,
    ResponseEnded,
    ResponseStarted,
    SpeechStarted,
    SpeechStopped,
)
from protocol.ids import CountingIds
from tests.simulation.promises import Promises

APPEND: Samples = samples_from_ms(20)
"""What a paced client sends at a time."""

SPEECH = 0.9
SILENCE = 0.02
"""Probabilities that a VAD gives to the scripted user's speech and silence."""


class Hang:
    """An engine that never answers."""


HANG = Hang()


@dataclass(frozen=True, slots=True)
class Pause:
    """The language model says nothing for `ms` more than it usually does."""

    ms: int


@dataclass(frozen=True, slots=True)
class Call:
    """A piece of a function call, as language models stream it."""

    index: int = 0
    name: str | None = None
    arguments: str = ""
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Finish:
    """The language model's reply is whole, for this reason."""

    reason: str = "stop"


Piece = str | Call | Pause | Finish | EngineFault | Hang
Reply = str | Sequence[Piece]
Words = str | EngineFault | Hang


@dataclass(frozen=True, slots=True)
class Wait:
    """The user asks for time, says a judge."""


Score = float | Wait | Hang | None
"""What a judge answers: a probability, or no opinion."""

Judge = Callable[[JudgeSound | JudgeWords], Score]


@dataclass(frozen=True, slots=True)
class Timed:
    """An output of the machine and the gateway time at which it left."""

    at: Samples
    output: Output


T = TypeVar("T")


class Conversation:
    """One session of the machine. Time is in samples inside, in milliseconds where a test writes it.

    `asr` and `llm` are one answer for all turns, or a list that is used up turn by turn; a reply in several pieces is a
    list in that list. `looks` are the interim transcripts, which take `look_ms` (`asr_ms` where it isn't given);
    `pauses` the words up to each pause, in order, and when they are used up the turn's. `judges` answer after
    `judge_ms`. `level_dbfs` and `echo` are what the frames captured from now on have. `word_times`: the voice tells
    when its words end. `server_tools` are run by the gateway and take `tool_ms` (None: for ever). `contexts` are what
    responses and speculations were given: how much the user has said, the last of it, and `context_changes`, which
    counts cuts and, by hand, what else the client may change. Results of a stopped response still arrive, the worst
    case.
    """

    def __init__(
        self,
        settings: TurnSettings | None = None,
        *,
        asr: Words | list[Words] = "hello there",
        llm: Reply | list[Reply] = "I hear you.",
        looks: Iterable[str | None] = (),
        look_ms: int | None = None,
        pauses: Iterable[Words] = (),
        judges: Mapping[str, Judge] | None = None,
        judge_ms: int = 40,
        tts: EngineFault | Hang | None = None,
        tts_fails_at_chunk: int = 0,
        word_ms: int = 300,
        word_times: bool = False,
        asr_ms: int = 100,
        first_token_ms: int = 200,
        token_ms: int = 20,
        first_audio_ms: int = 80,
        piece_ms: int = 100,
        piece_every_ms: int = 20,
        context_ms: int = 0,
        server_tools: Iterable[str] = (),
        tool_ms: int | None = None,
        engines: bool = True,
    ) -> None:
        self.machine = TurnMachine(settings or TurnSettings(), CountingIds())
        self.now: Samples = 0
        self.timeline: list[Timed] = []
        self.promises = Promises()
        self.promises.finds_turns = self.machine.settings.detection is not None
        self.level_dbfs = SILENT_DBFS
        self.echo = 0.0
        self.asr = asr
        self.llm = llm
        self.looks = deque(looks)
        self.pauses = deque(pauses)
        self.judges = dict(judges or {})
        self.judge_ms = judge_ms
        self.tts = tts
        self.tts_fails_at_chunk = tts_fails_at_chunk
        self.word_ms = word_ms
        self.word_times = word_times
        self.asr_ms = asr_ms
        self.look_ms = asr_ms if look_ms is None else look_ms
        self.first_token_ms = first_token_ms
        self.token_ms = token_ms
        self.first_audio_ms = first_audio_ms
        self.piece_ms = piece_ms
        self.piece_every_ms = piece_every_ms
        self.context_ms = context_ms
        self.server_tools = frozenset(server_tools)
        self.tool_ms = tool_ms
        self.engines = engines
        self.client_ids = CountingIds()
        self.contexts: dict[str, object] = {}
        self.context_changes = 0
        self.written: dict[str, Reply] = {}
        self._heard: list[str] = []
        self._words: dict[str, Words] = {}
        self._due: list[tuple[Samples, int, Input]] = []
        self._server_calls: set[str] = set()
        self._order = 0
        self._timer: Samples | None = None
        self._frame_end: Samples = 0
        self._segments: deque[tuple[Samples, float, float, float]] = deque()
        self._captured: Samples = 0

    # --- the clock -------------------------------------------------------------------------------------------------

    def wait(self, ms: int) -> None:
        """Let `ms` of gateway time pass without input: engines answer, timers fire."""
        self.run_until(self.now + samples_from_ms(ms))

    def run_until(self, until: Samples) -> None:
        """Let gateway time pass up to `until`, inclusive."""
        due = self._due
        while True:
            timer = self._timer
            if due and due[0][0] <= until and (timer is None or due[0][0] <= timer):
                at, _, message = heapq.heappop(due)
                if at > self.now:
                    self.now = at
                self.feed(message)
            elif timer is not None and timer <= until:
                if timer > self.now:
                    self.now = timer
                self._time_passed()
            else:
                break
        if until > self.now:
            self.now = until

    def run_dry(self, limit_ms: int = 120_000) -> None:
        """Let time pass until nothing is due any more."""
        end = self.now + samples_from_ms(limit_ms)
        while self._due or self._timer is not None:
            times = [due[0] for due in self._due[:1]] + ([] if self._timer is None else [self._timer])
            at = max(self.now, min(times))
            assert at <= end, "the conversation never comes to rest"
            self.run_until(at)

    def _time_passed(self) -> None:
        """The shell's timer: cascade.py, `_time_passed`."""
        self._timer = None
        stalled = self.machine.silent_for(self.now)
        self.feed(InputStalled(stalled) if stalled >= STALL_AFTER else Tick())
        deadline = self.machine.next_deadline(self.now)
        assert deadline is None or deadline > self.now, "a deadline that its timer does not clear: a busy loop"

    def feed(self, message: Input) -> list[Output]:
        """Tell the machine something now and perform what it answers."""
        now = self.now
        machine = self.machine
        if isinstance(message, PauseTranscript):
            self.promises.pause_answered(message.item_id, message.pause)
        outputs = machine.receive(message, now)
        for output in outputs:
            self.timeline.append(Timed(now, output))
            self.promises.see(output)
            self._perform(output)
        deadline = machine.next_deadline(now)
        if deadline is not None and (self._timer is None or deadline < self._timer):
            self._timer = deadline  # an early timer only looks again
        return outputs

    def later(self, ms: int, message: Input) -> None:
        """Have the machine told `message` in `ms`."""
        self._order += 1
        heapq.heappush(self._due, (self.now + samples_from_ms(ms), self._order, message))

    # --- the user --------------------------------------------------------------------------------------------------

    def audio(
        self, ms: int, speech: bool | float = False, *, burst: bool = False, rate: int = 1, append_ms: int = 20
    ) -> None:
        """Send `ms` of input: 20 ms appends in real time, `rate` times as fast, or (`burst`) one append at once."""
        self.capture(samples_from_ms(ms), speech)
        if burst:
            self.append()
            return
        step = samples_from_ms(append_ms)
        while self._captured:
            size = min(step, self._captured)
            self.run_until(self.now + size // rate)
            self.append(size)

    def speak(self, ms: int) -> None:
        """The user speaks for `ms`, live."""
        self.audio(ms, True)

    def silence(self, ms: int) -> None:
        """The microphone is open and the user silent for `ms`."""
        self.audio(ms, False)

    def burst(self, *stretches: tuple[int, bool | float]) -> None:
        """Send all `stretches` of (ms, speech) in one append."""
        for ms, speech in stretches:
            self.capture(samples_from_ms(ms), speech)
        self.append()

    def capture(self, samples: Samples, speech: bool | float) -> None:
        """Record audio that will be sent later."""
        probability = (SPEECH if speech else SILENCE) if isinstance(speech, bool) else speech
        self._captured += samples
        end = (self._segments[-1][0] if self._segments else self.machine.received) + samples
        self._segments.append((end, probability, self.level_dbfs, self.echo))

    def append(self, samples: Samples | None = None) -> None:
        """Send recorded audio now, all of it or `samples`, with the VAD frames that it completes."""
        size = self._captured if samples is None else samples
        self._captured -= size
        self.feed(AudioReceived(size))
        segments = self._segments
        received = self.machine.received
        while (until := self._frame_end + VAD_FRAME) <= received:
            self._frame_end = until
            middle = until - VAD_FRAME // 2
            while len(segments) > 1 and segments[0][0] <= middle:
                segments.popleft()
            self.feed(SpeechProbability(until, *segments[0][1:]))
        if self._due:
            self.run_until(self.now)

    def frames(self, *probabilities: float) -> None:
        """Send one VAD frame per probability, each in its own append and in real time."""
        for probability in probabilities:
            self.capture(VAD_FRAME, probability)
            self.run_until(self.now + VAD_FRAME)
            self.append()

    # --- the client ------------------------------------------------------------------------------------------------

    def tell(self, message: Input) -> list[Output]:
        """Pass a client's command on and let what is due now happen."""
        outputs = self.feed(message)
        self.run_until(self.now)
        return outputs

    def commit(self, client_event_id: str | None = None) -> list[Output]:
        """The client sends input_audio_buffer.commit."""
        return self.tell(CommitRequested(client_event_id))

    def clear(self) -> list[Output]:
        """The client sends input_audio_buffer.clear."""
        return self.tell(ClearRequested())

    def create(self, *, audio: bool = True, client_event_id: str | None = None) -> str:
        """The client sends response.create; return the response's id."""
        response_id = self.client_ids("client_resp")
        self.tell(ResponseRequested(response_id, audio, client_event_id))
        return response_id

    def create_out_of_band(self, *, audio: bool = False, needs_transcripts: bool = False) -> str:
        """The client sends response.create with conversation none; return the response's id."""
        response_id = self.client_ids("client_resp")
        self.tell(ResponseRequested(response_id, audio, None, True, needs_transcripts))
        return response_id

    def give_audio(self, item_id: str, samples: Samples) -> list[Output]:
        """The client creates an item with audio and no transcript."""
        self.promises.item_audio(item_id)
        return self.tell(ItemAudioGiven(item_id, samples))

    def cancel(self, response_id: str | None = None, client_event_id: str | None = None) -> list[Output]:
        """The client sends response.cancel."""
        return self.tell(CancelRequested(response_id, client_event_id))

    def truncate(self, item_id: str, heard: Samples) -> list[Output]:
        """The client sends conversation.item.truncate."""
        return self.tell(HeardByClient(item_id, heard))

    def configure(self, settings: TurnSettings) -> list[Output]:
        """The client's session.update was accepted."""
        before, after = self.machine.settings.detection, settings.detection
        if before is not None and after is None:
            self.promises.vad_switched_off()
        elif before is None and after is not None:
            self.promises.vad_switched_on()
        return self.tell(SettingsChanged(settings))

    # --- the engines and the session -------------------------------------------------------------------------------

    def _perform(self, output: Output) -> None:
        if isinstance(output, ContextRequested | ContextForeseen):
            self._provide_context(output)
        elif isinstance(output, Speculated):
            self._speculated(output)
        elif isinstance(output, InputTranscriptCompleted):
            self._heard += filter(None, [output.transcript])
        elif isinstance(output, PlayoutCut):
            self.context_changes += 1
        elif isinstance(output, FunctionCallStarted) and output.name in self.server_tools:
            self._server_calls.add(output.item_id)
        elif isinstance(output, OutputItemEnded) and output.item_id in self._server_calls and self.tool_ms is not None:
            self.later(self.tool_ms, ToolCallEnded(output.response_id, output.item_id))
        elif not self.engines:
            return
        elif isinstance(output, Transcribe | TranscribeItem):
            self._recognise(output.item_id)
        elif isinstance(output, TranscribePause):
            self._recognise_pause(output)
        elif isinstance(output, JudgeSound | JudgeWords):
            self._judge(output)
        elif isinstance(output, TranscribePartial):
            text = self.looks.popleft() if self.looks else None
            self.later(self.look_ms, PartialTranscript(output.item_id, text))
        elif isinstance(output, Generate):
            self._write(output.response_id)
        elif isinstance(output, Synthesize):
            self._speak(output)

    def _provide_context(self, asked: ContextRequested | ContextForeseen) -> None:
        """Answer as the session does; the shell adds whether it is the context of the running speculation."""
        said = [*self._heard, asked.words] if isinstance(asked, ContextForeseen) else self._heard
        context = len(said), said[-3:], self.context_changes
        if isinstance(asked, ContextForeseen):
            response_id, foreseen = asked.speculation_id, ""
        else:
            response_id = asked.response_id
            running = self.machine.speculation
            foreseen = running if running is not None and self.contexts.get(running) == context else ""
        self.contexts[response_id] = context
        self.later(self.context_ms, ContextProvided(response_id, self.server_tools, foreseen))

    def _speculated(self, seen: Speculated) -> None:
        """The next speculation, or the response itself, is given the reply that one in vain was given."""
        if seen.fate is SpeculationFate.DROPPED and isinstance(self.llm, list) and seen.speculation_id in self.written:
            self.llm.insert(0, self.written[seen.speculation_id])

    def _recognise(self, item_id: str) -> None:
        words = self._words_of(item_id)
        if isinstance(words, EngineFault):
            self.later(self.asr_ms, TranscriptFailed(item_id, words))
        elif isinstance(words, str):
            self.later(self.asr_ms, Transcript(item_id, words))

    def _recognise_pause(self, order: TranscribePause) -> None:
        words = self.pauses.popleft() if self.pauses else self._words_of(order.item_id)
        if not isinstance(words, Hang):
            text = None if isinstance(words, EngineFault) else words
            self.later(self.asr_ms, PauseTranscript(order.item_id, order.pause, text))

    def _judge(self, question: JudgeSound | JudgeWords) -> None:
        for name, judge in self.judges.items():
            if (name in LISTENERS) is not isinstance(question, JudgeSound):
                continue
            score = judge(question)
            if not isinstance(score, Hang):
                complete = 0.0 if isinstance(score, Wait) else score
                answer = Judged(question.item_id, question.pause, name, complete, isinstance(score, Wait))
                self.later(self.judge_ms, answer)

    def _words_of(self, item_id: str) -> Words:
        """Return the words of a turn, the same however often it is recognised."""
        if item_id not in self._words:
            self._words[item_id] = self.asr.pop(0) if isinstance(self.asr, list) else self.asr
        return self._words[item_id]

    def _write(self, response_id: str) -> None:
        reply = self.llm.pop(0) if isinstance(self.llm, list) else self.llm
        self.written[response_id] = reply
        pieces: list[Piece] = [reply] if isinstance(reply, str) else list(reply)
        if not any(isinstance(piece, Finish | EngineFault | Hang) for piece in pieces):
            pieces.append(Finish())
        at = self.first_token_ms
        for piece in pieces:
            match piece:
                case str():
                    self.later(at, TextDelta(response_id, piece))
                case Call():
                    call = FunctionCallDelta(response_id, piece.index, piece.call_id, piece.name, piece.arguments)
                    self.later(at, call)
                case Pause(ms=ms):
                    at += ms
                    continue
                case Finish(reason=reason):
                    self.later(at, GenerationEnded(response_id, reason))
                case EngineFault():
                    self.later(at, GenerationFailed(response_id, piece))
                case Hang():
                    return
            at += self.token_ms

    def _speak(self, order: Synthesize) -> None:
        if isinstance(self.tts, EngineFault) and order.chunk >= self.tts_fails_at_chunk:
            self.later(self.first_audio_ms, SynthesisFailed(order.response_id, self.tts))
            return
        if isinstance(self.tts, Hang) and order.chunk >= self.tts_fails_at_chunk:
            return
        words = [word.end() for word in re.finditer(r"\S+", order.text)]
        said, at = 0, self.first_audio_ms
        while (left := self.word_ms * len(words) - said) > 0:
            piece = min(self.piece_ms, left)
            pcm = bytes(bytes_from_samples(samples_from_ms(piece)))
            ended = range(said // self.word_ms, (said + piece) // self.word_ms)
            times = tuple(WordEnd(words[word], samples_from_ms(self.word_ms * (word + 1))) for word in ended)
            self.later(at, SynthesizedSpeech(order.response_id, order.chunk, pcm, times if self.word_times else None))
            said += piece
            at += self.piece_every_ms
        self.later(at, SynthesisEnded(order.response_id, order.chunk))

    # --- what came of it -------------------------------------------------------------------------------------------

    @property
    def user(self) -> User:
        """What the machine says the user does."""
        return self.machine.user

    @property
    def agent(self) -> Agent:
        """What the machine says the agent does."""
        return self.machine.agent

    @property
    def outputs(self) -> list[Output]:
        """All outputs so far, in order."""
        return [timed.output for timed in self.timeline]

    def all(self, kind: type[T]) -> list[T]:
        """Return all outputs of `kind`."""
        return [timed.output for timed in self.timeline if isinstance(timed.output, kind)]

    def only(self, kind: type[T]) -> T:
        """Return the one output of `kind`."""
        (one,) = self.all(kind)
        return one

    def at(self, output: object) -> Samples:
        """Return when `output` left (gateway clock)."""
        return next(timed.at for timed in self.timeline if timed.output is output)

    def names(self, since: int = 0) -> list[str]:
        """Return the kinds of the outputs from number `since` on, with runs of the same kind as one."""
        names: list[str] = []
        for timed in self.timeline[since:]:
            name = type(timed.output).__name__
            if not names or names[-1] != name:
                names.append(name)
        return names

    def ends(self) -> list[tuple[str, str, str | None]]:
        """Return (response, status, reason) of all ended responses."""
        return [(end.response_id, end.status.value, end.reason and end.reason.value) for end in self.all(ResponseEnded)]

    def text(self, response_id: str) -> str:
        """Return the text of a response."""
        return "".join(d.delta for d in self.all(OutputTextDelta) if d.response_id == response_id)

    def audio_of(self, response_id: str) -> Samples:
        """Return the audio sent of a response."""
        return sum(len(a.pcm) // 2 for a in self.all(OutputAudio) if a.response_id == response_id)

    def transcripts(self) -> dict[str, str]:
        """Return the final transcripts by item."""
        return {done.item_id: done.transcript for done in self.all(InputTranscriptCompleted)}

    def refusals(self) -> list[CommandRefused]:
        """Return all refusals."""
        return self.all(CommandRefused)

    def speech_times(self) -> list[tuple[Samples, Samples]]:
        """Return (start, stop) of each utterance on the input clock."""
        starts = [event.start for event in self.all(SpeechStarted)]
        return list(zip(starts, [event.end for event in self.all(SpeechStopped)], strict=True))

    def responses(self) -> list[str]:
        """Return the ids of the responses that started, in order."""
        return [event.response_id for event in self.all(ResponseStarted)]


def server_vad(**changes: object) -> TurnSettings:
    """Return the default settings with changes to turn detection; times in samples."""
    return TurnSettings(detection=replace(Detection(), **changes))  # by field name


def semantic(
    *judges: str, eagerness: Eagerness = Eagerness.MEDIUM, silence_ms: int = 500, **changes: object
) -> TurnSettings:
    """Return settings in which `judges` have a say in when turns end."""
    detection = Detection(semantic=eagerness, silence_duration=samples_from_ms(silence_ms))
    return TurnSettings(replace(detection, **changes), judges=frozenset(judges))  # by name


def by_hand(**changes: object) -> TurnSettings:
    """Return settings without turn detection."""
    return replace(TurnSettings(detection=None), **changes)  # by field name
