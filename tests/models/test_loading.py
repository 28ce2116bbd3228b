import time
from pathlib import Path

import pytest

from models.engine_plan import EMBEDDED, ChatPlan, EnginePlan
from models.engines.openai_chat import OpenAIChat
from models.engines.scripted import ScriptedChat
from models.engines.silero_vad import SileroVad
from models.interfaces import ChatRequest, ChatText
from models.loading import load_engines
from models.weights import WeightsStore
from tests.models.conftest import collect, plain_words


async def test_the_scripted_profile_needs_no_weights(tmp_path: Path) -> None:
    engines = await load_engines(
        EnginePlan(chat=ChatPlan(scripted_reply="Always this.")), store=WeightsStore(tmp_path / "nowhere")
    )
    assert [(info.role, info.name) for info in engines.infos] == [
        ("vad", "scripted"),
        ("asr", "scripted"),
        ("foreground", "scripted"),
        ("tts", "scripted"),
    ]
    assert isinstance(engines.chat, ScriptedChat)
    assert not (tmp_path / "nowhere").exists()
    await engines.aclose()


async def test_an_endpoint_takes_the_place_of_the_language_model(tmp_path: Path) -> None:
    engines = await load_engines(
        EnginePlan(chat=ChatPlan("endpoint", "m", base_url="http://localhost:8000")), store=WeightsStore(tmp_path)
    )
    assert isinstance(engines.chat, OpenAIChat)
    assert engines.infos[2].source == "localhost:8000"
    await engines.aclose()


async def test_an_endpoint_without_a_proper_url_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not an http"):
        await load_engines(
            EnginePlan(chat=ChatPlan("endpoint", base_url="localhost:8000")), store=WeightsStore(tmp_path)
        )


@pytest.mark.models
async def test_the_load_bench_gets_a_real_vad_among_scripted_engines(store: WeightsStore) -> None:
    engines = await load_engines(EnginePlan("silero"), store=store)
    assert isinstance(engines.vad, SileroVad)
    assert isinstance(engines.chat, ScriptedChat)
    await engines.aclose()


@pytest.mark.models
async def test_the_embedded_profile_talks(store: WeightsStore) -> None:
    start = time.monotonic()
    engines = await load_engines(EMBEDDED, store=store)
    print(f"loaded in {time.monotonic() - start:.2f} s")
    assert all(info.source and info.licence for info in engines.infos)
    question = await collect(engines.tts.synthesize("What is the capital of France?", first=True))
    probabilities = await engines.vad.open().feed(bytes(24_000) + question)
    assert max(probabilities) > 0.9
    heard = await engines.asr.transcribe(question)
    assert heard is not None
    assert plain_words(heard.text) == "what is the capital of france"
    system = {"role": "system", "content": "You are a voice assistant. Answer in one short sentence."}
    request = ChatRequest((system, {"role": "user", "content": heard.text}))
    reply = "".join([event.text async for event in engines.chat.stream(request) if isinstance(event, ChatText)])
    assert reply
    assert await collect(engines.tts.synthesize(reply, first=True))
    await engines.aclose()
