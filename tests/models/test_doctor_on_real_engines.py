"""The doctor on engines that are real: ears and voice in process, and llama.cpp's own server as an endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from gateway.doctor.examination import examine
from gateway.doctor.findings import Finding, Verdict
from gateway.settings import Settings
from models.engines.llama_server import LlamaServer
from models.weights import WeightsStore
from models.weights_manifest import SMOLLM2

pytestmark = pytest.mark.models


@pytest.fixture
async def llama_cpp() -> AsyncIterator[LlamaServer]:
    store = WeightsStore()
    await asyncio.to_thread(store.fetch, [SMOLLM2])
    server = await asyncio.to_thread(
        LlamaServer,
        store.path(SMOLLM2, "SmolLM2-135M-Instruct.Q4_1.gguf"),
        "smol",
        slots=2,
        slot_tokens=2048,
        threads=1,
        batch_threads=2,
        cache_mib=0,
    )
    yield server
    await server.aclose()


async def test_a_cascade_on_llama_cpps_server_passes(llama_cpp: LlamaServer) -> None:
    settings = Settings(
        profile="embedded",
        port=0,
        foreground_base_url=llama_cpp.base_url,
        foreground_api_key=llama_cpp.api_key,
        foreground_model=llama_cpp.model,
    )
    findings = {(finding.role, finding.check): finding async for finding in examine(settings)}
    assert [finding for finding in findings.values() if finding.verdict is Verdict.FAIL] == []

    def sound(role: str, check: str) -> Finding:
        finding = findings[role, check]
        assert finding.verdict is Verdict.OK, finding
        return finding

    assert sound("vad", "hears").figures["voiced_share"] > 0.5
    assert sound("asr", "hears").figures["word_error_rate"] <= 0.1
    assert sound("speech", "round trip").figures["error_rate"] <= 0.1
    assert findings["tts", "speaks"].figures["pieces"] > 1
    sound("foreground", "reachable")
    sound("foreground", "model")
    sound("foreground", "thinking")
    assert findings["foreground", "streams"].figures["pieces"] > 1
    context = findings["foreground", "context"]  # the server tells its slots' size, which is less than sessions send
    assert (context.verdict, context.figures["context_tokens"]) == (Verdict.WARN, 2048)
    assert "FOREGROUND_CONTEXT_TOKENS" in context.advice
    assert findings["foreground", "tools"].verdict is Verdict.WARN  # a model of 135M parameters calls no functions
    judges = findings["end_of_turn", "judges"]
    assert {"audio_ms", "lexical_ms"} <= set(judges.figures)
    assert "probability" in judges.detail  # with its time, or that the server took too long to show it
    assert "without verdict: " in judges.detail
    told = " ".join(line for finding in findings.values() for line in finding.lines())
    assert llama_cpp.api_key not in told
