"""The embedded "demo brain": SmolLM2-135M-Instruct in llama.cpp's own server, in this process, on a loopback port.

It talks, mostly in a sentence, and its facts are shaky; it knows no tools, and calls one only where it must: a schema
then leaves it nothing else, and what it calls with is a guess. It goes through the same client code as any
endpoint, so that what works with it works with a real model.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from models.engines.llama_server import LlamaServer
from models.engines.openai_chat import OpenAIChat
from models.engines.required_call import must_call
from models.engines.told_tools import LONGEST_LIST
from models.interfaces import ChatEnd, ChatEvent, ChatRequest, ChatText, EngineError

logger = logging.getLogger(__name__)

MODEL_NAME = "SmolLM2-135M-Instruct"

SLOTS = 3
"""Conversations computed side by side: two sessions, and one for what is prepared or begun ahead of a turn's end."""

SLOT_TOKENS = 2048
"""Context of each slot. SmolLM2 is trained to 8192; a slot of this size takes 47 MB."""

REPLY_TOKENS = 160
"""Longest reply: about a minute of speech. Without a bound the model may go on until the slot is full."""

CALL_TOKENS = 512
"""Longest call of a function (chosen: its arguments are names and numbers, mostly)."""

TOOLS_TOKENS = LONGEST_LIST // 3
"""What the functions take of a prompt in which one must be called."""

ENOUGH_TOKENS = 40
"""After this many the reply ends with the sentence: asked for a short answer, a model this small rambles (chosen)."""

PROMPT_TOKENS = 1024
"""Longest prompt wanted. 1024 tokens take about 6 s to read on one core when the prompt cache can't help."""

DROP_BLOCK = 8
"""Old messages are dropped in blocks of this many, so that the prompt's start, which the cache needs, rarely moves."""

TEMPERATURE = 0.3
"""Lively enough not to repeat itself, sober enough for a 135M model (chosen)."""

DRY_MULTIPLIER = 0.8
"""llama.cpp's DRY sampler, at its authors' value, penalises repeated phrases only: without it this model may go round
in circles; a plain repeat penalty made its answers worse. Its usual breakers include the quotation mark, which let
`"ad hoc" or "ad hoc" or …` pass; only a line's end breaks a phrase here (2026-11-29)."""

THREADS = 1
"""One thread writes 60 tokens/s, ten times as fast as speech, however busy the machine is. Two write 90 on an idle
one, but they wait for each other at every layer: beside other work on two cores they fell to 2…9 (2026-11-29)."""

BATCH_THREADS = 2
"""Reading a prompt is one long piece of work in which two threads wait little: first token after 300 ms instead of 490
(median of 24 turns, 2026-11-29)."""

NEXT_TURN_TOKENS = 100
"""Length of a user's next turn that the prompt is prepared for (chosen: half a minute of speech)."""

_PROMPT_CACHE_MIB = 256
_BYTES_PER_TOKEN = 3.5
"""English in SmolLM2's tokens has about 4.4 bytes each; this leaves a margin. The server corrects a wrong guess."""

_TOKENS_PER_MESSAGE = 6
_SHORTEST_PROMPT_TOKENS = 16


class EmbeddedChat:
    """ChatModel over a GGUF file. Constructing it loads the model (about 0.6 s) and blocks; do so in a thread.

    `base_url`, `api_key` and `model` serve others who want to ask the same server.
    """

    calls_tools = False
    """Of its own accord: it calls where a call is demanded."""

    def __init__(self, model: Path, *, temperature: float = TEMPERATURE, threads: int = THREADS) -> None:
        self._server = LlamaServer(
            model,
            MODEL_NAME,
            slots=SLOTS,
            slot_tokens=SLOT_TOKENS,
            threads=threads,
            batch_threads=BATCH_THREADS,
            cache_mib=_PROMPT_CACHE_MIB,
        )
        self.base_url, self.api_key, self.model = self._server.base_url, self._server.api_key, MODEL_NAME
        self._chat = OpenAIChat(
            self.base_url,
            MODEL_NAME,
            api_key=self.api_key,
            temperature=temperature,
            extra_body={"dry_multiplier": DRY_MULTIPLIER, "dry_sequence_breakers": ["\n"]},
            calls_by_schema=True,
            knows_tools=False,
        )
        self._preparing: set[asyncio.Task[None]] = set()

    async def stream(self, request: ChatRequest) -> AsyncGenerator[ChatEvent, None]:
        """Yield the reply's pieces; see ChatModel. Tools that may be called are left out, history is cut to what fits.

        So is the request's temperature: beta clients send one of their own accord, and what suits large models makes
        this one babble.
        """
        calls = must_call(request)
        longest = CALL_TOKENS if calls else REPLY_TOKENS
        reply_tokens = min(request.max_output_tokens or longest, longest)
        budget = float(PROMPT_TOKENS)
        while True:
            fitting = dataclasses.replace(
                request,
                messages=fit_messages(request.messages, max(1.0, budget - TOOLS_TOKENS) if calls else budget),
                tools=request.tools if calls else (),
                max_output_tokens=reply_tokens,
                temperature=None,
                reasoning_effort=None,
            )
            try:
                reply = ""
                async with aclosing(self._chat.stream(fitting)) as events:
                    async for event in _until_enough(events):
                        reply += event.text if isinstance(event, ChatText) else ""
                        yield event
                if not calls:
                    self._prepare_next_turn(request, fitting.messages, reply, budget)
                return
            except EngineError as error:  # raised before the first event: the server counts before it answers
                if error.code != "llm_context_length" or budget <= _SHORTEST_PROMPT_TOKENS:
                    raise
                budget /= 2
                logger.debug("prompt too long for the embedded model, cut to %d tokens", budget)

    def _prepare_next_turn(
        self, request: ChatRequest, told: Sequence[dict[str, Any]], reply: str, budget: float
    ) -> None:
        """Have the server read the next prompt while the user listens, if old messages will have left it by then.

        A shorter history shares no prefix with the cached one; read after the user's words, it would cost two seconds.
        """
        expected = {"role": "user", "content": "." * int(NEXT_TURN_TOKENS * _BYTES_PER_TOKEN)}
        coming = fit_messages([*request.messages, {"role": "assistant", "content": reply}, expected], budget)
        if coming[: len(told)] == tuple(told):
            return
        task = asyncio.create_task(self._read(dataclasses.replace(request, messages=coming, max_output_tokens=1)))
        self._preparing.add(task)
        task.add_done_callback(self._preparing.discard)

    async def _read(self, request: ChatRequest) -> None:
        try:
            async with aclosing(self._chat.stream(dataclasses.replace(request, tools=()))) as events:
                async for _ in events:
                    pass
        except EngineError as error:  # the next turn will only be slower
            logger.debug("the next prompt could not be prepared: %s", error.code)

    async def aclose(self) -> None:
        """Close the connections and stop the server."""
        for task in self._preparing:
            task.cancel()
        await self._chat.aclose()
        await self._server.aclose()


async def _until_enough(events: AsyncGenerator[ChatEvent, None]) -> AsyncGenerator[ChatEvent, None]:
    """Yield `events` up to the first end of a sentence after ENOUGH_TOKENS; closing them then stops the server."""
    pieces, ends = 0, False
    async for event in events:
        if isinstance(event, ChatText):
            if ends and pieces >= ENOUGH_TOKENS and event.text[0].isspace():
                yield ChatEnd("stop", output_tokens=pieces)
                return
            pieces += 1  # llama.cpp streams token by token
            ends = event.text.rstrip("\"')*").endswith((".", "!", "?"))
        yield event


def fit_messages(messages: Sequence[dict[str, Any]], budget_tokens: float) -> tuple[dict[str, Any], ...]:
    """Return `messages` as plain text ones that take about `budget_tokens` at most.

    System messages stay (cut to half the budget). Of the others the oldest go first, in blocks; the last one stays, if
    need be without its beginning.
    """
    plain = [_plain(message) for message in messages]
    system = "\n\n".join(message["content"] for message in plain if message["role"] == "system")
    system_bytes = int(budget_tokens / 2 * _BYTES_PER_TOKEN)
    system = system.encode("utf-8", "replace")[:system_bytes].decode("utf-8", "ignore")
    turns = [message for message in plain if message["role"] != "system" and message["content"]]
    left = budget_tokens - (_cost(system) if system else 0.0)
    dropped = 0
    while dropped < len(turns) - 1 and sum(_cost(turn["content"]) for turn in turns[dropped:]) > left:
        dropped = min(dropped + DROP_BLOCK, len(turns) - 1)
    turns = turns[dropped:]
    if len(turns) == 1:
        longest = max(1, int((left - _TOKENS_PER_MESSAGE) * _BYTES_PER_TOKEN))
        content = turns[0]["content"].encode("utf-8", "replace")[-longest:].decode("utf-8", "ignore")
        turns = [{**turns[0], "content": content}]
    return (*([{"role": "system", "content": system}] if system else []), *turns)


def _cost(text: str) -> float:
    return len(text.encode("utf-8", "replace")) / _BYTES_PER_TOKEN + _TOKENS_PER_MESSAGE


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message as plain text; a reply that was cut short goes without the dash that marks it.

    A model this small copies the dash: from one reply that ended in it, all later ones ended in it (2026-11-29).
    """
    role, text = _role(message), _text(message)
    return {"role": role, "content": text.rstrip(" —") if role == "assistant" else text}


def _role(message: dict[str, Any]) -> str:
    role = message.get("role")
    if role in ("system", "developer"):
        return "system"
    return "assistant" if role == "assistant" else "user"  # results of tools it never called are told to it


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return " ".join(str(part["text"]) for part in parts if isinstance(part, dict) and part.get("type") == "text")
