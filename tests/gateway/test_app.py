from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from gateway.app import create_app, service_of
from gateway.service import ServiceState
from gateway.settings import Settings
from models.interfaces import EngineError, Engines
from tests.gateway.conftest import ScriptedSession, no_engines

BASE_URL = "http://127.0.0.1:8765"


def test_an_unknown_path_gets_openais_error() -> None:
    client = TestClient(create_app(Settings(), no_engines()), base_url=BASE_URL)
    response = client.get("/v1/nowhere")
    assert response.status_code == 404
    assert response.json()["error"] == {
        "message": "Invalid URL (GET /v1/nowhere)",
        "type": "invalid_request_error",
        "param": None,
        "code": None,
    }
    assert client.post("/health").status_code == 405


def test_plain_http_at_the_sockets_path_is_told_to_upgrade() -> None:
    client = TestClient(create_app(Settings(), no_engines()), base_url=BASE_URL)
    response = client.get("/v1/realtime")
    assert response.status_code == 426
    assert response.headers["upgrade"] == "websocket"


def test_engines_that_are_not_given_are_loaded_and_closed_at_the_end() -> None:
    closings: list[str] = []

    class Closable:
        async def aclose(self) -> None:
            closings.append("closed")

    async def load(_settings: Settings) -> Engines:
        return replace(no_engines(), chat=Closable())

    app = create_app(Settings(), load=load)
    with TestClient(app, base_url=BASE_URL) as client:
        while client.get("/health").status_code != 200:
            pass
        assert closings == []
    assert closings == ["closed"]


def test_engines_that_cannot_be_loaded_leave_a_gateway_that_says_why() -> None:
    async def load(_settings: Settings) -> Engines:
        raise EngineError("weights_missing", "The weights are missing: run warmup.")

    with TestClient(create_app(Settings(), load=load), base_url=BASE_URL) as client:
        while (body := client.get("/health").json())["status"] == "starting":
            pass
        assert body["status"] == "failed"
        assert body["failure"] == "The weights are missing: run warmup."
        with pytest.raises(WebSocketDisconnect), client.websocket_connect("/v1/realtime"):
            pass


async def test_a_bug_while_loading_is_logged_and_told_without_details(caplog: pytest.LogCaptureFixture) -> None:
    async def load(_settings: Settings) -> Engines:
        raise KeyError("secret detail")

    app = create_app(Settings(), load=load)
    service = service_of(app)
    async with app.router.lifespan_context(app):
        async with asyncio.timeout(5):
            await service.settled.wait()
    assert service.state is ServiceState.FAILED
    assert "secret detail" not in service.failure
    assert "KeyError" in caplog.text


async def test_an_engine_that_does_not_close_holds_up_the_shutdown_only_briefly(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Stuck:
        async def aclose(self) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr("gateway.app.CLOSE_ENGINES_DEADLINE_S", 0.01)
    app = create_app(Settings(), replace(no_engines(), asr=Stuck()))
    async with app.router.lifespan_context(app):
        pass
    assert "too long to close" in caplog.text


def test_a_server_without_denial_responses_still_refuses() -> None:
    app = create_app(Settings(api_key="k"), no_engines(), open_session=lambda request: ScriptedSession(request, 1))

    async def without_extensions(scope, receive, send):
        scope.pop("extensions", None)
        await app(scope, receive, send)

    client = TestClient(without_extensions, base_url=BASE_URL)
    with pytest.raises(WebSocketDisconnect) as caught, client.websocket_connect("/v1/realtime"):
        pass
    assert caught.value.code == 1008


def test_the_event_logs_folder_is_made_when_asked_for(tmp_path: Path) -> None:
    with TestClient(create_app(Settings(event_log=tmp_path / "events"), no_engines()), base_url=BASE_URL):
        assert (tmp_path / "events").is_dir()
