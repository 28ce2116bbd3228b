"""When a proxy of the environment may carry what is meant for an OpenAI-compatible server."""

from __future__ import annotations

import pytest

from models.engines.openai_endpoint import authorization, open_client
from tests.gateway.test_traps_in_the_environment import own_address
from tests.gateway.trap_server import TrapServer

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


async def ask(base_url: str) -> None:
    import openai

    client = open_client(base_url, "sk-own")
    try:
        await client.post("/chat/completions", body={}, options={"headers": authorization("sk-own")}, cast_to=object)
    except openai.APIError:
        pass  # a trap is no server
    finally:
        await client.close()


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> TrapServer:
    server = TrapServer(status="403 Forbidden")
    for name in PROXIES:
        monkeypatch.setenv(name, server.url)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return server


async def test_https_elsewhere_goes_through_the_proxy_as_a_tunnel_that_shows_only_the_host(proxy: TrapServer) -> None:
    with proxy:
        await ask("https://llm.example/v1")
    (request,) = proxy.requests
    assert request.startswith(b"CONNECT llm.example:443 ")
    assert b"sk-own" not in request
    assert b"chat" not in request


async def test_plain_http_goes_straight_to_its_host(proxy: TrapServer) -> None:
    with proxy, TrapServer(host=own_address()) as server:
        await ask(f"{server.url}/v1")
    assert proxy.requests == []
    (request,) = server.requests
    assert b"Bearer sk-own" in request


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
async def test_this_machine_is_never_reached_through_a_proxy(proxy: TrapServer, name: str) -> None:
    with proxy, TrapServer() as server:
        await ask(f"https://{name}:{server.port}/v1")
    assert proxy.requests == []
    (greeting,) = server.requests
    assert greeting.startswith(b"\x16\x03")  # TLS


async def test_a_host_that_is_excepted_is_reached_without_the_proxy(
    proxy: TrapServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = own_address()
    monkeypatch.setenv("no_proxy", address)
    monkeypatch.setenv("NO_PROXY", address)
    with proxy, TrapServer(host=address) as server:
        await ask(f"https://{address}:{server.port}/v1")
    assert proxy.requests == []
    assert len(server.requests) == 1
