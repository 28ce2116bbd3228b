from __future__ import annotations

import asyncio
from typing import Any

from starlette.testclient import TestClient

from gateway.app import create_app, service_of
from gateway.endpoints.health import memory
from gateway.loop_lag import WINDOW_LOOKS, Lateness, LoopLag
from gateway.settings import Settings
from models.interfaces import Engines
from tests.gateway.conftest import no_engines


def client_of(app: Any) -> TestClient:
    return TestClient(app, base_url="http://127.0.0.1:8765", raise_server_exceptions=False)


def test_health_tells_state_sessions_engines_lateness_and_memory() -> None:
    with client_of(create_app(Settings(), no_engines())) as client:
        response = client.get("/health")
    body = response.json()
    assert response.status_code == 200
    assert body["status"] == "ready"
    assert body["sessions"] == {"active": 0, "total": 0}
    assert body["backends"] == ["cascade"]
    assert body["engines"] == [{"role": "asr", "name": "scripted", "source": "nowhere", "licence": "MIT"}]
    assert set(body["event_loop"]) == {"p50", "p99", "max"}
    assert body["memory"]["peak_mb"] > 0
    assert "failure" not in body


def test_health_needs_no_key_but_a_host_of_ours() -> None:
    with client_of(create_app(Settings(api_key="k"), no_engines())) as client:
        assert client.get("/health").status_code == 200
        refused = client.get("/health", headers={"Host": "evil.example"})
        assert refused.status_code == 403
        assert refused.json()["error"]["code"] == "host_not_allowed"
        assert client.get("/health", headers={"Origin": "https://evil.example"}).status_code == 403


def test_lateness_is_served_for_load_tools_and_starts_anew_when_asked() -> None:
    app = create_app(Settings(), no_engines())
    lag = service_of(app).lag
    client = client_of(app)  # without its lifespan: the probe doesn't run
    for late_ms in (1.0, 2.0, 30.0):
        lag.note(late_ms)
    assert client.get("/health/lag?reset=1").json() == {"p50": 2.0, "p99": 30.0, "max": 30.0}
    assert client.get("/health/lag").json() == {"p50": 0.0, "p99": 0.0, "max": 0.0}
    lag.note(5.0)
    assert client.get("/health?reset=1").json()["event_loop"]["max"] == 5.0
    assert lag.lateness() == Lateness(0.0, 0.0, 0.0)


def test_lateness_covers_the_last_minute_and_a_timer_that_fires_early_is_in_time() -> None:
    lag = LoopLag()
    lag.note(1000.0)
    for _ in range(WINDOW_LOOKS):
        lag.note(-0.1)
    assert lag.lateness() == Lateness(0.0, 0.0, 0.0)
    for late_ms in range(1, 101):
        lag.note(float(late_ms))
    for _ in range(WINDOW_LOOKS - 100):
        lag.note(0.0)
    lag.reset()
    for late_ms in range(1, 101):
        lag.note(float(late_ms))
    assert lag.lateness() == Lateness(50.0, 99.0, 100.0)


async def test_the_probe_notices_a_loop_that_is_held_up() -> None:
    lag = LoopLag()
    probe = asyncio.ensure_future(lag.run())
    await asyncio.sleep(0)
    deadline = asyncio.get_running_loop().time() + 0.08
    while asyncio.get_running_loop().time() < deadline:
        pass  # holds the loop up for 80 ms: a 20 ms sleep ends 60 ms late
    await asyncio.sleep(0.001)
    probe.cancel()
    assert lag.lateness().max_ms >= 50.0


def test_a_gateway_that_still_loads_says_so_and_takes_no_clients() -> None:
    async def never(_settings: Settings) -> Engines:
        await asyncio.Event().wait()
        raise AssertionError

    with client_of(create_app(Settings(), load=never)) as client:
        response = client.get("/health")
        assert (response.status_code, response.json()["status"]) == (503, "starting")


def test_memory_is_in_megabytes() -> None:
    assert 5 < memory()["peak_mb"] < 100_000
