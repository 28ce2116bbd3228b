"""Neutral commands: what the session asks of a backend, whatever client event or dialect stood behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from protocol.audio_time import Samples
from protocol.backend_events import EngineFault


@dataclass(frozen=True, slots=True)
class SpeechFrame:
    """One frame of the VAD: the input audio that ends at `until` (input clock) is speech with `probability` (0…1).

    `level_dbfs`: its RMS level, −100 for digital silence. `echo`: the share 0…1 of its energy that the agent's own
    audio explains.
    """

    until: Samples
    probability: float
    level_dbfs: float = -100.0
    echo: float = 0.0


@dataclass(frozen=True, slots=True)
class AppendAudio:
    """User audio: PCM16, mono, 24 kHz, whole samples. The session's hearing adds the VAD `frames` that it completed."""

    pcm: bytes
    frames: tuple[SpeechFrame, ...] = ()


@dataclass(frozen=True, slots=True)
class CommitInput:
    """Make the buffered input audio a user item now. Answered by InputCommitted or CommandRefused."""

    client_event_id: str | None = None


@dataclass(frozen=True, slots=True)
class ClearInput:
    """Drop the buffered input audio. Answered by InputCleared."""

    client_event_id: str | None = None


@dataclass(frozen=True, slots=True)
class CreateResponse:
    """Start a response now. Answered by ResponseStarted or CommandRefused. `audio`: it is to be spoken.

    `out_of_band`: beside the conversation, in parallel to what runs. `needs_transcripts`: its context holds what the
    user said, so that it waits for the recogniser.
    """

    response_id: str
    audio: bool
    client_event_id: str | None = None
    out_of_band: bool = False
    needs_transcripts: bool = True


@dataclass(frozen=True, slots=True)
class CancelResponse:
    """End a running response (`response_id` None: the conversation's). Answered by ResponseEnded or CommandRefused."""

    response_id: str | None = None
    client_event_id: str | None = None


@dataclass(frozen=True, slots=True)
class RecogniseItem:
    """Recognise the audio of an item that the client wrote: PCM16, mono, 24 kHz. Answered as a committed item is."""

    item_id: str
    pcm: bytes


@dataclass(frozen=True, slots=True)
class ItemTruncated:
    """The client says that of item `item_id` its user heard the first `audio_end` samples. It knows best."""

    item_id: str
    audio_end: Samples


@dataclass(frozen=True, slots=True)
class ResponseContext:
    """All that a language model is told for one response.

    `messages`, `tools` and `tool_choice` have the shape of OpenAI chat completions. `max_output_tokens` None: no limit.
    `temperature`, `reasoning_effort` None: the client named none. `server_tools`: the tools, by name, that the gateway
    itself runs; the response waits a little for their results.
    """

    messages: tuple[dict[str, Any], ...]
    tools: tuple[dict[str, Any], ...] = ()
    tool_choice: str | dict[str, Any] = "auto"
    parallel_tool_calls: bool | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    reasoning_effort: str | None = None
    voice: str = ""
    speed: float = 1.0
    server_tools: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ProvideContext:
    """The answer to ContextRequested, or to ContextForeseen; `response_id` then is that of the speculation."""

    response_id: str
    context: ResponseContext


@dataclass(frozen=True, slots=True)
class WithholdContext:
    """The answer when there is no context that the client allows: the response fails of `fault`.

    A speculation that gets it just ends.
    """

    response_id: str
    fault: EngineFault


@dataclass(frozen=True, slots=True)
class ToolCallEnded:
    """A response need not wait for the call `item_id` of a server tool any more: it has ended, or it will take long."""

    response_id: str
    item_id: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The client added the result of the function call `call_id` to the conversation.

    A cascade reads it in the next response's context; a model that runs on has to be given it.
    """

    call_id: str
    output: str


@dataclass(frozen=True, slots=True)
class ContextChanged:
    """What a model that reads its context once is to read has changed: it asks again, by ContextForeseen.

    Sent only where a full-duplex model stands behind the session.
    """


@dataclass(frozen=True, slots=True)
class TurnDetection:
    """How the user's turns are found (Realtime: `audio.input.turn_detection`).

    `idle_timeout`: the agent speaks up after this much silence behind its last words; None: it waits for ever.
    `eagerness` of a `semantic_vad`: low, medium or high, None for `server_vad`. `barge_in`: judged, immediate or off.
    """

    kind: str = "server_vad"
    threshold: float = 0.5
    prefix_padding: Samples = 7_200
    silence_duration: Samples = 12_000
    create_response: bool = True
    interrupt_response: bool = True
    idle_timeout: Samples | None = None
    eagerness: str | None = None
    barge_in: str = "immediate"


@dataclass(frozen=True, slots=True)
class Configure:
    """The session's settings as a backend needs them; sent at the start and after each accepted update.

    `turn_detection` None: the client ends turns by hand. `audio_output`: responses that the gateway starts are spoken.
    `live_transcript`: the client asked for a transcription model that writes while the user still speaks.
    `language`: ISO-639-1 hint for the recogniser, or None. `transcript_prompt`: words that it may expect, "" for none.
    `transcript_logprobs`: the client reads how probable each token of a transcript was. `speculation`: the language
    model may start before a turn is certainly over.
    """

    turn_detection: TurnDetection | None
    audio_output: bool = True
    live_transcript: bool = False
    language: str | None = None
    transcript_prompt: str = ""
    transcript_logprobs: bool = False
    speculation: bool = True


Command = (
    AppendAudio
    | CommitInput
    | ClearInput
    | CreateResponse
    | CancelResponse
    | RecogniseItem
    | ItemTruncated
    | ProvideContext
    | WithholdContext
    | ToolCallEnded
    | ToolResult
    | ContextChanged
    | Configure
)
