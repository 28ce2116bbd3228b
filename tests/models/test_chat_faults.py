"""What goes wrong with chat servers: each fault gets the code and the sentence that tell what to do."""

import asyncio
import json
import ssl
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from models.chat_loading import with_model
from models.engine_plan import ChatPlan, EnginePlan
from models.engines.openai_chat import OpenAIChat
from models.engines.openai_endpoint import ANY_MODEL
from models.interfaces import ChatAlive, ChatEnd, ChatEvent, ChatRequest, ChatText, EngineError
from models.loading import load_engines
from models.weights import WeightsStore
from tests.models.chat_server import HELLO, Exchange, Respond, ask, calls_of, chat_server, reply, text_of

TOOLS = ({"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}},)


async def fault(respond: Respond, request: ChatRequest = HELLO, **options: Any) -> EngineError:
    with pytest.raises(EngineError) as caught:
        await ask(respond, request, **options)
    return caught.value


def refusal(status: int, message: str = "", **error: Any) -> Respond:
    async def respond(exchange: Exchange) -> None:
        await exchange.refuse(status, json.dumps({"error": {"message": message, **error}}))

    return respond


# --- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "respond",
    [
        refusal(404, 'model "x" not found, try pulling it first', type="api_error"),
        refusal(404, "The model `x` does not exist.", type="NotFoundError", code=404),
        refusal(404, "No such thing", code="model_not_found"),
        refusal(400, "No such thing", code="model_not_found"),
    ],
    ids=["ollama", "vllm", "openai", "lm studio"],
)
async def test_an_unknown_model_is_told_from_a_wrong_url(respond: Respond) -> None:
    assert (await fault(respond)).code == "llm_model_not_found"
    assert (await fault(refusal(404, "File Not Found", type="not_found_error"))).code == "llm_http_error"


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.",
        "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context "
        "length of only 4096 tokens",
        "prompt is too long: 5000 tokens > 4096 maximum",
    ],
)
async def test_a_prompt_that_is_too_long_is_known_by_words_where_there_is_no_code(message: str) -> None:
    requests: list[Exchange] = []

    async def respond(exchange: Exchange) -> None:
        requests.append(exchange)
        await refusal(400, message, type="BadRequestError", code=400)(exchange)

    assert (await fault(respond, thinking="off")).code == "llm_context_length"
    assert len(requests) == 1


async def test_a_refusal_tells_what_to_do() -> None:
    found = {status: (await fault(refusal(status))).message for status in (429, 500, 503, 308)}
    assert "takes no more requests for now" in found[429]
    assert "its log says more" in found[500]
    assert "loading its model" in found[503]
    assert "final address" in found[308]


async def test_a_redirect_is_not_followed_and_carries_no_key_elsewhere() -> None:
    async with chat_server(reply({"content": "never"})) as elsewhere:

        async def redirect(exchange: Exchange) -> None:
            location = f"{elsewhere.base_url}/chat/completions".encode()
            exchange.writer.write(
                b"HTTP/1.1 307 Temporary Redirect\r\nLocation: " + location + b"\r\nContent-Length: 0\r\n\r\n"
            )
            await exchange.writer.drain()

        error = await fault(redirect, api_key="sk-secret")
        assert (error.code, elsewhere.exchanges) == ("llm_http_error", [])
        assert "redirect" in error.message


# --- replies that break off ----------------------------------------------------------------------------------------


async def half(exchange: Exchange) -> None:
    await exchange.begin()
    await exchange.delta(content="Once upon")


async def reset(exchange: Exchange) -> None:
    await half(exchange)
    socket = exchange.writer.get_extra_info("socket")
    socket.setsockopt(1, 13, struct.pack("ii", 1, 0))  # SO_LINGER 0: the connection is reset, not closed
    exchange.writer.transport.abort()


async def hang_up_politely(exchange: Exchange) -> None:
    """End the body as if all had been said, as a proxy does whose server died."""
    await half(exchange)
    exchange.writer.write(b"0\r\n\r\n")
    await exchange.writer.drain()


async def stop_in_an_event(exchange: Exchange) -> None:
    await half(exchange)
    await exchange.raw(b'data: {"choices": [{"delta": {"con')
    exchange.writer.close()


async def error_event(exchange: Exchange) -> None:
    await half(exchange)
    await exchange.event({"error": {"message": "secret words", "type": "server_error"}})
    await exchange.end()


@pytest.mark.parametrize("respond", [reset, hang_up_politely, stop_in_an_event, error_event])
async def test_a_server_that_dies_in_mid_stream_fails_the_reply(respond: Respond) -> None:
    events: list[ChatEvent] = []
    async with chat_server(respond) as server:
        chat = OpenAIChat(server.base_url, "m")
        stream = chat.stream(HELLO)
        events.append(await anext(stream))
        with pytest.raises(EngineError, match="broke off") as caught:
            events.append(await anext(stream))
        await chat.aclose()
    assert events == [ChatText("Once upon")]
    assert caught.value.code == "llm_stream_broken"
    assert "secret words" not in caught.value.message


async def test_an_error_for_a_stream_s_first_event_keeps_its_reason() -> None:
    async def too_long(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.event({"error": {"message": "the maximum context length is 4096 tokens", "code": 400}})
        await exchange.end()

    assert (await fault(too_long)).code == "llm_context_length"
    assert "(server_error)" in (await fault(error_event)).message


async def test_a_half_written_call_is_no_call_of_a_server_that_died() -> None:
    async def respond(exchange: Exchange) -> None:
        await exchange.begin()
        await exchange.delta(tool_calls=[{"index": 0, "id": "a", "function": {"name": "look_up", "arguments": '{"a'}}])
        exchange.writer.write(b"0\r\n\r\n")
        await exchange.writer.drain()

    assert (await fault(respond, ChatRequest(HELLO.messages, TOOLS))).code == "llm_stream_broken"


# --- servers that don't stream ---------------------------------------------------------------------------------------


def whole(message: dict[str, Any], **more: Any) -> Respond:
    async def respond(exchange: Exchange) -> None:
        body = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}], **more}).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        exchange.writer.write(head.encode() + body)
        await exchange.writer.drain()

    return respond


async def test_a_server_that_does_not_stream_is_understood() -> None:
    events = await ask(whole({"content": "Hello."}, usage={"prompt_tokens": 5, "completion_tokens": 2}))
    assert events == [ChatText("Hello."), ChatEnd("stop", 5, 0, 2)]
    call = {"id": "a", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
    events = await ask(whole({"content": None, "tool_calls": [call]}))
    assert calls_of(events) == {0: ("a", "look_up", "{}")}


async def test_an_error_that_comes_with_200_is_one() -> None:
    assert (await fault(whole({}, error={"message": "no", "type": "overloaded_error"}))).code == "llm_stream_broken"

    async def page(exchange: Exchange) -> None:
        await exchange.refuse(200, "<html>Log in</html>", "text/html")

    assert (await fault(page)).code == "llm_bad_response"


# --- signs of life ---------------------------------------------------------------------------------------------------


async def test_thoughts_are_life_and_are_not_said() -> None:
    events = await ask(reply({"reasoning_content": "Hmm."}, {"reasoning": "So."}, {"content": "<think>Well"}))
    assert events == [ChatAlive(4), ChatAlive(3), ChatAlive(11), ChatEnd("stop")]
    events = await ask(reply({"role": "assistant"}, {"content": ""}, {"content": "Yes."}))
    assert events == [ChatText("Yes."), ChatEnd("stop")]


async def test_each_piece_of_a_call_is_life() -> None:
    pieces = [{"tool_calls": [{"index": 0, "id": "a", "function": {"arguments": "{"}}]}]
    pieces.append({"tool_calls": [{"index": 0, "function": {"name": "look_up", "arguments": "}"}}]})
    events = await ask(reply(*pieces), ChatRequest(HELLO.messages, TOOLS))
    assert [type(event).__name__ for event in events] == ["ChatAlive", "ChatToolCall", "ChatEnd"]


# --- TLS -------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def tls_server(*hosts: str) -> AsyncIterator[str]:
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(*hosts).configure_cert(context)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await reply({"content": "ok"})(Exchange("", {}, {}, writer))
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def first_fault(base_url: str, model: str = "m") -> EngineError:
    chat = OpenAIChat(base_url, model)
    with pytest.raises(EngineError) as caught:
        await anext(chat.stream(HELLO))
    await chat.aclose()
    return caught.value


async def test_a_certificate_that_nobody_signed_says_how_to_trust_it() -> None:
    async with tls_server("127.0.0.1") as address:
        error = await first_fault(f"https://{address}/v1")
        assert error.code == "llm_tls"
        assert "isn't trusted" in error.message
        assert "SSL_CERT_FILE" in error.message


async def test_https_to_a_server_without_tls_says_so() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server:
        error = await first_fault(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
    assert error.code == "llm_tls"
    assert "http://" in error.message


async def test_a_name_that_nobody_knows_points_to_the_url() -> None:
    error = await first_fault("http://no-such-host.invalid/v1")
    assert error.code == "llm_unreachable"
    assert "check the base URL" in error.message


# --- the model that a server has -------------------------------------------------------------------------------------


def listing(*models: Any, status: int = 200) -> Respond:
    async def respond(exchange: Exchange) -> None:
        if exchange.path.endswith("/models"):
            await exchange.refuse(status, json.dumps({"object": "list", "data": [{"id": model} for model in models]}))
        else:
            await reply({"content": str(exchange.body["model"])})(exchange)

    return respond


async def test_without_a_name_the_first_model_that_can_chat_is_asked() -> None:
    async with chat_server(listing("nomic-embed-text", "qwen3", "llama")) as server:
        plan = ChatPlan("endpoint", base_url=server.base_url)
        assert (await with_model(plan)).model == "qwen3"
        assert await with_model(ChatPlan("endpoint", "mine", base_url=server.base_url)) == ChatPlan(
            "endpoint", "mine", base_url=server.base_url
        )
        chat = OpenAIChat(server.base_url, "")
        for _ in range(2):
            assert text_of([event async for event in chat.stream(HELLO)]) == "qwen3"
        await chat.aclose()
        assert [exchange.path for exchange in server.exchanges].count("/v1/models") == 2


async def test_a_server_that_lists_none_or_is_not_there_yet_says_so_with_the_first_turn() -> None:
    for respond in (listing(), listing("whisper-1")):
        async with chat_server(respond) as server:
            plan = ChatPlan("endpoint", base_url=server.base_url)
            assert await with_model(plan) == plan
            assert (await first_fault(server.base_url, model="")).code == "llm_model_not_found"
    assert (await first_fault(server.base_url, model="")).code == "llm_unreachable"


async def test_a_server_without_a_list_is_asked_for_any_model() -> None:
    async with chat_server(listing(status=404)) as server:
        plan = ChatPlan("endpoint", base_url=server.base_url)
        assert (await with_model(plan)).model == ANY_MODEL


async def test_the_plan_s_options_reach_the_requests(tmp_path: Path) -> None:
    async with chat_server(listing("qwen3")) as server:
        plan = ChatPlan("endpoint", base_url=server.base_url, thinking="off", extra_body='{"top_k": 20}', api_key="k")
        engines = await load_engines(EnginePlan(chat=plan), store=WeightsStore(tmp_path))
        assert engines.infos[2].name == "qwen3"
        assert text_of([event async for event in engines.chat.stream(HELLO)]) == "qwen3"
        body = server.exchanges[-1].body
        assert (body["top_k"], body["reasoning_effort"]) == (20, "none")
        assert {exchange.headers["authorization"] for exchange in server.exchanges} == {"Bearer k"}
        await engines.aclose()
        wrong = ChatPlan("endpoint", "m", base_url=server.base_url, extra_body="[]")
        with pytest.raises(EngineError, match="is no JSON object"):
            await load_engines(EnginePlan(chat=wrong), store=WeightsStore(tmp_path))
