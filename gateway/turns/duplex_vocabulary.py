"""What a full-duplex conversation is told, and what it says: settings, one step of the model, actions. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from gateway.turns.duplex_observations import DuplexObservation
from gateway.turns.duplex_segments import ModelFrame
from gateway.turns.settings import Detection
from protocol.audio_time import Samples
from protocol.backend_events import BackendEvent


class SpeechStartedPolicy(StrEnum):
    """When a client is told that the user speaks over the agent; stock clients fall silent and cancel on it."""

    YIELD = "yield"
    """Once the model gives way, just before the response ends."""
    ALWAYS = "always"
    IDLE_ONLY = "idle_only"
    """Once the response has ended."""


@dataclass(frozen=True, slots=True)
class DuplexSettings:
    """What the client has set. `on_hold`: what the agent says while a tool runs, "" for nothing."""

    detection: Detection | None = field(default_factory=Detection)
    audio_output: bool = True
    speech_started: SpeechStartedPolicy = SpeechStartedPolicy.YIELD
    on_hold: str = ""


@dataclass(frozen=True, slots=True)
class AnswerCall:
    """Give the model the result of its call."""

    output: str


@dataclass(frozen=True, slots=True)
class SteerModel:
    """Make the model `start` or `stop` to speak, or `say` the text."""

    command: str
    text: str = ""


DuplexAction = AnswerCall | SteerModel
DuplexOutput = BackendEvent | DuplexAction | DuplexObservation


@dataclass(frozen=True, slots=True)
class ModelSpoke:
    """One step of the model: `frame`, its audio, the user's words in it, and a call (name, arguments).

    `behind`: how much of the user's audio the model has not come to; negative: so much silence has it heard beyond.
    """

    frame: ModelFrame
    pcm: bytes
    user_text: str = ""
    call: tuple[str, str] | None = None
    behind: Samples = 0
