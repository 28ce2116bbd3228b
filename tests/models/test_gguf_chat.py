"""Any GGUF file as the language model: in CI the demo brain's, in `long` one that calls tools."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from models.chat_loading import load_chat
from models.engine_plan import ChatPlan
from models.engines.gguf_chat import GgufChat
from models.interfaces import ChatEnd, ChatEvent, ChatRequest, EngineError
from models.weights import WeightsStore
from models.weights_manifest import SMOLLM2
from tests.models.chat_server import calls_of, text_of
from tests.models.qwen_coder import QWEN_CODER

SYSTEM = {"role": "system", "content": "You are a voice assistant. Answer in one short sentence."}
TOOLS = tuple(
    {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {"type": "object", "properties": properties, "required": list(properties)},
        },
    }
    for name, description, properties in (
        ("get_weather", "Weather of a city", {"city": {"type": "string"}}),
        ("set_timer", "Start a timer", {"minutes": {"type": "integer"}}),
    )
)
NAMED = {"type": "function", "function": {"name": "set_timer"}}


def user(words: str) -> dict[str, Any]:
    return {"role": "user", "content": words}


async def ask(chat: Any, *messages: dict[str, Any], **options: Any) -> list[ChatEvent]:
    events = [event async for event in chat.stream(ChatRequest((SYSTEM, *messages), **options))]
    assert isinstance(events[-1], ChatEnd)
    return events


def called(events: list[ChatEvent]) -> list[tuple[str | None, Any]]:
    return [(name, json.loads(arguments)) for _, name, arguments in calls_of(events).values()]


@pytest.fixture(scope="module")
def file(store: WeightsStore) -> Path:
    store.fetch([SMOLLM2])
    return store.path(SMOLLM2, "SmolLM2-135M-Instruct.Q4_1.gguf")


@pytest.fixture
async def chat(file: Path) -> AsyncIterator[GgufChat]:
    chat = await asyncio.to_thread(GgufChat, file, temperature=0.0, thinking="off")
    yield chat
    await chat.aclose()


@pytest.mark.models
async def test_a_file_talks_and_calls_only_where_it_must(chat: GgufChat) -> None:
    assert not chat.knows_tools
    question = user("What is the capital of France?")
    assert "Paris" in text_of(await ask(chat, question, tools=TOOLS))
    for choice, names in (("required", {"get_weather", "set_timer"}), (NAMED, {"set_timer"})):
        events = await ask(chat, user("Five minutes, please."), tools=TOOLS, tool_choice=choice, max_output_tokens=120)
        assert text_of(events) == ""
        ((name, arguments),) = called(events)
        assert name in names
        assert set(arguments) == ({"minutes"} if name == "set_timer" else {"city"})


@pytest.mark.models
async def test_no_history_is_too_long_for_it(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("models.engines.gguf_chat.MOST_SLOT_TOKENS", 512)
    chat = await asyncio.to_thread(GgufChat, file)
    emoji = [user(f"🎉🎈 {turn} " * 8) for turn in range(60)]  # many tokens for their bytes
    turns = [message for words in emoji for message in (words, {"role": "assistant", "content": "Yes."})]
    events = await ask(chat, *turns, user("Hello."), max_output_tokens=3)
    assert isinstance(end := events[-1], ChatEnd)
    assert 0 < end.input_tokens < 512
    await chat.aclose()


@pytest.mark.models
async def test_a_plan_names_the_file_and_shows_the_model(file: Path, store: WeightsStore, tmp_path: Path) -> None:
    chat, info = await load_chat(ChatPlan("embedded", gguf=file), store)
    assert (info.name, info.source) == ("Smollm2 135M 8k Lc100K Mix1 Ep2 (no tools)", file.name)
    await chat.aclose()
    (tmp_path / "bad.gguf").write_bytes(b"GGUF\3\0\0\0")
    with pytest.raises(EngineError, match="fetch it again"):
        await load_chat(ChatPlan("embedded", gguf=tmp_path / "bad.gguf"), store)


@pytest.mark.long
@pytest.mark.models
async def test_a_model_that_writes_its_calls_as_text_is_a_caller_of_functions(store: WeightsStore) -> None:
    await asyncio.to_thread(store.fetch, [QWEN_CODER])
    path = store.path(QWEN_CODER, QWEN_CODER.files[0].name)
    chat = await asyncio.to_thread(GgufChat, path, temperature=0.0)
    assert chat.knows_tools
    assert chat.file.name == "Qwen2.5 Coder 0.5B Instruct AWQ"

    question = user("What is the weather in Paris?")
    events = await ask(chat, question, tools=TOOLS)
    assert (text_of(events), called(events)) == ("", [("get_weather", {"city": "Paris"})])
    call_id, name, arguments = calls_of(events)[0]
    made = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
    told = [
        question,
        {"role": "assistant", "content": None, "tool_calls": [made]},
        {"role": "tool", "tool_call_id": call_id, "content": "18 degrees, cloudy"},
    ]
    events = await ask(chat, *told, tools=TOOLS)
    assert "18" in text_of(events)
    assert called(events) == []

    events = await ask(chat, user("Hi, who are you?"), tools=TOOLS)
    assert text_of(events)
    assert called(events) == []
    for choice in ("required", NAMED):
        events = await ask(chat, user("Five minutes, please."), tools=TOOLS, tool_choice=choice)
        assert text_of(events) == ""
        assert called(events) == [("set_timer", {"minutes": 5})]
    await chat.aclose()
