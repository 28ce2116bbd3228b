"""conversation.item.create, delete, retrieve (RB-25, RB-32)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from protocol.backend_events import InputCleared, OutputAudio, ResponseStarted, SpeechStarted
from protocol.conversation import DELETED_REMEMBERED, Conversation

PNG = "data:image/png;base64,AAAA"


def message(role: str, *content: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": list(content), **fields}


def text(words: str) -> dict[str, Any]:
    return {"type": "input_text", "text": words}


def call(call_id: str, **fields: Any) -> dict[str, Any]:
    return {"type": "function_call", "name": "f", "arguments": "{}", "call_id": call_id, **fields}


def output(call_id: str, value: str = "7") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": value}


def order(talk: Any) -> list[str]:
    return [item.id for item in talk.session.conversation.items]


def test_a_created_item_is_added_and_done_with_its_predecessor(talk: Any) -> None:
    added, done = talk.user_types("hello")
    assert (added["type"], done["type"]) == ("conversation.item.added", "conversation.item.done")
    assert added["previous_item_id"] is None
    assert added["item"] == done["item"]
    assert added["item"] == {
        "id": "item_1",
        "object": "realtime.item",
        "type": "message",
        "status": "completed",
        "role": "user",
        "content": [{"type": "input_text", "text": "hello"}],
    }
    added, done = talk.user_types("again")
    assert added["previous_item_id"] == done["previous_item_id"] == "item_1"


@pytest.mark.parametrize(
    ("after", "expected", "previous"),
    [
        (None, ["a", "b", "new"], "b"),
        ("root", ["new", "a", "b"], None),
        ("a", ["a", "new", "b"], "a"),
        ("b", ["a", "b", "new"], "b"),
    ],
)
def test_an_item_goes_where_the_client_wants_it(talk: Any, after: str | None, expected: Any, previous: Any) -> None:
    for item_id in ("a", "b"):
        talk.user_types("x", id=item_id)
    item = message("user", text("x"), id="new")
    added, _ = talk.send("conversation.item.create", item=item, previous_item_id=after)
    assert added["previous_item_id"] == previous
    assert order(talk) == expected


def test_an_unknown_predecessor_or_a_taken_id_adds_nothing(talk: Any) -> None:
    talk.user_types("x", id="a")
    item = message("user", text("x"), id="new")
    error = talk.refused("conversation.item.create", item=item, previous_item_id="nope")
    assert (error["code"], error["param"]) == ("item_create_invalid_previous_item_id", "previous_item_id")
    error = talk.refused("conversation.item.create", item={**item, "id": "a"})
    assert (error["code"], error["param"]) == ("item_create_duplicate_item_id", "item.id")
    error = talk.refused("conversation.item.create", item={**item, "id": ""})
    assert error["param"] == "item.id"
    assert order(talk) == ["a"]


def test_an_item_that_is_to_follow_a_deleted_one_goes_where_that_stood(talk: Any) -> None:
    """LiveKit deletes a reply of which nothing was heard, and asks for the next one before it is told so."""
    for item_id in ("a", "b", "c"):
        talk.user_types("x", id=item_id)
    for item_id in ("c", "b"):
        talk.send("conversation.item.delete", item_id=item_id)
    created = {"item": message("user", text("x"), id="new"), "previous_item_id": "c"}
    added, done = talk.send("conversation.item.create", **created)
    assert added["previous_item_id"] == done["previous_item_id"] == "a"
    talk.send("conversation.item.delete", item_id="a")
    created = {"item": message("user", text("x"), id="first"), "previous_item_id": "b"}
    added, _ = talk.send("conversation.item.create", **created)
    assert added["previous_item_id"] is None
    assert order(talk) == ["first", "new"]


def test_finding_where_a_deleted_item_stood_looks_at_each_item_once_at_most() -> None:
    looks = 0

    class Watched:
        def __init__(self, name: str) -> None:
            self.name = name

        @property
        def id(self) -> str:
            nonlocal looks
            looks += 1
            return self.name

    conversation = Conversation("conv_1")
    for number in range(600):
        conversation.add(Watched(f"i{number}"))
    for number in range(599, 300, -1):  # each stood after the one that is deleted next
        conversation.delete(f"i{number}")
    looks = 0
    assert conversation.add(Watched("new"), "i599") == "i300"
    assert looks < 2 * 300


def test_an_item_created_anew_under_a_deleted_id_is_where_it_is_now(talk: Any) -> None:
    for item_id in ("a", "b"):
        talk.user_types("x", id=item_id)
    talk.send("conversation.item.delete", item_id="a")
    talk.user_types("x", id="a")
    created = {"item": message("user", text("x"), id="new"), "previous_item_id": "a"}
    added, _ = talk.send("conversation.item.create", **created)
    assert added["previous_item_id"] == "a"
    assert order(talk) == ["b", "a", "new"]


def test_where_deleted_items_stood_is_remembered_of_the_last_ones_only(talk: Any) -> None:
    talk.user_types("x", id="a")
    for number in range(DELETED_REMEMBERED + 1):
        talk.user_types("x", id=f"d{number}")
        talk.send("conversation.item.delete", item_id=f"d{number}")
    item = message("user", text("x"), id="new")
    error = talk.refused("conversation.item.create", item=item, previous_item_id="d0")
    assert error["code"] == "item_create_invalid_previous_item_id"
    added, _ = talk.send("conversation.item.create", item=item, previous_item_id="d1")
    assert added["previous_item_id"] == "a"


@pytest.mark.parametrize("item_id", ["a b", "ä", "a.b", "ab\n"])
def test_a_client_id_of_other_than_word_characters_and_hyphens_is_refused(talk: Any, item_id: str) -> None:
    error = talk.refused("conversation.item.create", item=message("user", text("x"), id=item_id))
    assert (error["code"], error["param"]) == ("invalid_value", "item.id")
    assert error["message"] == (
        "Invalid 'item.id': string does not match pattern. "
        "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
    )
    assert order(talk) == []


def test_a_client_id_of_32_characters_is_kept(talk: Any) -> None:
    talk.user_types("x", id="i" * 32)
    assert order(talk) == ["i" * 32]


@pytest.mark.parametrize(
    "item",
    [
        message("system", text("be brief")),
        message("user", text("look"), {"type": "input_image", "image_url": PNG, "detail": "low"}),
        message("user", {"type": "input_image", "image_url": PNG}),
        message("user", {"type": "input_audio", "transcript": "spoken before"}),
        message("assistant", {"type": "output_text", "text": "hi"}),
        message("user"),
        call("call_x"),
    ],
)
def test_an_item_is_shown_as_the_client_wrote_it(talk: Any, item: dict[str, Any]) -> None:
    added, _ = talk.send("conversation.item.create", item={**item, "id": "mine"})
    assert added["item"] == {**item, "id": "mine", "object": "realtime.item", "status": "completed"}
    assert talk.retrieved("mine") == added["item"]


def test_a_large_image_is_left_out_of_the_frames(talk: Any) -> None:
    image = {"type": "input_image", "image_url": PNG + "A" * 1_000_000}
    added, _ = talk.send("conversation.item.create", item=message("user", image))
    assert added["item"]["content"] == [{"type": "input_image"}]


@pytest.mark.parametrize(
    ("item", "code", "param"),
    [
        (message("user", {"type": "input_text"}), "missing_required_parameter", "item.content[0].text"),
        (
            message("assistant", {"type": "output_audio", "transcript": "x"}),
            "missing_required_parameter",
            "item.content[0].text",
        ),
        (message("user", text("a"), {"type": "input_audio"}), "missing_required_parameter", "item.content[1].audio"),
        (message("user", {"type": "input_audio", "audio": "?"}), "invalid_value", "item.content[0].audio"),
        (message("user", {"type": "input_audio", "audio": "\N{SNOWMAN}"}), "invalid_value", "item.content[0].audio"),
        (
            message("user", *[{"type": "input_audio", "audio": "AAAA"}] * 2),
            "invalid_value",
            "item.content[1].audio",
        ),
        (message("user", {"type": "input_image"}), "missing_required_parameter", "item.content[0].image_url"),
        (
            message("user", {"type": "input_image", "image_url": "http://10.0.0.1/"}),
            "invalid_value",
            "item.content[0].image_url",
        ),
    ],
)
def test_content_that_cannot_be_used_is_refused(talk: Any, item: dict[str, Any], code: str, param: str) -> None:
    error = talk.refused("conversation.item.create", item=item)
    assert (error["code"], error["param"]) == (code, param)
    assert order(talk) == []


def test_no_item_is_called_as_the_conversations_start_is(talk: Any) -> None:
    error = talk.refused("conversation.item.create", item={**message("user", text("hi")), "id": "root"})
    assert (error["code"], error["param"]) == ("invalid_value", "item.id")


def test_a_tool_result_for_a_call_that_never_happened_is_refused(talk: Any) -> None:
    error = talk.refused("conversation.item.create", item=output("call_does_not_exist", "42"))
    assert error["code"] == "invalid_tool_call_id"
    assert order(talk) == []
    talk.send("conversation.item.create", item=call("call_1"))
    assert len(talk.send("conversation.item.create", item=output("call_1"))) == 2


def test_a_call_id_is_made_where_there_is_none_and_taken_only_once(talk: Any) -> None:
    added, _ = talk.send("conversation.item.create", item={"type": "function_call", "name": "f", "arguments": ""})
    assert added["item"]["call_id"] == "call_1"
    assert talk.refused("conversation.item.create", item=call("call_1"))["param"] == "item.call_id"


def test_unicode_in_a_tool_result_arrives_unharmed(talk: Any) -> None:
    value = json.dumps({"名前": "山田", "град": "Київ", "e": "🫖"}, ensure_ascii=False)
    talk.send("conversation.item.create", item=call("call_1"))
    added, _ = talk.send("conversation.item.create", item=output("call_1", value))
    assert added["item"]["output"] == value
    assert talk.retrieved(added["item"]["id"])["output"] == value


def test_a_deleted_item_is_gone(talk: Any) -> None:
    talk.user_types("x", id="a")
    talk.user_types("y", id="b")
    (deleted,) = talk.send("conversation.item.delete", item_id="a")
    assert (deleted["type"], deleted["item_id"]) == ("conversation.item.deleted", "a")
    assert order(talk) == ["b"]
    talk.user_types("x", id="a")
    assert order(talk) == ["b", "a"]


def test_an_unknown_item_is_named_in_the_error(talk: Any) -> None:
    error = talk.refused("conversation.item.delete", item_id="yo")
    assert error["code"] == "item_delete_invalid_item_id"
    assert error["message"] == "Error deleting item: the item with id 'yo' does not exist."
    assert error["param"] is None
    assert talk.refused("conversation.item.retrieve", item_id="yo")["code"] == "item_retrieve_invalid_item_id"


def test_the_id_of_speech_that_was_cleared_is_held_no_longer_than_until_the_next_speech(talk: Any) -> None:
    talk.backend(SpeechStarted("item_u1", 0), InputCleared(), SpeechStarted("item_u2", 48_000))
    assert len(talk.user_types("mine now", id="item_u1")) == 2
    item = message("user", text("x"), id="item_u2")
    assert talk.refused("conversation.item.create", item=item)["code"] == "item_create_duplicate_item_id"


def test_of_an_item_that_is_deleted_while_the_agent_speaks_no_audio_is_kept(talk: Any) -> None:
    talk.backend(ResponseStarted("r"), OutputAudio("r", "item_a1", bytes(960)))
    talk.send("conversation.item.delete", item_id="item_a1")
    talk.backend(OutputAudio("r", "item_a1", bytes(960)))
    talk.user_types("mine now", id="item_a1")
    (part,) = talk.retrieved("item_a1")["content"]
    assert "audio" not in part
