"""What an engine of each kind promises. Adapters in `models/engines` keep these promises; the gateway knows no more.

Audio crosses this border as `bytes`: PCM16, little endian, mono, 24 kHz, whole samples (`AUDIO_RATE_HZ`). Engines
convert to their own rate and dtype inside their worker, so that no array work runs on the event loop. All methods may
be called from the event loop only and never block it. One engine instance serves all sessions.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from models.duplex_interface import DuplexModel

AUDIO_RATE_HZ = 24_000
"""Rate of all audio at this border (the Realtime API's PCM rate)."""

VAD_FRAME_SAMPLES = 768
"""Samples at `AUDIO_RATE_HZ` in one VAD frame: Silero's 512 samples at 16 kHz, 32 ms."""


class EngineError(Exception):
    """An engine could not do its work.

    The text is shown to clients: it says what failed and what to do, without paths, keys or stack traces.
    `code` is a short machine-readable word (for instance `llm_unreachable`, `asr_failed`, `tts_failed`).
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class SpeechProbabilityStream(Protocol):
    """The VAD of one session. Results do not depend on how the audio is cut into chunks."""

    async def feed(self, pcm: bytes) -> list[float]:
        """Return the speech probability (0…1) of each frame of `VAD_FRAME_SAMPLES` that `pcm` completes, in order.

        Frame k covers input samples [k·768, (k+1)·768): the delay of the adapter's resampler is already taken off.
        Calls must not overlap. A frame may be reported up to 2 ms of audio late (the resampler's look-ahead).
        """
        ...


class VoiceActivityDetector(Protocol):
    """Tells speech from other sound."""

    def open(self) -> SpeechProbabilityStream:
        """Return a new session's stream, with state of its own."""
        ...


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token of a transcript and its natural log probability. `utf8`: its bytes, which may be half a character."""

    token: str
    logprob: float
    utf8: bytes


@dataclass(frozen=True, slots=True)
class Transcription:
    """What was said, stripped; "" for no speech. `logprobs`: its tokens, whose bytes joined are the text's.

    None where they were not asked for or the engine doesn't know them. `language`: the primary subtag (BCP 47) of what
    was spoken, as told or as detected; "" where the engine isn't sure or doesn't say.
    """

    text: str
    logprobs: tuple[TokenLogprob, ...] | None = None
    language: str = ""


class SpeechRecognizer(Protocol):
    """Turns an utterance into text (ASR)."""

    async def transcribe(
        self,
        pcm: bytes,
        *,
        language: str | None = None,
        prompt: str = "",
        partial_of: str | None = None,
        logprobs: bool = False,
    ) -> Transcription | None:
        """Return what is said in `pcm`, with the tokens' log probabilities if `logprobs` and the engine knows them.

        `language`: a BCP 47 tag; None: the engine's own, or detected. One that it doesn't know counts as None.
        `prompt`: words that are likely, as the client gave them; engines that can't use them don't.
        `partial_of` marks an interim look at an unfinished utterance (its key): it queues behind all other work, and a
        newer one with the same key replaces it while it waits, in which case None is returned. A final one never
        returns None. Cancelling the call stops the work soon. Raises EngineError.
        """
        ...


@dataclass(frozen=True, slots=True)
class WordTime:
    """The first `text_end` characters of the text are said by the first `audio_end_samples` of its audio."""

    text_end: int
    audio_end_samples: int


@dataclass(frozen=True, slots=True)
class SpeechPiece:
    """More audio of a text (whole samples), and the words whose end lies in it, both ends growing.

    `words` None: the engine knows no word times. One that does may leave words out, whose end the next one tells.
    """

    pcm: bytes
    words: tuple[WordTime, ...] | None = None


class SpeechSynthesizer(Protocol):
    """Turns text into speech (TTS)."""

    def synthesize(
        self, text: str, *, voice: str = "", speed: float = 1.0, first: bool = False, language: str = ""
    ) -> AsyncGenerator[SpeechPiece, None]:
        """Yield the audio of `text` in pieces, the first as early as the engine can.

        `voice` is a name the client gave; unknown ones get the engine's own, which in an engine of several languages is
        one of `language` (the text's, a primary subtag; "": unknown). `speed` 0.25…1.5, 1.0 is normal. `first` marks
        the first clause of a reply, which goes before the rest of other replies. Closing the generator stops the work.
        Raises EngineError.
        """
        ...


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One request to a language model, in the shape of OpenAI chat completions.

    `temperature`, `reasoning_effort` None: the engine's own, to which it may keep in any case. `session_key` is the
    same for all requests of a session (for prompt caches).
    """

    messages: tuple[dict[str, Any], ...]
    tools: tuple[dict[str, Any], ...] = ()
    tool_choice: str | dict[str, Any] = "auto"
    parallel_tool_calls: bool | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    reasoning_effort: str | None = None
    session_key: str = ""


@dataclass(frozen=True, slots=True)
class ChatText:
    """More text of the reply. Never empty. Reasoning is not part of it."""

    text: str


@dataclass(frozen=True, slots=True)
class ChatToolCall:
    """More of tool call number `index`. `call_id` and `name` are set on its first piece only; `arguments` may be ""."""

    index: int
    call_id: str | None = None
    name: str | None = None
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class ChatAlive:
    """The model writes, but nothing to pass on yet: it thinks, or a tool call isn't whole. `characters` of thoughts."""

    characters: int = 0


@dataclass(frozen=True, slots=True)
class ChatEnd:
    """The reply is whole. `finish_reason` as in chat completions: stop, length, tool_calls, content_filter."""

    finish_reason: str
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0


ChatEvent = ChatText | ChatToolCall | ChatAlive | ChatEnd


class ChatModel(Protocol):
    """A language model that streams."""

    def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent, None]:
        """Yield the reply's pieces, closed by exactly one ChatEnd.

        Closing the iterator closes the connection, which stops the server's work. Raises EngineError.
        """
        ...


@dataclass(frozen=True, slots=True)
class Utterance:
    """What an end-of-turn judge is told about a user who has just paused.

    `pcm`: the utterance up to at most 100 ms after its last voiced frame, b"" for judges that read. `text`: its words
    as recognised, "" for judges that listen. `agent_text`: what the agent said last. `language`: a BCP 47 tag, or None.
    """

    pcm: bytes = b""
    text: str = ""
    agent_text: str = ""
    language: str | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """How probable it is that the turn is over (0…1, calibrated); `wait`: the user asked for time ("hold on").

    `complete` None: no opinion (a language that the judge doesn't know: `models.languages.knows`).
    """

    complete: float | None
    wait: bool = False


class EndOfTurnJudge(Protocol):
    """Tells whether a user who paused has finished. Policy (thresholds, fusion, time) is not the judge's."""

    name: str
    """`audio`, `probability`, `verdict` or `lexical`."""

    listens: bool
    """Whether it needs `pcm`; else it needs `text`."""

    async def judge(self, utterance: Utterance) -> Judgement:
        """Return the judgement. Cancelling the call stops the work soon. Raises EngineError."""
        ...


@runtime_checkable
class PreparedJudge(EndOfTurnJudge, Protocol):
    """A judge that answers sooner if it knows ahead what the agent said last."""

    async def prepare(self, agent_text: str, language: str | None = None) -> None:
        """Get ready to judge what follows `agent_text` in `language`. Raises EngineError, which loses nothing."""
        ...


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What an engine is, for `/health` and the start-up banner. `source`: where its weights or its server are."""

    role: str
    name: str
    source: str = ""
    licence: str = ""


@dataclass(frozen=True, slots=True)
class Engines:
    """The engines of one gateway process, loaded and warm."""

    vad: VoiceActivityDetector
    asr: SpeechRecognizer
    chat: ChatModel
    tts: SpeechSynthesizer
    infos: tuple[EngineInfo, ...] = field(default=())
    judges: tuple[EndOfTurnJudge, ...] = field(default=())
    native: DuplexModel | None = None
    cascade: bool = True
    """Whether the others make a cascade; False: `native` is all there is, and they are scripted."""

    async def aclose(self) -> None:
        """Close every engine that has an `aclose`."""
        for engine in (self.native, *self.judges, self.chat, self.tts, self.asr, self.vad):
            close = getattr(engine, "aclose", None)
            if close is not None:
                await close()
