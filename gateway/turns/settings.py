"""The numbers that turn-taking decides by, in samples, each with its source."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from protocol.audio_time import Samples, samples_from_ms, samples_from_s
from protocol.backend_events import EngineFault

VAD_FRAME: Samples = 768
"""One VAD frame: Silero's 512 samples at 16 kHz."""

SILENT_DBFS = -100.0
"""The level of digital silence, and of a frame whose level nobody measured."""

MIN_COMMIT: Samples = samples_from_ms(100)
"""Shortest input that can be committed (Realtime GA: `input_audio_buffer.commit`)."""

MIN_SPEECH: Samples = 2 * VAD_FRAME
"""Speech must last two VAD frames before it counts: one frame is a click (chosen; Silero's own default is 250 ms)."""

HYSTERESIS = 0.15
"""Speech goes on until the probability falls this far below the threshold (Silero's VADIterator)."""

FAINT_SPEECH = 0.2
"""A turn ended by hand goes to the recogniser if any frame reached this probability (low: losing words is worse)."""

STALL_AFTER: Samples = samples_from_ms(400)
"""Input that stops for this long counts as silence from then on (design: input that stops)."""

BURST_LEAD: Samples = samples_from_s(2)
"""A client whose audio runs this far ahead of the clock is a burst client (design: input clock)."""

SILENT_RETENTION: Samples = samples_from_s(10)
"""Audio kept before speech starts when the VAD finds turns (chosen; prefix padding is far shorter)."""

LONGEST_INPUT: Samples = samples_from_s(300)
"""Longest turn: the VAD's is committed then, one ended by hand keeps its last five minutes (chosen; 14 MB)."""

SYNTHESIS_LEAD: Samples = samples_from_s(30)
"""Speech is synthesised at most this far ahead of the player (design: output pacing)."""

DEFAULT_PLAYOUT_DELAY: Samples = samples_from_ms(150)
"""From sending audio to its being heard, until the client's truncates teach better (design: claim less, not more)."""

LONGEST_REPLY = 65_536
"""Characters of text and arguments in one reply (chosen: an hour of speech). A model that goes round in circles is
stopped there, and the response ends as if it had hit `max_output_tokens`."""

STARTS_A_TURN = 3
"""Answers that the language model may begin before one turn is over (design: speculation); each that is dropped was
paid for in vain."""

QUEUED_TURNS = 32
"""Turns of a burst client that may wait for their response (chosen); further ones are committed and not answered."""

PARTIAL_FIRST: Samples = samples_from_ms(192)
PARTIAL_STEP_EARLY: Samples = samples_from_ms(96)
PARTIAL_STEP: Samples = samples_from_ms(480)
PARTIAL_EARLY_UNTIL: Samples = samples_from_s(1)
PARTIAL_LONGEST: Samples = samples_from_s(12)
"""Interim looks at an utterance: the first after 192 ms, close together in its first second so that two can agree on
its first words by 700 ms, then two a second, none beyond 12 s (design: engines; a look costs 40–150 ms of one core)."""


class Eagerness(StrEnum):
    """How soon a `semantic_vad` ends a turn (Realtime: `eagerness`; its `auto` is MEDIUM)."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class BargeIn(StrEnum):
    """What the user's voice over the agent's does.

    JUDGED: it interrupts once it is judged a real interruption; IMMEDIATE: at its onset; OFF: never, and while the
    agent is audible it is no turn either.
    """

    JUDGED = "judged"
    IMMEDIATE = "immediate"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Detection:
    """How the VAD finds turns (Realtime: `turn_detection`). `idle_timeout` None: the agent waits for ever.

    `semantic`: end-of-turn judges decide how much silence ends a turn, this eagerly; None: `silence_duration` does,
    which also holds where no judge answers.
    """

    threshold: float = 0.5
    prefix_padding: Samples = samples_from_ms(300)
    silence_duration: Samples = samples_from_ms(500)
    create_response: bool = True
    interrupt_response: bool = True
    idle_timeout: Samples | None = None
    semantic: Eagerness | None = None
    barge_in: BargeIn = BargeIn.IMMEDIATE


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long an engine may stay silent before its work is given up (chosen: a caller has hung up by then).

    `tools`: how long a response that is complete otherwise stays open for the calls that the gateway runs, so that the
    results of quick tools come inside it. A slower call outlives its response; nothing is given up.
    """

    transcript: Samples = samples_from_s(15)
    first_token: Samples = samples_from_s(20)
    next_token: Samples = samples_from_s(10)
    speech: Samples = samples_from_s(15)
    tools: Samples = samples_from_s(3)


@dataclass(frozen=True, slots=True)
class TurnSettings:
    """All of a session's turn-taking settings. `detection` None: the client ends turns by hand.

    `judges`: the names of the end-of-turn judges at hand (`models.interfaces`). `speculation`: the language model may
    start before the turn is over. `user_language`, `reply_language`: what is spoken, as BCP 47 tags; "": the recogniser
    may find out, and the agent answers in the user's language.
    """

    detection: Detection | None = field(default_factory=Detection)
    audio_output: bool = True
    live_transcript: bool = False
    deadlines: Deadlines = field(default_factory=Deadlines)
    playout_delay: Samples = DEFAULT_PLAYOUT_DELAY
    judges: frozenset[str] = frozenset()
    speculation: bool = True
    user_language: str = ""
    reply_language: str = ""


TRANSCRIPT_TIMEOUT = EngineFault("asr_timeout", "The speech recogniser did not answer in time.")
FIRST_TOKEN_TIMEOUT = EngineFault("llm_timeout", "The language model sent nothing in time.")
NEXT_TOKEN_TIMEOUT = EngineFault("llm_stalled", "The language model stopped in the middle of its reply.")
SPEECH_TIMEOUT = EngineFault("tts_timeout", "The speech synthesiser did not answer in time.")
