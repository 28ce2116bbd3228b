"""The quality image's install and start steps: its volume is filled once; without the model hub it says so."""

from __future__ import annotations

import os
import sys
import wave
from collections.abc import Iterator

import pytest

from clients.wav_audio import RATE_HZ
from models.weights import default_home
from tests.docker.container import Container, Image, built, containable
from tests.docker.dockerfile import DOCKER
from tests.models.tiny_kokoro import write_hub_layout
from tests.models.tiny_tdt import make_tiny_tdt, speak

pytestmark = [
    pytest.mark.models,
    pytest.mark.skipif(not containable(), reason="needs root on Linux, with unshare, nsenter, setpriv and ip"),
]

KEY = "k-container"

A_WORD = 24_000
"""Bytes of audio in half a second."""


@pytest.fixture(scope="module")
def quality() -> Iterator[Image]:
    with built(DOCKER / "Dockerfile.cpu", "quality", weights=default_home() / "weights") as image:
        yield image


TRANSCRIBE = """
import sys
from openai import OpenAI

with OpenAI(api_key=sys.argv[1], base_url="http://127.0.0.1:8765/v1") as client, open(sys.argv[2], "rb") as file:
    print(client.audio.transcriptions.create(model="whisper-1", file=file).text)
"""


def test_the_quality_image_fills_its_volume_once_and_then_hears_and_speaks_offline(quality: Image) -> None:
    # The model hub cannot be had here: folders in the layouts of its Parakeet and its Kokoro take their place.
    settings = {
        "ASR_MODEL": str(make_tiny_tdt(quality.home / "parakeet")),
        "TTS_MODEL": str(write_hub_layout(quality.home / "kokoro")),
        "DUPLEX_GATEWAY_API_KEY": KEY,
    }
    first = quality.run("warmup", **settings)
    assert first.returncode == 0, first.stderr
    quality.give_volume_away()
    tones = quality.folder / "tones.wav"
    with wave.open(str(tones), "wb") as file:
        file.setparams((1, 2, RATE_HZ, 0, "NONE", ""))
        file.writeframes(speak("▁go", "▁for", "ward", "▁now"))
    with Container(quality, "serve", volume=True, **settings) as container:
        container.wait_healthy()
        heard = container.run([sys.executable, "-c", TRANSCRIBE, KEY, str(tones)], os.environ)
        assert heard.stdout.strip() == "go forward now", heard.stderr
        audio_bytes, said = container.turn("Say hello.", KEY)
        assert audio_bytes > A_WORD
        assert said
        assert container.stop() == 0
        assert "Kokoro" in container.output
        assert "Traceback" not in container.output


def test_without_the_model_hub_the_quality_image_ends_with_one_sentence(quality: Image) -> None:
    with Container(quality, "serve", volume=True, DUPLEX_GATEWAY_API_KEY=KEY) as container:
        assert container.wait(60) == 1
        assert "can't be fetched from the model hub" in container.output.splitlines()[-1]
        assert "Traceback" not in container.output
