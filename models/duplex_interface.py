"""What a native full-duplex model promises: it hears and speaks at once, a frame of each at a time.

Audio crosses this border as `bytes`: PCM16, mono, 24 kHz. A frame of input of `frame_samples` gives a frame of output
of the same length, always: the input is the clock. What a model can do and what it lacks is told by
`DuplexAbilities`; the gateway pretends nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from models.interfaces import EngineInfo


@dataclass(frozen=True, slots=True)
class DuplexAbilities:
    """What a model can do. `marks`: it says when it takes and yields the floor. `hears_words`: it transcribes the user.

    `steered`: it can be made to speak, to stop and to read a tool's result. `longest_s`: how long a conversation may
    last, None for ever. `languages`: BCP 47 tags. `at_once`: how many conversations it holds in real time, None: any.
    """

    marks: bool
    hears_words: bool
    instructions: bool
    tools: bool
    steered: bool
    voices: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    longest_s: float | None = None
    at_once: int | None = None


@dataclass(frozen=True, slots=True)
class DuplexCall:
    """The model calls a function; all its JSON `arguments` are known. The `name` may be one that nobody offered."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class DuplexStep:
    """What one frame gave: audio, the agent's text, the user's words, marks of the floor, and a finished call.

    `calling`: the model is writing a call.
    """

    pcm: bytes
    text: str = ""
    user_text: str = ""
    takes_floor: bool = False
    yields_floor: bool = False
    calling: bool = False
    call: DuplexCall | None = None


@dataclass(frozen=True, slots=True)
class DuplexPrompt:
    """What a conversation begins with. `history`: (role, text) of what was said before. `tools` as chat completions."""

    instructions: str = ""
    tools: tuple[dict[str, Any], ...] = ()
    history: Sequence[tuple[str, str]] = ()


class DuplexStream(Protocol):
    """One conversation. Calls come one after the other, from one event loop."""

    async def step(self, pcm: bytes, *, own_voice: bool = False) -> DuplexStep:
        """Hear exactly one frame and return what the model says meanwhile. An EngineError ends the conversation.

        `own_voice`: the frame is mostly the agent's own voice, from a loudspeaker, as the caller has found. The model
        hears it all the same; what it writes of it is nobody's word that waits for an answer.
        """
        ...

    def answer_call(self, output: str) -> None:
        """Let the model read the result of its call; it goes on by itself."""
        ...

    def say(self, text: str) -> None:
        """Make the model say `text` as soon as it can."""
        ...

    def stop(self) -> None:
        """Make the model yield the floor now."""
        ...

    def start(self) -> None:
        """Make the model take the floor now."""
        ...

    async def aclose(self) -> None:
        """End the conversation and free what it holds."""
        ...


class DuplexModel(Protocol):
    """A loaded model that serves all sessions."""

    info: EngineInfo
    abilities: DuplexAbilities
    frame_samples: int

    async def open(self, prompt: DuplexPrompt) -> DuplexStream:
        """Return a new conversation, its prompt read, which may take long for a model's first. Raises EngineError."""
        ...

    async def aclose(self) -> None:
        """Free the model."""
        ...
