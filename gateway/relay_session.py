"""One client's session with another Realtime server: what each says is carried to the other, and measured on the way.

The conversation, its ids and its rules are the server's. Ours are the session's id, the frames that are no events, and
what happens when the server is lost: all that the client waits for is ended in the protocol's words, the server is
tried again, and its new session is told the settings and the conversation of the old one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from gateway.backends.remote import RemoteConnection, RemoteEnded, RemoteLost, RemoteUnavailable, address_of
from gateway.event_log import EventLog
from gateway.hearing import Hearing
from gateway.meter import ASSUMED_PLAYOUT_DELAY, Meter
from gateway.observing.observer import SessionObserver
from gateway.outbox import Outbox
from gateway.recording.recorder import SessionRecorder
from gateway.relay_border import RelayBorder, SentOut
from gateway.relay_upstream import Upstream, json_object, written
from gateway.session import LARGE_FRAME_BYTES, MANY_FIELDS_BYTES
from gateway.session_ending import Ending
from gateway.session_request import SessionRequest
from gateway.settings import Remote
from protocol import errors
from protocol.audio_time import Samples, ms_from_samples, samples_from_ms
from protocol.client_events import APPEND, event_object
from protocol.commands import AppendAudio, ItemTruncated
from protocol.errors import ProtocolError
from protocol.gateway_extension import KEY as GATEWAY
from protocol.gateway_extension import split as split_ours
from protocol.ids import IdSource
from protocol.relay.dialects import Dialects, Passed, by_ga_name
from protocol.relay.hidden_ids import HiddenIds
from protocol.relay.kept_history import KeptHistory
from protocol.relay.kept_settings import OURS, KeptSettings
from protocol.relay.open_ends import Asked, OpenEnds, error_event, metadata_mark
from protocol.wire import Dialect
from protocol.wire_rules import MAX_EVENT_BYTES, MAX_EVENT_ID, MAX_NESTING

logger = logging.getLogger(__name__)

Payload = dict[str, Any]

BACKOFF_S = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Pauses before a lost server is tried again (chosen); the last one is repeated as long as the session lasts."""

LOST_VOICE_FRAMES = 4
"""VAD frames with speech from which on their loss is told (chosen: 128 ms, more than a click)."""

UNAVAILABLE = "upstream_unavailable"
"""The code of our errors while the server is away (ours: OpenAI has no such case)."""

_UPDATES = ("session.update", "transcription_session.update")
_SHIFTED = ("audio_start_ms", "audio_end_ms")
_ON_THE_INPUT_CLOCK = (
    "input_audio_buffer.speech_started",
    "input_audio_buffer.speech_stopped",
    "input_audio_buffer.timeout_triggered",
)


class RelaySession:
    """The shell around one relayed session; a `RealtimeSession` as `Session` is. `now` is the gateway clock.

    Bounds: a server that takes nothing stops the reading of its client, and after a deadline counts as lost; a client
    that reads too slowly is closed, as on every session (`Outbox`).
    """

    def __init__(
        self,
        *,
        session_id: str,
        remote: Remote,
        request: SessionRequest,
        hearing: Hearing,
        now: Callable[[], Samples],
        new_id: IdSource,
        log: EventLog,
        observer: SessionObserver | None = None,
        recorder: SessionRecorder | None = None,
        playout_delay: Samples = ASSUMED_PLAYOUT_DELAY,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`observer` None: nobody can look; `recorder` None: nothing is recorded.

        `sleep` is what passes between two attempts to reach the server.
        """
        self.session_id = session_id
        self.outbox = Outbox(audio_accepted=self._audio_accepted)
        self._observer = observer or SessionObserver(session_id, now)
        self.meter = Meter(
            session_id,
            playout_delay=playout_delay,
            explain=self._observer.explain,
            on_turn=self._observer.turn_closed,
            on_overlap=self._observer.overlapped,
            backchannels=True,  # whatever stands there; replies that have words are none
        )
        self._recorder = recorder
        self._border = RelayBorder(self.meter, hearing, now, playout_delay=playout_delay, heard=self._heard)
        self._remote = remote
        intent = "transcription" if request.kind == "transcription" else request.query.get("intent")
        self._address = address_of(remote, intent)
        self._now = now
        self._new_id = new_id
        self._hidden_id = HiddenIds(new_id)
        self._log = log
        self._sleep = sleep
        self._dialects = Dialects(request.dialect, Dialect(remote.dialect))
        self._expires_at_s = request.expires_at_s
        initial = dict(request.session or {})
        self._shows_ours = GATEWAY in initial
        self._settings = KeptSettings({key: value for key, value in initial.items() if key not in OURS})
        self._history = KeptHistory()
        self._ends = OpenEnds()
        self._connection: RemoteConnection | None = None
        self._opened = asyncio.Event()
        self._clock_offset: Samples = 0  # input that the server's present session has never heard
        self._told_of_lost_voice = False
        self._last_error = ""
        self._upstream = Upstream(
            self._address,
            self._dialects,
            self._settings,
            self._history,
            kind=request.kind,
            new_id=new_id,
            hidden_id=self._hidden_id,
            refused=self._settings_refused,
        )

    # --- the session's life ----------------------------------------------------------------------------------------

    async def run(self) -> Ending | None:
        """Carry the server's events to the client until cancelled, or until the server ends the session."""
        self._observer.open()
        try:
            return await self._run()
        finally:
            now = self._now()
            self.meter.close(now)
            self._observer.close()
            self._log.close()
            if self._recorder is not None:
                self._recorder.close(now)
            if self._connection is not None:
                await self._connection.aclose()

    async def _run(self) -> Ending:
        try:
            connection, greeting = await self._upstream.open()
        except RemoteUnavailable as error:
            logger.warning("session %s: its remote server is not available: %s", self.session_id, error)
            sentence = f"The model `{self._remote.name}` is not available: {error}"
            self._tell(error_event(ProtocolError("model_not_found", sentence), self._new_id))
            return Ending(4000, "invalid_request_error.model_not_found")
        self._connection = connection
        for event in greeting:
            self._relay(event)
        self._opened.set()
        while True:
            try:
                while True:
                    await self._carry(await connection.receive(last_error=self._last_error))
            except RemoteEnded as ended:
                return Ending(ended.code, ended.reason)
            except RemoteLost as lost:
                self._lose(str(lost))
            await connection.aclose()
            connection = await self._reopened()
            self._connection = connection

    # --- a server that is lost -------------------------------------------------------------------------------------

    def _lose(self, why: str) -> None:
        """End all that the client waits for."""
        self._connection = None
        logger.warning("session %s lost its remote server at %s: %s", self.session_id, self._address.place, why)
        self._observer.upstream(False, self._now(), name=self._remote.name, reason=why)
        self._settings.lost()
        self._upstream.lost()
        self._last_error = ""
        self._told_of_lost_voice = False
        message = f"The server behind `{self._remote.name}` broke off."
        voiced = self._border.voiced
        for event in self._ends.close(("upstream_lost", message), self._border.received, self._new_id):
            self._emit(event)
        self._history.lost()
        self._border.voiced = voiced
        self._tell_of_lost_voice()

    def _tell_of_lost_voice(self) -> None:
        """Say once that speech was lost. A client that streams silence meanwhile is told nothing."""
        if self._border.voiced >= LOST_VOICE_FRAMES and not self._told_of_lost_voice:
            self._told_of_lost_voice = True
            self._tell(error_event(self._unavailable("What was said meanwhile is lost."), self._new_id))

    def _unavailable(self, advice: str, event_id: str | None = None) -> ProtocolError:
        message = f"The server behind `{self._remote.name}` can't be reached at the moment. {advice}"
        return ProtocolError(UNAVAILABLE, message, error_type="server_error", event_id=event_id)

    async def _reopened(self) -> RemoteConnection:
        """Return a connection to the server once it is back, however long that takes."""
        attempt = 0
        while True:
            await self._sleep(BACKOFF_S[min(attempt, len(BACKOFF_S) - 1)])
            attempt += 1
            try:
                connection, _ = await self._upstream.open()
            except RemoteUnavailable as error:
                logger.info("session %s: attempt %d: %s", self.session_id, attempt, error)
                continue
            self._clock_offset = self._border.received
            self._border.voiced = 0
            self._observer.upstream(True, self._now(), name=self._remote.name, attempts=attempt)
            return connection

    def _settings_refused(self, words: str) -> None:
        sentence = f"The server behind `{self._remote.name}` is back, but {words}"
        self._tell(error_event(ProtocolError(UNAVAILABLE, sentence, error_type="server_error"), self._new_id))

    # --- from the server to the client -----------------------------------------------------------------------------

    async def _carry(self, frame: str) -> None:
        """Carry one frame of the server's."""
        raw = await asyncio.to_thread(json_object, frame) if len(frame) > LARGE_FRAME_BYTES else json_object(frame)
        if raw is None:
            logger.warning("session %s: its remote server sent a frame that is no event", self.session_id)
            return
        verbatim = (raw, frame)
        try:
            for event in self._dialects.from_server(raw):
                if not self._upstream.is_ours(event):
                    known = self._upstream.for_client(event)
                    self._relay(known, verbatim if known is event else None)
        except RecursionError:
            logger.warning("session %s: its remote server sent an event that is nested too deeply", self.session_id)

    def _relay(self, event: Payload, verbatim: tuple[Payload, str] | None = None) -> None:
        """Relay one event (GA). `verbatim`: what the server said, and its frame; None: only `event` is left of it."""
        shown, asked = self._adapted(event)
        self._last_error = _error_code(shown) or self._last_error
        if verbatim is None or shown is not event or not self._dialects.same:
            self._emit(shown, asked=asked)
        elif self._dialects.begins(event, verbatim[0]):
            self._emit(shown, asked=asked, verbatim=verbatim)
        else:  # what the server said in one event has been passed on already
            self._measure(shown, asked)

    def _adapted(self, event: Payload) -> tuple[Payload, Asked | None]:
        """Return the event as the client is to see it, and the client event that it answers."""
        match event:
            case {"type": "error", "error": dict(error)}:
                return self._refusal(event, error)
            case {"type": "session.created" | "session.updated", "session": dict(session)}:
                shown = {**event, "session": self._as_ours(session)}
                self._border.settings(session)
            case {"type": str(kind)} if kind in _ON_THE_INPUT_CLOCK and self._clock_offset:
                offset_ms = ms_from_samples(self._clock_offset)
                moved = {key: event[key] + offset_ms for key in _SHIFTED if isinstance(event.get(key), int)}
                shown = {**event, **moved}
            case _:
                shown = event
        asked = self._ends.saw(by_ga_name(shown))
        if asked is not None and asked.kind == "session.update":
            self._settings.answered(asked.event_id, accepted=True)
        return shown, asked

    def _refusal(self, event: Payload, error: Payload) -> tuple[Payload, Asked | None]:
        """Return an `error` event without an id that the client didn't give, and the client event that it answers."""
        asked = self._ends.refused(error)
        if asked is not None:
            self._settings.answered(asked.event_id, accepted=False)
        if self._hidden_id.made(error.get("event_id")):
            return {**event, "error": {**error, "event_id": None}}, asked
        return event, asked

    def _as_ours(self, session: Payload) -> Payload:
        """Return a session object with our id, which observers know it by, and the earlier of both ends."""
        ends = session.get("expires_at")
        shown = {**session, "id": self.session_id}
        shown["expires_at"] = min(ends, self._expires_at_s) if isinstance(ends, int) else self._expires_at_s
        if self._shows_ours:
            shown[GATEWAY] = {"barge_in": None, "speculation": None}  # both are the server's own affair
        return shown

    def _emit(self, event: Payload, *, asked: Asked | None = None, verbatim: tuple[Payload, str] | None = None) -> None:
        """Measure an event and put it into the outbox, in the client's dialect."""
        audio = self._measure(event, asked)
        if verbatim is not None:
            self._put(*verbatim, audio)
            return
        for payload in self._dialects.to_client(event):
            self._put(payload, written(payload), audio)

    def _tell(self, event: Payload) -> None:
        """Tell the client something of our own."""
        self._observer.server_event(event, self._now())
        for payload in self._dialects.to_client(event):
            self._put(payload, written(payload), SentOut())

    def _put(self, payload: Payload, frame: str, audio: SentOut) -> None:
        self._log.record("server", self._now(), payload)
        self.outbox.put(frame, audio_of=audio.response_id or None, item_id=audio.item_id, samples=audio.samples)

    def _measure(self, event: Payload, asked: Asked | None) -> SentOut:
        now = self._now()
        event = by_ga_name(event)
        self._history.saw(event)
        audio, said = self._border.saw(event, None if asked is None else asked.at)
        if audio.samples:
            self._history.audio_sent(audio.item_id, audio.samples)
        for neutral in said:
            self._observer.saw(neutral, now)
            self._log.record("backend", now, neutral)
            if self._recorder is not None:
                self._recorder.told(neutral, now)
                self._recorder.saw(neutral, now)
        try:
            self._observer.server_event(event, now)
        except (KeyError, TypeError, AttributeError):
            logger.debug("session %s: an event that observers can't be told of", self.session_id)
        return audio

    def _heard(self, append: AppendAudio, now: Samples) -> None:
        self._observer.heard_user(append, now)
        if self._recorder is not None:
            self._recorder.user_audio(append.pcm, now)

    def _audio_accepted(self, response_id: str, samples: Samples) -> None:
        self._observer.sent(response_id, samples, self._now())
        self._border.accepted(response_id, samples)

    # --- from the client to the server -----------------------------------------------------------------------------

    async def receive_text(self, frame: str) -> None:
        """Take a client's frame. Returns when the server's socket has it, or the client its answer."""
        await self._opened.wait()
        self._log.record_frame(self._now(), frame)
        try:
            if len(frame) > MAX_EVENT_BYTES:
                raise errors.event_too_large(MAX_EVENT_BYTES)
            large = len(frame) > LARGE_FRAME_BYTES
            raw = await asyncio.to_thread(event_object, frame) if large else event_object(frame)
            if raw.get("type") == APPEND:
                await self._append(raw, frame)
            else:
                await self._command(raw, len(frame))
        except ProtocolError as error:
            self._tell(error_event(error, self._new_id))
        except RecursionError:
            self._tell(error_event(errors.nested_too_deeply(MAX_NESTING), self._new_id))
        # As on our own sessions: frames that came together must not keep all other sessions from theirs.
        await asyncio.sleep(0)

    async def receive_binary(self, frame: bytes) -> None:
        """Refuse a binary frame, which no client event is."""
        await self._opened.wait()
        self._log.record_frame(self._now(), frame)
        self._tell(error_event(errors.not_text(), self._new_id))

    def expire(self, error: ProtocolError) -> None:
        """Tell the client that its session has reached its longest duration here."""
        self._tell(error_event(error, self._new_id))

    async def _append(self, raw: Payload, frame: str) -> None:
        """Send audio on as it came, then listen to it: the server doesn't wait for the meter."""
        if self._connection is not None:
            await self._send(self._connection, frame)
        await self._border.hear(raw.get("audio"))
        if self._connection is None:
            self._tell_of_lost_voice()

    async def _command(self, raw: Payload, size: int) -> None:
        event_id = raw.get("event_id")
        if isinstance(event_id, str) and len(event_id) > MAX_EVENT_ID:  # it is remembered until it is answered
            raise errors.string_too_long("event_id", len(event_id), MAX_EVENT_ID)
        try:
            split_ours(raw)  # our own object is checked here, since nobody else knows it
            if size > MANY_FIELDS_BYTES:
                passed = await asyncio.to_thread(self._dialects.to_server, raw, size)
            else:
                passed = self._dialects.to_server(raw, size)
            if await self._truncated_here(passed.ga):
                return
        except ProtocolError as error:
            error.event_id = event_id if isinstance(event_id, str) else None
            raise
        connection = self._connection
        if connection is None:
            self._answer_alone(raw, event_id if isinstance(event_id, str) else None)
            return
        asked = self._asked(raw, passed)
        if raw.get("type") in _UPDATES and isinstance(raw.get("session"), dict) and GATEWAY in raw["session"]:
            self._shows_ours = True
        sent = {**passed.sent, "event_id": asked.event_id} if event_id is None else passed.sent
        self._ends.asked(asked)
        await self._send(connection, written(self._upstream.for_server(sent)))

    def _asked(self, raw: Payload, passed: Passed) -> Asked:
        """Return what is remembered of a client event until its answer. Raises ProtocolError if that is too much."""
        shown = raw.get("event_id")
        shown = shown if isinstance(shown, str) else None
        event_id = shown or self._hidden_id()  # so that an `error` names it
        asked = Asked(str(passed.ga.get("type"))[:MAX_EVENT_ID], event_id, shown, self._now())
        match passed.ga:
            case {"type": "session.update", "session": dict(session)}:
                try:
                    self._settings.asked(event_id, session)
                except ProtocolError as error:
                    error.event_id = shown
                    raise
            case {"type": "conversation.item.create", "item": {"id": str(item_id)}} if len(item_id) <= MAX_EVENT_ID:
                if passed.ga.get("previous_item_id") == "root":
                    self._history.goes_first(item_id)
                return replace(asked, item_id=item_id)
            case {"type": "conversation.item.truncate", "item_id": str(item_id), "audio_end_ms": int(end_ms)} if (
                end_ms >= 0
            ):
                self._truncated(item_id, end_ms)
                with suppress(ProtocolError):  # the server will say so
                    self._history.truncate(item_id, end_ms)
                    return replace(asked, alone=self._truncation(passed.ga))
            case {"type": "response.create", "response": dict(response)}:
                beside = response.get("conversation") == "none"
                return replace(asked, metadata=metadata_mark(response.get("metadata")), beside=beside)
            case _:
                pass
        return asked

    async def _truncated_here(self, ga: Payload) -> bool:
        """Answer the truncate of an item from an earlier session, which the server has as text, if it has it at all.

        Raises ProtocolError where our own sessions would refuse it.
        """
        match ga:
            case {
                "type": "conversation.item.truncate",
                "item_id": str(item_id),
                "content_index": int(),
                "audio_end_ms": int(end_ms),
            } if end_ms >= 0 and self._history.is_earlier(item_id):
                self._history.truncate(item_id, end_ms)
                self._truncated(item_id, end_ms)
                self._emit(self._truncation(ga))
                await self._tell_anew()
                return True
            case _:
                return False

    async def _tell_anew(self) -> None:
        if self._connection is not None:
            try:
                await self._upstream.tell_anew(self._connection)
            except RemoteLost as lost:
                logger.debug("session %s: %s", self.session_id, lost)

    def _truncation(self, truncate: Payload) -> Payload:
        told = {key: truncate.get(key) for key in ("item_id", "content_index", "audio_end_ms")}
        return {"type": "conversation.item.truncated", "event_id": self._new_id("event"), **told}

    def _truncated(self, item_id: str, end_ms: int) -> None:
        self._border.truncated(item_id, end_ms)
        self._observer.commanded(ItemTruncated(item_id, samples_from_ms(end_ms)), self._now())
        if self._recorder is not None:
            self._recorder.cut(item_id, self._now())

    def _answer_alone(self, raw: Payload, event_id: str | None) -> None:
        """Answer a command while the server is away: nothing runs and nothing is buffered, and nothing can be done."""
        match raw.get("type"):
            case "response.cancel":
                words = "Cancellation failed: no active response found"
                self._tell(
                    error_event(ProtocolError("response_cancel_not_active", words, event_id=event_id), self._new_id)
                )
            case "input_audio_buffer.clear":
                self._border.voiced = 0
                self._tell({"type": "input_audio_buffer.cleared", "event_id": self._new_id("event")})
            case _:
                self._tell(error_event(self._unavailable("Try again in a few seconds.", event_id), self._new_id))

    async def _send(self, connection: RemoteConnection, frame: str) -> None:
        try:
            await connection.send(frame)
        except RemoteLost as lost:  # whoever reads from it learns of it, too, and deals with it
            logger.debug("session %s: %s", self.session_id, lost)


def _error_code(event: Payload) -> str:
    """Return the code of an `error` event, "" for any other."""
    match event:
        case {"type": "error", "error": {"code": str(code)}}:
            return code
        case _:
            return ""
