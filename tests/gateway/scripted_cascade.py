"""A cascade of scripted engines, alone or behind a whole session, on time that the test feeds."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from gateway.backends.cascade import CascadeBackend
from gateway.event_log import EventLog
from gateway.g711 import G711Codec
from gateway.hearing import Hearing
from gateway.mcp.allowed_hosts import AllowedHosts
from gateway.observing.observer import SessionObserver
from gateway.session import Session
from models.engines.scripted import ScriptedChat, ScriptedRecognizer, ScriptedSynthesizer, ScriptedVad, soft_tone
from models.interfaces import Engines
from protocol.audio_time import bytes_from_samples, samples_from_ms
from protocol.backend_events import BackendEvent, ContextForeseen, ContextRequested
from protocol.beta.wire_law import BetaSessionLaw
from protocol.commands import AppendAudio, Configure, CreateResponse, ProvideContext, ResponseContext, TurnDetection
from protocol.duplex_limits import DuplexLimits
from protocol.ids import CountingIds
from protocol.session import SessionProtocol
from protocol.session_settings import SessionDefaults
from protocol.wire import Dialect
from protocol.wire_law import SessionLaw
from tests.gateway.fed_time import FedTime, settle

APPEND_MS = 20
AUDIO_DELTAS = ("response.output_audio.delta", "response.audio.delta")
SERVER_VAD = Configure(TurnDetection())
BY_HAND = Configure(None)
CONTEXT = ResponseContext(({"role": "user", "content": "Hello."},))

T = TypeVar("T")


def voice(duration_ms: int) -> bytes:
    """Sound that the scripted VAD takes for speech."""
    return soft_tone(0, samples_from_ms(duration_ms))


def quiet(duration_ms: int) -> bytes:
    return bytes(bytes_from_samples(samples_from_ms(duration_ms)))


def scripted_engines(
    time: FedTime, *, asr: Any = None, chat: Any = None, tts: Any = None, texts: Any = ("Hello there.",)
) -> Engines:
    """Engines on fed time; each can be replaced by one of the test's own."""
    return Engines(
        vad=ScriptedVad(),
        asr=asr or ScriptedRecognizer(texts, sleep=time.sleep),
        chat=chat or ScriptedChat(["One two three. Four five six."], sleep=time.sleep),
        tts=tts or ScriptedSynthesizer(sleep=time.sleep),
    )


class RunningCascade:
    """A backend, its one consumer, and a session's part: answering requests for the context."""

    def __init__(self, backend: CascadeBackend, time: FedTime, *, answer_context: bool = True) -> None:
        self.backend = backend
        self.time = time
        self.events: list[BackendEvent] = []
        self.hearing = Hearing(ScriptedVad())
        self._answer_context = answer_context

    async def consume(self) -> None:
        async for event in self.backend.events():
            self.events.append(event)
            if not self._answer_context:
                continue
            if isinstance(event, ContextForeseen):
                self.backend.submit(ProvideContext(event.speculation_id, CONTEXT))
            elif isinstance(event, ContextRequested):
                self.backend.submit(ProvideContext(event.response_id, CONTEXT))

    async def hear(self, pcm: bytes) -> None:
        self.backend.submit(await self.hearing.hear(AppendAudio(pcm)))

    async def play(self, *sounds: bytes) -> None:
        """Append sounds as a microphone does."""
        pcm = b"".join(sounds)
        step = bytes_from_samples(samples_from_ms(APPEND_MS))
        for at in range(0, len(pcm), step):
            await self.time.advance(APPEND_MS)
            await self.hear(pcm[at : at + step])
        await settle()

    async def ask(self, response_id: str = "resp_x", *, audio: bool = True) -> None:
        self.backend.submit(CreateResponse(response_id, audio))
        await settle()

    def of(self, kind: type[T]) -> list[T]:
        return [event for event in self.events if isinstance(event, kind)]

    def kinds(self) -> list[str]:
        return [type(event).__name__ for event in self.events]


@asynccontextmanager
async def running(
    time: FedTime, engines: Engines, configure: Configure = SERVER_VAD, *, answer_context: bool = True, **arguments: Any
) -> AsyncIterator[RunningCascade]:
    """Run a cascade; leaving cancels it and checks that nothing of it is left."""
    backend = CascadeBackend(engines, new_id=CountingIds(), now=time.now, **arguments)
    cascade = RunningCascade(backend, time, answer_context=answer_context)
    run = asyncio.ensure_future(backend.run())
    consumer = asyncio.ensure_future(cascade.consume())
    backend.submit(configure)
    await settle()
    try:
        yield cascade
    finally:
        run.cancel()
        with suppress(asyncio.CancelledError):
            await run
        await consumer  # the end of run() ends events()


class RunningSession:
    """A whole session without a socket. `sent` is what its client has read."""

    def __init__(self, session: Session, backend: Any, time: FedTime, dialect: Dialect = Dialect.GA) -> None:
        self.session = session
        self.law = (SessionLaw() if dialect is Dialect.GA else BetaSessionLaw()).violations
        self.backend = backend
        self.time = time
        self.sent: list[dict[str, Any]] = []

    async def send(self, kind: str, **fields: Any) -> None:
        await self.session.receive_text(json.dumps({"type": kind, **fields}))

    async def append(self, pcm: bytes) -> None:
        await self.send("input_audio_buffer.append", audio=base64.b64encode(pcm).decode())

    async def play(self, *sounds: bytes) -> None:
        """Append sounds as a microphone does."""
        pcm = b"".join(sounds)
        step = bytes_from_samples(samples_from_ms(APPEND_MS))
        for at in range(0, len(pcm), step):
            await self.time.advance(APPEND_MS)
            await self.append(pcm[at : at + step])
        await settle()

    async def user_types(self, text: str) -> None:
        content = [{"type": "input_text", "text": text}]
        await self.send("conversation.item.create", item={"type": "message", "role": "user", "content": content})

    async def read(self, frames: int | None = None) -> list[dict[str, Any]]:
        """Take what waits in the outbox, or the first `frames` of it, as the socket's writer does."""
        taken: list[dict[str, Any]] = []
        while self.session.outbox.waiting_bytes and len(taken) != frames:
            payload = json.loads(await self.session.outbox.next_frame())
            self.session.outbox.accepted()
            assert self.law(payload) == [], payload
            taken.append(payload)
        self.sent += taken
        return taken

    async def read_until(self, kind: str) -> list[dict[str, Any]]:
        """Take frames up to the first one of type `kind`."""
        taken: list[dict[str, Any]] = []
        while not taken or taken[-1]["type"] != kind:
            (frame,) = await self.read(1)
            taken.append(frame)
        return taken


def kinds(payloads: list[dict[str, Any]]) -> list[str]:
    return [payload["type"] for payload in payloads]


def samples_in(payloads: list[dict[str, Any]]) -> int:
    """Samples of audio in a client's events."""
    deltas = [payload["delta"] for payload in payloads if payload["type"] in AUDIO_DELTAS]
    return sum(len(base64.b64decode(delta)) // 2 for delta in deltas)


@asynccontextmanager
async def open_session(
    time: FedTime,
    engines: Engines,
    *,
    backend: Any = None,
    log: EventLog | None = None,
    hearing: Hearing | None = None,
    dialect: Dialect = Dialect.GA,
    mcp_hosts: AllowedHosts | None = None,
    observer: SessionObserver | None = None,
    limits: DuplexLimits | None = None,
) -> AsyncIterator[RunningSession]:
    """Run a session on a cascade (or `backend`), observed; leaving ends it."""
    ids = CountingIds()
    observer = observer or SessionObserver("sess_1", time.now)
    if backend is None:
        backend = CascadeBackend(engines, new_id=ids, now=time.now, session_key="sess_1", taps=(observer.told,))
        observer.follow(backend.machine)
    session = Session(
        session_id="sess_1",
        protocol=SessionProtocol(
            ids=ids,
            session_id="sess_1",
            model="cascade",
            expires_at_s=3600,
            defaults=SessionDefaults(),
            g711=G711Codec(),
            limits=limits,
        ),
        backend=backend,
        hearing=hearing or Hearing(engines.vad),
        now=time.now,
        log=log or EventLog.off(),
        dialect=dialect,
        mcp_hosts=mcp_hosts,
        observer=observer,
    )
    run = asyncio.ensure_future(session.run())
    await settle()
    try:
        yield RunningSession(session, backend, time, dialect)
    finally:
        run.cancel()
        with suppress(asyncio.CancelledError):
            await run
