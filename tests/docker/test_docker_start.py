"""The images' install and start steps, carried out in fresh environments: read-only, offline, as a user without rights.

No image is built: there is no engine, and base images can't be had. What runs is what the Dockerfiles' own lines say.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from models.weights import default_home
from tests.docker.container import Container, Image, built, containable
from tests.docker.dockerfile import DOCKER, ROOT, stages

pytestmark = [
    pytest.mark.models,
    pytest.mark.skipif(not containable(), reason="needs root on Linux, with unshare, nsenter, setpriv and ip"),
]

KEY = "k-container"

A_WORD = 24_000
"""Bytes of audio in half a second."""


@pytest.fixture(scope="module")
def embedded() -> Iterator[Image]:
    with built(DOCKER / "Dockerfile.cpu", "embedded", weights=default_home() / "weights") as image:
        yield image


def test_the_embedded_image_speaks_a_turn_offline_from_a_read_only_root(embedded: Image) -> None:
    with Container(embedded, "serve", DUPLEX_GATEWAY_API_KEY=KEY) as container:
        container.wait_healthy()
        audio_bytes, heard = container.turn(str(ROOT / "tests/data/speech/goforward.wav"), KEY)
        assert audio_bytes > A_WORD
        assert "forward ten meters" in heard.lower()
        assert container.stop() == 0
        assert KEY not in container.output
        assert "Traceback" not in container.output


def test_a_key_may_be_mounted_as_a_file(embedded: Image) -> None:
    secret = embedded.folder / "api_key"
    secret.write_text(f"{KEY}\n", encoding="utf-8")
    secret.chmod(0o444)
    flags = {"DUPLEX_GATEWAY_API_KEY_FILE": str(secret), "DUPLEX_GATEWAY_PROFILE": "scripted"}
    with Container(embedded, "serve", **flags) as container:
        container.wait_healthy()
        assert container.turn("Hello.", KEY)[0] > 0
        with pytest.raises(AssertionError, match="401"):
            container.turn("Hello.", "wrong")
        assert container.stop() == 0


@pytest.mark.parametrize(
    ("variables", "options", "status", "words"),
    [
        ({}, "exec", 2, "without a key: set DUPLEX_GATEWAY_API_KEY"),
        ({"DUPLEX_GATEWAY_API_KEY_FILE": "/run/secrets/none"}, "exec", 2, "names no file that user 10001 can read"),
        ({"DUPLEX_GATEWAY_API_KEY": KEY}, "noexec", 1, "--tmpfs /tmp:exec"),
    ],
)
def test_what_is_missing_ends_the_container_with_one_sentence(
    embedded: Image, variables: dict[str, str], options: str, status: int, words: str
) -> None:
    with Container(embedded, "serve", tmp_options=options, **variables) as container:
        assert container.wait(30) == status
        assert words in container.output.splitlines()[-1]
        assert "Traceback" not in container.output


def test_health_is_bad_while_nothing_is_served(embedded: Image) -> None:
    check = embedded.here(embedded.final.last("HEALTHCHECK").command[1])
    unused = {"DUPLEX_GATEWAY_PORT": "1", "http_proxy": "http://127.0.0.1:2"}
    done = subprocess.run([sys.executable, check], env=unused, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("http://127.0.0.1:1/health: ")
    assert len(done.stderr.splitlines()) == 1


def test_the_cuda_image_gets_the_gpus_onnxruntime_and_not_the_cpus() -> None:
    (install,) = (
        line
        for stage in stages(DOCKER / "Dockerfile.cuda")[1]
        for line in stage.runs("cuda")
        if "install.sh dependencies" in line
    )
    assert install.endswith("dependencies cuda")
    resolved = subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "uv",
                "pip",
                "compile",
                "--quiet",
                "--no-header",
                "--no-annotate",
                "--python-version",
                "3.12",
            ),
            *("pyproject.toml", "--extra", "onnx-asr", "docker/cuda.txt", "--overrides", "docker/cuda-overrides.txt"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert resolved.returncode == 0, resolved.stderr
    names = {line.split("==")[0] for line in resolved.stdout.splitlines()}
    assert {"onnxruntime-gpu", "onnx-asr", "kokoro-onnx", "uvicorn"} <= names
    assert "onnxruntime" not in names
