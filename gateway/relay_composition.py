"""Puts one relayed session together; apart from `composition.py`, which knows no sockets and loads without them."""

from __future__ import annotations

from gateway.composition import session_clock
from gateway.event_log import EventLog, EventLogWriter
from gateway.hearing import Hearing
from gateway.observing.sessions import ObservedSessions
from gateway.recording.disk import RecordingDisk
from gateway.recording.recorder import SessionRecorder
from gateway.relay_session import RelaySession
from gateway.session_request import SessionRequest
from gateway.settings import Remote, Settings
from models.inference_worker import InferenceWorker
from models.interfaces import Engines
from protocol.audio_time import samples_from_ms
from protocol.ids import random_id


def new_relay(
    request: SessionRequest,
    remote: Remote,
    settings: Settings,
    engines: Engines,
    observed: ObservedSessions,
    event_logs: EventLogWriter | None = None,
    recordings: RecordingDisk | None = None,
    *,
    listening: InferenceWorker | None = None,
) -> RelaySession:
    """Return a new session that is relayed to `remote`, measured and recorded as any; its decisions aren't ours."""
    session_id = random_id("sess")
    now = session_clock()
    playout_delay = samples_from_ms(settings.playout_delay_ms)
    about = {"model": request.model or remote.name, "backend": request.backend}
    observer = observed.observer(session_id, now, {**about, "kind": request.kind, "dialect": request.dialect})
    recorder = None
    if recordings is not None:
        recorder = SessionRecorder(recordings, session_id, random_id, playout_delay)
        recorder.begin_unreplayable(remote.name)
    return RelaySession(
        session_id=session_id,
        remote=remote,
        request=request,
        hearing=Hearing(engines.vad, playout_delay=playout_delay, worker=listening),
        now=now,
        new_id=random_id,
        log=event_logs.open(session_id) if event_logs is not None else EventLog.off(),
        observer=observer,
        recorder=recorder,
        playout_delay=playout_delay,
    )
