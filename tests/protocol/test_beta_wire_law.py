"""The beta law finds what kills a beta client."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from protocol.beta.wire_law import BetaSessionLaw, beta_violations
from protocol.wire import Dialect

Change = Callable[[dict[str, Any]], object]


def stream(new_talk: Callable[..., Any]) -> list[dict[str, Any]]:
    talk = new_talk(dialect=Dialect.BETA)
    sent: list[dict[str, Any]] = talk.open()
    sent += talk.user_types("Hello.", id="item_u")
    sent += talk.agent_says("resp_1", "item_a", ("One.", 24_000))
    return sent


def one(events: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    return copy.deepcopy([event for event in events if event["type"] == kind][-1])


def session_violations(events: list[dict[str, Any]]) -> list[str]:
    law = BetaSessionLaw()
    return [problem for event in events for problem in law.violations(event)]


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("session.created", lambda event: event.pop("event_id")),
        ("session.created", lambda event: event.update(event_id="")),
        ("session.created", lambda event: event["session"].update(type="realtime")),
        ("session.created", lambda event: event["session"].pop("temperature")),
        ("session.created", lambda event: event["session"].update(modalities=["audio"])),
        ("session.created", lambda event: event["session"].update(output_audio_format={"type": "audio/pcm"})),
        ("conversation.item.created", lambda event: event["item"].pop("content")),
        ("conversation.item.created", lambda event: event["item"].update(content=None)),
        ("conversation.item.created", lambda event: event.pop("previous_item_id")),
        ("conversation.item.created", lambda event: event.update(type="conversation.item.added")),
        ("response.created", lambda event: event["response"].update(output=None)),
        ("response.created", lambda event: event["response"].update(audio={"output": {}})),
        ("response.content_part.added", lambda event: event["part"].pop("transcript")),
        ("response.content_part.added", lambda event: event["part"].update(transcript=None)),
        ("response.content_part.added", lambda event: event["part"].pop("type")),
        ("response.audio.delta", lambda event: event.update(delta="AAAA")),
        ("response.audio.delta", lambda event: event.update(delta="AA==")),
        ("response.audio.delta", lambda event: event.update(type="response.output_audio.delta")),
        ("response.output_item.done", lambda event: event["item"]["content"][0].update(type="output_audio")),
        ("response.output_item.done", lambda event: event["item"].pop("status")),
        ("response.done", lambda event: event["response"].update(usage=None)),
        ("response.done", lambda event: event["response"].update(status="cancelled")),
        ("response.done", lambda event: event["response"]["usage"]["input_token_details"].update(image_tokens=0)),
    ],
)
def test_a_broken_event_is_found(new_talk: Callable[..., Any], kind: str, change: Change) -> None:
    event = one(stream(new_talk), kind)
    assert beta_violations(event) == []
    change(event)
    assert beta_violations(event)


def test_a_function_call_needs_its_arguments() -> None:
    call = {"id": "i", "object": "realtime.item", "type": "function_call", "status": "in_progress"}
    event = {"type": "response.output_item.added", "event_id": "e", "response_id": "r", "output_index": 0}
    whole = {**call, "call_id": "c", "name": "f", "arguments": ""}
    assert beta_violations({**event, "item": whole}) == []
    for key in ("call_id", "name", "arguments"):
        assert beta_violations({**event, "item": {name: value for name, value in whole.items() if name != key}})
        assert beta_violations({**event, "item": {**whole, key: None}})


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("response.created", "response.output_item.added"),
        ("conversation.item.created", "response.content_part.added"),
        ("response.content_part.added", "response.audio.delta"),
        ("response.output_item.done", "response.done"),
    ],
)
def test_a_wrong_order_is_found(new_talk: Callable[..., Any], first: str, second: str) -> None:
    events = stream(new_talk)
    assert session_violations(events) == []
    kinds = [event["type"] for event in events]
    at = [index for index, kind in enumerate(kinds) if kind == first][-1]
    moved = events[:at] + events[at + 1 :]
    after = [event["type"] for event in moved].index(second) + 1
    assert session_violations([*moved[:after], events[at], *moved[after:]])


def test_an_event_of_another_dialect_or_place_is_found(new_talk: Callable[..., Any]) -> None:
    assert beta_violations({"type": "conversation.item.done", "event_id": "e"})
    assert beta_violations({"event_id": "e"})
    assert beta_violations({"type": "output_audio_buffer.started", "event_id": "e", "response_id": "r"})
    delta = one(stream(new_talk), "response.audio.delta")
    assert beta_violations({**delta, "delta": "?"}) == ["delta is not standard base64"]


def test_an_unknown_or_repeated_item_is_found(new_talk: Callable[..., Any]) -> None:
    events = stream(new_talk)
    deleted = {"type": "conversation.item.deleted", "event_id": "e1", "item_id": "nobody"}
    assert session_violations([*events, deleted]) == ["conversation.item.deleted for an unknown item"]
    again = {**one(events, "conversation.item.created"), "event_id": "e2"}
    assert session_violations([*events, again]) == ["conversation.item.created comes twice for one item"]
    done = {**one(events, "response.done"), "event_id": "e3"}
    assert session_violations([*events, done]) == ["response.done without its response.created"]


def test_an_event_id_comes_once(new_talk: Callable[..., Any]) -> None:
    events = stream(new_talk)
    events[-1]["event_id"] = events[0]["event_id"]
    assert session_violations(events) == [f"event_id {events[0]['event_id']} comes twice"]


def test_a_sample_of_g711_is_one_byte(new_talk: Callable[..., Any]) -> None:
    events = copy.deepcopy(stream(new_talk))
    delta = next(event for event in events if event["type"] == "response.audio.delta")
    delta["delta"] = "AAAA"  # three bytes
    assert session_violations(events) == ["delta does not hold whole samples"]
    created = next(event for event in events if event["type"] == "response.created")
    created["response"]["output_audio_format"] = "g711_ulaw"
    assert session_violations(events) == []


def test_an_out_of_band_response_has_no_items_in_the_conversation(new_talk: Callable[..., Any]) -> None:
    events = [event for event in stream(new_talk) if event["type"] != "conversation.item.created"]
    assert session_violations(events)
    for event in events:
        if "response" in event:
            event["response"]["conversation_id"] = None
    assert session_violations(events) == []


def test_the_id_of_a_deleted_item_may_be_used_again(new_talk: Callable[..., Any]) -> None:
    talk = new_talk(dialect=Dialect.BETA)
    events = [*talk.open(), *talk.user_types("Hello.", id="item_u")]
    again = [*talk.send("conversation.item.delete", item_id="item_u"), *talk.user_types("Hello.", id="item_u")]
    assert session_violations([*events, *again]) == []
    assert session_violations([*events, again[1]]) == ["conversation.item.created comes twice for one item"]
