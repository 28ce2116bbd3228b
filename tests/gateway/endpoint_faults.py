"""What can be wrong with an endpoint: the fault, what the doctor says of it, and what a client of a session sees.

One row each. The tests are made from these tables, and `gateway/doctor/README.md` shows them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.models.chat_server import Exchange, Respond
from tests.models.openai_servers import MODEL, answer, chatting, hang, refusing, server

OK, WARN, FAIL = "ok", "warn", "fail"


@dataclass(frozen=True)
class Diagnosis:
    """The check that finds it, its verdict, and words of its detail and its advice."""

    check: str
    verdict: str
    detail: str
    advice: str = ""


@dataclass(frozen=True)
class Outcome:
    """What the client sees: the response's status (or the transcription's), its error code or reason, words of it."""

    status: str
    code: str = ""
    message: str = ""

    def __str__(self) -> str:
        return f"{self.status}, `{self.code}`" if self.code else self.status


REFUSED_AT_START = Outcome("serve refuses to start")


@dataclass(frozen=True)
class Fault:
    """`url`: makes the base URL of the server's; `tls`: it speaks TLS, with a certificate of its own making.

    `tools`: the client of the session gives a function along.
    """

    name: str
    respond: Respond
    diagnosis: Diagnosis
    wire: Outcome
    settings: dict[str, Any] = field(default_factory=dict)
    url: Callable[[str], str] = lambda base_url: base_url
    tls: bool = False
    tools: bool = False

    def __repr__(self) -> str:
        return self.name


# --- what is wrong -------------------------------------------------------------------------------------------------


def sse(*lines: str, ending: bool = True) -> Respond:
    """Return a stream of these lines."""

    async def respond(exchange: Exchange) -> None:
        await exchange.begin()
        for line in lines:
            await exchange.raw(line.encode() + b"\n\n")
        if ending:
            await exchange.end()

    return respond


def delta(finish_reason: str | None = None, **delta: Any) -> str:
    return "data: " + json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})


def then(*steps: Any) -> Respond:
    """Return a chat that begins to stream, then does `steps`: lines, or functions of the exchange."""

    async def respond(exchange: Exchange) -> None:
        await exchange.begin()
        for step in steps:
            if isinstance(step, str):
                await exchange.raw(step.encode() + b"\n\n")
            else:
                await step(exchange)

    return respond


async def reset(exchange: Exchange) -> None:
    exchange.writer.transport.abort()


async def cut_inside_a_chunk(exchange: Exchange) -> None:
    exchange.writer.write(b'400\r\ndata: {"choices": [{"del')
    await exchange.writer.drain()


def page(status: int = 200) -> Respond:
    async def respond(exchange: Exchange) -> None:
        await exchange.refuse(status, "<!DOCTYPE html><html><body>Welcome</body></html>", "text/html")

    return respond


async def redirecting(exchange: Exchange) -> None:
    exchange.writer.write(
        b"HTTP/1.1 307 Moved\r\nLocation: https://new.example.com:8443/v1/models?token=secret\r\n"
        b"Content-Length: 0\r\n\r\n"
    )
    await exchange.writer.drain()


async def in_one_object(exchange: Exchange) -> None:
    message = {"role": "assistant", "content": "One, two, three, four, five, six, seven, eight."}
    await exchange.refuse(200, json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}))


async def as_plain_text(exchange: Exchange) -> None:
    exchange.writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
    for word in ("One, ", "two, ", "three, ", "four, ", "five."):
        await exchange.raw(delta(content=word).encode() + b"\n\n")
    await exchange.raw(delta("stop").encode() + b"\n\n")
    await exchange.end()


def without_tools(with_tools: Respond) -> Respond:
    """Return a chat that does as `with_tools` when it is given functions."""

    async def respond(exchange: Exchange) -> None:
        await (with_tools if exchange.body.get("tools") else chatting)(exchange)

    return respond


def spoken(*words: str) -> list[str]:
    return [*(delta(content=word) for word in words), delta("stop")]


ONE_TWO = [delta(content="One, "), delta(content="two, ")]
COUNTING = spoken("One, ", "two, ", "three, ", "four, ", "five, ", "six, ", "seven.")
TOO_LONG = refusing(400, "exceed_context_size_error", "the request exceeds the available context size")
SHORT_PROPS = answer({"default_generation_settings": {"n_ctx": 2048}, "total_slots": 1})


def chat(respond: Respond, **more: Any) -> Respond:
    return server(chat=respond, **more)


def everywhere(respond: Respond) -> Respond:
    return respond


def nobody_at(_base_url: str) -> str:
    return "http://127.0.0.1:9/v1"  # the discard port: nobody listens there


def no_such_name(_base_url: str) -> str:
    return "http://no-such-host.invalid/v1"  # RFC 6761: never a name


def with_tls(base_url: str) -> str:
    return base_url.replace("http://", "https://")


def of_the_site(base_url: str) -> str:
    return base_url.replace("/v1", "/ui")


CHAT_FAULTS = (
    Fault(
        "connection refused",
        chat(chatting),
        Diagnosis("reachable", FAIL, "nothing listens at 127.0.0.1:9", "start the server there"),
        Outcome("failed", "llm_unreachable", "can't be reached"),
        url=nobody_at,
    ),
    Fault(
        "unknown host name",
        chat(chatting),
        Diagnosis("reachable", FAIL, "the name no-such-host.invalid is not known", "correct the host"),
        Outcome("failed", "llm_unreachable", "name is unknown"),
        url=no_such_name,
    ),
    Fault(
        "certificate not trusted",
        chat(chatting),
        Diagnosis("reachable", FAIL, "the certificate of 127.0.0.1:", "use http://"),
        Outcome("failed", "llm_tls", "isn't trusted"),
        tls=True,
    ),
    Fault(
        "https to a server without TLS",
        chat(chatting),
        Diagnosis("reachable", FAIL, "does not speak TLS", "use http:// instead of https://"),
        Outcome("failed", "llm_tls", "does not speak TLS"),
        url=with_tls,
    ),
    Fault(
        "accepts and answers nothing",
        hang,
        Diagnosis("reachable", FAIL, "does not answer in time", "check that it runs"),
        Outcome("failed", "llm_timeout", "sent nothing in time"),
        settings={"llm_first_token_timeout_s": 0.3},
    ),
    Fault(
        "hangs up at once",
        everywhere(reset),
        Diagnosis("reachable", FAIL, "breaks the connection", "look into its log"),
        Outcome("failed", "llm_unreachable", "can't be reached"),
    ),
    Fault(
        "wrong key",
        chat(chatting, key="right"),
        Diagnosis("reachable", FAIL, "refuses the key (401)", "set FOREGROUND_API_KEY"),
        Outcome("failed", "llm_auth", "refused the API key"),
        settings={"foreground_api_key": "wrong-key-1234"},
    ),
    Fault(
        "no key where one is wanted",
        chat(chatting, key="right"),
        Diagnosis("reachable", FAIL, "wants a key (401)", "set FOREGROUND_API_KEY"),
        Outcome("failed", "llm_auth", "refused the API key"),
    ),
    Fault(
        "model that isn't there",
        chat(refusing(404, "model_not_found"), models=({"id": "other-model"}, {"id": "third-model"})),
        Diagnosis("model", WARN, f"does not list {MODEL}, but other-model, third-model", "set FOREGROUND_MODEL"),
        Outcome("failed", "llm_model_not_found", "check the model name"),
    ),
    Fault(
        "no model loaded",
        chat(refusing(404, "model_not_found"), models=()),
        Diagnosis("model", WARN, "lists no model", "load a model"),
        Outcome("failed", "llm_model_not_found"),
    ),
    Fault(
        "wrong path",
        chat(chatting),
        Diagnosis("streams", FAIL, "answers 404 to a chat request", "usually ends in /v1"),
        Outcome("failed", "llm_http_error", "check the base URL"),
        url=of_the_site,
    ),
    Fault(
        "redirect",
        redirecting,
        Diagnosis("reachable", FAIL, "redirects to https://new.example.com:8443/v1/models", "give that address"),
        Outcome("failed", "llm_http_error", "redirect"),
    ),
    Fault(
        "web page instead of an API",
        page(),
        Diagnosis("reachable", FAIL, "answers with a web page", "usually ends in /v1"),
        Outcome("failed", "llm_bad_response"),
    ),
    Fault(
        "web page for chat requests",
        chat(page()),
        Diagnosis("streams", FAIL, "answers a chat request with a web page", "usually ends in /v1"),
        Outcome("failed", "llm_bad_response"),
    ),
    Fault(
        "429, too many requests",
        chat(refusing(429, "rate_limit_exceeded")),
        Diagnosis("streams", FAIL, "too many requests (429)", "raise the quota"),
        Outcome("failed", "llm_rate_limit", "429"),
    ),
    Fault(
        "500, a failure of its own",
        chat(refusing(500, "server_error")),
        Diagnosis("streams", FAIL, "fails by itself (500)", "that server's log"),
        Outcome("failed", "llm_http_error", "500"),
    ),
    Fault(
        "503, still loading its model",
        everywhere(refusing(503, "unavailable_error", "Loading model")),
        Diagnosis("reachable", FAIL, "is not ready (503)", "wait until it has loaded its model"),
        Outcome("failed", "llm_http_error", "503"),
    ),
    Fault(
        "does not stream",
        chat(in_one_object),
        Diagnosis("streams", WARN, "does not stream", "switch streaming on"),
        Outcome("completed"),
    ),
    Fault(
        "streams in one piece",
        chat(sse(*spoken("One, two, three, four, five, six, seven, eight, nine, ten."))),
        Diagnosis("streams", WARN, "in one piece", "buffer"),
        Outcome("completed"),
    ),
    Fault(
        "broken JSON in the stream",
        chat(sse(*ONE_TWO, 'data: {"choices": [{"delta"')),
        Diagnosis("streams", FAIL, "broken JSON in its stream", "update that server"),
        Outcome("failed", "llm_bad_response", "unreadable"),
    ),
    Fault(
        "error object in the stream",
        chat(sse(*ONE_TWO, 'data: {"error": {"message": "CUDA out of memory", "code": "oom"}}')),
        Diagnosis("streams", FAIL, "an error in the middle of its stream", "that server's log"),
        Outcome("failed", "llm_stream_broken", "broke off its reply"),
    ),
    Fault(
        "dies in mid-stream",
        chat(then(*ONE_TWO, reset)),
        Diagnosis("streams", FAIL, "breaks off its reply", "it may have died"),
        Outcome("failed", "llm_stream_broken", "broke off its reply"),
    ),
    Fault(
        "body cut inside a chunk",
        chat(then(*ONE_TWO, cut_inside_a_chunk)),
        Diagnosis("streams", FAIL, "breaks off its reply", "a proxy's limit"),
        Outcome("failed", "llm_stream_broken", "broke off its reply"),
    ),
    Fault(
        "stream without a reply",
        chat(sse()),
        Diagnosis("streams", FAIL, "ends its stream without a reply", "that server's log"),
        Outcome("failed", "llm_bad_response"),
    ),
    Fault(
        "empty reply",
        chat(sse(delta("stop"))),
        Diagnosis("streams", FAIL, "its reply is empty", "token limit"),
        Outcome("completed"),
    ),
    Fault(
        "slow first token",
        chat(hang),
        Diagnosis("streams", FAIL, "no token within 0.3 s", "smaller model"),
        Outcome("failed", "llm_timeout", "sent nothing in time"),
        settings={"llm_first_token_timeout_s": 0.3},
    ),
    Fault(
        "stalls in mid-stream",
        chat(then(*ONE_TWO, hang)),
        Diagnosis("streams", FAIL, "no next token within 0.3 s", "overloaded"),
        Outcome("failed", "llm_stalled", "stopped in the middle"),
        settings={"llm_next_token_timeout_s": 0.3},
    ),
    Fault(
        "content filter",
        chat(sse(*ONE_TWO, delta("content_filter"))),
        Diagnosis("streams", FAIL, "its content filter stops", "relax the filter"),
        Outcome("incomplete", "content_filter"),
    ),
    Fault(
        "context too small for anything",
        chat(TOO_LONG),
        Diagnosis("streams", FAIL, "its context is too small", "larger context"),
        Outcome("failed", "llm_context_length", "too long"),
    ),
    Fault(
        "context smaller than the setting",
        chat(chatting, others={"/props": SHORT_PROPS}),
        Diagnosis("context", WARN, "2048 tokens fit, but sessions send up to 28224", "FOREGROUND_CONTEXT_TOKENS to"),
        Outcome("completed"),
    ),
    Fault(
        "stream with a wrong content type",
        chat(as_plain_text),
        Diagnosis("streams", OK, "first token after"),
        Outcome("completed"),
    ),
    Fault(
        "thinks aloud in a field of its own",
        chat(sse(*(delta(reasoning_content=f"thought {number}. ") for number in range(9)), *COUNTING)),
        Diagnosis("thinking", WARN, "it thinks for", "set FOREGROUND_THINKING=off"),
        Outcome("completed"),
    ),
    Fault(
        "thinks aloud in tags",
        chat(sse(*spoken("<think>", "I should count.", "</think>", "One, ", "two, ", "three."))),
        Diagnosis("thinking", WARN, "it thinks for", "set FOREGROUND_THINKING=off"),
        Outcome("completed"),
    ),
    Fault(
        "thinks until its tokens are over",
        chat(sse(*(delta(reasoning_content=f"thought {number}. ") for number in range(9)), delta("length"))),
        Diagnosis("streams", WARN, "has said nothing when its 96 tokens are over", "set FOREGROUND_THINKING=off"),
        Outcome("incomplete", "max_output_tokens"),
    ),
    Fault(
        "refuses functions",
        chat(without_tools(refusing(400, "BadRequestError", '"auto" tool choice requires --enable-auto-tool-choice'))),
        Diagnosis("tools", WARN, "refuses functions (400)", "--enable-auto-tool-choice"),
        Outcome("failed", "llm_http_error", "400"),
        tools=True,
    ),
    Fault(
        "ignores functions",
        chat(without_tools(sse(*COUNTING))),
        Diagnosis("tools", WARN, "calls no function", "a model that calls functions"),
        Outcome("completed"),
        tools=True,
    ),
    Fault(
        "broken arguments of a function call",
        chat(
            without_tools(
                sse(
                    delta(
                        "tool_calls",
                        tool_calls=[{"index": 0, "id": "c", "function": {"name": "get_stock", "arguments": "{"}}],
                    )
                )
            )
        ),  # fmt: skip
        Diagnosis("tools", WARN, "its function call is malformed", "trained to call functions"),
        Outcome("completed"),
        tools=True,
    ),
    Fault(
        "another duplex-gateway",
        chat(chatting, models=({"id": "cascade", "owned_by": "duplex-gateway"},)),
        Diagnosis("model", FAIL, "is a duplex-gateway itself", "a model server's address"),
        Outcome("completed"),
    ),
    Fault(
        "the gateway's own address",
        chat(chatting),
        Diagnosis("valid", FAIL, "a setting is wrong", "points at the gateway's own address"),
        REFUSED_AT_START,
        settings={"port": 8765},
        url=lambda _base_url: "http://127.0.0.1:8765/v1",
    ),
)
"""Faults of a language model's server. Where nothing else is said, the fault lasts and the session goes on."""
