"""What a client may make the session keep, and how large the events that show it may become."""

from __future__ import annotations

import json
from typing import Any

import pytest

from protocol import conversation as conversation_module
from protocol.wire_rules import MAX_FRAME_BYTES

CONTROL = "\x01"
"""A character that takes six bytes as JSON."""


def tool(n: int, description: str) -> dict[str, Any]:
    return {"type": "function", "name": f"tool_{n}", "description": description, "parameters": {}}


def test_a_session_that_no_client_could_read_is_refused_whole(talk: Any) -> None:
    error = talk.refused("session.update", session={"type": "realtime", "instructions": CONTROL * 200_000})
    assert (error["code"], error["param"]) == ("event_too_large", "session")
    error = talk.refused(
        "session.update", session={"type": "realtime", "tools": [tool(n, "x" * 12_000) for n in range(100)]}
    )
    assert error["code"] == "event_too_large"
    assert talk.session.settings.tools == ()


def test_the_largest_session_that_is_accepted_fits_into_a_frame(talk: Any) -> None:
    (updated,) = talk.update(instructions="x" * 256 * 1024, tools=[tool(n, "x" * 11_000) for n in range(60)])
    assert len(json.dumps(updated)) < 2**20


def test_an_item_that_no_client_could_read_is_refused(talk: Any) -> None:
    parts = [{"type": "input_text", "text": "x" * 250_000}] * 5
    error = talk.refused("conversation.item.create", item={"type": "message", "role": "user", "content": parts})
    assert (error["code"], error["param"]) == ("event_too_large", "item")
    added, _ = talk.send("conversation.item.create", item={"type": "message", "role": "user", "content": parts[:4]})
    assert len(json.dumps(added)) <= MAX_FRAME_BYTES + 1024


LONG_KEY = "k" * 2**20


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("response.create", {"response": {"metadata": {LONG_KEY: 1}}}),
        ("session.update", {"session": {"type": "realtime", "prompt": {"id": "p", "variables": {LONG_KEY: 1}}}}),
        ("session.update", {"session": {"type": "realtime", LONG_KEY: 1}}),
    ],
)
def test_an_error_repeats_no_more_than_a_little_of_a_clients_key(talk: Any, kind: str, fields: dict[str, Any]) -> None:
    error = talk.refused(kind, **fields)
    assert error["param"].count("k") >= 40
    assert len(json.dumps(error)) < 1_000


@pytest.mark.parametrize("voice", ["v" * 257, {"id": "v" * 257}])
def test_a_voice_that_every_response_would_have_to_show_is_bounded(talk: Any, voice: Any) -> None:
    audio = {"output": {"voice": voice}}
    for kind, fields in (
        ("response.create", {"response": {"audio": audio}}),
        ("session.update", {"session": {"type": "realtime", "audio": audio}}),
    ):
        assert talk.refused(kind, **fields)["code"] == "string_above_max_length"
    talk.update(audio={"output": {"voice": "v" * 256}})


def test_a_conversation_takes_no_more_items_than_it_may_until_one_is_deleted(
    talk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation_module, "MAX_CLIENT_ITEMS", 2)
    for n in range(2):
        talk.user_types("hello", id=f"u{n}")
    content = [{"type": "input_text", "text": "one too many"}]
    item = {"type": "message", "role": "user", "content": content}
    assert talk.refused("conversation.item.create", item=item)["code"] == "conversation_full"
    talk.user_says("spoken", "What the user says is always heard.")
    talk.send("conversation.item.delete", item_id="u0")
    assert len(talk.send("conversation.item.create", item=item)) == 2


def test_a_conversation_takes_no_more_bytes_than_it_may(talk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation_module, "MAX_CLIENT_ITEM_BYTES", 2**20)
    image = {"type": "input_image", "image_url": "data:image/png;base64," + "A" * 600_000}
    item = {"type": "message", "role": "user", "content": [image]}
    talk.send("conversation.item.create", item={**item, "id": "u0"})
    assert talk.refused("conversation.item.create", item=item)["code"] == "conversation_full"
    talk.send("conversation.item.delete", item_id="u0")
    assert len(talk.send("conversation.item.create", item=item)) == 2
