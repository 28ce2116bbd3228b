"""The replies that are on their way: what was written, what waits for the voice, what has been said and heard."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from gateway.observing.kinds import Kind
from gateway.turns.actions import Synthesize
from gateway.turns.observations import Speculated, SpeculationFate
from gateway.turns.reasoning_filter import ReasoningFilter
from protocol.audio_time import Samples, ms_from_samples, samples_from_bytes
from protocol.backend_events import (
    FunctionCallArgumentsDelta,
    FunctionCallStarted,
    OutputItemEnded,
    OutputSpoken,
    OutputTextDelta,
    ResponseEnded,
    TokenUsage,
)
from protocol.speech import SpeechPart

KEPT_ITEMS = 16
"""Items whose words are known while they are heard (chosen): the player holds one or two at a time."""


@dataclass(slots=True)
class _Chunk:
    """A piece of text on its way through the synthesiser."""

    text: str
    started_at: Samples | None = None
    made: Samples = 0
    sounded: bool = False


@dataclass(slots=True)
class _Reply:
    """A response that runs."""

    out_of_band: bool
    chunks: dict[int, _Chunk] = field(default_factory=dict)
    speaking: int | None = None
    arguments: dict[str, list[str]] = field(default_factory=dict)
    reasoning: ReasoningFilter = field(default_factory=ReasoningFilter)
    reasoned: int = 0
    reasoning_told: bool = False


class Replies:
    """Tells of the running responses' text, speech and tool calls."""

    def __init__(self, tell: Callable[..., None]) -> None:
        self._tell = tell
        self._running: dict[str, _Reply] = {}  # by response, and by speculation while it is none yet
        self._adopted: dict[str, str] = {}  # running responses by the speculation that they adopted
        self._spoken: dict[str, SpeechPart] = {}  # by item, the newest KEPT_ITEMS
        self._cut: set[str] = set()

    def started(self, response_id: str, out_of_band: bool) -> None:
        """A response began."""
        self._running[response_id] = _Reply(out_of_band)

    def ended(self, end: ResponseEnded) -> None:
        """A response ended; what waited for the voice is never said."""
        reply = self._running.pop(end.response_id, None)
        self._adopted = {spec: response for spec, response in self._adopted.items() if response != end.response_id}
        if reply is not None and reply.chunks:
            self._tell(
                Kind.TTS_DROPPED,
                response_id=end.response_id,
                chunks=[{"chunk": number, "text": chunk.text} for number, chunk in reply.chunks.items()],
            )
        self._tell(
            Kind.RESPONSE_ENDED,
            response_id=end.response_id,
            status=end.status,
            reason=end.reason,
            heard_ms=ms_from_samples(end.heard),
            **({} if end.fault is None else {"code": end.fault.code, "message": end.fault.message}),
        )

    def speculated(self, what: Speculated) -> None:
        """A reply was begun early, under an id of its own; once adopted, what still comes is its response's."""
        match what.fate:
            case SpeculationFate.STARTED:
                self._running[what.speculation_id] = _Reply(out_of_band=False)
            case SpeculationFate.DROPPED:
                self._running.pop(what.speculation_id, None)
            case SpeculationFate.ADOPTED:
                early, reply = self._running.pop(what.speculation_id, None), self._running.get(what.response_id)
                if early is not None and reply is not None:
                    reply.reasoning, reply.reasoned = early.reasoning, early.reasoned
                    reply.reasoning_told = early.reasoning_told
                    self._adopted[what.speculation_id] = what.response_id

    # --- text ------------------------------------------------------------------------------------------------------

    def text_written(self, response_id: str, text: str) -> None:
        """The model wrote `text`: of what is its reasoning only the length is told, when it begins and when it ends."""
        response_id = self._adopted.get(response_id, response_id)
        reply = self._running.get(response_id)
        if reply is None:
            return
        was_hiding = reply.reasoning.hiding
        shown = reply.reasoning.feed(text)
        if was_hiding or reply.reasoning.hiding:
            reply.reasoned += len(text) - len(shown)
        if reply.reasoning.hiding and not reply.reasoning_told:
            reply.reasoning_told = True
            self._tell(Kind.LLM_REASONING, response_id=response_id, characters=reply.reasoned, ended=False)
        elif was_hiding and not reply.reasoning.hiding:
            self._reasoning_ended(response_id, reply)

    def _reasoning_ended(self, response_id: str, reply: _Reply) -> None:
        reply.reasoning_told = False
        self._tell(Kind.LLM_REASONING, response_id=response_id, characters=reply.reasoned, ended=True)

    def text_shown(self, delta: OutputTextDelta) -> None:
        """Text of the reply itself."""
        self._part(delta.item_id).text += delta.delta
        self._tell(Kind.LLM_TEXT, response_id=delta.response_id, item_id=delta.item_id, text=delta.delta)

    def text_ended(self, response_id: str, finish_reason: str, usage: TokenUsage) -> None:
        """The model is done."""
        response_id = self._adopted.get(response_id, response_id)
        reply = self._running.get(response_id)
        if reply is None:
            return
        if reply.reasoning_told:
            self._reasoning_ended(response_id, reply)
        self._tell(
            Kind.LLM_ENDED,
            response_id=response_id,
            finish_reason=finish_reason,
            input_tokens=usage.input_text_tokens,
            cached_tokens=usage.cached_text_tokens,
            output_tokens=usage.output_text_tokens,
        )

    # --- tool calls ------------------------------------------------------------------------------------------------

    def call_started(self, call: FunctionCallStarted) -> None:
        """The model calls a function."""
        reply = self._running.get(call.response_id)
        if reply is not None:
            reply.arguments[call.item_id] = []
        self._tell(
            Kind.TOOL_CALL, response_id=call.response_id, item_id=call.item_id, call_id=call.call_id, name=call.name
        )

    def arguments_written(self, delta: FunctionCallArgumentsDelta) -> None:
        """More of a call's arguments, which are told once they are whole."""
        reply = self._running.get(delta.response_id)
        if reply is not None and delta.item_id in reply.arguments:
            reply.arguments[delta.item_id].append(delta.delta)

    def item_ended(self, end: OutputItemEnded) -> None:
        """An item of a response is whole."""
        reply = self._running.get(end.response_id)
        pieces = None if reply is None else reply.arguments.pop(end.item_id, None)
        if pieces is not None:
            self._tell(Kind.TOOL_ARGUMENTS, response_id=end.response_id, item_id=end.item_id, arguments="".join(pieces))
        elif end.item_id in self._spoken and not end.cut:
            self._spoken[end.item_id].whole = True

    # --- the voice -------------------------------------------------------------------------------------------------

    def queued(self, response_id: str, waiting: Iterable[tuple[int, str]]) -> None:
        """These chunks wait for the synthesiser; those that did not before are told."""
        reply = self._running.get(response_id)
        for number, text in waiting if reply is not None else ():
            assert reply is not None
            if number not in reply.chunks:
                reply.chunks[number] = _Chunk(text)
                self._tell(Kind.TTS_QUEUED, response_id=response_id, chunk=number, text=text)

    def chunk_started(self, action: Synthesize, now: Samples) -> None:
        """The synthesiser works on a chunk."""
        reply = self._running.get(action.response_id)
        if reply is None:
            return
        chunk = reply.chunks.setdefault(action.chunk, _Chunk(action.text))
        chunk.started_at = now
        reply.speaking = action.chunk
        self._tell(Kind.TTS_STARTED, response_id=action.response_id, chunk=action.chunk, text=action.text)

    def chunk_sounds(self, response_id: str, number: int, now: Samples) -> None:
        """Audio of a chunk came; the first of it is told."""
        reply = self._running.get(response_id)
        chunk = None if reply is None else reply.chunks.get(number)
        if chunk is None or chunk.sounded or chunk.started_at is None:
            return
        chunk.sounded = True
        took_ms = ms_from_samples(now - chunk.started_at)
        self._tell(Kind.TTS_AUDIO, response_id=response_id, chunk=number, took_ms=took_ms)

    def audio_made(self, response_id: str, item_id: str, length_bytes: int) -> None:
        """More audio of an item, on its way to the client."""
        samples = samples_from_bytes(length_bytes)
        self._part(item_id).audio_sent += samples
        reply = self._running.get(response_id)
        if reply is not None and reply.speaking in reply.chunks:
            reply.chunks[reply.speaking].made += samples

    def chunk_spoken(self, response_id: str, number: int) -> None:
        """All audio of a chunk has come."""
        reply = self._running.get(response_id)
        chunk = None if reply is None else reply.chunks.pop(number, None)
        if chunk is not None:
            self._tell(Kind.TTS_DONE, response_id=response_id, chunk=number, length_ms=ms_from_samples(chunk.made))

    # --- what is heard ---------------------------------------------------------------------------------------------

    def marked(self, spoken: OutputSpoken) -> None:
        """A stretch of text is tied to its audio."""
        self._part(spoken.item_id).mark(spoken.text_end, spoken.audio_end)

    def heard(self, item_id: str, heard: Samples, sent: Samples) -> None:
        """The player has come to `heard` of the `sent` samples of an item."""
        self._tell(
            Kind.HEARD,
            item_id=item_id,
            heard_ms=ms_from_samples(heard),
            sent_ms=ms_from_samples(sent),
            text_end=len(self.text_heard(item_id, heard)),
        )

    def all_heard(self, item_id: str) -> None:
        """The player has come to the end of an item that nobody cut."""
        part = self._spoken.get(item_id)
        if part is not None and item_id not in self._cut:
            self.heard(item_id, part.audio_sent, part.audio_sent)

    def text_heard(self, item_id: str, heard: Samples) -> str:
        """Return the words of an item that end within its first `heard` samples."""
        part = self._spoken.get(item_id)
        if part is None:
            return ""
        part.gateway_cut = heard
        return part.heard_text()

    def cut(self, item_id: str, heard: Samples) -> None:
        """The user cut an item short: history keeps what they heard."""
        self._cut.add(item_id)
        self._tell(
            Kind.PLAYOUT_CUT,
            item_id=item_id,
            heard_ms=ms_from_samples(heard),
            heard_text=self.text_heard(item_id, heard),
        )

    def _part(self, item_id: str) -> SpeechPart:
        part = self._spoken.get(item_id)
        if part is None:
            part = self._spoken[item_id] = SpeechPart()
            if len(self._spoken) > KEPT_ITEMS:
                oldest = next(iter(self._spoken))
                del self._spoken[oldest]
                self._cut.discard(oldest)
        return part
