"""Every client event, valid and not, in every state of a full-duplex conversation: performed, or answered by an error.

The tables say what an event gives in a state; the cases are their product. Afterwards the session goes on: the next
spoken turn is answered, or where there is no model any more, answered as failed.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from gateway.turns.duplex_renewal import DuplexRenewal
from gateway.turns.duplex_vocabulary import DuplexSettings
from models.engines.scripted_duplex import DuplexReply
from protocol.client_events import APPEND
from protocol.client_shapes import SHAPES
from tests.gateway.fed_time import FedTime, settle
from tests.gateway.native_session import NativeSession, native_session
from tests.gateway.scripted_cascade import quiet, voice

STORY = DuplexReply("once upon a time there was a king who had three daughters")
TOOL = {"type": "function", "name": "get_time", "description": "", "parameters": {"type": "object"}}
ASKS_THE_TIME = DuplexReply("It is {result}.", call=("get_time", {}))
ANSWERED_WITHIN_MS = 6_000
"""Fed time within which whatever an event gives has come: longer than START_TIMEOUT, within which a response begins."""


async def play(native: NativeSession, *sounds: bytes) -> None:
    """Append sounds in pieces of 80 ms, four times as fast to test as 20 ms."""
    pcm = b"".join(sounds)
    for at in range(0, len(pcm), 3_840):
        await native.running.time.advance(80)
        await native.running.append(pcm[at : at + 3_840])
    await settle()


# --- states ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class State:
    """How to get there, and what is true there."""

    name: str
    enter: Callable[[NativeSession], Awaitable[None]]
    session: dict[str, Any] = field(default_factory=dict)
    replies: tuple[DuplexReply, ...] = (DuplexReply("I heard you."),)
    begun: bool = True
    speaking: bool = False
    down: bool = False
    calls: bool = False
    items: bool = True
    buffered: bool = True

    @asynccontextmanager
    async def entered(self) -> AsyncIterator[NativeSession]:
        async with native_session(FedTime(), *self.replies, **self.session) as native:
            await native.send("session.update", session={"type": "realtime", "tools": [TOOL]})
            await self.enter(native)
            yield native


async def nothing(_native: NativeSession) -> None:
    pass


async def silence(native: NativeSession) -> None:
    await play(native, quiet(800))


async def exchange(native: NativeSession) -> None:
    await play(native, quiet(400), voice(800), quiet(2_400))


async def user_speaks(native: NativeSession) -> None:
    await exchange(native)
    await play(native, voice(800))


async def agent_speaks(native: NativeSession) -> None:
    await play(native, quiet(400), voice(800), quiet(1_200))


async def both_speak(native: NativeSession) -> None:
    await agent_speaks(native)
    await play(native, voice(480))


async def calls(native: NativeSession) -> None:
    await play(native, quiet(400), voice(800), quiet(960))


async def asks_for_patience(native: NativeSession) -> None:
    await calls(native)
    await play(native, quiet(480))


async def fails(native: NativeSession) -> None:
    await exchange(native)
    native.model.open_failures = 99
    await play(native, quiet(9_600))
    assert native.backend._core.is_down


async def is_renewed(native: NativeSession) -> None:
    await exchange(native)
    await play(native, quiet(2_400))
    assert len(native.model.streams) == 2
    native.backend._renewal = DuplexRenewal()  # what follows is not to be cut by the next end
    native.backend._renewal.opening(native.running.time.now())


async def by_hand(native: NativeSession) -> None:
    await native.send("session.update", session={"type": "realtime", "audio": {"input": {"turn_detection": None}}})
    await exchange(native)


STATES = (
    State("before any audio", nothing, begun=False, items=False, buffered=False),
    State("the prompt is read", silence, {"opens_in_s": 3.0}, begun=False, items=False),
    State("idle", exchange),
    State("the user speaks", user_speaks),
    State("the agent speaks", agent_speaks, replies=(STORY, DuplexReply("Yes.")), speaking=True),
    State("both speak", both_speak, {"yield_after_ms": 9_000}, (STORY, DuplexReply("Yes.")), speaking=True),
    State("a call is open", calls, replies=(ASKS_THE_TIME, DuplexReply("Yes.")), calls=True),
    State(
        "the agent asks for patience",
        asks_for_patience,
        {"settings": DuplexSettings(on_hold="one moment please while I look at the clock on the wall")},
        (ASKS_THE_TIME, DuplexReply("Yes.")),
        speaking=True,
        calls=True,
    ),
    State("the model has failed", fails, {"fails_at_ms": 4_000}, down=True),
    State("the conversation was renewed", is_renewed, {"longest_s": 7.0}),
    State("turns by hand", by_hand),
)


# --- events ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gives:
    """What an event gives: an event of `kind`, or an error of `code` naming `param`; `status` of a response's end."""

    kind: str = ""
    code: str = ""
    param: str | None = None
    status: str = ""


def error(code: str, param: str | None = None) -> Gives:
    return Gives(code=code, param=param)


@dataclass(frozen=True)
class Probe:
    """A client event; `fields` may depend on the session, `gives` on the state, None where it makes no sense there."""

    kind: str
    what: str
    fields: Callable[[NativeSession], dict[str, Any]]
    gives: Callable[[State], Gives | None]


def probe(kind: str, what: str, gives: Gives | Callable[[State], Gives | None], **fields: Any) -> Probe:
    return Probe(kind, what, lambda _native: fields, gives if callable(gives) else lambda _state: gives)


def update(what: str, gives: Gives | Callable[[State], Gives | None], **session: Any) -> Probe:
    return probe("session.update", what, gives, session={"type": "realtime", **session})


def message(what: str, gives: Gives | Callable[[State], Gives | None], role: str, **part: Any) -> Probe:
    item = {"type": "message", "role": role, "content": [part]}
    return probe("conversation.item.create", what, gives, item=item)


def request(what: str, gives: Gives | Callable[[State], Gives | None], **response: Any) -> Probe:
    return probe("response.create", what, gives, response=response)


def before(gives: Gives, param: str) -> Callable[[State], Gives]:
    """`gives` as long as the model has not begun to converse, an error afterwards."""
    return lambda state: error("unsupported_value", param) if state.begun else gives


def a_response(state: State) -> Gives:
    if state.down:
        return Gives("response.done", status="failed")
    if state.speaking:
        return error("conversation_already_has_active_response")
    return Gives("response.done", status="" if state.calls else "completed")


def told(native: NativeSession, kind: str) -> dict[str, Any]:
    return next(event for event in native.running.sent if event["type"] == kind)


def agent_item(native: NativeSession) -> str:
    found = [event["item"] for event in native.running.sent if event["type"] == "response.output_item.added"]
    return next(item["id"] for item in found if item["type"] == "message")


def agent_has_spoken(gives: Gives) -> Callable[[State], Gives | None]:
    return lambda state: gives if state.items and (state.speaking or not state.calls) else None


def of_item(kind: str, gives: Gives, **fields: Any) -> Probe:
    def named(native: NativeSession) -> dict[str, Any]:
        return {"item_id": agent_item(native), **fields}

    return Probe(kind, "known item", named, agent_has_spoken(gives))


def result_of_the_call(native: NativeSession) -> dict[str, Any]:
    call_id = told(native, "response.function_call_arguments.done")["call_id"]
    return {"item": {"type": "function_call_output", "call_id": call_id, "output": "noon"}}


UPDATED, ADDED = Gives("session.updated"), Gives("conversation.item.done")
UNKNOWN = {"type": "function_call_output", "call_id": "call_unknown", "output": "noon"}
MCP = {"type": "mcp", "server_label": "shop", "server_url": "https://shop.example/mcp"}

PROBES = (
    update("what cannot be honoured", UPDATED, max_output_tokens=9, audio={"output": {"voice": "ash", "speed": 1.3}}),
    update("tools unchanged", UPDATED, tools=[TOOL], tool_choice="required"),
    update("other instructions", before(UPDATED, "session.instructions"), instructions="Be a pirate."),
    update("other tools", before(UPDATED, "session.tools"), tools=[]),
    update("a server of tools", error("unsupported_value", "session.tools"), tools=[MCP]),
    update("unknown field", error("unknown_parameter", "session.mood"), mood="good"),
    probe("session.update", "no session", error("missing_required_parameter", "session")),
    probe("session.update", "other kind", error("invalid_model", "session.type"), session={"type": "transcription"}),
    probe(APPEND, "sound", Gives(), audio=base64.b64encode(quiet(80)).decode()),
    probe(APPEND, "no base64", error("invalid_value", "audio"), audio="???"),
    probe(APPEND, "no audio", error("missing_required_parameter", "audio")),
    probe(
        "input_audio_buffer.commit",
        "commit",
        lambda state: (
            Gives("input_audio_buffer.committed") if state.buffered else error("input_audio_buffer_commit_empty")
        ),
    ),
    probe("input_audio_buffer.commit", "unknown field", error("unknown_parameter", "now"), now=True),
    probe("input_audio_buffer.clear", "clear", Gives("input_audio_buffer.cleared")),
    probe("input_audio_buffer.clear", "unknown field", error("unknown_parameter", "now"), now=True),
    probe("output_audio_buffer.clear", "not on a WebSocket", error("invalid_value", "type")),
    message("user text", before(ADDED, "item"), "user", type="input_text", text="I am Ann."),
    message("agent text", before(ADDED, "item"), "assistant", type="output_text", text="Hello."),
    message("system text", before(ADDED, "item"), "system", type="input_text", text="Be brief."),
    message("audio", error("unsupported_value", "item.content"), "user", type="input_audio", audio="AAAA"),
    message(
        "image",
        error("unsupported_value", "item.content"),
        "user",
        type="input_image",
        image_url="data:image/png;base64,AAAA",
    ),
    message("no text", error("missing_required_parameter", "item.content[0].text"), "user", type="input_text"),
    probe("conversation.item.create", "no such call", error("invalid_tool_call_id", "item.call_id"), item=UNKNOWN),
    probe("conversation.item.create", "no item", error("missing_required_parameter", "item")),
    Probe(
        "conversation.item.create",
        "a result",
        result_of_the_call,
        lambda state: Gives("response.done", status="completed") if state.calls else None,
    ),
    of_item("conversation.item.retrieve", Gives("conversation.item.retrieved")),
    probe("conversation.item.retrieve", "unknown", error("item_retrieve_invalid_item_id"), item_id="item_x"),
    of_item("conversation.item.delete", Gives("conversation.item.deleted")),
    probe("conversation.item.delete", "unknown", error("item_delete_invalid_item_id"), item_id="item_x"),
    of_item(
        "conversation.item.truncate", Gives("conversation.item.truncated"), content_index=0, audio_end_ms=80
    ),
    of_item("conversation.item.truncate", error("invalid_value", "audio_end_ms"), content_index=0, audio_end_ms=90_000),
    probe(
        "conversation.item.truncate",
        "unknown",
        error("item_truncate_invalid_item_id"),
        item_id="item_x",
        content_index=0,
        audio_end_ms=0,
    ),
    probe(
        "conversation.item.truncate",
        "no item",
        error("missing_required_parameter", "item_id"),
        content_index=0,
        audio_end_ms=0,
    ),
    probe("response.create", "bare", a_response),
    request("of its own parameters", a_response, metadata={"mine": "yes"}, max_output_tokens=9),
    request("beside the conversation", error("unsupported_value", "response.conversation"), conversation="none"),
    request("another input", error("unsupported_value", "response.input"), input=[]),
    request("other tools", error("unsupported_value", "response.tools"), tools=[]),
    request(
        "other instructions",
        lambda state: before(a_response(state), "response.instructions")(state),
        instructions="Greet the user.",
    ),
    request("two modalities", error("invalid_value", "response.output_modalities"),
            output_modalities=["text", "audio"]),  # fmt: skip
    probe(
        "response.cancel",
        "cancel",
        lambda state: (
            Gives("response.done", status="cancelled") if state.speaking else error("response_cancel_not_active")
        ),
    ),
    probe("response.cancel", "of another", error("response_cancel_not_active"), response_id="resp_x"),
    probe("response.cancel", "unknown field", error("unknown_parameter", "now"), now=True),
    probe("conversation.item.create_all", "no such event", error("invalid_value", "type")),
)  # fmt: skip


def test_every_client_event_of_the_protocol_is_probed_rightly_and_wrongly() -> None:
    for kind in (*SHAPES, APPEND):
        if kind == "output_audio_buffer.clear":  # on a WebSocket it is always an error
            continue
        results = [one.gives(state) for one in PROBES if one.kind == kind for state in STATES]
        assert any(result is not None and not result.code for result in results), kind
        assert any(result is not None and result.code for result in results), kind


PERFORMED = [
    pytest.param(state, one, id=f"{state.name}: {one.kind}, {one.what}")
    for state in STATES
    for one in PROBES
    if (given := one.gives(state)) is not None and not given.code
]


async def send(native: NativeSession, one: Probe) -> int:
    """Send the probe's event and return how many events the client had got before."""
    await native.running.read()
    seen = len(native.running.sent)
    event = {"type": one.kind, "event_id": "event_probe", **one.fields(native)}
    await native.running.session.receive_text(json.dumps(event))
    await settle()
    return seen


@pytest.mark.parametrize(("state", "one"), PERFORMED)
async def test_what_can_be_done_is_done_within_its_time_and_the_session_goes_on(state: State, one: Probe) -> None:
    expected = one.gives(state)
    assert expected is not None
    async with state.entered() as native:
        heard = native.backend._pace.clock.received
        seen = await send(native, one)
        if not expected.kind:
            assert native.backend._pace.clock.received > heard
        for _ in range(ANSWERED_WITHIN_MS // 80):
            await native.running.read()
            if not expected.kind or any(_is(answer, expected) for answer in native.running.sent[seen:]):
                break
            await play(native, quiet(80))
        else:
            raise AssertionError(f"no {expected.kind}")
        await play(native, quiet(1_600))
        assert await native.told("error") == []
        await _answers_the_next_turn(native, state)


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name)
async def test_what_cannot_be_done_is_answered_at_once_by_one_error_and_the_session_goes_on(state: State) -> None:
    async with state.entered() as native:
        assert await native.told("error") == []
        for one in PROBES:
            expected = one.gives(state)
            if expected is None or not expected.code:
                continue
            seen = await send(native, one)
            await native.running.read()
            (answer,) = native.running.sent[seen:]
            assert answer["type"] == "error", one
            error = answer["error"]
            assert (error["type"], error["code"], error["param"], error["event_id"]) == (
                "invalid_request_error",
                expected.code,
                expected.param,
                "event_probe",
            ), one
        await _answers_the_next_turn(native, state)


def _is(answer: dict[str, Any], expected: Gives) -> bool:
    if answer["type"] != expected.kind:
        return False
    return not expected.status or answer["response"]["status"] == expected.status


async def _answers_the_next_turn(native: NativeSession, state: State) -> None:
    before = len(await native.told("response.done"))
    await play(native, quiet(2_400), voice(1_200), quiet(12_000 if state.calls else 4_000 if state.speaking else 2_400))
    ended = [done["response"] for done in await native.told("response.done")][before:]
    assert ended, "the next turn is not answered"
    assert ended[-1]["status"] == ("failed" if state.down else "completed")
    assert len(await native.told("response.created")) == len(await native.told("response.done"))
    committed = [event["item_id"] for event in await native.told("input_audio_buffer.committed")]
    assert len(committed) == len(set(committed))
