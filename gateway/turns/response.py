"""One response on its way: text in, speakable chunks out, audio back, and the marks that tie audio to text."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import assert_never

from gateway.turns.actions import Action, Generate, StopGenerating, StopResponse, Synthesize
from gateway.turns.inputs import (
    ContextProvided,
    FunctionCallDelta,
    GenerationAlive,
    GenerationEnded,
    GenerationFailed,
    SynthesisEnded,
    SynthesisFailed,
    SynthesizedSpeech,
    TextDelta,
    ToolCallEnded,
    WordEnd,
)
from gateway.turns.observations import Observation
from gateway.turns.playout import VirtualPlayer
from gateway.turns.reasoning_filter import ReasoningFilter
from gateway.turns.settings import (
    FIRST_TOKEN_TIMEOUT,
    LONGEST_REPLY,
    NEXT_TOKEN_TIMEOUT,
    SPEECH_TIMEOUT,
    SYNTHESIS_LEAD,
    Deadlines,
)
from gateway.turns.speakable_chunks import Chunk, SpeakableChunks
from gateway.turns.spoken_languages import SpokenLanguages
from protocol.audio_time import Samples, samples_from_bytes
from protocol.backend_events import (
    BackendEvent,
    ContextRequested,
    EndReason,
    EndStatus,
    EngineFault,
    FunctionCallArgumentsDelta,
    FunctionCallStarted,
    OutputAudio,
    OutputItemEnded,
    OutputSpoken,
    OutputTextDelta,
    ResponseEnded,
    ResponseStarted,
    TokenUsage,
)

DEFAULT_PACE: Samples = 1_600
"""Samples a character of speech takes before any was measured: 15 characters a second (chosen, English)."""

SAID_BEFORE = 60
SAID_AFTER = 30
"""Characters around the player's position that its echo may hold: what a look covers, and the error of the estimate
(chosen: four and two seconds of speech)."""

_CUT_REASONS = {"length": EndReason.MAX_OUTPUT_TOKENS, "content_filter": EndReason.CONTENT_FILTER}
"""The finish reasons of chat completions that leave a reply incomplete."""

Output = BackendEvent | Action | Observation

ResponseInput = (
    ContextProvided
    | TextDelta
    | FunctionCallDelta
    | GenerationAlive
    | GenerationEnded
    | GenerationFailed
    | SynthesizedSpeech
    | SynthesisEnded
    | SynthesisFailed
    | ToolCallEnded
)


class Phase(Enum):
    """How far a response is."""

    AWAITING_TRANSCRIPTS = auto()
    AWAITING_CONTEXT = auto()
    GENERATING = auto()
    GENERATED = auto()
    AWAITING_TOOLS = auto()
    ENDED = auto()


@dataclass(slots=True)
class _Message:
    """The assistant message of a response."""

    item_id: str
    text: str = ""
    audio: Samples = 0
    marked_text: int = 0
    marked_audio: Samples = 0

    @property
    def pace(self) -> Samples:
        """How much audio a character takes, by what was marked so far; a sample at least."""
        return max(1, self.marked_audio // self.marked_text) if self.marked_audio else DEFAULT_PACE


@dataclass(slots=True)
class _Speaking:
    """The chunk that the synthesiser works on; its audio begins `audio_start` samples into its message's.

    `timed`: the voice tells when words end.
    """

    index: int
    chunk: Chunk
    deadline: Samples
    audio_start: Samples
    timed: bool = False


@dataclass(slots=True)
class Response:
    """The bookkeeping of one response. Its methods append to `out`; they are called only while it is open.

    `turns_covered`: how many of the user's turns with words had come when its context was asked for. `out_of_band`: it
    stands beside the conversation.
    """

    response_id: str
    audio: bool
    automatic: bool
    deadlines: Deadlines
    player: VirtualPlayer
    new_id: Callable[[str], str]
    languages: SpokenLanguages
    awaiting: set[str] = field(default_factory=set)
    out_of_band: bool = False
    phase: Phase = Phase.AWAITING_TRANSCRIPTS
    audio_sent: bool = False
    turns_covered: int = 0
    _adopted: str = ""
    _message: _Message | None = None
    _reasoning: ReasoningFilter = field(default_factory=ReasoningFilter)
    _language: str = ""
    _chunks: SpeakableChunks = field(default_factory=SpeakableChunks)
    _calls: dict[int, str] = field(default_factory=dict)
    _waiting: deque[Chunk] = field(default_factory=deque)
    _speaking: _Speaking | None = None
    _spoken_chunks: int = 0
    _generation_deadline: Samples | None = None
    _token_seen: bool = False
    _written: int = 0
    _writing: str = ""
    _server_tools: frozenset[str] = frozenset()
    _tool_calls: set[str] = field(default_factory=set)
    _tools_deadline: Samples | None = None
    _end: GenerationEnded | None = None

    @property
    def text(self) -> str:
        """What its message says so far."""
        return "" if self._message is None else self._message.text

    @property
    def generation_id(self) -> str:
        """The id under which its language model writes: its own, unless it adopted what was begun before."""
        return self._adopted or self.response_id

    @property
    def has_output(self) -> bool:
        """Whether the client got anything of it: audio, or, if it doesn't speak, text; or a function call."""
        return self.audio_sent or bool(self._calls) or (not self.audio and self._message is not None)

    def said_near(self, now: Samples) -> str:
        """Return the text that the player plays at about `now`, some words before and after included.

        Audio of it has been sent.
        """
        message = self._message
        assert message is not None
        at = self.player.heard(message.item_id, now) // message.pace
        return message.text[max(0, at - SAID_BEFORE) : at + SAID_AFTER]

    @property
    def speech_queue(self) -> list[tuple[int, str]]:
        """What waits for the synthesiser: each chunk's number and text."""
        return list(enumerate((chunk.spoken for chunk in self._waiting if chunk.spoken), self._spoken_chunks))

    # --- what moves it on ------------------------------------------------------------------------------------------

    def start(self, turns_with_words: int, out: list[Output]) -> None:
        """Announce the response and ask for its context as soon as the user's words are known."""
        out.append(ResponseStarted(self.response_id, self.out_of_band))
        self._ask_when_ready(turns_with_words, out)

    def transcript_arrived(self, item_id: str, turns_with_words: int, out: list[Output]) -> None:
        """The words of `item_id`, which is awaited, are known."""
        self.awaiting.discard(item_id)
        self._ask_when_ready(turns_with_words, out)

    def _ask_when_ready(self, turns_with_words: int, out: list[Output]) -> None:
        if not self.awaiting:
            self.phase = Phase.AWAITING_CONTEXT
            self.turns_covered = turns_with_words
            out.append(ContextRequested(self.response_id))

    def receive(self, message: ResponseInput, now: Samples, out: list[Output]) -> None:
        """Take an engine's result. One that the response does not wait for is late, double or impossible: no-op."""
        match message:
            case ContextProvided(server_tools=server_tools):
                if self.phase is Phase.AWAITING_CONTEXT:
                    self._server_tools = server_tools
                    self._generate(now, out)
            case ToolCallEnded(item_id=item_id):
                self._tool_calls.discard(item_id)
                if self.phase is Phase.AWAITING_TOOLS and not self._tool_calls:
                    self.complete(now, out)
            case SynthesizedSpeech():
                self._speech(message, now, out)
            case SynthesisEnded(chunk=chunk):
                self._chunk_spoken(chunk, now, out)
            case SynthesisFailed(fault=fault):
                if self._speaking is not None:
                    self.end(EndStatus.FAILED, now, out, fault=fault)
            case GenerationFailed(fault=fault):
                if self.phase in (Phase.AWAITING_CONTEXT, Phase.GENERATING):
                    self.end(EndStatus.FAILED, now, out, fault=fault)
            case _ if self.phase is not Phase.GENERATING:
                pass
            case TextDelta(text=text):
                self._token(now)
                self._write(self._reasoning.feed(text), now, out)
                self._count(len(text), now, out)
            case FunctionCallDelta():
                self._token(now)
                self._call(message, out)
                self._count(len(message.arguments), now, out)
            case GenerationAlive(characters=characters):
                self._token(now)
                self._count(characters, now, out)
            case GenerationEnded():
                self._generated(message, now, out)
            case _:
                assert_never(message)

    def adopt(
        self,
        provided: ContextProvided,
        written: Iterable[TextDelta | FunctionCallDelta | GenerationEnded],
        now: Samples,
        out: list[Output],
    ) -> None:
        """Take over the generation that was `provided.foreseen`: what it has `written`, and what is still to come."""
        self._server_tools = provided.server_tools
        self._adopted = provided.foreseen
        self._await_tokens(now)
        for piece in written:
            self.receive(piece, now, out)

    def _generate(self, now: Samples, out: list[Output]) -> None:
        self._await_tokens(now)
        out.append(Generate(self.response_id))

    def _await_tokens(self, now: Samples) -> None:
        self.phase = Phase.GENERATING
        self._generation_deadline = now + self.deadlines.first_token
        self._language = self.languages.reply  # the user's last words are known by now
        self._chunks = SpeakableChunks(self._language)

    def _token(self, now: Samples) -> None:
        self._token_seen = True
        self._generation_deadline = now + self.deadlines.next_token

    def _count(self, characters: int, now: Samples, out: list[Output]) -> None:
        """End a reply that has become too long, as its own `max_output_tokens` would."""
        self._written += characters
        if self._written > LONGEST_REPLY:
            out.append(StopGenerating(self.generation_id))
            self._generated(GenerationEnded(self.response_id, "length"), now, out)

    def _write(self, text: str, now: Samples, out: list[Output]) -> None:
        if self._message is None:
            text = text.lstrip()
            if not text:
                return
            self._message = _Message(self.new_id("item"))
        if not text:
            return
        self._message.text += text
        self._writing = self._message.item_id
        out.append(OutputTextDelta(self.response_id, self._message.item_id, text))
        if self.audio:
            self._waiting.extend(self._chunks.feed(text))
            self.pump(now, out)

    def _call(self, delta: FunctionCallDelta, out: list[Output]) -> None:
        item_id = self._calls.get(delta.index)
        if item_id is None:
            item_id = self._calls[delta.index] = self.new_id("item")
            call_id, name = delta.call_id or self.new_id("call"), delta.name or ""
            if name in self._server_tools:
                self._tool_calls.add(item_id)
            out.append(FunctionCallStarted(self.response_id, item_id, call_id, name))
        self._writing = item_id
        if delta.arguments:
            out.append(FunctionCallArgumentsDelta(self.response_id, item_id, delta.arguments))

    def _generated(self, end: GenerationEnded, now: Samples, out: list[Output]) -> None:
        self._write(self._reasoning.finish(), now, out)
        self._end = end
        self._generation_deadline = None
        self.phase = Phase.GENERATED
        # Tool calls never wait for playback: they are whole as soon as the model is done.
        out.extend(self._item_ended(item_id) for item_id in self._calls.values())
        if self.audio:
            self._waiting.extend(self._chunks.finish())
        self.pump(now, out)

    # --- speech ----------------------------------------------------------------------------------------------------

    def pump(self, now: Samples, out: list[Output]) -> None:
        """Give the synthesiser the next chunk if it is idle and the player's lead allows; end when all is said."""
        if self._speaking is None and self._waiting:
            if self.pump_at(now) > now:
                return
            chunk = self._waiting.popleft()
            if chunk.spoken:  # the last chunk has none if the reply ends in what no voice can say
                index = self._spoken_chunks
                self._spoken_chunks += 1
                assert self._message is not None
                self._speaking = _Speaking(index, chunk, now + self.deadlines.speech, self._message.audio)
                out.append(Synthesize(self.response_id, index, chunk.spoken, index == 0, self._language))
        if self.phase is Phase.GENERATED and self._speaking is None and not self._waiting:
            self._end_message(out)
            if self._tool_calls:
                self.phase = Phase.AWAITING_TOOLS
                self._tools_deadline = now + self.deadlines.tools
            else:
                self.complete(now, out)

    def pump_at(self, now: Samples) -> Samples:
        """Return when the next chunk may be synthesised (gateway clock)."""
        ends_at = self.player.ends_at
        return now if ends_at is None else max(now, ends_at - SYNTHESIS_LEAD)

    def _speech(self, speech: SynthesizedSpeech, now: Samples, out: list[Output]) -> None:
        speaking, message = self._speaking, self._message
        if speaking is None or speaking.index != speech.chunk or message is None:
            return
        speaking.deadline = now + self.deadlines.speech
        samples = samples_from_bytes(len(speech.pcm))
        if not samples:
            return
        message.audio += samples
        self.audio_sent = True
        self.player.push(message.item_id, samples, now)
        out.append(OutputAudio(self.response_id, message.item_id, speech.pcm))
        if speech.words is not None:
            speaking.timed = True
            self._mark_words(speech.words, out)

    def _mark_words(self, words: Sequence[WordEnd], out: list[Output]) -> None:
        """Place the words that the voice says end in the audio that was sent; what it says of other audio is void."""
        speaking, message = self._speaking, self._message
        assert speaking is not None
        assert message is not None
        for word in words:
            text_end = speaking.chunk.text_said(word.text_end)
            audio_end = speaking.audio_start + word.audio_end
            if text_end > message.marked_text and message.marked_audio <= audio_end <= message.audio:
                self._mark(text_end, audio_end, out)

    def _chunk_spoken(self, index: int, now: Samples, out: list[Output]) -> None:
        if self._speaking is None or self._speaking.index != index or self._message is None:
            return
        self._mark(self._speaking.chunk.text_end, self._message.audio, out)
        self._speaking = None
        self.pump(now, out)

    def _mark(self, text_end: int, audio_end: Samples, out: list[Output]) -> None:
        assert self._message is not None
        self._message.marked_text = text_end
        self._message.marked_audio = audio_end
        out.append(OutputSpoken(self.response_id, self._message.item_id, text_end, audio_end))

    def _mark_cut_chunk(self, out: list[Output]) -> None:
        """Estimate how long the chunk in the synthesiser would have become, so that its heard share can be told.

        Where the voice tells when words end there is nothing to estimate: a word without a mark was not said.
        """
        message, speaking = self._message, self._speaking
        if message is None or speaking is None or speaking.timed or message.audio == message.marked_audio:
            return
        expected = message.marked_audio + message.pace * (speaking.chunk.text_end - message.marked_text)
        # It goes on for a character at least: nobody has heard all of a chunk that was cut.
        self._mark(speaking.chunk.text_end, max(expected, message.audio + message.pace), out)

    # --- time and the end ------------------------------------------------------------------------------------------

    def deadline(self, now: Samples) -> Samples | None:
        """Return when something is due: an engine's patience ends, or the next chunk may be synthesised."""
        speech_deadline = None if self._speaking is None else self._speaking.deadline
        due = [at for at in (self._generation_deadline, speech_deadline, self._tools_deadline) if at is not None]
        if self._speaking is None and self._waiting:
            due.append(self.pump_at(now))
        return min(due, default=None)

    def settle(self, now: Samples, out: list[Output]) -> None:
        """Let time pass: end the response if an engine was silent for too long, go on if the player's lead allows."""
        if self._generation_deadline is not None and now >= self._generation_deadline:
            fault = NEXT_TOKEN_TIMEOUT if self._token_seen else FIRST_TOKEN_TIMEOUT
            self.end(EndStatus.FAILED, now, out, fault=fault)
        elif self._speaking is not None and now >= self._speaking.deadline:
            self.end(EndStatus.FAILED, now, out, fault=SPEECH_TIMEOUT)
        elif self._tools_deadline is not None and now >= self._tools_deadline:
            self.complete(now, out)
        elif self._waiting and self._speaking is None:
            self.pump(now, out)

    def _end_message(self, out: list[Output]) -> None:
        message = self._message
        if message is None:
            return
        if self.audio and message.marked_text < len(message.text):
            # What no voice can say (a closing emoji) counts as heard with the words before it.
            self._mark(len(message.text), message.audio, out)
        out.append(self._item_ended(message.item_id))

    def _item_ended(self, item_id: str) -> OutputItemEnded:
        """Return the end of an item; a model that was stopped was stopped in the one that it wrote last."""
        return OutputItemEnded(self.response_id, item_id, cut=self._cut_reason is not None and item_id == self._writing)

    @property
    def _cut_reason(self) -> EndReason | None:
        """Why the model was stopped, if it did not stop by itself."""
        assert self._end is not None
        return _CUT_REASONS.get(self._end.finish_reason)

    def complete(self, now: Samples, out: list[Output]) -> None:
        """End the response, of which all that the model wrote has been said."""
        assert self._end is not None
        reason = self._cut_reason
        status = EndStatus.COMPLETED if reason is None else EndStatus.INCOMPLETE
        self._close(status, now, out, reason=reason, usage=self._end.usage)

    def end(
        self,
        status: EndStatus,
        now: Samples,
        out: list[Output],
        *,
        reason: EndReason | None = None,
        fault: EngineFault | None = None,
    ) -> None:
        """End the response before its time; its engines' work is stopped afterwards."""
        self._mark_cut_chunk(out)
        usage = TokenUsage() if self._end is None else self._end.usage
        adopted = bool(self._adopted) and self.phase is Phase.GENERATING
        self._close(status, now, out, reason=reason, fault=fault, usage=usage)
        if adopted:
            out.append(StopGenerating(self.generation_id))
        out.append(StopResponse(self.response_id))

    def _close(
        self,
        status: EndStatus,
        now: Samples,
        out: list[Output],
        *,
        reason: EndReason | None = None,
        fault: EngineFault | None = None,
        usage: TokenUsage,
    ) -> None:
        self.phase = Phase.ENDED
        heard = 0 if self._message is None else self.player.heard(self._message.item_id, now)
        out.append(ResponseEnded(self.response_id, status, heard, reason, fault, usage))
