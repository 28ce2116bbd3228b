"""A whole session in lockstep with its client: the same composition as behind a socket, on virtual time.

The client feeds 20 ms of audio at a time and gets all that the session says until they are over. Nothing waits and
nothing depends on the machine's speed: two runs are the same to the sample. TurnLab drives it as its `Target`.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from gateway.backends.cascade import Tap
from gateway.composition import new_session
from gateway.lockstep_engines import Answers, computed, in_lockstep
from gateway.observing.sessions import ObservedSessions
from gateway.session import Session
from gateway.session_request import CASCADE, SessionRequest
from gateway.settings import Settings
from gateway.virtual_loop import VirtualLoop
from models.engines.scripted import ScriptedChat, ScriptedSynthesizer
from models.interfaces import Engines
from protocol.audio_time import Samples, s_from_samples, samples_from_bytes, samples_from_s
from protocol.wire import Dialect

T = TypeVar("T")

SCRIPTED_REPLY = "Okay."
FIRST_TOKEN_MS = 200.0
FIRST_AUDIO_MS = 80.0
"""The scripted reply, its first token and its first audio: usual medians of good engines (turn-taking.md §2.12)."""

_IDLE_S = 1e-6
"""The shortest wait that virtual time grants: it is over once nothing is left to do at this moment."""


class Stamped(NamedTuple):
    """A server event and when it left, in samples at 24 kHz since the session began."""

    at: Samples
    event: dict[str, Any]


class LockstepSession:
    """One running session. Its client speaks the wire: GA client events in, stamped server events out."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._loop = asyncio.get_running_loop()
        self._start_s = self._loop.time()
        self._fed: Samples = 0
        self._said: list[Stamped] = []

    async def feed(self, pcm: bytes) -> list[Stamped]:
        """Let the user say `pcm` (PCM16, 24 kHz) and return what the session said until its end.

        Its last sample is heard at its own time, as if the microphone sent it without a delay.
        """
        self._fed += samples_from_bytes(len(pcm))
        due_s = self._start_s + s_from_samples(self._fed) + _IDLE_S  # not a rounding error before it
        await asyncio.sleep(due_s - self._loop.time())
        audio = base64.b64encode(pcm).decode()
        await self._session.receive_text(f'{{"type":"input_audio_buffer.append","audio":"{audio}"}}')
        return await self._until_idle()

    async def send(self, event: dict[str, Any]) -> list[Stamped]:
        """Send a client event and return what the session says at once."""
        await self._session.receive_text(json.dumps(event))
        return await self._until_idle()

    async def _until_idle(self) -> list[Stamped]:
        await asyncio.sleep(_IDLE_S)
        said, self._said = self._said, []
        return said

    async def read(self) -> None:
        """Read the session's outbox as a socket's writer does, until cancelled."""
        while True:
            frame = await self._session.outbox.next_frame()
            self._session.outbox.accepted()
            self._said.append(Stamped(samples_from_s(self._loop.time() - self._start_s), json.loads(frame)))


@asynccontextmanager
async def lockstep_session(
    engines: Engines,
    settings: Settings | None = None,
    *,
    taps: Sequence[Tap] = (),
    observed: ObservedSessions | None = None,
) -> AsyncIterator[LockstepSession]:
    """Run a session on `engines` (see `in_lockstep`) in a VirtualLoop until left. Bugs raise an ExceptionGroup.

    `observed` is told of all that an observer could read.
    """
    request = SessionRequest(CASCADE, None, Dialect.GA, {}, "realtime", None, expires_at_s=2**31)
    loop = asyncio.get_running_loop()
    start_s = loop.time()

    def now() -> Samples:
        return samples_from_s(loop.time() - start_s)

    observed = observed or ObservedSessions()
    session = new_session(request, settings or Settings(), engines, observed, now=now, taps=taps)
    client = LockstepSession(session)
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(session.run()), tasks.create_task(client.read())]
        try:
            yield client
        finally:
            for task in running:
                task.cancel()


OpenSession = Callable[[], AbstractAsyncContextManager[LockstepSession]]


@asynccontextmanager
async def lockstep_engines(settings: Settings) -> AsyncIterator[Engines]:
    """Load the engines of `settings` for lockstep sessions; leaving closes them. Raises EngineError.

    VAD, ASR and judges are the real ones; the reply is scripted, since when a turn is over is decided before it.
    """
    from gateway.app import load_engines  # with the app comes the whole server

    engines = await computed(load_engines(settings))
    try:
        reply = ScriptedChat([SCRIPTED_REPLY], ttft_ms=FIRST_TOKEN_MS)
        voice = ScriptedSynthesizer(ttfb_ms=FIRST_AUDIO_MS)
        yield in_lockstep(replace(engines, chat=reply, tts=voice), Answers())
    finally:
        await computed(engines.aclose())


def run_in_lockstep(settings: Settings, work: Callable[[OpenSession], Coroutine[Any, Any, T]]) -> T:
    """Run `work(open_session)` on virtual time with the engines of `settings`; return what it returns.

    Raises EngineError when engines can't be loaded.
    """

    async def run() -> T:
        async with lockstep_engines(settings) as engines:
            return await work(lambda: lockstep_session(engines, settings))

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(run())
