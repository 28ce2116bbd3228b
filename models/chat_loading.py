"""Loads the foreground language model that a plan names, warm."""

from __future__ import annotations

import asyncio

from models.engine_plan import ChatPlan
from models.engines.scripted import ScriptedChat, echo
from models.interfaces import ChatModel, ChatRequest, EngineInfo
from models.weights import WeightsStore
from models.weights_manifest import SMOLLM2, Weight, packaged

ROLE = "foreground"


def chat_weights(plan: ChatPlan) -> tuple[Weight, ...]:
    """Return the weights that loading `plan` takes from the store."""
    return (SMOLLM2,) if plan.engine == "embedded" and plan.gguf is None else ()


async def load_chat(plan: ChatPlan, store: WeightsStore) -> tuple[ChatModel, EngineInfo]:
    """Return the language model and what it is. Its weights are in `store`. Raises ValueError for a wrong URL."""
    match plan.engine:
        case "scripted":
            return ScriptedChat([plan.scripted_reply] if plan.scripted_reply else echo), EngineInfo(ROLE, "scripted")
        case "embedded":
            return await _load_embedded(plan, store)
        case "endpoint":
            return await _load_endpoint(plan)


async def _load_embedded(plan: ChatPlan, store: WeightsStore) -> tuple[ChatModel, EngineInfo]:
    from models.engines.embedded_chat import MODEL_NAME, TEMPERATURE, EmbeddedChat

    chosen = TEMPERATURE if plan.temperature is None else plan.temperature
    model = store.path(SMOLLM2, "SmolLM2-135M-Instruct.Q4_1.gguf")
    chat = await asyncio.to_thread(EmbeddedChat, model, temperature=chosen)
    async for _ in chat.stream(ChatRequest(({"role": "user", "content": "Hello."},), max_output_tokens=1)):
        pass  # warms the model and the client
    return chat, packaged(ROLE, f"{MODEL_NAME} (demo brain, no tools)", SMOLLM2)


async def _load_endpoint(plan: ChatPlan) -> tuple[ChatModel, EngineInfo]:
    from models.engines.openai_chat import OpenAIChat

    chat = await asyncio.to_thread(
        OpenAIChat, plan.base_url, plan.model, api_key=plan.api_key, temperature=plan.temperature
    )
    return chat, EngineInfo(ROLE, plan.model, chat.server)
