"""Fetching from the model hub: the hub's own library, and a hub on loopback."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from models import hub_download
from models.hub_download import fetch_repository
from models.interfaces import EngineError
from models.weights import FetchProgress

COMMIT = "a" * 40
CONTENT = {"config.json": b"{}", "model.safetensors": bytes(range(256)) * 8_000, "README.md": b"not wanted"}


class Hub(ThreadingHTTPServer):
    """Serves one repository, owner/model, as the model hub does. `asked`: the paths that it was asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.asked: list[tuple[str, str]] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class _Answer(BaseHTTPRequestHandler):
    server: Hub

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        self.server.asked.append((self.command, self.path))
        path = self.path.partition("?")[0]
        if path.startswith("/api/models/owner/model/tree/"):
            rows = [
                {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                for name, data in CONTENT.items()
            ]
            self._send(json.dumps(rows).encode(), "application/json", body)
        elif path.startswith("/api/models/owner/model"):
            rows = [{"rfilename": name, "size": len(data)} for name, data in CONTENT.items()]
            info = {"id": "owner/model", "sha": COMMIT, "siblings": rows, "private": False, "tags": [], "downloads": 0}
            self._send(json.dumps(info).encode(), "application/json", body)
        elif path.startswith("/owner/model/resolve/") and path.rpartition("/")[2] in CONTENT:
            self._send(CONTENT[path.rpartition("/")[2]], "application/octet-stream", body)
        else:
            self.send_response(404)
            self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()

    def _send(self, data: bytes, kind: str, body: bool) -> None:
        self.send_response(200)
        for name, value in {
            "Content-Type": kind,
            "Content-Length": str(len(data)),
            "X-Repo-Commit": COMMIT,
            "ETag": f'"{hashlib.sha1(data).hexdigest()}"',
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, *_given: Any) -> None:
        pass


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """Run a hub that the library asks, with an empty cache."""
    from huggingface_hub import constants

    with Hub() as served:
        monkeypatch.setattr(constants, "ENDPOINT", served.url)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", served.url + "/{repo_id}/resolve/{revision}/{filename}"
        )
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        thread = threading.Thread(target=served.serve_forever, args=(0.02,))
        thread.start()
        yield served
        served.shutdown()
        thread.join()


def is_whole(folder: Path) -> bool:
    return all((folder / name).is_file() for name in ("config.json", "model.safetensors"))


def fetched(
    repository: str = "owner/model", *, sizes: list[int] | None = None, told: list[FetchProgress] | None = None
) -> Path:
    return fetch_repository(
        repository,
        ["*.json", "*.safetensors"],
        is_whole=is_whole,
        check_size=(sizes if sizes is not None else []).append,
        progress=None if told is None else told.append,
        setting="--model",
    )


def test_what_is_wanted_is_fetched_once_and_shown(hub: Hub, capfd: pytest.CaptureFixture[str]) -> None:
    sizes: list[int] = []
    told: list[FetchProgress] = []
    folder = fetched(sizes=sizes, told=told)
    wanted = len(CONTENT["config.json"]) + len(CONTENT["model.safetensors"])
    assert sizes == [wanted]
    assert {path.name for path in folder.iterdir()} == {"config.json", "model.safetensors"}
    assert (folder / "model.safetensors").read_bytes() == CONTENT["model.safetensors"]
    assert {(step.name, step.part, step.parts, step.total_bytes) for step in told} == {("model", 1, 1, wanted)}
    assert [step.done_bytes for step in told] == sorted(step.done_bytes for step in told)
    assert told[-1].done_bytes == wanted
    assert "%" not in capfd.readouterr().err, "the hub's own bars would write over ours"

    asked = len(hub.asked)
    assert fetched(told=told) == folder
    assert len(hub.asked) == asked, "what is there whole is not asked for again"


def test_a_fetch_that_broke_off_is_finished(hub: Hub) -> None:
    folder = fetched()
    (folder / "model.safetensors").unlink()
    assert is_whole(fetched())


def test_what_is_too_large_is_refused_before_any_of_it_is_fetched(hub: Hub, tmp_path: Path) -> None:
    def refuse(size: int) -> None:
        raise EngineError("duplex_too_large", f"{size} bytes are too many.")

    with pytest.raises(EngineError, match="are too many"):
        fetch_repository("owner/model", ["*"], is_whole=is_whole, check_size=refuse, progress=None, setting="--model")
    assert not [path for command, path in hub.asked if command == "GET" and "/resolve/" in path]


def test_a_disk_that_is_full_is_named_before_any_of_it_is_fetched(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_download, "_SPARE_BYTES", 10**18)
    with pytest.raises(EngineError, match=r"make room, or set HF_HOME to a folder on another disk\.$"):
        fetched()
    assert not [path for command, path in hub.asked if command == "GET" and "/resolve/" in path]


def test_a_name_that_the_hub_does_not_know_is_one_sentence(hub: Hub) -> None:
    with pytest.raises(EngineError) as caught:
        fetched("owner/nobody-has-this")
    assert caught.value.message == (
        "The model owner/nobody-has-this can't be fetched from the model hub (RepositoryNotFoundError): check the name "
        "and the network, or give --model a folder with the model's files."
    )


def test_a_hub_out_of_reach_is_one_sentence(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(hub_download, "_TICK_S", 0.01)
    with pytest.raises(EngineError, match=r"can't be fetched from the model hub \(\w+\): check the name"):
        fetched()
