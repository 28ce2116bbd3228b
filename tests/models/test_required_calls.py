"""Calls in the reply's text, and calls that must be made, from servers that see to neither."""

import json
from typing import Any

import pytest

from models.engines.openai_chat import OpenAIChat
from models.engines.required_call import LONGEST_KEPT_BACK, call_schema
from models.interfaces import ChatAlive, ChatEnd, ChatEvent, ChatRequest, EngineError
from tests.models.chat_server import HELLO, Exchange, Respond, ask, calls_of, chat_server, reply, text_of

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = (
    {"type": "function", "function": {"name": "get_weather", "description": "weather", "parameters": PARAMETERS}},
    {"type": "function", "function": {"name": "stop", "parameters": {"type": "object", "properties": {}}}},
)
CALL = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
NAMED = {"type": "function", "function": {"name": "get_weather"}}
ASKED = {"role": "user", "content": "What is the weather in Paris?"}
CALLED = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Paris"}'}}
    ],
}
RESULT = {"role": "tool", "tool_call_id": "a", "content": "18 degrees"}


def tokens(text: str, length: int = 3) -> list[dict[str, Any]]:
    return [{"content": text[at : at + length]} for at in range(0, len(text), length)]


def called(events: list[ChatEvent]) -> list[tuple[str | None, Any]]:
    return [(name, json.loads(arguments)) for _, name, arguments in calls_of(events).values()]


def script(*replies: Respond) -> tuple[Respond, list[dict[str, Any]]]:
    """Return a server that answers with `replies` in turn, and the bodies of its requests."""
    bodies: list[dict[str, Any]] = []

    async def respond(exchange: Exchange) -> None:
        bodies.append(exchange.body)
        await replies[len(bodies) - 1](exchange)

    return respond, bodies


# --- calls as text -------------------------------------------------------------------------------------------------


async def test_a_call_that_is_written_as_text_is_a_call_and_none_of_it_is_said() -> None:
    events = await ask(reply(*tokens(CALL)), ChatRequest((ASKED,), TOOLS))
    assert (text_of(events), called(events)) == ("", [("get_weather", {"city": "Paris"})])
    assert isinstance(end := events[-1], ChatEnd)
    assert end.finish_reason == "tool_calls"
    assert sum(isinstance(event, ChatAlive) for event in events) > 5  # each token is a sign of life


async def test_without_tools_or_with_none_to_be_called_json_is_text() -> None:
    for request in (HELLO, ChatRequest(HELLO.messages, TOOLS, "none")):
        events = await ask(reply(*tokens(CALL)), request)
        assert (text_of(events), called(events)) == (CALL, [])


async def test_a_reply_that_merely_begins_like_a_call_is_said() -> None:
    events = await ask(reply(*tokens('{"mood": "fine"}')), ChatRequest((ASKED,), TOOLS))
    assert text_of(events) == '{"mood": "fine"}'
    assert events[-1] == ChatEnd("stop")


async def test_the_server_is_left_as_soon_as_the_model_rambles_on_after_its_call() -> None:
    async def rambling(exchange: Exchange) -> None:
        await exchange.begin()
        for token in tokens(f"{CALL} and"):
            await exchange.delta(**token)
        await exchange.client_gone.wait()

    events = await ask(rambling, ChatRequest((ASKED,), TOOLS))
    assert called(events) == [("get_weather", {"city": "Paris"})]
    assert isinstance(end := events[-1], ChatEnd)
    assert end.output_tokens > 0


async def test_a_call_that_breaks_off_fails_unless_the_reply_was_cut() -> None:
    with pytest.raises(EngineError) as caught:
        await ask(reply(*tokens(CALL[:-4])), ChatRequest((ASKED,), TOOLS))
    assert caught.value.code == "llm_bad_response"
    events = await ask(reply(*tokens(CALL[:-4]), finish_reason="length"), ChatRequest((ASKED,), TOOLS))
    assert (text_of(events), events[-1]) == ("", ChatEnd("length"))


async def test_thoughts_before_a_call_in_the_text_are_passed_over() -> None:
    events = await ask(reply(*tokens(f"<think>I need a tool.</think>\n{CALL}")), ChatRequest((ASKED,), TOOLS))
    assert (text_of(events), called(events)) == ("", [("get_weather", {"city": "Paris"})])


async def test_a_model_that_repeats_its_call_is_told_the_result_in_words() -> None:
    respond, bodies = script(reply(*tokens(CALL)), reply({"content": "It is 18 degrees."}))
    events = await ask(respond, ChatRequest((ASKED, CALLED, RESULT), TOOLS))
    assert (text_of(events), called(events), events[-1]) == ("It is 18 degrees.", [], ChatEnd("stop"))
    assert bodies[1]["messages"] == [
        {"role": "user", "content": "What is the weather in Paris?\n\nResult of get_weather: 18 degrees"}
    ]
    assert "tools" not in bodies[1]


async def test_one_that_goes_on_repeating_it_fails_with_a_reason() -> None:
    respond, _ = script(reply(*tokens(CALL)), reply(*tokens(CALL)))
    with pytest.raises(EngineError, match="repeats its function call") as caught:
        await ask(respond, ChatRequest((ASKED, CALLED, RESULT), TOOLS))
    assert caught.value.code == "llm_repeated_call"


async def test_another_call_after_a_result_and_a_real_call_are_let_through() -> None:
    other = CALL.replace("Paris", "Rome")
    events = await ask(reply(*tokens(other)), ChatRequest((ASKED, CALLED, RESULT), TOOLS))
    assert called(events) == [("get_weather", {"city": "Rome"})]
    real = {
        "tool_calls": [{"index": 0, "id": "b", "function": {"name": "get_weather", "arguments": '{"city":"Paris"}'}}]
    }
    events = await ask(reply(real), ChatRequest((ASKED, CALLED, RESULT), TOOLS))
    assert called(events) == [("get_weather", {"city": "Paris"})]


# --- calls that must be made ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("choice", "names"), [("required", ["get_weather", "stop"]), (NAMED, ["get_weather"])])
async def test_a_server_that_ignores_tool_choice_is_asked_by_a_schema_and_nothing_is_said(
    choice: Any, names: list[str]
) -> None:
    respond, bodies = script(reply({"content": "It is"}, {"content": " sunny."}), reply(*tokens(CALL)))
    events = await ask(respond, ChatRequest((ASKED,), TOOLS, choice))
    assert (text_of(events), called(events)) == ("", [("get_weather", {"city": "Paris"})])
    assert bodies[0]["tool_choice"] == choice
    schema = bodies[1]["response_format"]["json_schema"]["schema"]
    assert [found["properties"]["name"]["const"] for found in schema.get("anyOf", [schema])] == names
    assert bodies[1]["messages"] == bodies[0]["messages"]
    assert (bodies[1]["tools"], bodies[1]["tool_choice"]) == (bodies[0]["tools"], "none")


async def test_that_it_ignores_tool_choice_is_remembered() -> None:
    respond, bodies = script(reply({"content": "Sunny."}), *[reply(*tokens(CALL))] * 2, reply({"content": "Hi."}))
    async with chat_server(respond) as server:
        chat = OpenAIChat(server.base_url, "m")
        for _ in range(2):
            events = [event async for event in chat.stream(ChatRequest((ASKED,), TOOLS, "required"))]
            assert called(events) == [("get_weather", {"city": "Paris"})]
        assert text_of([event async for event in chat.stream(ChatRequest((ASKED,), TOOLS))]) == "Hi."
        await chat.aclose()
    assert ["response_format" in body for body in bodies] == [False, True, True, False]


async def test_a_server_that_calls_is_asked_once_and_its_words_before_the_call_are_said() -> None:
    call = {"tool_calls": [{"index": 0, "id": "b", "function": {"name": "stop", "arguments": "{}"}}]}
    respond, bodies = script(reply({"content": "All right."}, call))
    events = await ask(respond, ChatRequest((ASKED,), TOOLS, "required"))
    assert (text_of(events), called(events), len(bodies)) == ("All right.", [("stop", {})], 1)


async def test_where_a_schema_has_no_effect_either_the_first_reply_is_said_once() -> None:
    async def refuse(exchange: Exchange) -> None:
        await exchange.refuse(400, '{"error": {"message": "response_format is not supported"}}')

    for second in ([reply({"content": "Still sunny."})], [refuse, refuse]):
        respond, _ = script(reply({"content": "It is sunny."}), *second)
        events = await ask(respond, ChatRequest((ASKED,), TOOLS, "required"))
        assert (text_of(events), events[-1]) == ("It is sunny.", ChatEnd("stop"))


async def test_a_reply_without_a_call_is_kept_back_for_a_bounded_length() -> None:
    async def endless(exchange: Exchange) -> None:
        await exchange.begin()
        for _ in range(LONGEST_KEPT_BACK // 10 + 1):
            await exchange.delta(content="0123456789")
        await exchange.client_gone.wait()

    respond, _ = script(endless, reply(*tokens(CALL)))
    events = await ask(respond, ChatRequest((ASKED,), TOOLS, "required"))
    assert (text_of(events), called(events)) == ("", [("get_weather", {"city": "Paris"})])


async def test_a_reply_that_was_cut_before_its_call_is_incomplete() -> None:
    respond, bodies = script(reply({"content": "Let me"}, finish_reason="length"))
    events = await ask(respond, ChatRequest((ASKED,), TOOLS, "required"))
    assert (events[-1], len(bodies)) == (ChatEnd("length"), 1)
    respond, bodies = script(reply(*tokens(CALL[:20]), finish_reason="length"))
    events = await ask(respond, ChatRequest((ASKED,), TOOLS, "required"), calls_by_schema=True)
    assert (text_of(events), events[-1]) == ("", ChatEnd("length"))


async def test_a_model_without_a_template_for_tools_is_told_them_in_words() -> None:
    respond, bodies = script(reply(*tokens(CALL)))
    await ask(respond, ChatRequest((ASKED,), TOOLS, NAMED), calls_by_schema=True, knows_tools=False)
    assert "tools" not in bodies[0]
    assert bodies[0]["messages"][0]["content"].endswith("functions, as JSON:\nget_weather: weather")


def test_a_schema_that_refers_to_its_own_parts_becomes_any_object() -> None:
    parameters = {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "string"}}}
    schema = call_schema({"f": parameters})
    assert schema["properties"]["arguments"] == {"type": "object"}
    assert call_schema({"f": PARAMETERS})["properties"]["arguments"] == PARAMETERS
