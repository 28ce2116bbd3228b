"""A session to talk to, which checks every event that it sends against the wire law."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from gateway.g711 import G711Codec
from protocol.backend_events import (
    BackendEvent,
    EndStatus,
    InputCommitted,
    InputTranscriptCompleted,
    OutputAudio,
    OutputItemEnded,
    OutputSpoken,
    OutputTextDelta,
    ResponseEnded,
    ResponseStarted,
)
from protocol.beta.wire_law import BetaSessionLaw, beta_violations
from protocol.duplex_limits import DuplexLimits
from protocol.errors import ProtocolError
from protocol.ids import CountingIds
from protocol.outputs import Output, ServerEvent, ToBackend
from protocol.session import SessionProtocol
from protocol.session_settings import SessionDefaults, SessionKind
from protocol.wire import Dialect, Wire
from protocol.wire_law import SessionLaw

Payload = dict[str, Any]


class Talk:
    """One session. `outputs` holds everything so far; what a call returns are its server events, as they are sent."""

    def __init__(
        self,
        defaults: SessionDefaults | None = None,
        kind: SessionKind = "realtime",
        dialect: Dialect = Dialect.GA,
        initial: Payload | None = None,
        limits: DuplexLimits | None = None,
    ) -> None:
        ids = CountingIds()
        self.session = SessionProtocol(
            ids=ids,
            session_id="sess_1",
            model="gpt-realtime",
            expires_at_s=3600,
            defaults=defaults or SessionDefaults(),
            g711=G711Codec(),
            kind=kind,
            initial=initial,
            limits=limits,
        )
        self.wire = Wire(dialect)
        self.outputs: list[Output] = []
        self._ga_law = SessionLaw()
        self._beta_law = BetaSessionLaw() if dialect is Dialect.BETA else None

    def _law(self) -> Callable[[Payload], list[str]]:
        if self._beta_law is not None:
            return self._beta_law.violations
        # A session that has turned to beta began in the middle, so that each of its events is judged by itself.
        return self._ga_law.violations if self.wire.dialect is Dialect.GA else beta_violations

    def _taken(self, outputs: list[Output]) -> list[Payload]:
        self.outputs += outputs
        events = [output for output in outputs if isinstance(output, ServerEvent)]
        payloads = [payload for event in events for payload in self.wire.write(event)]
        for payload in payloads:
            assert self._law()(payload) == [], payload
        return payloads

    def open(self) -> list[Payload]:
        return self._taken(self.session.open())

    def frame(self, frame: str | bytes) -> list[Payload]:
        """Send a raw frame."""
        try:
            event = self.wire.read(frame)
        except ProtocolError as error:
            return self._taken(self.session.refuse(error))
        return self._taken(self.session.receive(event))

    def send(self, kind: str, **fields: Any) -> list[Payload]:
        """Send a client event."""
        return self.frame(json.dumps({"type": kind, **fields}))

    def refused(self, kind: str, **fields: Any) -> Payload:
        """Send a client event that must be answered with one error and no command; return the error."""
        before = len(self.outputs)
        (event,) = self.send(kind, event_id="evt_bad", **fields)
        assert event["type"] == "error"
        assert event["error"]["event_id"] == "evt_bad"
        assert event["error"]["type"] == "invalid_request_error"
        assert len(self.outputs) == before + 1
        error: Payload = event["error"]
        return error

    def update(self, **session: Any) -> list[Payload]:
        return self.send("session.update", session={"type": "realtime", **session})

    def append(self, pcm: bytes) -> list[Payload]:
        return self.send("input_audio_buffer.append", audio=base64.b64encode(pcm).decode())

    def user_types(self, text: str, **fields: Any) -> list[Payload]:
        content = [{"type": "input_text", "text": text}]
        return self.send(
            "conversation.item.create", item={"type": "message", "role": "user", "content": content, **fields}
        )

    def backend(self, *events: BackendEvent) -> list[Payload]:
        return [payload for event in events for payload in self._taken(self.session.receive_backend(event))]

    def user_says(self, item_id: str, text: str, start: int = 0, end: int = 24_000) -> list[Payload]:
        return self.backend(InputCommitted(item_id, start, end), InputTranscriptCompleted(item_id, text, end - start))

    def agent_says(self, response_id: str, item_id: str, *chunks: tuple[str, int]) -> list[Payload]:
        """Run a whole spoken response; a chunk is its text and its samples."""
        events: list[BackendEvent] = [ResponseStarted(response_id)]
        text_end = audio_end = 0
        for text, samples in chunks:
            text_end, audio_end = text_end + len(text), audio_end + samples
            events += [
                OutputTextDelta(response_id, item_id, text),
                OutputAudio(response_id, item_id, bytes(2 * samples)),
                OutputSpoken(response_id, item_id, text_end, audio_end),
            ]
        events += [OutputItemEnded(response_id, item_id), ResponseEnded(response_id, EndStatus.COMPLETED)]
        return self.backend(*events)

    def retrieved(self, item_id: str) -> Payload:
        (event,) = self.send("conversation.item.retrieve", item_id=item_id)
        assert event["type"] == "conversation.item.retrieved"
        item: Payload = event["item"]
        return item

    def commands(self, kind: type) -> list[Any]:
        """Return the commands of one kind that the backend was given."""
        return [out.command for out in self.outputs if isinstance(out, ToBackend) and isinstance(out.command, kind)]

    def sent(self, kind: str) -> list[Payload]:
        """Return the server events of one type so far."""
        return [out.payload for out in self.outputs if isinstance(out, ServerEvent) and out.payload["type"] == kind]


@pytest.fixture
def talk() -> Talk:
    """An open session."""
    talk = Talk()
    talk.open()
    return talk


@pytest.fixture
def beta() -> Talk:
    """An open session that speaks beta."""
    talk = Talk(dialect=Dialect.BETA)
    talk.open()
    return talk


@pytest.fixture
def new_talk() -> Callable[..., Talk]:
    """Make sessions that are not open yet."""
    return Talk
