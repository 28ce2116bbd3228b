"""What is seen of a full-duplex conversation besides its events, for those who watch: nothing follows from it.

Observations stand among what the core says, at the place where it happened. They carry no audio.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway.turns.duplex_segments import ClosedBy, OpenedBy
from protocol.audio_time import Samples


@dataclass(frozen=True, slots=True)
class FloorTaken:
    """The model began to say `response_id`, as `by` told; its audio begins at `start` (the model's output time)."""

    response_id: str
    by: OpenedBy
    start: Samples


@dataclass(frozen=True, slots=True)
class FloorYielded:
    """What the model said as `response_id` is over at `end` (output time), as `by` told.

    `voiced_until`: where its last sound ended; `spoken`: it had words.
    """

    response_id: str
    by: ClosedBy
    end: Samples
    voiced_until: Samples
    spoken: bool


@dataclass(frozen=True, slots=True)
class VoiceHeld:
    """A voice over the agent's began at `start` (input clock) and is not told yet: `item_id` if it becomes an item."""

    item_id: str
    start: Samples


@dataclass(frozen=True, slots=True)
class VoiceDropped:
    """A held voice is over at `end` (input clock) and is no turn: a nod, or nothing. `words`: what it said.

    `echo`: most of it was the agent's own voice.
    """

    item_id: str
    start: Samples
    end: Samples
    words: str
    echo: bool = False


DuplexObservation = FloorTaken | FloorYielded | VoiceHeld | VoiceDropped
