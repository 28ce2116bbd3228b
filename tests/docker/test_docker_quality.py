"""The quality image's install and start steps: its volume is filled once; without the model hub it says so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from models.weights import default_home
from tests.docker.container import Container, Image, built, containable
from tests.docker.dockerfile import DOCKER
from tests.models.tiny_kokoro import write_hub_layout
from tests.models.tiny_tdt import make_tiny_tdt

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


def test_the_quality_image_fills_its_volume_once_and_then_answers_offline(quality: Image) -> None:
    # The model hub cannot be had here: folders in the layout of its Parakeet and its Kokoro take their place.
    kokoro = quality.home / "kokoro"
    write_hub_layout(kokoro)
    settings = {
        "ASR_MODEL": str(make_tiny_tdt(quality.home / "parakeet")),
        "TTS_MODEL": str(kokoro),
        "DUPLEX_GATEWAY_API_KEY": KEY,
    }
    first = quality.run("warmup", **settings)
    assert first.returncode == 0, first.stderr
    quality.give_volume_away()
    with Container(quality, "serve", volume=True, **settings) as container:
        container.wait_healthy()
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
