import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from models.engines.embedded_chat import DROP_BLOCK, EmbeddedChat, fit_messages
from models.interfaces import ChatEnd, ChatRequest, ChatText
from models.weights import WeightsStore
from models.weights_manifest import SMOLLM2
from tests.models.chat_server import calls_of, text_of

GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
SYSTEM = {"role": "system", "content": "You are a voice assistant. Answer in one short sentence."}

CAPITAL_OF = {
    "type": "function",
    "function": {
        "name": "capital_of",
        "parameters": {"type": "object", "properties": {"country": {"type": "string"}}, "required": ["country"]},
    },
}


def turns(count: int, words: str = "some words") -> list[dict[str, Any]]:
    return [{"role": "assistant" if i % 2 else "user", "content": f"{words} {i}"} for i in range(count)]


@pytest.fixture
async def chat(store: WeightsStore) -> AsyncIterator[EmbeddedChat]:
    store.fetch([SMOLLM2])
    chat = await asyncio.to_thread(EmbeddedChat, store.path(SMOLLM2, GGUF), temperature=0.0)
    yield chat
    await chat.aclose()


async def ask(chat: EmbeddedChat, messages: list[dict[str, Any]], **options: Any) -> tuple[str, ChatEnd]:
    events = [event async for event in chat.stream(ChatRequest(tuple(messages), **options))]
    assert isinstance(events[-1], ChatEnd)
    return "".join(event.text for event in events if isinstance(event, ChatText)), events[-1]


@pytest.mark.models
async def test_it_answers_in_a_sentence_and_leaves_tools_alone(chat: EmbeddedChat) -> None:
    question = {"role": "user", "content": [{"type": "text", "text": "What is the capital of France?"}]}
    text, end = await ask(chat, [SYSTEM, question], tools=(CAPITAL_OF,))
    assert "Paris" in text
    assert end.finish_reason == "stop"
    assert 0 < end.output_tokens < 60
    _, again = await ask(chat, [SYSTEM, question])
    assert again.cached_tokens > 20


@pytest.mark.models
async def test_it_calls_a_function_where_it_must(chat: EmbeddedChat) -> None:
    messages = (SYSTEM, *turns(4), {"role": "user", "content": "What is the capital of France?"})
    events = [event async for event in chat.stream(ChatRequest(messages, (CAPITAL_OF,), "required"))]
    assert text_of(events) == ""
    ((_, name, arguments),) = calls_of(events).values()
    assert name == "capital_of"
    assert list(json.loads(arguments)) == ["country"]
    assert isinstance(end := events[-1], ChatEnd)
    assert end.finish_reason == "tool_calls"


@pytest.mark.models
async def test_it_keeps_to_its_own_temperature(chat: EmbeddedChat) -> None:
    question = [SYSTEM, {"role": "user", "content": "Tell me about rivers."}]
    usual, _ = await ask(chat, question)
    assert {(await ask(chat, question, temperature=1.2))[0] for _ in range(2)} == {usual}


@pytest.mark.models
async def test_no_history_is_too_long(chat: EmbeddedChat) -> None:
    long = [
        SYSTEM,
        *turns(400, "once upon a time there was a word"),
        {"role": "user", "content": "日本語🎉 1 2 3 " * 2_000},
    ]
    for messages in (long, [{"role": "system", "content": "Be brief. " * 5_000}], []):
        _, end = await ask(chat, messages, max_output_tokens=3)
        assert end.output_tokens > 0


@pytest.mark.models
async def test_closing_the_iterator_frees_the_slot(chat: EmbeddedChat) -> None:
    async with asyncio.timeout(20):
        for _ in range(4):  # more than there are slots
            stream = chat.stream(ChatRequest(({"role": "user", "content": "Tell me a very long story."},)))
            assert isinstance(await anext(stream), ChatText)
            await stream.aclose()
        await ask(chat, [SYSTEM, *turns(1)], max_output_tokens=3)


@pytest.mark.models
def test_a_process_that_forgets_to_close_it_still_ends(store: WeightsStore) -> None:
    store.fetch([SMOLLM2])
    code = (
        "import sys; from pathlib import Path; from models.engines.embedded_chat import EmbeddedChat;"
        "chat = EmbeddedChat(Path(sys.argv[1])); print('loaded')"
    )
    root = Path(__file__).parent.parent.parent
    command = [sys.executable, "-c", code, str(store.path(SMOLLM2, GGUF))]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stdout) == (0, "loaded\n"), result.stderr


def test_short_histories_stay_as_they_are() -> None:
    messages = [SYSTEM, *turns(5)]
    assert list(fit_messages(messages, 1_000)) == messages


def test_the_oldest_turns_go_in_blocks_and_the_system_message_stays() -> None:
    messages = [SYSTEM, *turns(100)]
    kept = fit_messages(messages, 300)
    assert kept[0] == SYSTEM
    assert list(kept[1:]) == messages[-len(kept[1:]) :]
    assert (100 - len(kept[1:])) % DROP_BLOCK == 0


def test_the_start_of_the_prompt_rarely_moves_as_the_conversation_grows() -> None:
    starts = [fit_messages([SYSTEM, *turns(count)], 300)[1]["content"] for count in range(60, 60 + 3 * DROP_BLOCK)]
    assert len(set(starts)) <= 4


def test_a_last_turn_that_is_too_long_keeps_its_end() -> None:
    (kept,) = fit_messages([{"role": "user", "content": "a" * 10_000 + "the end"}], 100)
    assert kept["content"].endswith("the end")
    assert len(kept["content"]) < 400


def test_messages_become_plain_text_of_three_roles() -> None:
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Look:"}, {"type": "image_url", "image_url": {}}]},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "a"}]},
        {"role": "tool", "tool_call_id": "a", "content": "18 degrees"},
    ]
    assert fit_messages(messages, 1_000) == (
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Look:"},
        {"role": "user", "content": "18 degrees"},
    )


def test_a_reply_that_was_cut_short_goes_without_its_dash_which_this_model_would_copy() -> None:
    cut = [{"role": "user", "content": "Go on —"}, {"role": "assistant", "content": "The train to —"}]
    assert [message["content"] for message in fit_messages(cut, 1_000)] == ["Go on —", "The train to"]
