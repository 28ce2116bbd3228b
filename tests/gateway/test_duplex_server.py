"""The command `duplex-server`: what it takes, what it says, and that it serves nothing but the full-duplex model."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from clients.bench.gateway_process import GatewayProcess
from gateway import duplex_server
from gateway.duplex_server import NEEDS, TINY, main
from models.engine_plan import NativePlan
from models.engines import moshi, voicechat

PROGRAM = (sys.executable, "-m", "gateway.duplex_server")


@pytest.fixture
def decided(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """Return the decisions that would be served."""
    found: list[Any] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(duplex_server, "serve_decided", lambda decision, program: found.append(decision) or 0)
    return found


def test_without_flags_it_serves_voicechat_alone(decided: list[Any]) -> None:
    assert main([]) == 0
    (decision,) = decided
    assert decision.plan.native == NativePlan("voicechat", alone=True)
    assert decision.plan.vad == "silero"
    assert decision.told == (NEEDS["voicechat"],)
    assert (decision.settings.host[0], decision.settings.port) == ("127.0.0.1", 8765)


def test_its_flags_reach_the_model(decided: list[Any]) -> None:
    flags = ["--engine", "moshi", "--model", "owner/name", "--port", "0", "--api-key", "k", "--log-level", "debug"]
    flags += ["--host", "0.0.0.0", "--allow-host", "mac.local"]
    assert main(flags) == 0
    (decision,) = decided
    assert decision.plan.native == NativePlan("moshi", "owner/name", alone=True)
    assert (decision.settings.port, decision.settings.api_key) == (0, "k")
    assert (decision.settings.host, decision.settings.allow_host) == (("0.0.0.0",), ("mac.local",))
    assert decision.told == (NEEDS["moshi"],)


def test_tiny_weights_are_announced_as_what_they_are(decided: list[Any]) -> None:
    assert main(["--tiny"]) == 0
    assert decided[0].plan.native == NativePlan("voicechat", tiny=True, alone=True)
    assert decided[0].told == (TINY,)


def test_the_servers_address_in_the_environment_is_for_gateways_and_not_for_itself(
    decided: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUPLEX_BASE_URL", "http://127.0.0.1:8765/v1")
    assert main(["--port", "8765", "--engine", "scripted"]) == 0
    assert decided[0].plan.native.engine == "scripted"
    assert decided[0].settings.duplex_base_url == ""


def test_the_remote_servers_of_a_gateway_in_the_same_folder_are_none_of_its_own(
    decided: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "duplex-gateway.toml").write_text(
        "log_level = 'debug'\n[remotes.mac]\nbase_url = 'http://127.0.0.1:8765/v1'\n"
        "[remotes.openai]\nbase_url = 'https://api.openai.com/v1'\n"
    )
    monkeypatch.setenv("REMOTE_OTHER_BASE_URL", "http://localhost:8765")
    assert main(["--port", "8765", "--engine", "scripted"]) == 0
    assert decided[0].settings.remotes == ()
    assert decided[0].settings.log_level == "debug"


def test_settings_of_the_environment_hold(decided: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUPLEX_MODEL", "owner/other")
    assert main([]) == 0
    assert decided[0].plan.native.model == "owner/other"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--tiny", "--model", "owner/name"], "--tiny makes weights of its own: leave out --model"),
        (["--engine", "scripted", "--tiny"], "the engine scripted has no weights: leave out --tiny and --model"),
        (
            ["--engine", "scripted", "--model", "a/b"],
            "the engine scripted has no weights: leave out --tiny and --model",
        ),
        (["--engine", "parrot"], "invalid choice: 'parrot'"),
    ],
)
def test_flags_that_contradict_each_other_are_refused(
    flags: list[str], words: str, decided: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(flags)
    assert caught.value.code == 2
    assert words in capsys.readouterr().err
    assert decided == []


def test_a_wrong_setting_is_one_sentence(decided: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--port", "seven"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("duplex-server: ")
    assert told.count("\n") == 1


def test_its_help_says_what_each_engine_needs_and_who_measured_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    told = " ".join(capsys.readouterr().out.split())
    for flag in (
        "--engine",
        "--model",
        "--tiny",
        "--host",
        "--port",
        "--api-key",
        "--allow-host",
        "--home",
        "--log-level",
    ):
        assert flag in told
    for name, needs in NEEDS.items():
        assert f"{name}: {needs}." in told
    assert "HF_HOME" in told
    assert "Others report" in NEEDS["voicechat"]
    for name, state_bytes in (("voicechat", voicechat.STATE_BYTES), ("moshi", moshi.STATE_BYTES)):
        assert f"{state_bytes / 1e9:.0f} GB for a conversation (computed)" in NEEDS[name]
    assert all("measured here" in NEEDS[name] for name in ("voicechat", "moshi"))


@pytest.mark.skipif(importlib.util.find_spec("mlx_vlm") is not None, reason="mlx-vlm is installed")
def test_without_the_models_packages_it_ends_with_one_sentence(tmp_path: Path) -> None:
    done = subprocess.run(
        [*PROGRAM, "--tiny", "--port", "0"], capture_output=True, text=True, timeout=120, check=False, env=os.environ
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("duplex-server: The full-duplex model VoiceChat needs ")
    assert "Traceback" not in done.stderr


def test_it_serves_the_model_and_nothing_else() -> None:
    with GatewayProcess(["--engine", "scripted", "--home", "/nonexistent"], program=PROGRAM) as server:
        with urllib.request.urlopen(f"{server.http_url}/v1/models", timeout=30) as answer:
            models = json.load(answer)["data"]
        assert models
        told = " ".join(server.output)
        assert "native: scripted" in told
        assert not any(role in told for role in ("asr:", "tts:", "foreground:"))
