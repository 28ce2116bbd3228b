"""Conversations in which every server event comes up that a WebSocket can see, and why the others cannot."""

from __future__ import annotations

from collections.abc import Callable

from protocol.backend_events import (
    EndReason,
    EndStatus,
    EngineFault,
    InputCommitted,
    InputTimedOut,
    InputTranscriptFailed,
    ResponseEnded,
    ResponseStarted,
)
from protocol.mcp_items import McpFailure
from protocol.outputs import ListMcpTools, ServerEvent
from protocol.session_settings import SessionKind
from protocol.wire import Dialect
from tests.protocol.conftest import Payload, Talk
from tests.protocol.support.event_probes import agent_was_cut, typed_two
from tests.protocol.support.item_probes import with_a_request
from tests.protocol.support.minimal_objects import MCP_SERVER
from tests.protocol.support.obedient_backend import SECOND, ObedientBackend
from tests.protocol.support.session_probes import with_logprobs, with_transcripts

OF_WEBRTC = "WebRTC and SIP: there the server owns the player"
NEVER = {
    "GA": {
        "conversation.created": "no client was seen to get it",
        "conversation.item.created": "beta's name; GA has `conversation.item.added`",
        "conversation.item.input_audio_transcription.segment": "no recogniser here tells speakers apart",
        "input_audio_buffer.dtmf_event_received": "SIP: a telephone's keys",
        "output_audio_buffer.started": OF_WEBRTC,
        "output_audio_buffer.stopped": OF_WEBRTC,
        "output_audio_buffer.cleared": OF_WEBRTC,
    },
    "beta": {
        "conversation.created": "OpenAI's own beta client counts the events up to `session.created` in its tests",
        "output_audio_buffer.started": OF_WEBRTC,
        "output_audio_buffer.stopped": OF_WEBRTC,
        "output_audio_buffer.cleared": OF_WEBRTC,
    },
}
"""The server events that are never sent, and why."""

UNSENT_FIELDS = {
    ("conversation.item.input_audio_transcription.completed", "languages"): "no recogniser here tells languages",
}
"""Fields of events that are sent, but never these fields, and why."""


def _conversation(backend: ObedientBackend) -> None:
    with_transcripts(backend)
    backend.user_turn()
    backend.send("response.create")
    backend.send(
        "response.create", response={"output_modalities": ["text"]} if _is_ga(backend) else {"modalities": ["text"]}
    )
    backend.talk.send("response.cancel")
    backend.talk.send("nonsense")


def _is_ga(backend: ObedientBackend) -> bool:
    return backend.talk.wire.dialect is Dialect.GA


def _items(backend: ObedientBackend) -> None:
    typed_two(backend)
    backend.send("conversation.item.retrieve", item_id="u1")
    backend.send("conversation.item.delete", item_id="u1")
    agent_was_cut(backend)
    backend.send("conversation.item.truncate", item_id="a1", content_index=0, audio_end_ms=500)


def _buffer(backend: ObedientBackend) -> None:
    backend.talk.append(bytes(2 * SECOND))
    backend.send("input_audio_buffer.clear")
    backend.says(InputTimedOut("late", 0, SECOND), InputCommitted("late", 0, SECOND))


def _faults(backend: ObedientBackend) -> None:
    with_transcripts(backend)
    fault = EngineFault("engine_failed", "It broke.")
    backend.says(InputCommitted("x", 0, SECOND), InputTranscriptFailed("x", fault))
    backend.says(ResponseStarted("r1"), ResponseEnded("r1", EndStatus.FAILED, fault=fault))
    backend.says(ResponseStarted("r2"), ResponseEnded("r2", EndStatus.INCOMPLETE, 0, EndReason.MAX_OUTPUT_TOKENS))


def _mcp(backend: ObedientBackend) -> None:
    with_a_request(backend)
    backend.goes_on()
    backend.talk.update(tools=[{**MCP_SERVER, "server_url": "http://127.0.0.1:9/gone", "require_approval": "never"}])
    orders = [output.item_id for output in backend.talk.outputs if isinstance(output, ListMcpTools)]
    gone = McpFailure("http_error", "Nobody is there.", 502)
    backend.talk._taken(backend.talk.session.mcp_tools_listed(orders[-1], gone))


def _mcp_call_fails(backend: ObedientBackend) -> None:
    backend.send("session.update", session={"type": "realtime", "tools": [{**MCP_SERVER, "require_approval": "never"}]})
    backend.failing = True
    backend.user_turn()


def _dictation(backend: ObedientBackend) -> None:
    with_transcripts(backend)
    with_logprobs(backend)
    backend.user_turn()


_SCENARIOS: tuple[tuple[SessionKind, Callable[[ObedientBackend], None]], ...] = (
    ("realtime", _conversation),
    ("realtime", _items),
    ("realtime", _buffer),
    ("realtime", _faults),
    ("transcription", _dictation),
)
_SCENARIOS_OF_GA: tuple[Callable[[ObedientBackend], None], ...] = (_mcp, _mcp_call_fails)
"""What beta has no words for."""


def sent_events(dialect: str) -> list[Payload]:
    """Return all server events of all the conversations, lawful every one."""
    sent: list[Payload] = []
    of_ga = [("realtime", scenario) for scenario in _SCENARIOS_OF_GA] if dialect == "GA" else []
    for kind, scenario in (*_SCENARIOS, *of_ga):
        talk = Talk(kind=kind, dialect=Dialect(dialect.lower()))
        backend = ObedientBackend(talk)
        talk.open()
        scenario(backend)
        events = [output for output in talk.outputs if isinstance(output, ServerEvent)]
        sent += [payload for event in events for payload in talk.wire.write(event)]
    return sent
