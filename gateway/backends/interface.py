"""The border between a session and the conversation engine behind it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol

from protocol.backend_events import BackendEvent
from protocol.commands import Command


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend can do; the session refuses what it cannot instead of pretending."""

    interruptible: bool = True
    truncatable: bool = True
    manual_response: bool = True
    text_input: bool = True
    mutable_instructions: bool = True
    tools: bool = True
    backchannels: bool = False
    """It may make sounds that take no turn."""
    frame_ms: int = 32


class Backend(Protocol):
    """One session's conversation engine: neutral commands in, one ordered stream of neutral events out."""

    capabilities: Capabilities

    def submit(self, command: Command) -> None:
        """Take a command; what is wrong comes back as CommandRefused. Never blocks, raises nothing but a bug.

        Commands given before `run` has begun are obeyed when it begins, those given after its end are dropped.
        """
        ...

    def events(self) -> AsyncGenerator[BackendEvent, None]:
        """Yield the session's events in their total order until `run` has ended. One consumer, which closes it."""
        ...

    async def run(self) -> None:
        """Do the work until cancelled. Cancelling it stops all engines' work for this session and ends `events`."""
        ...
