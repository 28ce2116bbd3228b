"""Work that the machine wants done. The shell performs it in the order given and never reorders."""

from __future__ import annotations

from dataclasses import dataclass

from protocol.audio_time import Samples


@dataclass(frozen=True, slots=True)
class Transcribe:
    """Recognise the input audio [start, end) for item `item_id`; answer with Transcript or TranscriptFailed."""

    item_id: str
    start: Samples
    end: Samples


@dataclass(frozen=True, slots=True)
class TranscribeItem:
    """Recognise the audio that the client gave with item `item_id`; answer with Transcript or TranscriptFailed."""

    item_id: str


@dataclass(frozen=True, slots=True)
class TranscribePartial:
    """Take an interim look at [start, end) of the running utterance; answer with PartialTranscript."""

    item_id: str
    start: Samples
    end: Samples


@dataclass(frozen=True, slots=True)
class TranscribePause:
    """Recognise [start, end) of an utterance that paused and may be over; answer with PauseTranscript."""

    item_id: str
    pause: int
    start: Samples
    end: Samples


@dataclass(frozen=True, slots=True)
class StopTranscribing:
    """The pause number `pause` of the utterance is over: stop recognising it, nobody waits for its words."""

    item_id: str
    pause: int


@dataclass(frozen=True, slots=True)
class PrepareJudges:
    """The user has begun to speak, to an agent that said `agent_text` last: let the judges that read get ready."""

    item_id: str
    agent_text: str


@dataclass(frozen=True, slots=True)
class JudgeSound:
    """Ask the judges that listen whether the utterance [start, end) is over; each answers with Judged."""

    item_id: str
    pause: int
    start: Samples
    end: Samples


@dataclass(frozen=True, slots=True)
class JudgeWords:
    """Ask the judges that read whether the utterance `text` is over; each answers with Judged.

    `agent_text`: what the agent said last, "" if nothing: it makes "two" an answer.
    """

    item_id: str
    pause: int
    text: str
    agent_text: str


@dataclass(frozen=True, slots=True)
class Generate:
    """Let the language model write `response_id` from the context that was provided."""

    response_id: str


@dataclass(frozen=True, slots=True)
class StopGenerating:
    """Stop the language model's work for `response_id`; what it has written is still to be spoken."""

    response_id: str


@dataclass(frozen=True, slots=True)
class Synthesize:
    """Speak chunk number `chunk`; answer with SynthesizedSpeech… and SynthesisEnded. `first`: it opens the reply.

    `language`: of the reply, a primary subtag, "" if unknown.
    """

    response_id: str
    chunk: int
    text: str
    first: bool
    language: str = ""


@dataclass(frozen=True, slots=True)
class StopResponse:
    """Stop all work for `response_id`, off the critical path: its end has been decided and told already."""

    response_id: str


Action = (
    Transcribe
    | TranscribeItem
    | TranscribePartial
    | TranscribePause
    | StopTranscribing
    | PrepareJudges
    | JudgeSound
    | JudgeWords
    | Generate
    | StopGenerating
    | Synthesize
    | StopResponse
)
