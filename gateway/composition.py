"""Puts one session together on loaded engines, whoever asks for it: a socket, a bench in lockstep, a rehearsal.

Imports neither the server nor the wire's types, which take longer to load than a rehearsal takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from gateway.backends.cascade import CascadeBackend, Tap
from gateway.backends.interface import Backend
from gateway.backends.language_limits import language_limits
from gateway.backends.native import NativeBackend, limits_of
from gateway.event_log import EventLog, EventLogWriter
from gateway.g711 import G711Codec
from gateway.hearing import Hearing
from gateway.mcp.allowed_hosts import AllowedHosts
from gateway.observing.observer import SessionObserver
from gateway.observing.sessions import ObservedSessions
from gateway.recording.disk import RecordingDisk
from gateway.recording.recorder import SessionRecorder
from gateway.session import Session
from gateway.session_request import DEFAULT_MODEL, DUPLEX, SessionRequest
from gateway.settings import Settings
from gateway.sound_level import rms_level
from gateway.turns.duplex_vocabulary import DuplexSettings, SpeechStartedPolicy
from gateway.turns.settings import Deadlines
from models.inference_worker import InferenceWorker
from models.interfaces import Engines
from protocol.audio_time import Samples, samples_from_ms, samples_from_s
from protocol.beta.fields import DEFAULT_VOICE as BETA_DEFAULT_VOICE
from protocol.ids import random_id
from protocol.session import SessionProtocol
from protocol.session_settings import SessionDefaults
from protocol.wire import Dialect


def new_session(
    request: SessionRequest,
    settings: Settings,
    engines: Engines,
    observed: ObservedSessions,
    event_logs: EventLogWriter | None = None,
    recordings: RecordingDisk | None = None,
    *,
    listening: InferenceWorker | None = None,
    now: Callable[[], Samples] | None = None,
    taps: Sequence[Tap] = (),
) -> Session:
    """Return a new session on the backend that was asked for.

    `listening` listens for echoes; None: the event loop does. `now`: another gateway clock than the machine's.
    """
    session_id = random_id("sess")
    now = now or session_clock()
    defaults = session_defaults(settings, request.dialect)
    if request.kind == "transcription" and request.model:
        defaults = replace(defaults, transcription_model=request.model)
    model = request.model or DEFAULT_MODEL
    playout_delay = samples_from_ms(settings.playout_delay_ms)
    observer = observed.observer(
        session_id,
        now,
        {"model": model, "backend": request.backend, "kind": request.kind, "dialect": request.dialect},
        lambda user, reply: language_limits(engines, user, reply).fields,
    )
    recorder = None if recordings is None else SessionRecorder(recordings, session_id, random_id, playout_delay)
    backend: Backend
    limits = None
    if request.backend == DUPLEX:
        backend = _native(settings, engines, now, playout_delay, observer, recorder)
        assert engines.native is not None
        limits = limits_of(engines.native.abilities, restarts=settings.duplex_restart_on_update)
    else:
        cascade = _cascade(settings, engines, session_id, now, playout_delay, observer, recorder, taps)
        observer.follow(cascade.machine)
        if recorder is not None:
            recorder.begin(cascade.machine.settings)
        backend = cascade
    return Session(
        session_id=session_id,
        protocol=SessionProtocol(
            ids=random_id,
            session_id=session_id,
            model=model,
            expires_at_s=request.expires_at_s,
            defaults=defaults,
            kind=request.kind,
            g711=G711Codec(),
            initial=request.session,
            limits=limits,
        ),
        backend=backend,
        hearing=Hearing(
            engines.vad,
            playout_delay=playout_delay,
            worker=listening,
        ),
        now=now,
        mcp_hosts=AllowedHosts(settings.mcp_allow_host, bound=settings.host),
        mcp_call_deadline_s=settings.mcp_timeout_s,
        recorder=recorder,
        log=event_logs.open(session_id) if event_logs is not None else EventLog.off(),
        dialect=request.dialect,
        observer=observer,
        playout_delay=playout_delay,
    )


def _cascade(
    settings: Settings,
    engines: Engines,
    session_id: str,
    now: Callable[[], Samples],
    playout_delay: Samples,
    observer: SessionObserver,
    recorder: SessionRecorder | None,
    taps: Sequence[Tap],
) -> CascadeBackend:
    return CascadeBackend(
        engines,
        new_id=random_id if recorder is None else recorder.new_id,
        now=now,
        session_key=session_id,
        deadlines=Deadlines(
            transcript=samples_from_s(settings.asr_timeout_s),
            first_token=samples_from_s(settings.llm_first_token_timeout_s),
            next_token=samples_from_s(settings.llm_next_token_timeout_s),
            speech=samples_from_s(settings.tts_timeout_s),
        ),
        playout_delay=playout_delay,
        user_language=settings.asr_language,
        reply_language=settings.tts_language,
        taps=(observer.told, *taps) if recorder is None else (observer.told, recorder.tap, *taps),
    )


def _native(
    settings: Settings,
    engines: Engines,
    now: Callable[[], Samples],
    playout_delay: Samples,
    observer: SessionObserver,
    recorder: SessionRecorder | None,
) -> NativeBackend:
    assert engines.native is not None
    observer.follow_duplex()
    if recorder is not None:
        recorder.begin_unreplayable(DUPLEX)
    told = DuplexSettings(
        speech_started=SpeechStartedPolicy(settings.duplex_speech_started), on_hold=settings.duplex_on_hold
    )
    taps = (observer.duplex_told,) if recorder is None else (observer.duplex_told, recorder.told)
    return NativeBackend(
        engines.native,
        new_id=random_id,
        now=now,
        level=rms_level,
        settings=told,
        playout_delay=playout_delay,
        taps=taps,
    )


def session_defaults(settings: Settings, dialect: Dialect) -> SessionDefaults:
    """Return what sessions begin with."""
    voice = settings.voice
    if dialect is Dialect.BETA and voice == SessionDefaults().voice:
        voice = BETA_DEFAULT_VOICE
    defaults = SessionDefaults(
        voice=voice, context_tokens=settings.foreground_context_tokens, speculation=settings.speculation
    )
    return replace(defaults, instructions=settings.instructions) if settings.instructions else defaults


def session_clock() -> Callable[[], Samples]:
    """Return a gateway clock that starts now."""
    start_s = time.monotonic()
    return lambda: samples_from_s(time.monotonic() - start_s)
