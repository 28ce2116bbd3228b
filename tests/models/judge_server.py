"""Servers that judges ask, as far as they matter here: llama.cpp's, vLLM's, and one that has chat completions only."""

import json
import math
from collections.abc import Callable
from typing import Any

from tests.models.chat_server import Exchange, Respond

NEXT = {".": 0.6, "?": 0.1, "...": 0.05, " and": 0.1}


def llama_cpp(next_token: Callable[[str], dict[str, float]] = lambda _: NEXT, slots: int = 3) -> Respond:
    """Return a server with slots, and with the log probabilities of chat completions in its completions."""

    async def respond(exchange: Exchange) -> None:
        if exchange.path == "/props":
            await exchange.refuse(200, json.dumps({"total_slots": slots, "model_alias": "some"}))
        elif exchange.path == "/v1/completions":
            await exchange.refuse(200, json.dumps(as_llama_cpp(next_token(exchange.body["prompt"]))))
        else:
            await exchange.refuse(404, json.dumps({"error": {"code": 404, "type": "not_found_error"}}))

    return respond


def as_llama_cpp(candidates: dict[str, float]) -> dict[str, Any]:
    top = [{"id": 1, "token": token, "logprob": math.log(share), "bytes": []} for token, share in candidates.items()]
    return {"choices": [{"text": "x", "index": 0, "logprobs": {"content": [{"top_logprobs": top}]}}]}


def as_vllm(candidates: dict[str, float]) -> dict[str, Any]:
    top = {token: math.log(share) for token, share in candidates.items()}
    return {"choices": [{"text": ".", "index": 0, "logprobs": {"tokens": ["."], "top_logprobs": [top]}}]}


def always(status: int, body: Any) -> Respond:
    """Return a server that gives every request the same answer; `body` is JSON, or bytes as they are."""

    async def respond(exchange: Exchange) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        exchange.writer.write(head.encode() + data)
        await exchange.writer.drain()

    return respond


def verdicts(answer: Callable[[str], str], logprobs: Callable[[str], Any] = lambda _: None) -> Respond:
    """Return a chat server that answers the last message's text with `answer`, and with its tokens' probabilities."""

    async def respond(exchange: Exchange) -> None:
        if exchange.path != "/v1/chat/completions":
            await exchange.refuse(404, json.dumps({"error": {"code": "not_found"}}))
            return
        asked = exchange.body["messages"][-1]["content"]
        choice = {"index": 0, "message": {"role": "assistant", "content": answer(asked)}, "finish_reason": "stop"}
        choice["logprobs"] = logprobs(asked) if exchange.body.get("logprobs") else None
        await exchange.refuse(200, json.dumps({"choices": [choice]}))

    return respond


def first_token(shares: dict[str, float]) -> dict[str, Any]:
    return {"content": [{"top_logprobs": [{"token": token, "logprob": math.log(p)} for token, p in shares.items()]}]}
