"""A language model of the user's own choice: any GGUF file, in llama.cpp's own server in this process.

It goes through the same client code as any endpoint. Its chat template, with tools where it has them, is the file's.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from models.engine_plan import Thinking
from models.engines.gguf_file import BadGguf, GgufModel, read_gguf
from models.engines.llama_server import LlamaServer
from models.engines.openai_chat import OpenAIChat
from models.engines.required_call import must_call
from models.interfaces import ChatEvent, ChatRequest, EngineError

logger = logging.getLogger(__name__)

SLOTS = 2
"""Conversations computed side by side; a third one waits for one of them (chosen: each costs its context's memory)."""

MOST_SLOT_TOKENS = 8_192
LEAST_SLOT_TOKENS = 2_048
"""Context of each slot, as far as model and memory allow (chosen: half an hour of talk, and what one turn needs)."""

MOST_CACHE_BYTES = 2 * 1024**3
"""Memory for all slots' context (chosen: what an 8B model with 8 key heads takes at MOST_SLOT_TOKENS)."""

REPLY_TOKENS = 1_024
"""Longest reply, and what a prompt leaves room for (chosen: six minutes of speech)."""

PROMPT_CACHE_MIB = 512
"""Memory for prompts that had to leave their slot (chosen)."""

DROP_TURNS = 4
"""Old turns leave in blocks of this many, so that the prompt's start, which the cache needs, rarely moves (chosen)."""

_BYTES_PER_TOKEN = 3.0
"""A guess for any language and vocabulary. The server corrects one that is too high."""

_LEAST_BUDGET = 128


class GgufChat:
    """ChatModel over the GGUF file at `path`. Constructing it loads the model and blocks; do so in a thread.

    `temperature`, `extra_body`, `thinking` as in OpenAIChat. Raises BadGguf for a file that can't be used.
    """

    def __init__(
        self,
        path: Path,
        *,
        temperature: float | None = None,
        extra_body: dict[str, Any] | None = None,
        thinking: Thinking = "unchanged",
    ) -> None:
        self.file = read_gguf(path)
        self.knows_tools = "tools" in self.file.chat_template
        self.slot_tokens = slot_tokens(self.file)
        cores = _cores()
        try:
            self._server = LlamaServer(
                path,
                self.file.name,
                slots=SLOTS,
                slot_tokens=self.slot_tokens,
                threads=max(1, cores - 1),  # one is left to ears and voice
                batch_threads=cores,
                cache_mib=PROMPT_CACHE_MIB,
            )
        except RuntimeError as error:
            raise BadGguf(
                f"llama.cpp can't load the GGUF file {path}: give one that this release knows and that fits in memory."
            ) from error
        if not self.file.chat_template:
            logger.warning("the GGUF file has no chat template: it gets a common one, which may not suit its model")
        self._chat = OpenAIChat(
            self._server.base_url,
            self.file.name,
            api_key=self._server.api_key,
            temperature=temperature,
            extra_body=extra_body,
            thinking=thinking,
            calls_by_schema=True,
            knows_tools=self.knows_tools,
        )

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent, None]:
        """Yield the reply's pieces; see ChatModel. What doesn't fit leaves the history, the oldest turns first.

        A model whose template has no tools gets none, unless it must call one: a schema sees to that.
        """
        tools = request.tools if self.knows_tools or must_call(request) else ()
        reply_tokens = min(request.max_output_tokens or REPLY_TOKENS, REPLY_TOKENS)
        budget = self.slot_tokens - reply_tokens - _cost(tools)
        while True:
            messages = fit_turns(request.messages, budget)
            fitting = dataclasses.replace(request, messages=messages, tools=tools, max_output_tokens=reply_tokens)
            try:
                async with aclosing(self._chat.stream(fitting)) as events:
                    async for event in events:
                        yield event
                return
            except EngineError as error:  # raised before the first event: the server counts before it answers
                if error.code != "llm_context_length" or budget < _LEAST_BUDGET:
                    raise
                budget /= 2
                logger.debug("prompt too long for the model's context, cut to %d tokens", budget)

    async def aclose(self) -> None:
        """Close the connections and stop the server."""
        await self._chat.aclose()
        await self._server.aclose()


def slot_tokens(model: GgufModel) -> int:
    """Return the context of each slot that `model` is trained for and memory allows."""
    most = min(model.context_tokens or MOST_SLOT_TOKENS, MOST_SLOT_TOKENS)
    if model.cache_bytes_per_token:
        affordable = MOST_CACHE_BYTES // (SLOTS * model.cache_bytes_per_token)
        most = min(most, max(LEAST_SLOT_TOKENS, affordable // 256 * 256))  # llama.cpp rounds to 256
    return most


def fit_turns(messages: Sequence[dict[str, Any]], budget_tokens: float) -> tuple[dict[str, Any], ...]:
    """Return `messages` without the oldest turns that don't fit in about `budget_tokens`.

    What stands before the user's first words stays, and so does the last turn; calls stay with their results.
    """
    starts = [at for at, message in enumerate(messages) if message.get("role") == "user"]
    if not starts:
        return tuple(messages)
    head = [message for message in messages[: starts[0]] if message.get("role") in ("system", "developer")]
    dropped = 0
    while dropped < len(starts) - 1 and _cost([*head, *messages[starts[dropped] :]]) > budget_tokens:
        dropped = min(dropped + DROP_TURNS, len(starts) - 1)
    return tuple(messages) if not dropped else (*head, *messages[starts[dropped] :])


def _cost(parts: Sequence[dict[str, Any]]) -> float:
    return len(json.dumps(parts, ensure_ascii=False).encode("utf-8", "replace")) / _BYTES_PER_TOKEN


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS, Windows
        return os.cpu_count() or 1
