"""The benches run, briefly, against a real gateway with scripted engines."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients.bench import load, voice_latency
from clients.bench.gateway_process import GatewayProcess, GatewayStartError

SPEECH = Path(__file__).parent.parent / "data" / "speech"
CLIP = str(SPEECH / "cards_001.wav")
SCRIPTED = "--profile scripted"
LONG_REPLY = " ".join(["word"] * 150)
"""45 s of the scripted voice: longer than a gateway sends ahead."""


@pytest.fixture(scope="module")
def gateway() -> Iterator[GatewayProcess]:
    with GatewayProcess([*SCRIPTED.split(), "--scripted-reply", LONG_REPLY], {"FOREGROUND_BASE_URL": ""}) as process:
        yield process


@pytest.fixture(scope="module")
def brief_gateway() -> Iterator[GatewayProcess]:
    with GatewayProcess(SCRIPTED.split(), {"FOREGROUND_BASE_URL": ""}) as process:
        yield process


def test_a_gateway_is_started_and_stopped_by_its_process_id() -> None:
    process = GatewayProcess(SCRIPTED.split(), {"FOREGROUND_BASE_URL": ""})
    with process:
        assert process.alive
        assert re.fullmatch(r"ws://127\.0\.0\.1:\d+/v1/realtime", process.url)
        assert process.http_url == process.url.replace("ws", "http").removesuffix("/v1/realtime")
        os.kill(process.pid, 0)
    assert not process.alive


def test_a_gateway_that_cannot_start_says_why() -> None:
    with pytest.raises(GatewayStartError, match="profile"), GatewayProcess(["--profile", "no such profile"]):
        pass


def test_voice_latency_reports_every_stage(brief_gateway: GatewayProcess, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [CLIP, "--url", brief_gateway.url, "--turns", "2", "--runs", "1", "--barge-ins", "1", "--json"]
    assert voice_latency.main(arguments) == 0
    report = json.loads(capsys.readouterr().out)
    medians = report["median_of_medians"]
    assert medians["speech_stopped"] < medians["first_audio"]
    assert medians["response_created"] <= medians["first_reply_text"] <= medians["first_audio"]
    assert report["barge_in_median"] > 0
    assert report["runs"][0]["calibration_ms"] > 0


def test_voice_latency_prints_a_table(brief_gateway: GatewayProcess, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        voice_latency.main([CLIP, "--url", brief_gateway.url, "--turns", "1", "--runs", "1", "--barge-ins", "0"]) == 0
    )
    printed = capsys.readouterr().out
    assert "first_audio" in printed
    assert "calibration" in printed


def test_voice_latency_compares_two_gateways_in_one_go(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [CLIP, f"--start={SCRIPTED}", f"--compare={SCRIPTED} --no-speculation", "--turns", "1", "--runs", "1"]
    assert voice_latency.main([*arguments, "--barge-ins", "0", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    before = report["median_of_medians"]["first_audio"]
    after = report["compared_with"]["median_of_medians"]["first_audio"]
    assert report["first_audio_gain"] == pytest.approx(after - before)


def test_load_measures_the_server_and_its_sessions(
    gateway: GatewayProcess, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "IDLE_S", 0.5)
    monkeypatch.setattr(load, "TURN_PAUSE_S", 1.5)
    arguments = [CLIP, "--url", gateway.url, "--pid", str(gateway.pid), "--sessions", "2", "--seconds", "4", "--json"]
    assert load.main(arguments) == 0
    (figures,) = json.loads(capsys.readouterr().out)
    assert figures["sessions"] == 2
    assert figures["cpu_s_per_session_minute"] > 0
    assert figures["loop_p99"] >= figures["loop_p50"] >= 0
    assert figures["turns"] > 0
    assert figures["answered"] > 0
    assert figures["cut"] > 0
    assert figures["barge_in_p50"] > 0
    assert figures["errors"] == 0
    assert load._table([load.Load(**figures)]).startswith("sessions")


def test_a_bench_tells_in_a_sentence_what_is_wrong(
    unused_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert voice_latency.main([str(tmp_path / "none.wav"), "--url", unused_url]) == 1
    assert load.main([CLIP, "--url", unused_url, "--sessions", "1"]) == 1
    assert "none.wav" in (told := capsys.readouterr().err)
    assert "is a gateway running there" in told
