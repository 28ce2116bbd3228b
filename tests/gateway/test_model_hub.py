"""The model hub as huggingface_hub would find it, without a hub."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.model_hub import QUALITY_MODEL, Hub, HubSettings, hub_settings, hub_state, is_cached
from tests.gateway.trap_server import TrapServer


def cached(cache: Path) -> Path:
    """Put the model into a cache as the hub's library does: a snapshot that links to blobs."""
    folder = cache / f"models--{QUALITY_MODEL.replace('/', '--')}"
    snapshot = folder / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (folder / "blobs").mkdir()
    (folder / "blobs" / "1").write_bytes(b"weights")
    (snapshot / "encoder-model.onnx").symlink_to(folder / "blobs" / "1")
    return folder


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, HubSettings("https://huggingface.co", False, Path("~/.cache/huggingface/hub").expanduser())),
        ({"HF_ENDPOINT": "https://hub.example/"}, "https://hub.example"),
        ({"HF_HUB_OFFLINE": "1"}, True),
        ({"HF_HUB_OFFLINE": "true"}, True),
        ({"TRANSFORMERS_OFFLINE": "yes"}, True),
        ({"HF_HUB_OFFLINE": "0"}, False),
        ({"HF_HOME": "/a"}, Path("/a/hub")),
        ({"XDG_CACHE_HOME": "/x"}, Path("/x/huggingface/hub")),
        ({"HF_HUB_CACHE": "/b", "HF_HOME": "/a"}, Path("/b")),
    ],
)
def test_the_hub_is_where_its_own_library_looks(environment: dict[str, str], expected: object) -> None:
    settings = hub_settings(environment)
    assert expected in (settings, settings.url, settings.offline, settings.cache)


def test_a_model_that_is_here_needs_no_hub(tmp_path: Path) -> None:
    cached(tmp_path)
    assert hub_state(HubSettings("http://127.0.0.1:9", offline=True, cache=tmp_path)) is Hub.CACHED


def test_half_a_download_is_no_model(tmp_path: Path) -> None:
    folder = cached(tmp_path)
    (folder / "blobs" / "1").unlink()
    assert not is_cached(tmp_path, QUALITY_MODEL)
    assert not is_cached(tmp_path / "nothing", QUALITY_MODEL)


def test_a_hub_that_is_switched_off_is_not_asked(tmp_path: Path) -> None:
    with TrapServer() as hub:
        assert hub_state(HubSettings(hub.url, offline=True, cache=tmp_path)) is Hub.OFF
    assert hub.requests == []


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("200 OK", Hub.REACHABLE),
        ("307 Temporary Redirect", Hub.REACHABLE),
        ("401 Unauthorized", Hub.UNREACHABLE),
        ("404 Not Found", Hub.UNREACHABLE),
        ("503 Service Unavailable", Hub.UNREACHABLE),
    ],
)
def test_a_hub_is_there_if_it_has_the_model(
    tmp_path: Path, status: str, state: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with TrapServer("", status=status, header="Location: http://127.0.0.1:9/\r\n") as hub:
        assert hub_state(HubSettings(hub.url, cache=tmp_path)) is state
    (request,) = hub.requests
    assert request.startswith(f"HEAD /api/models/{QUALITY_MODEL} ".encode())
    assert b"hf_secret" not in request


def test_nobody_there_is_no_hub(tmp_path: Path) -> None:
    for url in ("http://127.0.0.1:9", "nonsense", "http://"):
        assert hub_state(HubSettings(url, cache=tmp_path)) is Hub.UNREACHABLE
