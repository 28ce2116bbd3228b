"""Chat with any OpenAI-compatible server: OpenAI, vLLM, llama.cpp, Ollama, LM Studio, and our embedded one."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from models.engine_plan import Thinking
from models.engines.call_syntax import Tools
from models.engines.chat_chunks import chunk_stream, chunks_of
from models.engines.chat_reply import ChatReply
from models.engines.openai_endpoint import (
    as_engine_error,
    authorization,
    first_model,
    is_too_long,
    is_unknown_model,
    normal_base_url,
    on_a_live_connection,
    open_client,
    refusal_words,
    server_name,
)
from models.engines.request_options import RequestOptions
from models.engines.required_call import RequiredCall, callable_tools, must_call
from models.engines.told_tools import answered_calls, canonical, with_results_in_words, with_tools_in_words
from models.extra_body import merged
from models.interfaces import ChatEnd, ChatEvent, ChatRequest, ChatText, ChatToolCall, EngineError

logger = logging.getLogger(__name__)

_OPENAI_HOST = "api.openai.com"
"""The one server that wants `max_completion_tokens` and knows `prompt_cache_key`; others may refuse unknown keys."""


class OpenAIChat:
    """ChatModel over `POST {base_url}/chat/completions`, streamed.

    `model` "": the first that the server lists. `extra_body` goes into every request (for instance `{"id_slot": 0}`).
    An empty `api_key` sends none. A request's own temperature wins over `temperature`; `thinking`, unless it is
    "unchanged", over a request's own reasoning effort. `calls_by_schema`: the server is known to ignore `tool_choice`.
    `knows_tools` False: so does its model's template with tools, which are told in words where one must be called.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str = "",
        temperature: float | None = None,
        extra_body: dict[str, Any] | None = None,
        thinking: Thinking = "unchanged",
        calls_by_schema: bool = False,
        knows_tools: bool = True,
    ) -> None:
        self.base_url = normal_base_url(base_url)
        self.model = model
        self.server = server_name(self.base_url)
        self._temperature = temperature
        self._extra_body = extra_body or {}
        self._knows_tools = knows_tools
        self._options = RequestOptions(thinking, at_openai=self.server == _OPENAI_HOST)
        self._required = RequiredCall(self._reply, self.server, by_schema=calls_by_schema)
        self._warned_of_thoughts = False
        self._client = open_client(self.base_url, api_key)
        self._headers = authorization(api_key)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent, None]:
        """Yield the reply's pieces, then one ChatEnd; see ChatModel.

        Raises EngineError: llm_unreachable, llm_tls, llm_auth, llm_rate_limit, llm_model_not_found, llm_http_error,
        llm_context_length, llm_stream_broken, llm_bad_response, llm_no_call, llm_repeated_call.
        """
        reply = self._required.stream(request) if must_call(request) else self._unforced(request)
        async with aclosing(reply) as events:
            async for event in events:
                yield event

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.close()

    async def _unforced(self, request: ChatRequest) -> AsyncGenerator[ChatEvent, None]:
        """Yield a reply that may call or not. A small model that only repeats its call is told the result in words."""
        try:
            async with aclosing(self._reply(request, None)) as events:
                async for event in events:
                    yield event
                return
        except _RepeatedCall:
            logger.info("the model repeats a function call; its result is told in words")
        in_words = dataclasses.replace(request, messages=with_results_in_words(request.messages), tools=())
        said = False
        async with aclosing(self._reply(in_words, None, callable_tools(request))) as events:
            async for event in events:
                match event:
                    case ChatToolCall():
                        continue
                    case ChatEnd(finish_reason=reason):
                        if not said:
                            raise EngineError(
                                "llm_repeated_call",
                                f"The language model at {self.server} repeats its function call instead of the result.",
                            )
                        yield dataclasses.replace(event, finish_reason="stop" if reason == "tool_calls" else reason)
                    case _:
                        said = said or isinstance(event, ChatText)
                        yield event

    async def _reply(
        self, request: ChatRequest, schema: dict[str, Any] | None, written: Tools | None = None
    ) -> AsyncGenerator[ChatEvent, None]:
        """Yield one reply; `written`: functions that a call in its text may be of, None: those of the request."""
        try:
            body = await self._body(request, schema)
            stream = await self._open(body)
        except EngineError:
            raise
        except Exception as error:  # the SDK's, JSON's and the network's: one sentence for the client
            raise as_engine_error(error, self.server) from error
        answered = frozenset() if must_call(request) or not request.tools else answered_calls(request.messages)
        called = False
        reply = ChatReply(callable_tools(request) if written is None else written)
        try:
            async with aclosing(chunks_of(stream)) as chunks, aclosing(reply.events(chunks)) as events:
                async for event in events:
                    if isinstance(event, ChatToolCall) and not called:
                        called = True
                        if reply.written and (event.name, canonical(event.arguments)) in answered:
                            raise _RepeatedCall
                    yield event
        except (AttributeError, KeyError, IndexError, TypeError) as error:  # JSON of another shape
            raise as_engine_error(ValueError("unexpected chunk"), self.server) from error
        except (_RepeatedCall, EngineError):
            raise
        except Exception as error:  # whatever tears a stream: half a reply was told, and it has failed
            raise _broken(error, self.server) from error
        finally:
            await stream.close()  # closes the connection, on which the server stops its work
        self._note_thoughts(reply)

    def _note_thoughts(self, reply: ChatReply) -> None:
        if reply.thought and self._options.switches_thinking and not self._warned_of_thoughts:
            self._warned_of_thoughts = True
            logger.warning(
                "the model at %s thinks before it speaks, although it is told not to (%s)",
                self.server,
                self._options.describe() or "it refused to be told",
            )

    async def _body(self, request: ChatRequest, schema: dict[str, Any] | None) -> dict[str, Any]:
        if not self.model:
            self.model = await first_model(self._client, self._headers, self.server)
        messages = request.messages
        in_words = schema is not None and not self._knows_tools
        if in_words:
            allowed = callable_tools(request)
            messages = with_tools_in_words(
                messages, [tool for tool in request.tools if tool["function"]["name"] in allowed]
            )
        body: dict[str, Any] = {"model": self.model, "messages": list(messages), "stream": True}
        at_openai = self.server == _OPENAI_HOST
        if request.tools and not in_words:  # `tools: []` is refused by OpenAI and vLLM
            body["tools"] = list(request.tools)
            body["tool_choice"] = request.tool_choice if schema is None else "none"
            if request.parallel_tool_calls is not None and schema is None:
                body["parallel_tool_calls"] = request.parallel_tool_calls
        if schema is not None:
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "function_call", "schema": schema},
            }
        if request.max_output_tokens is not None:
            body["max_completion_tokens" if at_openai else "max_tokens"] = request.max_output_tokens
        temperature = self._temperature if request.temperature is None else request.temperature
        if temperature is not None:
            body["temperature"] = temperature
        if request.reasoning_effort is not None and not self._options.switches_thinking:
            body["reasoning_effort"] = request.reasoning_effort
        if at_openai and request.session_key:
            body["prompt_cache_key"] = request.session_key
        return body

    async def _open(self, body: dict[str, Any]) -> Any:
        """Return the open stream of chunks; what the server refuses is left out from now on."""
        import openai

        options = self._options
        while True:
            try:
                stream = await self._post(merged({**body, **options.fields}, self._extra_body))
            except (openai.BadRequestError, openai.UnprocessableEntityError) as refusal:
                if is_too_long(refusal) or is_unknown_model(refusal):
                    raise
                left = options.without(refusal_words(refusal))
                if left is None:
                    raise
                options = left
            else:
                if options is not self._options:
                    self._options = options
                    logger.info("%s is asked with these options from now on: %s", self.server, options.describe())
                return stream

    async def _post(self, body: dict[str, Any]) -> Any:
        return await on_a_live_connection(lambda: self._post_once(body))

    async def _post_once(self, body: dict[str, Any]) -> Any:
        # Plain JSON instead of the SDK's typed chunks: less CPU for each token, and no field is a surprise.
        return await self._client.post(
            "/chat/completions",
            body=body,
            options={"headers": self._headers},
            cast_to=object,
            stream=True,
            stream_cls=chunk_stream(),
        )


class _RepeatedCall(Exception):
    """The model writes a call that was answered already."""


def _broken(error: Exception, server: str) -> EngineError:
    """Return the error of a stream that had begun: what the connection lost is the reply, not the server."""
    known = as_engine_error(error, server)
    if known.code in ("llm_unreachable", "llm_http_error"):
        return EngineError("llm_stream_broken", f"The language model server {server} broke off its reply.")
    return known
