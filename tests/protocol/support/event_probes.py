"""Probes of response.create and of the small client events."""

from __future__ import annotations

import base64
from typing import Any

from protocol.backend_events import (
    EndReason,
    EndStatus,
    OutputAudio,
    OutputSpoken,
    OutputTextDelta,
    ResponseEnded,
    ResponseStarted,
)
from protocol.wire import Dialect
from tests.protocol.support.item_probes import RECORDING, SPEECH, item_probes
from tests.protocol.support.minimal_objects import ITEMS
from tests.protocol.support.obedient_backend import SECOND, ObedientBackend
from tests.protocol.support.probing import NO_EVENT, Probe
from tests.protocol.support.session_probes import (
    NO_PROMPT_STORE,
    format_probes,
    tool_probes,
)

ON_A_WEBSOCKET = "the client owns its player: it clears that itself, cancels, and truncates"


def typed_two(backend: ObedientBackend) -> None:
    """The user has written two messages."""
    for item_id, text in (("u1", "One."), ("u2", "Two.")):
        content = [{"type": "input_text", "text": text}]
        item = {"type": "message", "role": "user", "id": item_id, "content": content}
        backend.send("conversation.item.create", item=item)


def agent_was_cut(backend: ObedientBackend) -> None:
    """The agent said two words, a second each, and the user cut in."""
    backend.says(
        ResponseStarted("r"),
        OutputTextDelta("r", "a1", "One two."),
        OutputAudio("r", "a1", bytes(4 * SECOND)),
        OutputSpoken("r", "a1", 3, SECOND),
        OutputSpoken("r", "a1", 8, 2 * SECOND),
        ResponseEnded("r", EndStatus.CANCELLED, 2 * SECOND, EndReason.TURN_DETECTED),
    )


def agent_speaks(backend: ObedientBackend) -> None:
    """A response runs."""
    backend.patient = True
    backend.send("response.create")


def audio_waits(backend: ObedientBackend) -> None:
    """The user has spoken without an end."""
    backend.talk.append(base64.b64decode(SPEECH))


def _response_probes() -> list[Probe]:
    root = "response"
    probes: list[Probe] = []

    def add(path: str, *values: Any, **details: Any) -> None:
        probes.append(Probe("response.create", f"{root}.{path}", values, **details))

    probes.append(Probe("response.create", "", ({},), instead=NO_EVENT))
    add("conversation", "none", "auto")
    add("instructions", "Speak like a pirate.")
    add("output_modalities", ["text"], ["audio"])
    add("audio.output.voice", "cedar")
    add("audio.output.voice.id", "voice_1", instead="voice_2")
    probes += format_probes("response.create", f"{root}.audio.output.format")
    add("max_output_tokens", 7, "inf")
    add("metadata", {"topic": "tea"}, shown=True)
    add("parallel_tool_calls", False)
    add("reasoning.effort", "minimal", "low", "medium", "high", "xhigh")
    add("prompt.id", "pmpt_1", instead="pmpt_2", why=NO_PROMPT_STORE)
    add("prompt.version", "2", beside={"id": "pmpt_1"}, why=NO_PROMPT_STORE)
    add("prompt.variables", {"name": "Ann"}, beside={"id": "pmpt_1"}, why=NO_PROMPT_STORE)
    reference = Probe(
        "response.create",
        f"{root}.input[]{{item_reference}}",
        ({"input": [ITEMS["item_reference"]]},),
        at=root,
        instead={"input": []},
        setup=typed_two,
    )
    probes.append(reference)
    add("input[]{item_reference}.id", "u1", instead="u2", setup=typed_two)
    return [*probes, *tool_probes("response.create", root), *item_probes("response.input[]", "response.create")]


def small_event_probes(dialect: Dialect) -> list[Probe]:
    """Return the probes of the events that both dialects share."""
    probes: list[Probe] = []

    def add(event: str, path: str, *values: Any, **details: Any) -> None:
        probes.append(Probe(event, path, values, dialect=dialect, **details))

    add("input_audio_buffer.append", "", {"audio": SPEECH}, instead=NO_EVENT)
    add("input_audio_buffer.append", "audio", SPEECH, instead=RECORDING)
    add("input_audio_buffer.commit", "", {}, instead=NO_EVENT, setup=audio_waits)
    add("input_audio_buffer.clear", "", {}, instead=NO_EVENT, setup=audio_waits)
    add("output_audio_buffer.clear", "", {}, instead=NO_EVENT, why=ON_A_WEBSOCKET)
    for doing in ("retrieve", "delete"):
        event = f"conversation.item.{doing}"
        add(event, "", {"item_id": "u1"}, instead=NO_EVENT, setup=typed_two, shown=True)
        add(event, "item_id", "u1", instead="u2", setup=typed_two, shown=True)
    truncate = {"item_id": "a1", "content_index": 0, "audio_end_ms": 1_000}
    event = "conversation.item.truncate"
    add(event, "", truncate, instead=NO_EVENT, setup=agent_was_cut)
    for key, value in truncate.items():
        add(event, key, value, instead=NO_EVENT, beside=truncate, setup=agent_was_cut)
    add("response.cancel", "", {}, instead=NO_EVENT, setup=agent_speaks)
    add("response.cancel", "response_id", "resp_1", instead=NO_EVENT, setup=agent_speaks)
    return probes


def _create_item_probes() -> list[Probe]:
    event, beside = "conversation.item.create", {"item": ITEMS["message user"]}
    return [
        Probe(event, "", (beside,), instead=NO_EVENT),
        Probe(event, "previous_item_id", ("root",), beside=beside, setup=typed_two),
        *item_probes("item", event),
    ]


def _empty_update() -> Probe:
    return Probe("session.update", "", ({"session": {"type": "realtime"}},), instead=NO_EVENT)


EVENT_PROBES = [*small_event_probes(Dialect.GA), *_create_item_probes(), *_response_probes(), _empty_update()]
