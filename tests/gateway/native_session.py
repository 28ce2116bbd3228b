"""A session whose backend is the scripted full-duplex model, on time that the test feeds."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from typing import Any

from gateway.backends.native import NativeBackend, limits_of
from gateway.hearing import Hearing
from gateway.observing.observer import SessionObserver
from gateway.sound_level import rms_level
from gateway.turns.duplex_notices import DuplexNotice, NoticeKind
from gateway.turns.duplex_vocabulary import DuplexSettings
from models.duplex_interface import DuplexPrompt
from models.engines.scripted import Sleep
from models.engines.scripted_duplex import DuplexReply, DuplexScript, ScriptedDuplex, ScriptedDuplexStream
from models.interfaces import EngineError
from protocol.wire import Dialect
from tests.gateway.fed_time import FedTime
from tests.gateway.scripted_cascade import RunningSession, open_session, scripted_engines


class NativeSession:
    """`running` is the session, `model` the scripted model, `observer` watches both."""

    def __init__(
        self, running: RunningSession, backend: NativeBackend, model: TroubledDuplex, observer: SessionObserver
    ) -> None:
        self.running = running
        self.observer = observer
        self.backend = backend
        self.model = model
        self.notices: list[DuplexNotice] = []
        self.send, self.play = running.send, running.play

    @property
    def stream(self) -> ScriptedDuplexStream:
        """The model's newest conversation."""
        return self.model.streams[-1]

    async def told(self, kind: str) -> list[dict[str, Any]]:
        """Return all events of `kind` that the client has got by now."""
        await self.running.read()
        return [event for event in self.running.sent if event["type"] == kind]

    async def spoken_ms(self) -> dict[str, int]:
        """Return how much audio the client has got of each response that has ended, by its id."""
        spoken = {done["response"]["id"]: 0 for done in await self.told("response.done")}
        for delta in await self.told("response.output_audio.delta"):
            if delta["response_id"] in spoken:
                spoken[delta["response_id"]] += len(b64decode(delta["delta"])) // 48
        return spoken

    async def kinds(self) -> list[str]:
        """Return the kinds of all events by now, repetitions once."""
        await self.running.read()
        kinds = [event["type"] for event in self.running.sent]
        return [kind for at, kind in enumerate(kinds) if at == 0 or kinds[at - 1] != kind]

    def noted(self, kind: NoticeKind) -> list[Mapping[str, Any]]:
        """Return the fields of all notices of `kind`."""
        return [notice.fields for notice in self.notices if notice.kind is kind]


class TroubledDuplex(ScriptedDuplex):
    """The scripted model with trouble: `opens_in_s` to read a prompt, `open_failures` times it can't be opened at all.

    `longest_s` is how long a conversation may last, `lacks` holds abilities that differ. `prompts` are all that it was
    given to read.
    """

    def __init__(
        self,
        script: DuplexScript,
        *,
        frame_ms: int,
        sleep: Sleep,
        opens_in_s: float = 0.0,
        open_failures: int = 0,
        longest_s: float | None = None,
        lacks: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(script, frame_ms=frame_ms, sleep=sleep)
        self.abilities = replace(ScriptedDuplex.abilities, longest_s=longest_s, **(lacks or {}))
        self.opens_in_s = opens_in_s
        self.open_failures = open_failures
        self.prompts: list[DuplexPrompt] = []
        self._until = sleep

    async def open(self, prompt: DuplexPrompt) -> ScriptedDuplexStream:
        self.prompts.append(prompt)
        if self.opens_in_s:
            await self._until(self.opens_in_s)
        if self.open_failures:
            self.open_failures -= 1
            raise EngineError("duplex_failed", "The full-duplex model cannot be opened.")
        return await super().open(prompt)


@asynccontextmanager
async def native_session(
    time: FedTime,
    *replies: DuplexReply,
    frame_ms: int = 80,
    opens_in_s: float = 0.0,
    open_failures: int = 0,
    longest_s: float | None = None,
    restarts: bool = False,
    lacks: Mapping[str, Any] | None = None,
    settings: DuplexSettings | None = None,
    dialect: Dialect = Dialect.GA,
    hearing: Hearing | None = None,
    **script: Any,
) -> AsyncIterator[NativeSession]:
    """Run a session; leaving ends it."""
    model = TroubledDuplex(
        DuplexScript(replies or (DuplexReply("I heard you."),), **script),
        frame_ms=frame_ms,
        sleep=time.sleep,
        opens_in_s=opens_in_s,
        open_failures=open_failures,
        longest_s=longest_s,
        lacks=lacks,
    )
    numbers = count(1)
    notices: list[DuplexNotice] = []
    observer = SessionObserver("sess_1", time.now)
    observer.follow_duplex()
    backend = NativeBackend(
        model,
        new_id=lambda kind: f"{kind}_n{next(numbers)}",
        now=time.now,
        level=rms_level,
        call_later=time.call_later,
        settings=settings,
        taps=(
            observer.duplex_told,
            lambda told, _now: notices.append(told) if isinstance(told, DuplexNotice) else None,
        ),
    )
    limits = limits_of(model.abilities, restarts=restarts)
    engines = scripted_engines(time)
    opened = open_session(
        time, engines, backend=backend, limits=limits, dialect=dialect, hearing=hearing, observer=observer
    )
    async with opened as running:
        native = NativeSession(running, backend, model, observer)
        native.notices = notices
        yield native
