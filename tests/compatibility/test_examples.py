"""The SDK examples run as their READMEs say."""

from __future__ import annotations

import subprocess
import sys
import wave
from pathlib import Path

import pytest
from recording_chat_server import RecordingChatServer
from speech_references import FOLDER

pytestmark = pytest.mark.compatibility

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("name", ["openai_sync", "openai_async", "openai_agents"])
def test_an_example_speaks_and_is_answered(
    name: str, base_url: str, socket_url: str, llm: RecordingChatServer, tmp_path: Path
) -> None:
    llm.answer("One two three.")
    out = tmp_path / "reply.wav"
    where = ["--url", socket_url] if name == "openai_agents" else ["--base-url", base_url]
    command = [
        sys.executable,
        "-m",
        f"clients.examples.{name}",
        str(FOLDER / "goforward.wav"),
        *where,
        "--out",
        str(out),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "Hello there." in done.stdout
    assert "One two three." in done.stdout
    with wave.open(str(out)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (24_000, 1, 2)
        assert file.getnframes() == 3 * 300 * 24


@pytest.mark.parametrize("name", ["openai_sync", "openai_async", "openai_agents"])
def test_an_example_fits_on_a_page(name: str) -> None:
    assert len((ROOT / "clients" / "examples" / f"{name}.py").read_text("utf-8").splitlines()) < 100
