"""What a language model is told of the conversation (RB-25, RB-26, RB-32)."""

from __future__ import annotations

import pytest

from protocol.history import CUT_OFF_MARK, chat_messages, chat_tool_choice, chat_tools
from protocol.items import FunctionCall, FunctionCallOutput, HeardPart, ImagePart, Item, Message, TextPart
from protocol.speech import SpeechPart

PNG = "data:image/png;base64,AAAA"


def typed(text: str) -> Message:
    return Message("t", "user", [TextPart("input_text", text)])


def said(transcript: str | None) -> Message:
    return Message("s", "user", [HeardPart(transcript)])


def spoke(text: str, *, heard: int | None = None) -> Message:
    speech = SpeechPart(text, audio_sent=100, gateway_cut=heard, whole=True)
    speech.mark(len(text), 100)
    return Message("a", "assistant", [speech])


def call(call_id: str, **fields: str) -> FunctionCall:
    return FunctionCall(f"item_{call_id}", call_id, fields.get("name", "f"), fields.get("arguments", "{}"))


def result(call_id: str, output: str = "7") -> FunctionCallOutput:
    return FunctionCallOutput(f"out_{call_id}", call_id, output)


def told(*items: Item) -> list[tuple[object, ...]]:
    """Return the messages in short: role, then content, called ids or the answered id."""
    short: list[tuple[object, ...]] = []
    for message in chat_messages("", items):
        row = [message["role"]] + [message[key] for key in ("tool_call_id", "content") if message.get(key) is not None]
        short.append((*row, *(tool_call["id"] for tool_call in message.get("tool_calls", []))))
    return short


def test_instructions_come_first_and_none_give_no_message() -> None:
    assert chat_messages("Be brief.", [typed("hi")]) == (
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
    )
    assert chat_messages("", []) == ()


def test_system_messages_stay_in_place() -> None:
    system = Message("x", "system", [TextPart("input_text", "Now French.")])
    assert told(typed("a"), spoke("b"), system, typed("c")) == [
        ("user", "a"),
        ("assistant", "b"),
        ("system", "Now French."),
        ("user", "c"),
    ]


def test_adjacent_user_items_are_one_message() -> None:
    assert told(said("I would like"), said(None), said(""), said("a table."), typed("(for two)")) == [
        ("user", "I would like\na table.\n(for two)")
    ]


def test_a_reply_that_nobody_heard_is_left_out() -> None:
    assert told(said("Tell me"), spoke("Once upon a time", heard=0), said("about tea.")) == [
        ("user", "Tell me\nabout tea.")
    ]


def test_a_reply_cut_short_holds_the_heard_words_and_says_so() -> None:
    assert told(spoke("One two three four", heard=50), spoke("whole", heard=100)) == [
        ("assistant", f"One two{CUT_OFF_MARK}\nwhole")
    ]


def test_a_text_reply_is_whole() -> None:
    assert told(Message("a", "assistant", [TextPart("output_text", "Hi.")], "incomplete")) == [("assistant", "Hi.")]


def test_images_are_parts_beside_the_text() -> None:
    look = Message(
        "i", "user", [TextPart("input_text", "look"), HeardPart(None), ImagePart(PNG, "low"), ImagePart(PNG)]
    )
    image = {"type": "image_url", "image_url": {"url": PNG}}
    low = {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}}
    (message,) = chat_messages("", [typed("here"), look, typed("well?")])
    assert message["content"] == [
        {"type": "text", "text": "here"},
        {"type": "text", "text": "look"},
        low,
        image,
        {"type": "text", "text": "well?"},
    ]
    (message,) = chat_messages("", [look])
    assert message["content"] == [{"type": "text", "text": "look"}, low, image]


def test_both_calls_of_a_reply_are_one_message_whatever_order_the_results_come_in() -> None:
    assert told(typed("weather and time"), call("w"), call("t"), result("t"), result("w")) == [
        ("user", "weather and time"),
        ("assistant", "w", "t"),
        ("tool", "w", "7"),
        ("tool", "t", "7"),
    ]


def test_calls_one_after_the_other_stay_apart() -> None:
    assert told(call("a"), result("a"), call("b"), result("b")) == [
        ("assistant", "a"),
        ("tool", "a", "7"),
        ("assistant", "b"),
        ("tool", "b", "7"),
    ]


def test_words_before_a_call_are_part_of_its_message() -> None:
    assert told(spoke("Let me see."), call("a"), result("a"), spoke("Sunny.")) == [
        ("assistant", "Let me see.", "a"),
        ("tool", "a", "7"),
        ("assistant", "Sunny."),
    ]


def test_a_call_without_a_result_and_a_result_without_a_call_are_left_out() -> None:
    assert told(typed("x"), call("a"), call("b"), result("b"), result("gone"), typed("y")) == [
        ("user", "x"),
        ("assistant", "b"),
        ("tool", "b", "7"),
        ("user", "y"),
    ]
    broken = FunctionCall("i", "c", "f", "{", "incomplete")
    assert told(broken, result("c")) == []


def test_a_result_that_comes_late_stands_with_its_call() -> None:
    assert told(call("a"), typed("still there?"), spoke("Yes."), result("a")) == [
        ("assistant", "a"),
        ("tool", "a", "7"),
        ("user", "still there?"),
        ("assistant", "Yes."),
    ]


def test_a_result_is_told_character_for_character() -> None:
    output = '{"名前":"山田","e":"🫖"}'
    messages = chat_messages("", [call("a", name="get", arguments=""), result("a", output)])
    assert messages[0] == {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "get", "arguments": "{}"}}],
    }
    assert messages[1] == {"role": "tool", "tool_call_id": "a", "content": output}


def test_tools_get_the_nested_shape() -> None:
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}}
    flat = [
        {"type": "function", "name": "w", "description": "d", "parameters": parameters},
        {"type": "function", "name": "t"},
    ]
    assert chat_tools(flat) == (
        {"type": "function", "function": {"name": "w", "description": "d", "parameters": parameters}},
        {
            "type": "function",
            "function": {"name": "t", "description": "", "parameters": {"type": "object", "properties": {}}},
        },
    )


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("required", "required"),
        ({"type": "function", "name": "w"}, {"type": "function", "function": {"name": "w"}}),
        ({"type": "function", "name": "gone"}, "auto"),
        ({"type": "mcp", "server_label": "s"}, "auto"),
    ],
)
def test_a_choice_of_a_tool_that_is_not_there_means_auto(choice: object, expected: object) -> None:
    assert chat_tool_choice(choice, [{"name": "w"}]) == expected  # a parametrized union
