import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.engines.call_syntax import Call
from models.engines.written_calls import HELD_CHARACTERS, LONGEST_CALL, WrittenCalls, known_tools

TOOLS = known_tools(
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": properties}}}
    for name, properties in {
        "get_weather": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "stop": {},
    }.items()
)
PARIS = ("get_weather", {"city": "Paris"})
ROME = ("get_weather", {"city": "Rome"})
STOP: tuple[str, dict[str, Any]] = ("stop", {})


def found(*pieces: str) -> tuple[str, list[tuple[str, dict[str, Any]]], bool]:
    """Return the text to say, the calls and whether one was broken, and check that nothing is kept back."""
    written = WrittenCalls(TOOLS)
    parts = [part for piece in pieces for part in written.feed(piece)] + written.end()
    assert not written.holding
    calls = [(part.name, json.loads(part.arguments)) for part in parts if isinstance(part, Call)]
    return "".join(part for part in parts if isinstance(part, str)), calls, written.broken


WRITTEN = {
    "bare": '{"name": "get_weather", "arguments": {"city": "Paris"}}',
    "llama's word": '{"name": "get_weather", "parameters": {"city": "Paris"}}',
    "arguments first": '{"arguments": {"city": "Paris"}, "name": "get_weather"}',
    "arguments as text": '{"name": "get_weather", "arguments": "{\\"city\\": \\"Paris\\"}"}',
    "OpenAI's shape": '{"type": "function", "function": {"name": "get_weather", "arguments": {"city": "Paris"}}}',
    "a message": '{"tool_calls": [{"function": {"name": "get_weather", "arguments": "{\\"city\\": \\"Paris\\"}"}}]}',
    "a name space": '{"name": "functions.get_weather", "arguments": {"city": "Paris"}}',
    "python's quotes": "{'name': 'get_weather', 'arguments': {'city': 'Paris'}}",
    "in a fence": '```json\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n```',
    "in a plain fence": '```\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n```\n',
    "in a list": '[{"name": "get_weather", "arguments": {"city": "Paris"}}]',
    "tagged": '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>',
    "tools tag": '<tools>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tools>',
    "granite": '<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Paris"}}]',
    "llama": '<|python_tag|>{"name": "get_weather", "parameters": {"city": "Paris"}}<|eom_id|>',
    "mistral": '[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Paris"}}]',
    "mistral since v11": '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}',
    "mistral v13": '[TOOL_CALLS]get_weather{"city": "Paris"}',
    "function tag": '<function=get_weather>{"city": "Paris"}</function>',
    "qwen coder": "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function></tool_call>",
    "glm": "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n</tool_call>",
    "pythonic": '[get_weather(city="Paris")]',
    "liquid": "<|tool_call_start|>[get_weather(city='Paris')]<|tool_call_end|>",
    "gemma": '```tool_code\nget_weather(city="Paris")\n```',
    "by position": '```python\nget_weather("Paris")\n```',
    "a repeated call": '{"name": "get_weather", "arguments": {"city": "Paris"}}\n' * 3,
    "made-up results": '{"name": "get_weather", "arguments": {"city": "Paris"}}. It is sunny in {Paris}.\n{"a": 1}',
    "a broken second": '{"name": "get_weather", "arguments": {"city": "Paris"}}\n{"name": "get_we',
    "leading blanks": '\n\n  {"name": "get_weather", "arguments": {"city": "Paris"}}',
}


@pytest.mark.parametrize("text", WRITTEN.values(), ids=WRITTEN)
def test_a_call_is_found_however_it_is_written_and_nothing_of_it_is_said(text: str) -> None:
    said, calls, _ = found(text)
    assert (said.strip(), calls) == ("", [PARIS])


TWO = {
    "a list": '[{"name": "get_weather", "arguments": {"city": "Paris"}}, {"name": "stop", "arguments": {}}]',
    "lines": '{"name": "get_weather", "arguments": {"city": "Paris"}}\n{"name": "stop"}',
    "llama's semicolon": '{"name": "get_weather", "parameters": {"city": "Paris"}}; {"name": "stop", "parameters": {}}',
    "tags": '<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>\n<tool_call>'
    '{"name": "stop", "arguments": null}</tool_call>',
    "fences": '```json\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n```\n```json\n{"name": "stop"}\n```',
    "pythonic": '[get_weather(city="Paris"), stop()]',
    "mistral": '[TOOL_CALLS]get_weather{"city": "Paris"}[TOOL_CALLS]stop{}',
}


@pytest.mark.parametrize("text", TWO.values(), ids=TWO)
def test_several_calls_come_in_their_order(text: str) -> None:
    assert found(text) == ("", [PARIS, STOP], False)


TEXTS = [
    "Hello there.",
    "{",
    "{ hello }",
    "{}",
    '{"answer": "Paris"}',
    '{"name": "Paris"}',
    '{"name": "get_time", "arguments": {}}',
    '{"name": 7}',
    '{"arguments": {"city": "Paris"}}',
    "[laughs] Oh dear.",
    "[stop it]",
    "[1, 2, 3]",
    "[]",
    "```python\nprint(1)\n```",
    "```",
    "``",
    "a < b and <tool> or <tool_cal",
    "The tag <tool_call> begins a call.",
    "I'd say {x} is a set.\n[1] is a note.\n`code`",
    "get_weather(city='Paris')",
    "Say [TOOL",
    "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16") + " {smile}",
]


@pytest.mark.parametrize("text", TEXTS)
def test_what_merely_looks_like_a_call_is_said_in_the_end(text: str) -> None:
    assert found(text) == (text, [], False)
    assert found(*text) == (text, [], False)


@pytest.mark.parametrize(
    ("begins", "held"),
    [
        ("{", True),
        ('{"na', True),
        ('{"ci', False),
        ("{ s", False),
        ('{"name": "get_w', True),
        ('{"name": "get_x', False),
        ("[l", False),
        ("[get_weather(", True),
        ("[get_weather ", False),
        ("```jso", True),
        ("```json\nx", False),
    ],
)
def test_text_is_held_no_longer_than_it_may_be_a_call(begins: str, held: bool) -> None:
    written = WrittenCalls(TOOLS)
    said = "".join(part for part in written.feed(begins) if isinstance(part, str))
    assert said == ("" if held else begins)
    assert written.holding is held


@pytest.mark.parametrize("length", [HELD_CHARACTERS - 1, HELD_CHARACTERS, HELD_CHARACTERS + 1])
def test_what_names_no_function_is_held_back_for_a_bounded_length(length: int) -> None:
    text = '{"arguments": "'.ljust(length, "x")
    written = WrittenCalls(TOOLS)
    said = written.feed(text)
    assert bool(said) is (length >= HELD_CHARACTERS)
    assert written.holding is (length < HELD_CHARACTERS)


def test_a_call_that_names_its_function_may_be_long() -> None:
    city = "x" * (HELD_CHARACTERS * 4)
    assert found(f'{{"name": "get_weather", "arguments": {{"city": "{city}"}}}}') == (
        "",
        [("get_weather", {"city": city})],
        False,
    )
    assert found('{"name": "get_weather", "arguments": {"city": "'.ljust(LONGEST_CALL, "x")) == ("", [], True)


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "get_weather", "arguments": {"city": "Par',
        '{"name": "get_weather", "arguments": {city: Paris}}',
        "[get_weather(city=Paris)]",
        '<tool_call>{"name": "open_the_door", "arguments": {}}</tool_call>',
        "<function=get_weather><parameter=city>Par",
    ],
)
def test_a_call_that_cannot_be_read_is_reported_and_not_said(text: str) -> None:
    assert found(text) == ("", [], True)
    assert found(*text) == ("", [], True)


def test_words_before_a_call_are_said_and_words_after_it_are_not() -> None:
    call = '{"name": "get_weather", "arguments": {"city": "Rome"}}'
    assert found(f"Let me look.\n{call}\nIt is warm.") == ("Let me look.\n", [ROME], False)
    assert found(f"Let me look. <tool_call>{call}</tool_call> It is warm.") == ("Let me look. ", [ROME], False)
    assert found(f"Let me look: {call}") == (f"Let me look: {call}", [], False)


def test_arguments_keep_their_characters_and_get_their_types() -> None:
    assert found('{"name": "get_weather", "arguments": {"city": "Київ 🫖"}}')[1] == [
        ("get_weather", {"city": "Київ 🫖"})
    ]
    written = WrittenCalls(TOOLS)
    (call,) = written.feed('{"name": "get_weather", "arguments": {"city": "Київ"}}')
    assert isinstance(call, Call)
    assert "Київ" in call.arguments
    tagged = "<function=get_weather><parameter=city>7</parameter><parameter=days>7</parameter></function>"
    assert found(tagged)[1] == [("get_weather", {"city": "7", "days": 7})]


FRAGMENTS = [
    "{", "}", "[", "]", '"', "'", ",", ";", ":", " ", "\n", "`", "```", "```json\n", "<", ">", "|", "(", ")", "=", "x",
    "name", '"name"', '"arguments"', "get_weather", '"get_weather"', "stop", "Hello.", "<tool_call>", "</tool_call>",
    "<|python_tag|>", "<|eom_id|>", "[TOOL_CALLS]", "[ARGS]", "<function=", "</function>", "<parameter=city>",
    "</parameter>", "<arg_key>", '{"name": "get_weather", "arguments": {"city": "Paris"}}', '{"name": "stop"}',
    "[stop()]", "stop()", '{"name": "get_weather", "arg',
]  # fmt: skip

replies = st.one_of(
    st.sampled_from([*WRITTEN.values(), *TWO.values(), *TEXTS]),
    st.lists(st.sampled_from(FRAGMENTS), max_size=14).map("".join),
    st.lists(st.sampled_from([*WRITTEN.values(), *TWO.values(), *TEXTS, *FRAGMENTS]), max_size=4).map("".join),
)


@settings(max_examples=300)
@given(replies, st.data())
def test_any_cut_into_tokens_gives_the_same_result(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    pieces = [text[start:end] for start, end in pairwise([0, *cuts, len(text)])]
    assert found(*pieces) == found(text) == found(*text)
