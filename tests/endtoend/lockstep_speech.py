"""Real ears and judges in lockstep: what a session does with spoken utterances whose pauses are known to the sample."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

from clients.turnlab.endpointing import POLICIES, run_policy
from clients.turnlab.presenting import Presented
from clients.turnlab.stimuli import Stimulus
from gateway.lockstep import lockstep_engines, lockstep_session
from gateway.settings import Settings
from gateway.virtual_loop import VirtualLoop
from models.timed_voices import TimedVoice, open_timed_voices
from models.weights import WeightsStore


class LockstepSpeech:
    """The embedded profile's engines on virtual time, and both of TurnLab's voices. Its calls block."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=VirtualLoop)
        self._open = AsyncExitStack()
        self._settings = Settings(profile="embedded")
        self._engines = self._runner.run(self._open.enter_async_context(lockstep_engines(self._settings)))
        self.joe, self.heart = self.voices = open_timed_voices(WeightsStore())

    voices: tuple[TimedVoice, ...]

    def present(self, policy: str, stimuli: Sequence[Stimulus]) -> list[Presented]:
        """Return what a session with `policy` (a row of the endpointing table) does with each."""
        return self._runner.run(run_policy(policy, POLICIES[policy], stimuli, self._session, lambda _: None))

    def _session(self) -> Any:
        return lockstep_session(self._engines, self._settings)

    def close(self) -> None:
        """Close the engines."""
        self._runner.run(self._open.aclose())
        self._runner.close()
