"""Builds the served application: the one place that chooses which backend and which engines do the work."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route, WebSocketRoute

from gateway.backends.language_limits import language_limits
from gateway.backends.remote_directory import RemoteDirectory
from gateway.capabilities import full_duplex_sessions, models_served
from gateway.composition import new_session, session_defaults
from gateway.endpoints.client_secrets import ClientSecretsEndpoint
from gateway.endpoints.ephemeral_keys import EphemeralKeys, signing_key
from gateway.endpoints.errors import http_error, server_error, unknown_socket
from gateway.endpoints.guard import Guard
from gateway.endpoints.health import HealthEndpoints
from gateway.endpoints.keys import Keys
from gateway.endpoints.metrics import MetricsEndpoint
from gateway.endpoints.model_list import ModelsEndpoint
from gateway.endpoints.observer import ObserverEndpoint
from gateway.endpoints.paths import BASES, realtime_routes
from gateway.endpoints.realtime import RealtimeEndpoint, SessionFactory
from gateway.endpoints.socket_session import RealtimeSession
from gateway.endpoints.speech import SpeechEndpoint
from gateway.endpoints.transcriptions import TranscriptionsEndpoint
from gateway.engine_choice import engine_plan
from gateway.event_log import EventLogWriter
from gateway.metrics import Metrics
from gateway.observing.sessions import ObservedSessions
from gateway.recording.disk import RecordingDisk
from gateway.relay_composition import new_relay
from gateway.remote_settings import all_remotes
from gateway.service import Service
from gateway.session_request import CASCADE, DUPLEX, SessionRequest
from gateway.settings import Settings
from models.inference_worker import InferenceWorker
from models.interfaces import EngineError, EngineInfo, Engines, SpeechRecognizer, SpeechSynthesizer

logger = logging.getLogger(__name__)

CORS_METHODS = ("GET", "POST")

CLOSE_ENGINES_DEADLINE_S = 0.7
"""How long engines may take to close at a shutdown: what uvicorn's grace leaves of the promised 3 s."""

LoadEngines = Callable[[Settings], Awaitable[Engines]]


def create_app(
    settings: Settings,
    engines: Engines | None = None,
    *,
    load: LoadEngines | None = None,
    open_session: SessionFactory | None = None,
) -> Starlette:
    """Return the application. Without `engines` it answers /health at once and loads them in the background.

    `load` and `open_session` replace the engines' loading and the session behind a socket, for tests.
    """
    service = Service(settings.max_sessions, (CASCADE,))
    metrics = Metrics(service)
    observed = ObservedSessions(metrics.saw, metrics.audio)
    composition = _Composition(settings, service, engines, load or load_engines, observed)
    ephemeral = EphemeralKeys(signing_key(settings.signing_secret, settings.api_key))
    keys = Keys(settings.api_key, ephemeral)
    realtime = RealtimeEndpoint(
        service, open_session or composition.open_session, keys=keys, session_limit_s=settings.session_limit_s
    )
    client_secrets = ClientSecretsEndpoint(
        keys, ephemeral, lambda dialect: session_defaults(settings, dialect), lambda: tuple(composition.models())
    )
    models = ModelsEndpoint(keys, composition.models)
    speech = SpeechEndpoint(
        service,
        keys,
        composition.synthesizer,
        language=settings.tts_language or "en",
        silence_s=settings.tts_timeout_s,
    )
    transcriptions = TranscriptionsEndpoint(service, keys, composition.recogniser, timeout_s=settings.asr_timeout_s)
    health = HealthEndpoints(service)
    app = Starlette(
        routes=[
            *realtime_routes(realtime, client_secrets, models, ObserverEndpoint(observed, keys)),
            *speech.routes(BASES),
            *transcriptions.routes(BASES),
            Route("/metrics", MetricsEndpoint(metrics, keys).read),
            Route("/health", health.health),
            Route("/health/lag", health.lag),
            WebSocketRoute("/{path:path}", unknown_socket),
        ],
        middleware=[
            Middleware(Guard, bound=settings.host, allow_host=settings.allow_host, allow_origin=settings.allow_origin),
            # Inside the guard, which has refused every origin that may not read the answers.
            Middleware(
                CORSMiddleware,
                allow_origin_regex=".*",
                allow_methods=CORS_METHODS,
                allow_headers=["*"],
                allow_private_network=True,
            ),
        ],
        exception_handlers={HTTPException: http_error, Exception: server_error},
        lifespan=composition.lifespan,
    )
    app.state.service = service
    return app


def service_of(app: Starlette) -> Service:
    """Return the state of an application made by `create_app`."""
    return cast(Service, app.state.service)


def _backends(engines: Engines, remotes: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the backends that `engines` and other servers make, the default one first."""
    ours = ((CASCADE,) if engines.cascade else ()) + ((DUPLEX,) if engines.native is not None else ())
    return (*ours, *(name for name in remotes if name not in ours))


class _Composition:
    """What lives as long as the application: engines, the thread that listens for echoes, event log, observers."""

    def __init__(
        self,
        settings: Settings,
        service: Service,
        engines: Engines | None,
        load: LoadEngines,
        observed: ObservedSessions,
    ) -> None:
        self._settings = settings
        self._service = service
        self._engines = engines
        self._load = load
        self._listening: InferenceWorker | None = None
        self._observed = observed
        self._event_logs = EventLogWriter(settings.event_log) if settings.event_log is not None else None
        self._recordings = RecordingDisk(settings.record) if settings.record is not None else None
        self.remotes = RemoteDirectory(all_remotes(settings))
        if engines is not None:
            self._ready(engines)

    @asynccontextmanager
    async def lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        """Measure the event loop, load the engines; close them at the end."""
        if self._event_logs is not None:
            self._event_logs.start()
        self._listening = InferenceWorker("self-hearing", threads=1)
        if self._recordings is not None:
            self._recordings.start()
        self.remotes.refresh()
        try:
            async with asyncio.TaskGroup() as background:
                tasks = [background.create_task(self._service.lag.run())]
                if self._engines is None:
                    tasks.append(background.create_task(self._load_engines()))
                yield
                for task in tasks:
                    task.cancel()
        finally:
            await self._close()

    async def _load_engines(self) -> None:
        try:
            self._engines = await self._load(self._settings)
        except EngineError as error:
            self._service.fail(error.message)
        except Exception:
            # A bug: the process stays up so that /health can say so; `serve` ends it with status 1.
            logger.exception("loading the engines failed")
            self._service.fail("The engines could not be loaded because of a bug: see the log.")
        else:
            spoken = language_limits(self._engines, self._settings.asr_language, self._settings.tts_language)
            if spoken and self._engines.cascade:
                logger.warning("%s", spoken.sentence)
            self._ready(self._engines)

    def _ready(self, engines: Engines) -> None:
        self._service.ready(
            engines.infos,
            _backends(engines, self.remotes.names),
            full_duplex_sessions=full_duplex_sessions(self._settings, engines.native),
        )

    async def _close(self) -> None:
        await self.remotes.aclose()
        if self._listening is not None:
            await self._listening.aclose()
        if self._engines is not None:
            try:
                async with asyncio.timeout(CLOSE_ENGINES_DEADLINE_S):
                    await self._engines.aclose()
            except TimeoutError:
                logger.warning("an engine took too long to close")
        if self._event_logs is not None:
            await asyncio.to_thread(self._event_logs.close)
        if self._recordings is not None:
            await asyncio.to_thread(self._recordings.close)

    def models(self) -> dict[str, dict[str, Any] | None]:
        """Return the names of backends with what each can do now; null for another server that has not told."""
        remotes = {name: self.remotes.capabilities(name) for name in self.remotes.names}
        return {**models_served(self._settings, self._engines), **remotes}

    def synthesizer(self) -> SpeechSynthesizer:
        """Return the voice. Endpoints ask once engines are loaded."""
        assert self._engines is not None
        return self._engines.tts

    def recogniser(self) -> SpeechRecognizer:
        """Return the speech recogniser. Endpoints ask once engines are loaded."""
        assert self._engines is not None
        return self._engines.asr

    def open_session(self, request: SessionRequest) -> RealtimeSession:
        """Return a new session. The endpoint asks once engines are loaded."""
        assert self._engines is not None
        if request.backend in self.remotes:
            self.remotes.refresh(request.backend)
            remote = self.remotes.remote(request.backend)
            return new_relay(
                request,
                remote,
                self._settings,
                self._engines,
                self._observed,
                self._event_logs,
                self._recordings,
                listening=self._listening,
            )
        return new_session(
            request,
            self._settings,
            self._engines,
            self._observed,
            self._event_logs,
            self._recordings,
            listening=self._listening,
        )


async def load_engines(settings: Settings) -> Engines:
    """Return the engines of the settings' profile, loaded and warm; missing weights are fetched, shown on the console.

    Raises EngineError.
    """
    from models.console_progress import ConsoleProgress
    from models.loading import load_engines as load
    from models.weights import WeightsError, WeightsStore

    try:
        return await load(
            engine_plan(settings),
            store=WeightsStore(settings.home),
            progress=ConsoleProgress(),
        )
    except WeightsError as error:
        raise EngineError("weights_missing", str(error)) from error


def warm_up(settings: Settings) -> tuple[EngineInfo, ...]:
    """Load all engines once and close them; what had to be fetched is then at hand. Raises EngineError."""

    async def load_and_close() -> tuple[EngineInfo, ...]:
        engines = await load_engines(settings)
        await engines.aclose()
        return engines.infos

    return asyncio.run(load_and_close())
