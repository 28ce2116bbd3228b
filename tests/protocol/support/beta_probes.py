"""Probes of the client events whose shape is beta's own."""

from __future__ import annotations

from typing import Any

from protocol.session_settings import SessionKind
from protocol.wire import Dialect
from tests.protocol.support.catalogue import client_fields
from tests.protocol.support.event_probes import small_event_probes, typed_two
from tests.protocol.support.item_probes import (
    HAS_NO_EFFECT,
    RECORDING,
    SEEN_BY_NOBODY,
    SPEECH,
    STATES,
    message,
    result_comes,
    with_a_call,
)
from tests.protocol.support.minimal_objects import CALL, FUNCTION, ITEMS
from tests.protocol.support.obedient_backend import ObedientBackend
from tests.protocol.support.probing import NO_EVENT, Probe
from tests.protocol.support.session_probes import FROM_THE_URL, NO_DENOISER, NO_TRACES, NOT_ANSWERED

MODELS = next(field.words for field in client_fields("beta", "session.update") if field.path == "session.model")
OF_REST = "keys of sessions that REST made; nothing on a socket"
SPOKEN, WRITTEN = ["text", "audio"], ["text"]
ITEM_REFERENCE = "a reference is an item of its own in `response.input`, no content"
ALWAYS_BOTH = "a transcription session makes no responses"


def _probes() -> list[Probe]:
    probes: list[Probe] = []

    def add(event: str, path: str, *values: Any, **details: Any) -> None:
        probes.append(Probe(event, path, values, dialect=Dialect.BETA, **details))

    def both(path: str, *values: Any, **details: Any) -> None:
        for event, root in (("session.update", "session"), ("response.create", "response")):
            add(event, f"{root}.{path}", *values, **details)

    add("session.update", "", {"session": {}}, instead=NO_EVENT)
    add("response.create", "", {}, instead=NO_EVENT)
    both("instructions", "Speak like a pirate.")
    both("modalities", WRITTEN, SPOKEN)
    both("voice", "echo")
    both("output_audio_format", "pcm16", "g711_ulaw", "g711_alaw")
    both("max_response_output_tokens", 7, "inf")
    both("temperature", 1.1)
    both("tool_choice", "none")
    both("tools[].name", "look_up", instead="look_down", beside=FUNCTION)
    both("tools[].description", "Looks up a word.", beside=FUNCTION)
    both("tools[].parameters", {"type": "object", "properties": {"word": {"type": "string"}}}, beside=FUNCTION)
    add("session.update", "session.model", *MODELS, why=FROM_THE_URL)
    add("session.update", "session.speed", 1.25)
    add("session.update", "session.tracing", "auto", why=NO_TRACES)
    for key, value in (("workflow_name", "w"), ("group_id", "g"), ("metadata", {"a": 1})):
        add("session.update", f"session.tracing.{key}", value, why=NO_TRACES)
    expiry = {"client_secret": {"expires_after": {"anchor": "created_at", "seconds": 60}}}
    for key in ("anchor", "seconds"):
        path = f"session.client_secret.expires_after.{key}"
        add("session.update", path, expiry, at="session", instead={}, why=OF_REST)
    for kind, event in (("realtime", "session.update"), ("transcription", "transcription_session.update")):
        probes += _input_probes(event, kind)
    add("response.create", "response.conversation", "none", "auto")
    add("response.create", "response.metadata", {"topic": "tea"}, shown=True)
    add("conversation.item.create", "", {"item": ITEMS["message user"]}, instead=NO_EVENT)
    beside = {"item": ITEMS["message user"]}
    add("conversation.item.create", "previous_item_id", "root", beside=beside, setup=typed_two)
    probes += _item_probes("item", "conversation.item.create")
    probes += _item_probes("response.input[]", "response.create")
    return [*probes, *small_event_probes(Dialect.BETA)]


def _input_probes(event: str, kind: SessionKind) -> list[Probe]:
    probes: list[Probe] = []

    def add(path: str, *values: Any, **details: Any) -> None:
        probes.append(Probe(event, f"session.{path}", values, kind=kind, dialect=Dialect.BETA, **details))

    own = kind == "transcription"
    add("input_audio_format", "pcm16", "g711_ulaw", "g711_alaw")
    add("input_audio_noise_reduction.type", "near_field", "far_field", why=NO_DENOISER)
    add("input_audio_transcription.model", "whisper-1", "gpt-4o-transcribe", "gpt-4o-mini-transcribe")
    add("input_audio_transcription.language", "de")
    add("input_audio_transcription.prompt", "tea")
    add("turn_detection.type", "server_vad", "semantic_vad", instead=NO_EVENT)
    vad, judged = {"type": "server_vad"}, {"type": "semantic_vad"}
    add("turn_detection.threshold", 0.7, beside=vad)
    add("turn_detection.prefix_padding_ms", 100, beside=vad)
    add("turn_detection.silence_duration_ms", 700, beside=vad)
    add("turn_detection.eagerness", "low", "medium", "high", "auto", beside=judged)
    add("turn_detection.create_response", False, beside=vad, why=NOT_ANSWERED if own else "")
    add("turn_detection.interrupt_response", False, beside=vad, why=NOT_ANSWERED if own else "")
    if own:
        add("modalities", WRITTEN, SPOKEN, why=ALWAYS_BOTH)
        add("include", ["item.input_audio_transcription.logprobs"])
        for key, value in (("anchor", "created_at"), ("seconds", 60)):
            add(f"client_secret.expires_at.{key}", value, why=OF_REST)
        probes.append(Probe(event, "", ({"session": {}},), instead=NO_EVENT, kind=kind, dialect=Dialect.BETA))
    return probes


def _said_by_the_user(fields: dict[str, Any]) -> dict[str, Any]:
    """Complete a message of which only the content was given."""
    if "item" in fields:
        return {"item": {"type": "message", "role": "user", **fields["item"]}}
    (item,) = fields["response"]["input"]
    return {"response": {"input": [{"type": "message", "role": "user", **item}]}}


def _with_all(backend: ObedientBackend) -> None:
    typed_two(backend)
    with_a_call(backend)


def _item_probes(root: str, event: str) -> list[Probe]:
    probes: list[Probe] = []
    own = root == "item"
    call, output = ITEMS["function_call"], ITEMS["function_call_output"]
    said = ITEMS["message user"]

    def add(path: str, *values: Any, **details: Any) -> None:
        probes.append(Probe(event, f"{root}.{path}", values, dialect=Dialect.BETA, **details))

    def whole(path: str, *items: dict[str, Any], **details: Any) -> None:
        if own:
            add(path, *items, at="item", instead=NO_EVENT, **details)
        else:
            add(path, *({"input": [item]} for item in items), at="response", instead={"input": []}, **details)

    def with_input(*more: Any, first: bool) -> Any:
        def around(fields: dict[str, Any]) -> dict[str, Any]:
            given = fields["response"]["input"]
            return {**fields, "response": {"input": [*more, *given] if first else [*given, *more]}}

        return around

    after: dict[str, Any] = {"then": result_comes} if own else {"around": with_input(output, first=False)}
    before: dict[str, Any] = {"setup": with_a_call} if own else {"around": with_input(call, first=True)}
    other_call = {**call, "call_id": "call_9"}
    reference = [] if own else [{"type": "item_reference", "id": "u1"}]
    whole("type", said, other_call, *reference, output, setup=_with_all)
    roles = (("user", "input_text"), ("assistant", "text"), ("system", "input_text"))
    whole("role", *(message(role, kind) for role, kind in roles))
    parts = [("user", kind) for kind in ("input_text", "input_audio", "item_reference")]
    parts += [("assistant", kind) for kind in ("text", "audio")]
    contents = [message(role, kind) for role, kind in parts if own or kind != "audio"]
    whole("content[].type", *contents, why=ITEM_REFERENCE)
    add(
        "content[].id", "u1", beside={"type": "input_text", "text": "Hi."}, around=_said_by_the_user, why=ITEM_REFERENCE
    )
    spoken: dict[str, Any] = {"around": _said_by_the_user}
    add("content[].text", "Hi.", instead="Ho.", beside={"type": "input_text"}, **spoken)
    for key, one, other in (("audio", SPEECH, RECORDING), ("transcript", "One.", "Two.")):
        add(f"content[].{key}", one, instead=other, beside={"type": "input_audio"}, **spoken)
    add("id", "mine", beside=said, shown=own, why=SEEN_BY_NOBODY)
    add("object", "realtime.item", beside=said, why=HAS_NO_EFFECT)
    add("status", *STATES, beside=said, why=HAS_NO_EFFECT)
    add("name", "look_up", instead="look_down", beside=call, **after)
    add("arguments", "{}", instead='{"a": 1}', beside=call, **after)
    add("call_id", CALL, beside={key: value for key, value in call.items() if key != "call_id"}, **after)
    add("output", "Hot water.", instead="Cold water.", beside=output, **before)
    return probes


BETA_PROBES = _probes()
