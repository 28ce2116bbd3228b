"""Loads the foreground language model that a plan names, warm."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

from models.engine_plan import ChatPlan
from models.engines.scripted import ScriptedChat, echo
from models.extra_body import parse_extra_body
from models.interfaces import ChatModel, ChatRequest, EngineError, EngineInfo
from models.weights import WeightsStore
from models.weights_manifest import SMOLLM2, Weight, packaged

logger = logging.getLogger(__name__)

ROLE = "foreground"

_WARM_UP = ChatRequest(({"role": "user", "content": "Hello."},), max_output_tokens=1)


def chat_weights(plan: ChatPlan) -> tuple[Weight, ...]:
    """Return the weights that loading `plan` takes from the store."""
    return (SMOLLM2,) if plan.engine == "embedded" and plan.gguf is None else ()


async def with_model(plan: ChatPlan) -> ChatPlan:
    """Return `plan` with the first model that its server lists, if it names none and the server is there.

    Raises ValueError for a wrong URL.
    """
    if plan.engine != "endpoint" or plan.model:
        return plan
    from models.engines.openai_endpoint import authorization, first_model, normal_base_url, open_client, server_name

    base_url = normal_base_url(plan.base_url)
    client = await asyncio.to_thread(open_client, base_url, plan.api_key)
    try:
        model = await first_model(client, authorization(plan.api_key), server_name(base_url))
    except EngineError as error:  # asked for again with the first turn, which says it if it stays so
        logger.warning("no language model is named, and none could be found: %s", error.message)
        return plan
    finally:
        await client.close()
    return replace(plan, model=model)


async def load_chat(plan: ChatPlan, store: WeightsStore) -> tuple[ChatModel, EngineInfo]:
    """Return the language model and what it is. Its weights are in `store`.

    Raises ValueError for a wrong URL, EngineError for an extra body or a GGUF file that can't be used, in one sentence.
    """
    match plan.engine:
        case "scripted":
            return ScriptedChat([plan.scripted_reply] if plan.scripted_reply else echo), EngineInfo(ROLE, "scripted")
        case "embedded" if plan.gguf is not None:
            return await _load_gguf(plan, plan.gguf)
        case "embedded":
            return await _load_embedded(plan, store)
        case "endpoint":
            return await _load_endpoint(plan)


async def _load_gguf(plan: ChatPlan, path: Path) -> tuple[ChatModel, EngineInfo]:
    from models.engines.gguf_chat import GgufChat
    from models.engines.gguf_file import BadGguf

    try:
        chat = await asyncio.to_thread(
            GgufChat,
            path,
            temperature=plan.temperature,
            extra_body=_extra_body(plan),
            thinking=plan.thinking,
        )
    except BadGguf as error:
        raise EngineError("llm_bad_file", str(error)) from error
    try:
        async for _ in chat.stream(_WARM_UP):
            pass
    except EngineError as error:
        await chat.aclose()
        raise ValueError(
            f"The model of the GGUF file {path} can't chat ({error.message}): give another one."
        ) from error
    name = chat.file.name if chat.knows_tools else f"{chat.file.name} (no tools)"
    return chat, EngineInfo(ROLE, name, path.name, chat.file.licence)


async def _load_embedded(plan: ChatPlan, store: WeightsStore) -> tuple[ChatModel, EngineInfo]:
    from models.engines.embedded_chat import MODEL_NAME, TEMPERATURE, EmbeddedChat

    chosen = TEMPERATURE if plan.temperature is None else plan.temperature
    model = store.path(SMOLLM2, "SmolLM2-135M-Instruct.Q4_1.gguf")
    chat = await asyncio.to_thread(EmbeddedChat, model, temperature=chosen)
    async for _ in chat.stream(_WARM_UP):
        pass  # warms the model and the client
    return chat, packaged(ROLE, f"{MODEL_NAME} (demo brain, no tools)", SMOLLM2)


async def _load_endpoint(plan: ChatPlan) -> tuple[ChatModel, EngineInfo]:
    from models.engines.openai_chat import OpenAIChat

    chat = await asyncio.to_thread(
        OpenAIChat,
        plan.base_url,
        plan.model,
        api_key=plan.api_key,
        temperature=plan.temperature,
        extra_body=_extra_body(plan),
        thinking=plan.thinking,
    )
    return chat, EngineInfo(ROLE, plan.model or "the server's first model", chat.server)


def _extra_body(plan: ChatPlan) -> dict[str, Any]:
    try:
        return parse_extra_body(plan.extra_body)
    except ValueError as error:
        raise EngineError("llm_bad_setting", f"The extra body of the language model's requests {error}.") from error
