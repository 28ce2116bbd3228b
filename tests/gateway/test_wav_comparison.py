"""`duplex-gateway wav --target cascade --target duplex` at a gateway that serves both: one meter, one table."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clients.wav_audio import write_wav
from gateway.cli import main
from models.engines.scripted import ScriptedChat, ScriptedRecognizer, ScriptedSynthesizer, ScriptedVad, soft_tone
from models.engines.scripted_duplex import DuplexReply, DuplexScript, ScriptedDuplex
from models.interfaces import Engines
from protocol.audio_time import samples_from_ms
from tests.gateway.conftest import Serve

LONG = "one two three four five six seven eight nine ten eleven twelve"


def hiss(duration_ms: int) -> bytes:
    """Return a loud noise: the scripted voice is a tone, of which every tone could be the echo."""
    noise = np.random.default_rng(3).standard_normal(samples_from_ms(duration_ms)) * 1_600
    return bytes(noise.astype("<i2").tobytes())


async def test_the_cascade_and_a_full_duplex_model_are_measured_by_the_same_meter(
    serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_wav(tmp_path / "in.wav", soft_tone(0, samples_from_ms(640)))
    write_wav(tmp_path / "cut.wav", hiss(800))
    engines = Engines(
        vad=ScriptedVad(), asr=ScriptedRecognizer(["Hello."]), chat=ScriptedChat([LONG]), tts=ScriptedSynthesizer(),
        native=ScriptedDuplex(DuplexScript((DuplexReply(LONG), DuplexReply("Yes?")))),
    )  # fmt: skip
    async with serve(whole=True, engines=engines) as gateway:
        files = ["wav", str(tmp_path / "in.wav"), "--cut-in", str(tmp_path / "cut.wav"), "--cut-in-ms", "400"]
        arguments = [*files, "--url", gateway.url(), "--target", "cascade", "--target", "duplex", "--json"]
        status = await asyncio.to_thread(main, arguments)
    cascade, duplex = found = json.loads(capsys.readouterr().out)["targets"]
    assert status == 0
    assert [target["source"] for target in found] == ["meter", "meter"]
    for target in (cascade, duplex):
        assert len(target["answer_ms"]) == 2, target
        assert len(target["yield_ms"]) == len(target["stop_ms"]) == 1, target
        assert target["unanswered"] == 0
    assert _figure(duplex, "yield_ms") > _figure(cascade, "yield_ms")  # the script waits for 240 ms of voice


async def test_a_mistyped_model_is_refused_before_anything_is_measured(
    serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_wav(tmp_path / "in.wav", soft_tone(0, samples_from_ms(640)))
    async with serve(api_key="k-test", duplex="none") as gateway:
        words = ["wav", str(tmp_path / "in.wav"), "--url", gateway.http("/v1"), "--api-key", "k-test"]
        targets = ["--target", "cascade", "--target", "cascad", "--target", gateway.url("?model=any")]
        assert await asyncio.to_thread(main, [*words, *targets]) == 1
        assert len(gateway.sessions) == 1  # the one that was to hear whether the gateway has words of its own
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("duplex-gateway wav: cascad: ")
    assert "cascade, gpt-realtime" in told.err


async def test_of_a_full_duplex_model_that_is_not_served_the_gateways_own_words_are_told(
    serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_wav(tmp_path / "in.wav", soft_tone(0, samples_from_ms(640)))
    engines = Engines(vad=ScriptedVad(), asr=ScriptedRecognizer(["Hello."]), chat=ScriptedChat([LONG]),
        tts=ScriptedSynthesizer())  # fmt: skip
    async with serve(whole=True, engines=engines) as gateway:
        words = ["wav", str(tmp_path / "in.wav"), "--url", gateway.url(), "--target", "duplex"]
        assert await asyncio.to_thread(main, words) == 1
    told = capsys.readouterr().err
    assert "no native full-duplex model" in told
    assert "cascade" in told


async def test_a_gateway_that_wants_its_key_says_so(
    serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DUPLEX_GATEWAY_API_KEY", raising=False)
    write_wav(tmp_path / "in.wav", soft_tone(0, samples_from_ms(640)))
    async with serve(api_key="k-test") as gateway:
        assert await asyncio.to_thread(main, ["wav", str(tmp_path / "in.wav"), "--url", gateway.http("/v1")]) == 1
    told = capsys.readouterr().err
    assert "Incorrect API key provided. (HTTP 401). Give its key with --api-key" in told


def _figure(target: dict[str, Any], name: str) -> float:
    return float(target[name][0])
