"""Chat with any OpenAI-compatible server: OpenAI, vLLM, llama.cpp, Ollama, LM Studio, and our embedded one."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from models.engines.chat_text import ReplyText
from models.engines.openai_endpoint import (
    as_engine_error,
    authorization,
    is_stale_connection,
    normal_base_url,
    open_client,
    server_name,
)
from models.engines.tool_call_stream import ToolCallStream
from models.interfaces import ChatEnd, ChatEvent, ChatRequest, ChatText, EngineError

logger = logging.getLogger(__name__)

_FINISH_REASONS = frozenset({"stop", "length", "tool_calls", "content_filter"})

_OPENAI_HOST = "api.openai.com"
"""The one server that wants `max_completion_tokens` and knows `prompt_cache_key`; others may refuse unknown keys."""


class OpenAIChat:
    """ChatModel over `POST {base_url}/chat/completions`, streamed.

    `extra_body` goes into every request (for instance `{"id_slot": 0}`). An empty `api_key` sends none. A request's own
    temperature wins over `temperature`.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str = "",
        temperature: float | None = None,
        extra_body: dict[str, Any] | None = None,
    ) -> None:
        self.base_url = normal_base_url(base_url)
        self.model = model
        self.server = server_name(self.base_url)
        self._temperature = temperature
        self._extra_body = extra_body or {}
        self._wants_usage = True
        self._client = open_client(self.base_url, api_key)
        self._headers = authorization(api_key)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent, None]:
        """Yield the reply's pieces, then one ChatEnd; see ChatModel.

        Raises EngineError: llm_unreachable, llm_auth, llm_http_error, llm_context_length, llm_stream_broken,
        llm_bad_response.
        """
        try:
            chunks = await self._open(self._body(request))
        except Exception as error:
            raise as_engine_error(error, self.server) from error
        try:
            async with aclosing(self._events(chunks)) as events:
                async for event in events:
                    yield event
        finally:
            await chunks.close()  # closes the connection, on which the server stops its work

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.close()

    def request_body(self, request: ChatRequest) -> dict[str, Any]:
        """Return the JSON that `request` is sent as, for whoever wants to see what the server makes of it."""
        return self._body(request)

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self.model, "messages": list(request.messages), "stream": True}
        at_openai = self.server == _OPENAI_HOST
        if request.tools:  # `tools: []` is refused by OpenAI and vLLM
            body["tools"] = list(request.tools)
            body["tool_choice"] = request.tool_choice
            if request.parallel_tool_calls is not None:
                body["parallel_tool_calls"] = request.parallel_tool_calls
        if request.max_output_tokens is not None:
            body["max_completion_tokens" if at_openai else "max_tokens"] = request.max_output_tokens
        temperature = self._temperature if request.temperature is None else request.temperature
        if temperature is not None:
            body["temperature"] = temperature
        if request.reasoning_effort is not None:
            body["reasoning_effort"] = request.reasoning_effort
        if at_openai and request.session_key:
            body["prompt_cache_key"] = request.session_key
        return {**body, **self._extra_body}

    async def _open(self, body: dict[str, Any]) -> Any:
        """Return the open stream of JSON chunks; the first refusal of `stream_options` is remembered."""
        import openai

        if self._wants_usage:
            try:
                return await self._post({**body, "stream_options": {"include_usage": True}})
            except (openai.BadRequestError, openai.UnprocessableEntityError):
                chunks = await self._post(body)  # raises again if it wasn't for `stream_options`
                self._wants_usage = False
                logger.info("the language model server refuses stream_options; it is asked without usage from now on")
                return chunks
        return await self._post(body)

    async def _post(self, body: dict[str, Any]) -> Any:
        try:
            return await self._post_once(body)
        except Exception as error:
            if not is_stale_connection(error):
                raise
            return await self._post_once(body)

    async def _post_once(self, body: dict[str, Any]) -> Any:
        from openai import AsyncStream

        # Plain JSON instead of the SDK's typed chunks: less CPU for each token, and no field is a surprise.
        return await self._client.post(
            "/chat/completions",
            body=body,
            options={"headers": self._headers},
            cast_to=object,
            stream=True,
            stream_cls=AsyncStream[object],
        )

    async def _events(self, chunks: Any) -> AsyncGenerator[ChatEvent, None]:
        reply = ReplyText()
        calls = ToolCallStream()
        finish_reason = ""
        usage: dict[str, Any] = {}
        anything = False
        try:
            async for chunk in chunks:
                if not isinstance(chunk, dict):
                    raise ValueError("a chunk is no object")
                usage = chunk["usage"] if isinstance(chunk.get("usage"), dict) else usage
                choices = chunk.get("choices") or [{}]  # the chunk with the usage has none
                delta = choices[0].get("delta") or {}
                finish_reason = choices[0].get("finish_reason") or finish_reason
                if text := reply.feed(delta.get("content")):
                    anything = True
                    yield ChatText(text)
                for piece in delta.get("tool_calls") or ():
                    if (event := calls.feed(piece)) is not None:
                        yield event
        except (AttributeError, KeyError, TypeError) as error:  # JSON of another shape
            raise as_engine_error(ValueError("unexpected chunk"), self.server) from error
        except Exception as error:
            raise _broken(error, self.server) from error
        if text := reply.end():
            yield ChatText(text)
        if not calls.all_named or not (anything or calls or finish_reason):
            raise as_engine_error(ValueError("no reply"), self.server)
        yield _end(finish_reason, bool(calls), usage)


def _broken(error: Exception, server: str) -> EngineError:
    """Return the error of a stream that had begun: what the connection lost is the reply, not the server."""
    known = as_engine_error(error, server)
    if known.code in ("llm_unreachable", "llm_http_error"):
        return EngineError("llm_stream_broken", f"The language model server {server} broke off its reply.")
    return known


def _end(finish_reason: str, has_calls: bool, usage: dict[str, Any]) -> ChatEnd:
    if has_calls and finish_reason not in ("length", "content_filter"):
        finish_reason = "tool_calls"  # some servers say "stop" or "function_call"
    elif finish_reason not in _FINISH_REASONS:
        finish_reason = "stop"
    details = usage.get("prompt_tokens_details")
    details = details if isinstance(details, dict) else {}
    return ChatEnd(
        finish_reason,
        input_tokens=int(usage.get("prompt_tokens") or 0),
        cached_tokens=int(details.get("cached_tokens") or 0),
        output_tokens=int(usage.get("completion_tokens") or 0),
    )
