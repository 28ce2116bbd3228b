import asyncio
import json
import socket
from typing import Any

import pytest

from models.engines.openai_chat import OpenAIChat
from models.engines.openai_endpoint import is_loopback, normal_base_url, server_name
from models.interfaces import ChatEnd, ChatRequest, ChatText, EngineError
from tests.models.chat_server import HELLO, Exchange, ask, calls_of, chat_server, reply, text_of

TOOLS = ({"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}},)


async def test_text_comes_as_it_is_sent_and_ends_with_the_usage() -> None:
    usage = {"prompt_tokens": 20, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 16}}
    events = await ask(reply({"role": "assistant"}, {"content": "Hel"}, {"content": "lo."}, usage=usage))
    assert events == [ChatText("Hel"), ChatText("lo."), ChatEnd("stop", 20, 16, 2)]


async def test_the_request_says_what_was_asked_and_nothing_else() -> None:
    bodies: list[dict[str, Any]] = []

    async def respond(exchange: Exchange) -> None:
        bodies.append(exchange.body)
        await reply({"content": "ok"})(exchange)

    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    message = {"role": "user", "content": [{"type": "text", "text": "What is it?"}, picture]}
    await ask(respond, ChatRequest((message,), session_key="s1"))
    await ask(
        respond,
        ChatRequest((message,), TOOLS, "required", parallel_tool_calls=False, max_output_tokens=9),
        temperature=0.5,
        extra_body={"id_slot": 1},
    )
    plain = {
        "model": "some-model",
        "messages": [message],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert bodies[0] == plain
    assert bodies[1] == plain | {
        "tools": list(TOOLS),
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "max_tokens": 9,
        "temperature": 0.5,
        "id_slot": 1,
    }


@pytest.mark.parametrize(
    ("own", "asked", "sent"), [(None, None, None), (0.5, None, 0.5), (None, 0.9, 0.9), (0.5, 0.9, 0.9)]
)
async def test_a_request_s_own_temperature_wins(own: float | None, asked: float | None, sent: float | None) -> None:
    bodies: list[dict[str, Any]] = []

    async def respond(exchange: Exchange) -> None:
        bodies.append(exchange.body)
        await reply({"content": "ok"})(exchange)

    await ask(respond, ChatRequest(HELLO.messages, temperature=asked), temperature=own)
    assert bodies[0].get("temperature") == sent


async def test_no_openai_variable_of_the_environment_has_an_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-leak-key")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-leak-admin")
    monkeypatch.setenv("OPENAI_ORG_ID", "leak-org")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "leak-project")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/leak")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Leak: leak\nAuthorization: Bearer leak")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    for key in ("our-key", ""):
        seen: list[Exchange] = []

        async def respond(exchange: Exchange, seen: list[Exchange] = seen) -> None:
            seen.append(exchange)
            await reply({"content": "ok"})(exchange)

        await ask(respond, api_key=key)
        headers = seen[0].headers
        assert headers.get("authorization") == ("Bearer our-key" if key else None)
        assert "leak" not in json.dumps([headers, seen[0].body, seen[0].path])
        assert not [name for name in headers if name.startswith("openai-")]


async def test_a_server_that_refuses_stream_options_is_asked_without_from_then_on() -> None:
    bodies: list[dict[str, Any]] = []

    async def respond(exchange: Exchange) -> None:
        bodies.append(exchange.body)
        if "stream_options" in exchange.body:
            await exchange.refuse(400, '{"error": {"message": "unknown field"}}')
        else:
            await reply({"content": "ok"})(exchange)

    async with chat_server(respond) as server:
        chat = OpenAIChat(server.base_url, "m")
        for _ in range(2):
            assert [event async for event in chat.stream(HELLO)] == [ChatText("ok"), ChatEnd("stop")]
        await chat.aclose()
    assert ["stream_options" in body for body in bodies] == [True, False, False]


async def test_a_reasoning_effort_is_passed_on_when_the_client_named_one() -> None:
    bodies: list[dict[str, Any]] = []

    async def respond(exchange: Exchange) -> None:
        bodies.append(exchange.body)
        await reply({"content": "ok"})(exchange)

    await ask(respond, ChatRequest(HELLO.messages, reasoning_effort="low"))
    await ask(respond, ChatRequest(HELLO.messages))
    assert [body.get("reasoning_effort") for body in bodies] == ["low", None]


async def test_reasoning_is_no_part_of_the_reply() -> None:
    events = await ask(
        reply({"reasoning_content": "Hmm."}, {"reasoning": "Hmm."}, {"content": "Yes."}, {"content": None})
    )
    assert text_of(events) == "Yes."
    events = await ask(reply({"content": "<thi"}, {"content": "nk>Hmm. <b>"}, {"content": "</think>\n\nYes"}))
    assert text_of(events) == "Yes"
    assert text_of(await ask(reply({"content": "<thin"}, {"content": "g> is a tag"}))) == "<thing> is a tag"
    assert text_of(await ask(reply({"content": "<thin"}))) == "<thin"


async def test_characters_cut_between_deltas_or_packets_come_out_whole() -> None:
    async def respond(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.delta(content="a\ud83c")  # escaped to ASCII, an emoji may be cut into surrogates
        await exchange.delta(content="\udf89b")
        event = b"data: " + json.dumps({"choices": [{"delta": {"content": "日é🎉"}}]}, ensure_ascii=False).encode()
        for byte in event + b"\n\n":
            await exchange.raw(bytes([byte]))
        await exchange.delta("stop")
        await exchange.end()

    assert text_of(await ask(respond)) == "a🎉b日é🎉"


def call(index: int | None = None, call_id: str | None = None, name: str | None = None, arguments: Any = None) -> Any:
    function = {"name": name, "arguments": arguments}
    delta = {"index": index, "id": call_id, "function": {k: v for k, v in function.items() if v is not None}}
    return {"tool_calls": [{k: v for k, v in delta.items() if v is not None}]}


WANTED = {0: ("a", "f", '{"x":1}'), 1: ("b", "g", "{}")}


@pytest.mark.parametrize(
    "deltas",
    [
        pytest.param(
            [call(0, "a", "f", ""), call(1, "b", "g", ""), call(0, arguments='{"x"'), call(1, arguments="{}"),
             call(0, arguments=":1}")],
            id="interleaved as OpenAI may",
        ),
        pytest.param([call(0, "a", "f", '{"x":1}'), call(0, "b", "g", "{}")], id="every call has index 0"),
        pytest.param([call(None, "a", "f", '{"x":1}'), call(None, "b", "g", "{}")], id="no index"),
        pytest.param([call(None, "a", "f", '{"x"'), call(None, None, None, ":1}"), call(None, "b", "g", "{}")],
                     id="neither index nor id on later pieces"),
        pytest.param([call(0, "a", "f", '{"x"'), call(0, "a", "f", ":1}"), call(1, "b", "g", "{}"), call(1, "b", "g")],
                     id="id and name repeated"),
        pytest.param([call(0, "a", "f", '{"x"'), call(0, "c", None, ":1}"), call(1, "b", "g", "{}")],
                     id="a new id on each delta"),
        pytest.param([call(4, "a", "f", {"x": 1}), call(7, "b", "g", {})], id="arguments as objects, odd indices"),
        pytest.param([call(0, "a", None, ""), call(0, None, "f", '{"x":1}'), call(1, "b", "g", "{}")], id="name later"),
    ],
)  # fmt: skip
async def test_tool_calls_are_understood_however_a_server_streams_them(deltas: list[dict[str, Any]]) -> None:
    events = await ask(reply(*deltas, finish_reason="tool_calls"), ChatRequest(HELLO.messages, TOOLS))
    found = calls_of(events)
    assert {number: (i, n, a.replace(" ", "")) for number, (i, n, a) in found.items()} == WANTED
    assert events[-1] == ChatEnd("tool_calls")


async def test_calls_without_ids_get_some_and_end_as_tool_calls() -> None:
    events = await ask(reply(call(0, None, "f", "{}"), call(1, None, "g", "{}"), finish_reason="stop"))
    ids = [found[0] for found in calls_of(events).values()]
    assert len(set(ids)) == 2
    assert all(call_id and call_id.startswith("call_") for call_id in ids)
    assert events[-1] == ChatEnd("tool_calls")


@pytest.mark.parametrize(
    ("given", "wanted"),
    [("length", "length"), ("content_filter", "content_filter"), ("eos", "stop"), (None, "stop")],
)
async def test_finish_reasons_are_those_of_chat_completions(given: str | None, wanted: str) -> None:
    assert (await ask(reply({"content": "x"}, finish_reason=given)))[-1] == ChatEnd(wanted)


SECRET_BODY = "<html><body>sk-secret-key at /home/someone/model.gguf</body></html>"


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (401, "llm_auth", "key"),
        (403, "llm_auth", "key"),
        (404, "llm_http_error", "model name"),
        (400, "llm_http_error", "400"),
        (307, "llm_http_error", "307"),
        (429, "llm_rate_limit", "429"),
        (500, "llm_http_error", "500"),
        (503, "llm_http_error", "loading"),
    ],
)
async def test_refusals_say_the_status_and_nothing_of_the_body(status: int, code: str, words: str) -> None:
    for body, content_type in ((SECRET_BODY, "text/html"), (json.dumps({"error": SECRET_BODY}), "application/json")):

        async def respond(exchange: Exchange, body: str = body, content_type: str = content_type) -> None:
            await exchange.refuse(status, body, content_type)

        with pytest.raises(EngineError, match=words) as caught:
            await ask(respond, api_key="sk-secret-key")
        assert caught.value.code == code
        assert not any(secret in caught.value.message for secret in ("sk-", "/home", "<", "html"))


async def test_a_prompt_that_is_too_long_has_a_code_of_its_own() -> None:
    for error in ({"code": "context_length_exceeded"}, {"code": 400, "type": "exceed_context_size_error"}):

        async def respond(exchange: Exchange, error: Any = error) -> None:
            await exchange.refuse(400, json.dumps({"error": error}))

        with pytest.raises(EngineError) as caught:
            await ask(respond)
        assert caught.value.code == "llm_context_length"


async def test_a_server_that_is_not_there_is_unreachable() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        chat = OpenAIChat(f"http://127.0.0.1:{reserved.getsockname()[1]}/v1", "m")
        with pytest.raises(EngineError, match=r"127\.0\.0\.1:\d+ can't be reached") as caught:
            await anext(chat.stream(HELLO))
        await chat.aclose()
    assert caught.value.code == "llm_unreachable"


async def test_a_stream_that_breaks_says_so_after_what_came() -> None:
    async def hang_up(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.delta(content="Once upon")
        exchange.writer.close()

    async def error_in_stream(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.delta(content="Once upon")
        await exchange.event({"error": {"message": SECRET_BODY}})
        await exchange.end()

    for respond in (hang_up, error_in_stream):
        async with chat_server(respond) as server:
            chat = OpenAIChat(server.base_url, "m")
            stream = chat.stream(HELLO)
            assert await anext(stream) == ChatText("Once upon")
            with pytest.raises(EngineError, match="broke off") as caught:
                await anext(stream)
            await chat.aclose()
        assert caught.value.code == "llm_stream_broken"


@pytest.mark.parametrize("payload", ["{not json", "[1, 2]", '{"choices": "no"}', '{"choices": [7]}', "{}"])
async def test_an_answer_that_makes_no_sense_is_a_bad_response(payload: str) -> None:
    async def respond(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.raw(f"data: {payload}\n\n".encode())
        await exchange.end()

    with pytest.raises(EngineError) as caught:
        await ask(respond)
    assert caught.value.code == "llm_bad_response"


async def test_a_call_that_never_gets_a_name_is_a_bad_response() -> None:
    with pytest.raises(EngineError) as caught:
        await ask(reply(call(0, "a", None, "{}"), finish_reason="tool_calls"))
    assert caught.value.code == "llm_bad_response"


async def never_ending(exchange: Exchange) -> None:
    await exchange.begin()
    await exchange.delta(content="Once")
    await asyncio.Event().wait()


async def test_closing_the_iterator_hangs_up_on_the_server() -> None:
    async with chat_server(never_ending) as server, asyncio.timeout(5):
        chat = OpenAIChat(server.base_url, "m")
        stream = chat.stream(HELLO)
        assert await anext(stream) == ChatText("Once")
        await stream.aclose()
        async with asyncio.timeout(2):
            await server.exchanges[0].client_gone.wait()
        await chat.aclose()


async def test_cancelling_while_the_model_reads_the_prompt_hangs_up_too() -> None:
    asked = asyncio.Event()

    async def silent(exchange: Exchange) -> None:
        asked.set()
        await asyncio.Event().wait()

    async with chat_server(silent) as server, asyncio.timeout(5):
        chat = OpenAIChat(server.base_url, "m")
        task = asyncio.create_task(anext(chat.stream(HELLO)))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.exchanges[0].client_gone.wait()
        await chat.aclose()


async def test_a_connection_that_the_server_closed_is_replaced_once() -> None:
    attempts: list[Exchange] = []

    async def respond(exchange: Exchange) -> None:
        attempts.append(exchange)
        if len(attempts) == 1:
            exchange.writer.close()
        else:
            await reply({"content": "ok"})(exchange)

    assert text_of(await ask(respond)) == "ok"


def test_base_urls_are_made_whole_or_refused() -> None:
    assert normal_base_url("http://localhost:8000") == "http://localhost:8000/v1"
    assert normal_base_url("https://api.openai.com/v1/") == "https://api.openai.com/v1"
    assert server_name("http://user:word@host:81/v1") == "host:81"
    assert [is_loopback(f"http://{host}/v1") for host in ("localhost", "127.0.0.2", "[::1]", "example.org")] == [
        True,
        True,
        True,
        False,
    ]
    for wrong in ("", "localhost:8000", "ftp://host", "http://"):
        with pytest.raises(ValueError, match="URL"):
            normal_base_url(wrong)
