"""Everything the machine can be told. What bears the id of a response or an item may come late and is dropped then."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.turns.settings import SILENT_DBFS, TurnSettings
from protocol.audio_time import Samples
from protocol.backend_events import EngineFault, TokenLogprob, TokenUsage


@dataclass(frozen=True, slots=True)
class AudioReceived:
    """`samples` more of user audio arrived."""

    samples: Samples


@dataclass(frozen=True, slots=True)
class SpeechProbability:
    """The VAD frame that ends at `until` (input clock) is speech with `probability` 0…1.

    `level_dbfs`: its RMS level. `echo`: the share 0…1 of its energy that the agent's own audio explains.
    """

    until: Samples
    probability: float
    level_dbfs: float = SILENT_DBFS
    echo: float = 0.0


@dataclass(frozen=True, slots=True)
class PauseTranscript:
    """The words of the utterance `item_id` up to its pause number `pause`; None: the recogniser failed.

    `language`: what the recogniser found to be spoken (BCP 47), "" if it doesn't tell.
    """

    item_id: str
    pause: int
    text: str | None
    logprobs: tuple[TokenLogprob, ...] | None = None
    language: str = ""


@dataclass(frozen=True, slots=True)
class Judged:
    """An end-of-turn judge's answer about pause number `pause` of the utterance `item_id`.

    `complete`: how probable it is that the turn is over, 0…1; None: the judge failed or has no opinion. `wait`: the
    user asked for time. `took`: how long the judge needed (gateway clock), for the record.
    """

    item_id: str
    pause: int
    judge: str
    complete: float | None
    wait: bool = False
    took: Samples = 0


@dataclass(frozen=True, slots=True)
class InputStalled:
    """No audio came for `duration` so far. Silence for endpointing, but not a sample of input."""

    duration: Samples


@dataclass(frozen=True, slots=True)
class CommitRequested:
    """The client ends the user's turn by hand."""

    client_event_id: str | None = None


@dataclass(frozen=True, slots=True)
class ClearRequested:
    """The client drops the uncommitted input."""


@dataclass(frozen=True, slots=True)
class ResponseRequested:
    """The client wants a response now, of the conversation or beside it (`out_of_band`).

    `needs_transcripts`: it waits for the words of what the user has said.
    """

    response_id: str
    audio: bool
    client_event_id: str | None = None
    out_of_band: bool = False
    needs_transcripts: bool = True


@dataclass(frozen=True, slots=True)
class ItemAudioGiven:
    """The client wrote a user item with `duration` of audio, whose words are not known."""

    item_id: str
    duration: Samples


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """The client wants a running response to end; None: the conversation's."""

    response_id: str | None = None
    client_event_id: str | None = None


@dataclass(frozen=True, slots=True)
class HeardByClient:
    """The client's own player says that of `item_id` the user heard `heard` samples, and it plays no more of it."""

    item_id: str
    heard: Samples


@dataclass(frozen=True, slots=True)
class SettingsChanged:
    """New settings hold from here on."""

    settings: TurnSettings


@dataclass(frozen=True, slots=True)
class PartialTranscript:
    """An interim look at the running utterance; None: it was superseded or failed, which loses nothing."""

    item_id: str
    text: str | None


@dataclass(frozen=True, slots=True)
class Transcript:
    """The final words of a committed item, and how probable their tokens were, if that was asked for and is known.

    `language`: as in PauseTranscript.
    """

    item_id: str
    text: str
    logprobs: tuple[TokenLogprob, ...] | None = None
    language: str = ""


@dataclass(frozen=True, slots=True)
class TranscriptFailed:
    """The recogniser gave up on a committed item."""

    item_id: str
    fault: EngineFault


@dataclass(frozen=True, slots=True)
class ContextProvided:
    """The session answered ContextRequested, or ContextForeseen (`response_id` then is that of the speculation).

    `server_tools`: the functions, by name, that the gateway itself runs. `foreseen`: the speculation that was given
    this very context, "" if none was.
    """

    response_id: str
    server_tools: frozenset[str] = frozenset()
    foreseen: str = ""


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More text from the language model, as it wrote it."""

    response_id: str
    text: str


@dataclass(frozen=True, slots=True)
class FunctionCallDelta:
    """More of the model's function call number `index`; `call_id` and `name` come with its first piece."""

    response_id: str
    index: int
    call_id: str | None
    name: str | None
    arguments: str


@dataclass(frozen=True, slots=True)
class GenerationAlive:
    """The language model writes what is neither said nor called: `characters` of thoughts, or part of a call."""

    response_id: str
    characters: int = 0


@dataclass(frozen=True, slots=True)
class GenerationEnded:
    """The model's reply is whole. `finish_reason` as in chat completions."""

    response_id: str
    finish_reason: str
    usage: TokenUsage = TokenUsage()


@dataclass(frozen=True, slots=True)
class GenerationFailed:
    """The language model failed, or may not be asked."""

    response_id: str
    fault: EngineFault


@dataclass(frozen=True, slots=True)
class WordEnd:
    """Of a chunk, the first `text_end` characters for the voice are said by its first `audio_end` samples."""

    text_end: int
    audio_end: Samples


@dataclass(frozen=True, slots=True)
class SynthesizedSpeech:
    """More audio of chunk `chunk`: PCM16, 24 kHz, whole samples. The machine only counts it.

    `words`: the words that end in it; None: the voice knows no word times.
    """

    response_id: str
    chunk: int
    pcm: bytes
    words: tuple[WordEnd, ...] | None = None


@dataclass(frozen=True, slots=True)
class SynthesisEnded:
    """All audio of chunk `chunk` has come."""

    response_id: str
    chunk: int


@dataclass(frozen=True, slots=True)
class SynthesisFailed:
    """The synthesiser failed."""

    response_id: str
    fault: EngineFault


@dataclass(frozen=True, slots=True)
class ToolCallEnded:
    """The call `item_id` of a function that the gateway runs has ended, or nobody is to wait for it."""

    response_id: str
    item_id: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed; nothing else happened."""


Input = (
    AudioReceived
    | SpeechProbability
    | PauseTranscript
    | Judged
    | InputStalled
    | CommitRequested
    | ClearRequested
    | ResponseRequested
    | ItemAudioGiven
    | CancelRequested
    | HeardByClient
    | SettingsChanged
    | PartialTranscript
    | Transcript
    | TranscriptFailed
    | ContextProvided
    | TextDelta
    | FunctionCallDelta
    | GenerationAlive
    | GenerationEnded
    | GenerationFailed
    | SynthesizedSpeech
    | SynthesisEnded
    | SynthesisFailed
    | ToolCallEnded
    | Tick
)
