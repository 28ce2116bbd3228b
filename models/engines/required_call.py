"""Makes a model call a function where the request demands it, though its server doesn't see to that.

Many servers take `tool_choice` and ignore it. A reply that must be a call is kept back until the call comes. If none
does, the model is asked again with a JSON schema that only a call fits, which most servers enforce; from then on at
once.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from models.engines.call_syntax import Tools
from models.engines.written_calls import known_tools
from models.interfaces import ChatAlive, ChatEnd, ChatEvent, ChatRequest, ChatText, ChatToolCall, EngineError

logger = logging.getLogger(__name__)

LONGEST_KEPT_BACK = 4_000
"""Characters without a call after which none is expected any more (chosen: a minute of speech)."""

Ask = Callable[[ChatRequest, dict[str, Any] | None], AsyncGenerator[ChatEvent, None]]
"""Asks the server; with a JSON schema, for a reply that fits it."""


def callable_tools(request: ChatRequest) -> Tools:
    """Return the functions that the reply to `request` may call, {} if none."""
    choice = request.tool_choice
    tools = known_tools(request.tools)
    if isinstance(choice, str):
        return {} if choice == "none" else tools
    named = choice.get("function")
    name = named.get("name") if isinstance(named, dict) else None
    return {name: tools[name]} if name in tools else tools


def must_call(request: ChatRequest) -> bool:
    """Return whether the reply must be a call: of any function, or of one that is named."""
    choice = request.tool_choice
    return bool(request.tools) and (choice == "required" or not isinstance(choice, str))


def call_schema(tools: Tools) -> dict[str, Any]:
    """Return the JSON schema of a call of one of `tools`, as the text of a reply."""
    calls = [
        {
            "type": "object",
            "properties": {"name": {"const": name}, "arguments": _standing_alone(parameters)},
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for name, parameters in tools.items()
    ]
    return calls[0] if len(calls) == 1 else {"anyOf": calls}


def _standing_alone(parameters: Any) -> Any:
    """Return a schema that may stand inside another one: its references to itself would point elsewhere there."""
    plain = {"type": "object", "properties": {}}
    return {**plain, **parameters} if not _refers(parameters) else {"type": "object"}


def _refers(schema: Any) -> bool:
    if isinstance(schema, dict):
        return "$ref" in schema or any(map(_refers, schema.values()))
    return isinstance(schema, list) and any(map(_refers, schema))


class RequiredCall:
    """One server's way. `by_schema`: it is known to ignore `tool_choice`."""

    def __init__(self, ask: Ask, server: str, *, by_schema: bool) -> None:
        self._ask = ask
        self._server = server
        self.by_schema = by_schema

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent, None]:
        """Yield a reply that calls. What the model says instead is passed on only if the schema has no effect either.

        Raises EngineError, llm_no_call where nothing came but what doesn't fit.
        """
        kept_back: list[ChatEvent] = []
        if not self.by_schema:
            called = False
            async with aclosing(self._ask(request, None)) as events:
                async for event in _until_called(events, kept_back):
                    called = called or isinstance(event, ChatToolCall)
                    yield event
            if called or _cut(kept_back):
                for event in kept_back:
                    yield event
                return
        try:
            async for event in self._by_schema(request):
                yield event
        except EngineError as error:
            if not kept_back:
                raise
            logger.warning("%s ignores tool_choice, and with a schema: %s", self._server, error.code)
            for event in kept_back:
                yield event
            return
        if not self.by_schema:
            logger.warning("%s ignores tool_choice; calls are demanded by a schema from now on", self._server)
            self.by_schema = True

    async def _by_schema(self, request: ChatRequest) -> AsyncGenerator[ChatEvent, None]:
        called = False
        async with aclosing(self._ask(request, call_schema(callable_tools(request)))) as events:
            async for event in events:
                match event:
                    case ChatText():
                        yield ChatAlive()  # it doesn't fit the schema, and nobody asked for it
                    case ChatToolCall():
                        called = True
                        yield event
                    case ChatEnd(finish_reason=reason) if not called and reason not in ("length", "content_filter"):
                        raise EngineError("llm_no_call", f"The language model at {self._server} made no function call.")
                    case _:
                        yield event


async def _until_called(
    events: AsyncGenerator[ChatEvent, None], kept_back: list[ChatEvent]
) -> AsyncGenerator[ChatEvent, None]:
    """Yield a reply with a call; of one without, which goes into `kept_back`, signs of life only."""
    called, characters = False, 0
    async for event in events:
        if called:
            yield event
        elif isinstance(event, ChatToolCall):
            called = True
            for earlier in kept_back:
                yield earlier
            kept_back.clear()
            yield event
        elif isinstance(event, ChatAlive):
            yield event
        else:
            kept_back.append(event)
            if isinstance(event, ChatText):
                yield ChatAlive()
                characters += len(event.text)
                if characters > LONGEST_KEPT_BACK:
                    kept_back.append(ChatEnd("stop"))
                    return


def _cut(events: list[ChatEvent]) -> bool:
    """Return whether the reply was stopped before it could call."""
    return bool(events) and isinstance(end := events[-1], ChatEnd) and end.finish_reason in ("length", "content_filter")
