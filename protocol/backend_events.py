"""Neutral events: what any backend reports, in one total order per session.

A backend (cascade, native, remote) emits these; `protocol.session` turns them into the Realtime wire. Nothing in here
knows JSON, OpenAI's names or an engine. Standard library only, so that the pure turn-taking core may import it.

Promises of every backend:
- each `ResponseStarted` has exactly one `ResponseEnded`, and nothing of that response follows it, except
  `PlayoutCut`, which speaks of what the user heard, not of new output;
- at most one response of the conversation runs at a time; out-of-band ones may run beside it;
- one `item_id` names a stretch of user speech in `SpeechStarted`, `SpeechStopped`, `InputCommitted` and its transcript;
- each committed item, and each whose audio a `RecogniseItem` brought, gets exactly one `InputTranscriptCompleted` or
  `InputTranscriptFailed`, and no delta after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from protocol.audio_time import Samples


class EndStatus(StrEnum):
    """How a response ended (Realtime: `response.status`)."""

    COMPLETED = "completed"
    CANCELLED = "cancelled"
    INCOMPLETE = "incomplete"
    FAILED = "failed"


class EndReason(StrEnum):
    """Why a response ended early (Realtime: the closed set of `status_details.reason`)."""

    TURN_DETECTED = "turn_detected"
    CLIENT_CANCELLED = "client_cancelled"
    MAX_OUTPUT_TOKENS = "max_output_tokens"
    CONTENT_FILTER = "content_filter"


class RefusalKind(StrEnum):
    """Why a backend refused a command. `protocol.errors` chooses the wire's error code for each."""

    INPUT_TOO_SHORT = "input_too_short"
    RESPONSE_ACTIVE = "response_active"
    TOO_MANY_RESPONSES = "too_many_responses"
    NO_ACTIVE_RESPONSE = "no_active_response"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens that a language model counted for one response; zeros where it did not say."""

    input_text_tokens: int = 0
    cached_text_tokens: int = 0
    output_text_tokens: int = 0


@dataclass(frozen=True, slots=True)
class EngineFault:
    """An engine's failure, told to the client without paths, keys or stack traces."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token of a transcript and its natural log probability. `utf8`: its bytes, which may be half a character."""

    token: str
    logprob: float
    utf8: bytes


# --- what the user does -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """The VAD heard the user begin. `start` (input clock) lies the prefix padding before the onset."""

    item_id: str
    start: Samples


@dataclass(frozen=True, slots=True)
class SpeechStopped:
    """The VAD heard the user end. `end` (input clock) includes the silence that decided it."""

    item_id: str
    end: Samples


@dataclass(frozen=True, slots=True)
class InputCommitted:
    """The input audio [start, end) (input clock) became the user item `item_id`."""

    item_id: str
    start: Samples
    end: Samples


@dataclass(frozen=True, slots=True)
class InputTimedOut:
    """The user said nothing for the idle timeout: the silence [start, end) (input clock) is about to be committed."""

    item_id: str
    start: Samples
    end: Samples


@dataclass(frozen=True, slots=True)
class InputCleared:
    """The uncommitted input audio was dropped at the client's wish."""


@dataclass(frozen=True, slots=True)
class InputTranscriptDelta:
    """More of a user item's transcript. Deltas of an item, joined, are a prefix of its final transcript.

    `logprobs` are those of its tokens; None where they were not asked for or are not known.
    """

    item_id: str
    delta: str
    logprobs: tuple[TokenLogprob, ...] | None = None


@dataclass(frozen=True, slots=True)
class InputTranscriptCompleted:
    """The final transcript of a committed user item; empty if it holds no speech. `duration` is its audio.

    `logprobs` are those of the tokens that the recogniser wrote in the end; None where they were not asked for or are
    not known.
    """

    item_id: str
    transcript: str
    duration: Samples
    logprobs: tuple[TokenLogprob, ...] | None = None


@dataclass(frozen=True, slots=True)
class InputTranscriptFailed:
    """A committed user item could not be transcribed."""

    item_id: str
    fault: EngineFault


# --- what the agent does ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ResponseStarted:
    """A response began. For one that the client asked for, `response_id` is that of its `CreateResponse`.

    `out_of_band`: it stands beside the conversation and may run in parallel to others.
    """

    response_id: str
    out_of_band: bool = False


@dataclass(frozen=True, slots=True)
class ContextRequested:
    """The backend is ready to generate `response_id` and wants a `ProvideContext` that reflects all events so far."""

    response_id: str


@dataclass(frozen=True, slots=True)
class ContextForeseen:
    """The backend may begin an answer before the turn is over, and wants its context under the id `speculation_id`.

    It is to be the one that an automatic response would get if the user's next item said `words`. The session answers
    as it answers ContextRequested, but nothing changes by it and the client is told nothing: there is no such response.
    """

    speculation_id: str
    words: str


@dataclass(frozen=True, slots=True)
class ContextSettled:
    """A model that reads its context once has begun to converse from it; nothing in it can be changed any more."""


@dataclass(frozen=True, slots=True)
class OutputTextDelta:
    """More text of the assistant message `item_id`: its transcript if the response speaks, else its text."""

    response_id: str
    item_id: str
    delta: str


@dataclass(frozen=True, slots=True)
class OutputAudio:
    """More audio of the assistant message `item_id`: PCM16, mono, 24 kHz, whole samples."""

    response_id: str
    item_id: str
    pcm: bytes


@dataclass(frozen=True, slots=True)
class OutputSpoken:
    """The first `text_end` characters of the item's text are spoken by its first `audio_end` samples.

    Marks of one item grow in both numbers. They map heard audio back to heard words. A mark may lie beyond the audio
    sent so far (`audio_end` is then an estimate), when a reply is cut in the middle of a chunk.
    """

    response_id: str
    item_id: str
    text_end: int
    audio_end: Samples


@dataclass(frozen=True, slots=True)
class FunctionCallStarted:
    """The model began to call the function `name`."""

    response_id: str
    item_id: str
    call_id: str
    name: str


@dataclass(frozen=True, slots=True)
class FunctionCallArgumentsDelta:
    """More of a function call's JSON arguments."""

    response_id: str
    item_id: str
    delta: str


@dataclass(frozen=True, slots=True)
class OutputItemEnded:
    """An output item has got all that it will get. Items still open at `ResponseEnded` are incomplete.

    `cut`: its model was stopped in it (the end reasons of an incomplete response), so that it is incomplete, too.
    """

    response_id: str
    item_id: str
    cut: bool = False


@dataclass(frozen=True, slots=True)
class ResponseEnded:
    """A response ended. `heard` is how much of its audio the virtual player had played by then.

    `reason` is set for cancelled and incomplete, `fault` for failed.
    """

    response_id: str
    status: EndStatus
    heard: Samples = 0
    reason: EndReason | None = None
    fault: EngineFault | None = None
    usage: TokenUsage = TokenUsage()


@dataclass(frozen=True, slots=True)
class PlayoutCut:
    """The user cut the agent short: of item `item_id` they heard only the first `heard` samples.

    History keeps no more than that. On a WebSocket nothing is sent for it.
    """

    item_id: str
    heard: Samples


@dataclass(frozen=True, slots=True)
class CommandRefused:
    """A command could not be carried out; nothing changed.

    `client_event_id` is that of the client event behind the command (None for a decision of the gateway itself),
    `response_id` the response that was asked for or not found, `buffered` the input audio at hand (for
    INPUT_TOO_SHORT), `detail` a sentence for the client (for UNSUPPORTED).
    """

    kind: RefusalKind
    client_event_id: str | None = None
    response_id: str | None = None
    buffered: Samples = 0
    detail: str = ""


BackendEvent = (
    SpeechStarted
    | SpeechStopped
    | InputTimedOut
    | InputCommitted
    | InputCleared
    | InputTranscriptDelta
    | InputTranscriptCompleted
    | InputTranscriptFailed
    | ResponseStarted
    | ContextRequested
    | ContextForeseen
    | ContextSettled
    | OutputTextDelta
    | OutputAudio
    | OutputSpoken
    | FunctionCallStarted
    | FunctionCallArgumentsDelta
    | OutputItemEnded
    | ResponseEnded
    | PlayoutCut
    | CommandRefused
)
