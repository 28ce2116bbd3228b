"""The REST side of the Realtime API, through the whole application."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest
from openai import (
    AsyncAzureOpenAI,
    AsyncOpenAI,
    AuthenticationError,
    BadRequestError,
    NotFoundError,
    PermissionDeniedError,
)
from openai.types.realtime import ClientSecretCreateResponse
from starlette.testclient import TestClient
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from gateway.app import create_app
from gateway.endpoints import client_secrets, json_body
from gateway.endpoints.ephemeral_keys import MAX_KEY_CHARACTERS
from gateway.endpoints.model_list import OPENAI_NAMES
from gateway.settings import Settings
from models.engines.scripted_duplex import ScriptedDuplex
from models.interfaces import EngineInfo, Engines
from protocol import shapes
from protocol.client_secrets import ClientSecretRequest, client_secret_request
from protocol.wire_law import violations
from tests.gateway.conftest import Gateway, Serve, no_engines
from tests.gateway.test_ephemeral_keys import INCOMPRESSIBLE

BASE_URL = "http://127.0.0.1:8765"
SECRETS = "/v1/realtime/client_secrets"
KEY = {"Authorization": "Bearer k-test"}


@pytest.fixture
def client() -> Iterator[TestClient]:
    with TestClient(create_app(Settings(api_key="k-test"), no_engines()), base_url=BASE_URL, headers=KEY) as client:
        yield client


@pytest.fixture
def open_client() -> Iterator[TestClient]:
    """A client of a gateway without a key."""
    with TestClient(create_app(Settings(), no_engines()), base_url=BASE_URL) as client:
        yield client


def error_of(response: Any, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert set(response.json()) == {"error"}
    error: dict[str, Any] = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return error


# --- client secrets ------------------------------------------------------------------------------------------------


def test_settings_that_no_client_could_read_back_get_no_key(client: TestClient) -> None:
    for characters, status in ((261_000, 200), (261_900, 400)):  # of four bytes; the body itself is not too large
        body = json.dumps({"session": {"type": "realtime", "instructions": "😀" * characters}}, ensure_ascii=False)
        response = client.post(SECRETS, content=body.encode())
        assert response.status_code == status
    assert (error_of(response, 400)["code"], error_of(response, 400)["param"]) == ("event_too_large", "session")


async def test_a_body_is_checked_off_the_event_loop(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []

    def watched(body: dict[str, Any]) -> ClientSecretRequest:
        threads.append(threading.current_thread().name)
        return client_secret_request(body)

    monkeypatch.setattr(client_secrets, "client_secret_request", watched)
    async with serve() as gateway, AsyncOpenAI(api_key="any", base_url=gateway.http("/v1")) as sdk:
        assert (await sdk.realtime.client_secrets.create()).value.startswith("ek_")
    assert len(threads) == 1
    assert threads[0].startswith("asyncio_")  # of the loop's own pool


def test_a_secret_carries_the_whole_session_in_openais_shape(client: TestClient) -> None:
    response = client.post(SECRETS, json={"session": {"type": "realtime", "instructions": "Be kind."}})
    assert response.status_code == 200
    answer = response.json()
    assert list(shapes.problems(answer, ClientSecretCreateResponse)) == []
    assert answer["value"].startswith("ek_")
    assert answer["session"]["instructions"] == "Be kind."
    assert answer["session"]["id"].startswith("sess_")
    assert answer["session"]["model"] == "gpt-realtime"


@pytest.mark.parametrize("content", [b"", b"{}", b'{"session": null}'])
def test_without_a_session_the_key_opens_default_ones(client: TestClient, content: bytes) -> None:
    answer = client.post(SECRETS, content=content).json()
    assert answer["session"]["audio"]["output"]["voice"] == "marin"


def test_a_wrong_field_is_answered_as_openai_does(client: TestClient) -> None:
    body = {"session": {"type": "realtime", "audio": {"output": {"speed": 9.5}}}}
    assert error_of(client.post(SECRETS, json=body), 400) == {
        "message": "Invalid 'session.audio.output.speed': decimal above maximum value. "
        "Expected a value <= 1.5, but got 9.5 instead.",
        "type": "invalid_request_error",
        "param": "session.audio.output.speed",
        "code": "decimal_above_max_value",
    }


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b"1", b'{"session": NaN}', b"\xff", b'"\\ud800"', b"[" * 200_000, b'{"a": "\\ud800"}']
)
def test_what_is_no_json_object_is_told_in_openais_words(client: TestClient, content: bytes) -> None:
    error = error_of(client.post(SECRETS, content=content, headers={"Content-Type": "application/json"}), 400)
    assert error["message"] == "We could not parse the JSON body of your request."


def test_another_content_type_is_refused(client: TestClient) -> None:
    response = client.post(SECRETS, content=b"{}", headers={"Content-Type": "text/plain"})
    assert "only accepts 'application/json'" in error_of(response, 400)["message"]


def test_a_body_over_the_limit_is_refused_and_one_at_the_limit_is_read(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_body, "MAX_BODY_BYTES", 100)
    for size, status in ((100, 200), (101, 413)):
        content = b"{}" + b" " * (size - 2)
        assert client.post(SECRETS, content=content).status_code == status


def test_a_model_that_is_not_there_gets_no_key(client: TestClient) -> None:
    error = error_of(client.post(SECRETS, json={"session": {"type": "realtime", "model": "duplex"}}), 400)
    assert (error["code"], error["param"]) == ("model_not_found", "session.model")


def test_a_key_is_needed_where_one_is_configured(client: TestClient) -> None:
    for headers in ({"Authorization": ""}, {"Authorization": "Bearer wrong"}):
        assert error_of(client.post(SECRETS, headers=headers), 401)["code"] == "invalid_api_key"
    assert client.post(SECRETS, headers={"Authorization": "", "api-key": "k-test"}).status_code == 200


def test_an_ephemeral_key_makes_no_further_keys_and_reads_no_models(
    client: TestClient, open_client: TestClient
) -> None:
    for opened in (client, open_client):
        key = opened.post(SECRETS).json()["value"]
        headers = {"Authorization": f"Bearer {key}"}
        assert "insufficient permissions" in error_of(opened.post(SECRETS, headers=headers), 403)["message"]
        error_of(opened.get("/v1/models", headers=headers), 403)


def test_without_a_configured_key_any_word_is_one_but_a_forged_key_of_ours_is_not(open_client: TestClient) -> None:
    for word in ("", "Bearer ek_local", "Bearer x"):
        assert open_client.post(SECRETS, headers={"Authorization": word}).status_code == 200
    forged = open_client.post(SECRETS).json()["value"][:-2] + "xx"
    error_of(open_client.post(SECRETS, headers={"Authorization": f"Bearer {forged}"}), 401)


def test_headers_and_parameters_that_mean_nothing_here_are_ignored(client: TestClient) -> None:
    headers = {"OpenAI-Organization": "o", "OpenAI-Project": "p", "OpenAI-Safety-Identifier": "s", "X-Any": "1"}
    assert client.post(SECRETS + "?anything=1", headers=headers).status_code == 200


async def test_the_stock_sdk_makes_a_secret_and_reads_the_errors(serve: Serve) -> None:
    async with serve(api_key="k-test") as gateway, AsyncOpenAI(api_key="k-test", base_url=gateway.http("/v1")) as sdk:
        session: Any = {"type": "realtime", "model": "gpt-realtime", "audio": {"output": {"voice": "cedar"}}}
        secret = await sdk.realtime.client_secrets.create(
            session=session, expires_after={"anchor": "created_at", "seconds": 60}
        )
        assert secret.session.type == "realtime"
        assert secret.session.audio is not None
        assert secret.session.audio.output is not None
        assert secret.session.audio.output.voice == "cedar"
        with pytest.raises(BadRequestError) as caught:
            await sdk.realtime.client_secrets.create(expires_after={"anchor": "created_at", "seconds": 5})
        assert (caught.value.code, caught.value.param) == ("integer_below_min_value", "expires_after.seconds")
        with pytest.raises(AuthenticationError):
            await sdk.with_options(api_key="wrong").realtime.client_secrets.create()
        with pytest.raises(PermissionDeniedError):
            await sdk.with_options(api_key=secret.value).realtime.client_secrets.create()


# --- what a key opens ----------------------------------------------------------------------------------------------


async def event(client: ClientConnection) -> dict[str, Any]:
    async with asyncio.timeout(5):
        received: dict[str, Any] = json.loads(await client.recv())
    assert violations(received) == []
    return received


async def secret(gateway: Gateway, session: dict[str, Any], seconds: int = 600) -> str:
    async with AsyncOpenAI(api_key="k-test", base_url=gateway.http("/v1")) as sdk:
        taken: Any = session
        made = await sdk.realtime.client_secrets.create(
            session=taken, expires_after={"anchor": "created_at", "seconds": seconds}
        )
        return made.value


def browser(key: str) -> dict[str, Any]:
    """What openai-agents-js offers in a browser."""
    return {"subprotocols": ["realtime", f"openai-insecure-api-key.{key}", "openai-agents-sdk.0"]}


REAL: dict[str, Any] = {"whole": True, "profile": "scripted", "api_key": "k-test"}


async def test_session_created_shows_what_the_key_carries_and_an_update_merges_over_it(serve: Serve) -> None:
    configured = {
        "type": "realtime",
        "model": "gpt-realtime-2.1",
        "instructions": "Be kind.",
        "audio": {"input": {"turn_detection": {"type": "server_vad", "silence_duration_ms": 700}}},
    }
    async with serve(**REAL) as gateway:
        key = await secret(gateway, configured)
        async with connect(gateway.url(""), **browser(key)) as client:
            assert client.subprotocol == "realtime"
            created = (await event(client))["session"]
            update = {
                "type": "realtime",
                "audio": {"input": {"turn_detection": {"type": "server_vad", "threshold": 0.7}}},
            }
            await client.send(json.dumps({"type": "session.update", "session": update}))
            updated = (await event(client))["session"]
    assert created["model"] == "gpt-realtime-2.1"
    assert created["instructions"] == updated["instructions"] == "Be kind."
    assert created["audio"]["input"]["turn_detection"]["silence_duration_ms"] == 700
    assert updated["audio"]["input"]["turn_detection"]["silence_duration_ms"] == 700
    assert updated["audio"]["input"]["turn_detection"]["threshold"] == 0.7


async def test_a_key_opens_many_sessions_and_the_urls_model_wins_over_its_own(serve: Serve) -> None:
    async with serve(api_key="k-test") as gateway:
        key = await secret(gateway, {"type": "realtime", "model": "gpt-realtime-2.1"})
        header = {"Authorization": f"Bearer {key}"}
        for query in ("", "?model=cascade"):
            async with connect(gateway.url(query), additional_headers=header) as client:
                assert json.loads(await client.recv())["type"] == "session.created"
    assert [session.request.model for session in gateway.sessions] == ["gpt-realtime-2.1", "cascade"]
    assert all((session.request.session or {})["type"] == "realtime" for session in gateway.sessions)


@pytest.mark.parametrize("characters", [100, 2_400, 4_000])
async def test_keys_with_small_middling_and_large_settings_pass_every_header(serve: Serve, characters: int) -> None:
    async with serve(**REAL) as gateway:
        instructions = INCOMPRESSIBLE[:characters]
        key = await secret(gateway, {"type": "realtime", "instructions": instructions})
        assert len(key) <= MAX_KEY_CHARACTERS
        for offer in (browser(key), {"additional_headers": {"Authorization": f"Bearer {key}"}}):
            async with connect(gateway.url(), **offer) as client:
                assert (await event(client))["session"]["instructions"] == instructions


async def test_a_dummy_key_opens_a_default_session_where_none_is_required(serve: Serve) -> None:
    async with serve() as gateway, connect(gateway.url(), **browser("ek_local")) as client:
        assert json.loads(await client.recv())["type"] == "session.created"
    assert gateway.sessions[0].request.session is None


# --- a bad key -----------------------------------------------------------------------------------------------------


BETA = {"OpenAI-Beta": "realtime=v1"}
ORIGIN = {"Origin": "http://localhost:3000"}


@pytest.mark.parametrize(
    "offer",
    [
        browser("wrong"),
        browser("ek_.forged.key"),
        {"subprotocols": ["realtime"]},
        {"additional_headers": ORIGIN},
        {"additional_headers": {**BETA, "Authorization": "Bearer wrong"}},
        {"additional_headers": BETA},
        {"subprotocols": ["realtime", "openai-insecure-api-key.wrong", "openai-beta.realtime-v1"]},
    ],
)
async def test_who_cannot_read_a_refused_upgrade_is_told_in_an_event(serve: Serve, offer: dict[str, Any]) -> None:
    async with serve(api_key="k-test") as gateway, connect(gateway.url(), **offer) as client:
        error = (await event(client))["error"]
        assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_api_key")
        with pytest.raises(ConnectionClosed) as caught:
            await client.recv()
        assert caught.value.rcvd is not None
        assert (caught.value.rcvd.code, caught.value.rcvd.reason) == (3000, "invalid_request_error.invalid_api_key")
    assert gateway.sessions == []
    assert gateway.service.sessions_total == 0
    if "wrong" in str(offer):
        assert error["message"].startswith("Incorrect API key provided")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"api-key": "wrong"},
        {"Authorization": "Bearer ek_.forged.key"},
        {"Authorization": "Bearer wrong", **ORIGIN},
    ],
)
async def test_a_bad_key_in_a_header_is_refused_at_the_upgrade(serve: Serve, headers: dict[str, str]) -> None:
    async with serve(api_key="k-test") as gateway:
        with pytest.raises(InvalidStatus) as caught:
            await connect(gateway.url(), additional_headers=headers)
    assert caught.value.response.status_code == 401
    assert json.loads(caught.value.response.body)["error"]["code"] == "invalid_api_key"


async def test_a_forged_key_of_ours_is_refused_even_where_none_is_required(serve: Serve) -> None:
    async with serve() as gateway:
        with pytest.raises(InvalidStatus) as caught:
            await connect(gateway.url(), additional_headers={"Authorization": "Bearer ek_.forged.key"})
        assert caught.value.response.status_code == 401


# --- other paths ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "model"),
    [
        ("/openai/realtime?api-version=2024-10-01-preview&deployment=my-gpt", "my-gpt"),
        ("/openai/realtime?api-version=2025-04-01-preview&deployment=my-gpt&model=gpt-realtime", "gpt-realtime"),
        ("/openai/v1/realtime?model=gpt-realtime", "gpt-realtime"),
        ("/openai/v1/realtime?deployment=my-gpt", "my-gpt"),
        ("/realtime?model=gpt-realtime", "gpt-realtime"),
        ("/v1/realtime?model=gpt-realtime&surprise=1", "gpt-realtime"),
    ],
)
async def test_every_address_of_openais_and_azures_clients_opens_the_same_socket(
    serve: Serve, path: str, model: str
) -> None:
    async with serve(api_key="k-test") as gateway:
        url = gateway.http(path).replace("http", "ws")
        async with connect(url, additional_headers={"api-key": "k-test"}) as client:
            assert json.loads(await client.recv())["type"] == "session.created"
    assert gateway.sessions[0].request.model == model


async def test_azures_clients_make_secrets_at_their_address(serve: Serve) -> None:
    async with (
        serve(api_key="k-test") as gateway,
        AsyncOpenAI(api_key="k-test", base_url=gateway.http("/openai/v1")) as sdk,
    ):
        assert (await sdk.realtime.client_secrets.create()).value.startswith("ek_")


async def test_azures_client_of_the_stock_sdk_speaks_beta_with_its_deployment(serve: Serve) -> None:
    async with serve(**REAL) as gateway:
        azure = AsyncAzureOpenAI(api_key="k-test", azure_endpoint=gateway.http(""), api_version="2024-10-01-preview")
        async with azure, AsyncExitStack() as stack:
            azure.websocket_base_url = gateway.http("/openai").replace("http", "ws")  # it speaks wss otherwise
            connection = await stack.enter_async_context(azure.beta.realtime.connect(model="my-gpt"))
            created = await connection.recv()
            assert created.type == "session.created"
            assert created.session.model == "my-gpt"
            assert created.session.input_audio_format == "pcm16"  # beta's shape
            assert (await azure.models.list()).data[0].id == "cascade"


async def test_a_base_url_without_a_path_is_served_as_well(serve: Serve) -> None:
    async with serve(**REAL) as gateway, AsyncOpenAI(api_key="k-test", base_url=gateway.http("")) as sdk:
        assert (await sdk.models.retrieve("cascade")).id == "cascade"
        made = await sdk.realtime.client_secrets.create()
        async with sdk.with_options(api_key=made.value).realtime.connect(model="gpt-realtime") as connection:
            assert (await connection.recv()).type == "session.created"


async def test_the_stock_sdk_lists_the_models_and_finds_each(serve: Serve) -> None:
    async with serve() as gateway, AsyncOpenAI(api_key="k", base_url=gateway.http("/v1")) as sdk:
        listed = [model async for model in sdk.models.list()]
        assert [model.id for model in listed] == ["cascade", *OPENAI_NAMES]
        assert listed[0].id == "cascade"
        assert "gpt-realtime" in OPENAI_NAMES
        for model in listed:
            assert (await sdk.models.retrieve(model.id)) == model
        with pytest.raises(NotFoundError) as caught:
            await sdk.models.retrieve("duplex")
        assert caught.value.code == "model_not_found"


class Bound:
    """An engine that is bound to languages, and a language model without tools."""

    languages = frozenset({"fr", "en"})
    calls_tools = False


def capabilities(client: TestClient, name: str = "cascade") -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"/v1/models/{name}", headers=KEY).json()["capabilities"]
    return found


def test_a_full_duplex_model_is_listed_beside_the_cascade_with_its_own_capabilities() -> None:
    model = ScriptedDuplex()
    infos = (EngineInfo("asr", "Ear"), EngineInfo("vad", "Gate"), model.info)
    engines = replace(no_engines(), native=model, infos=infos)
    settings = Settings(api_key="k-test", max_sessions=3, session_limit_s=60.0)
    with TestClient(create_app(settings, engines), base_url=BASE_URL) as client:
        listed = [entry["id"] for entry in client.get("/v1/models", headers=KEY).json()["data"]]
        duplex, cascade, other = (capabilities(client, name) for name in ("duplex", "cascade", "gpt-realtime"))
        assert "native" in {engine["role"] for engine in client.get("/health").json()["engines"]}
    assert listed == ["cascade", "duplex", *OPENAI_NAMES]
    assert other == cascade
    assert cascade["engines"] == {"asr": ["Ear"], "vad": ["Gate"]}
    assert duplex["engines"] == {"vad": ["Gate"], "native": ["scripted full-duplex model"]}
    assert (duplex["backend"], duplex["ready"], duplex["frame_ms"]) == ("duplex", True, 80)
    assert (duplex["voices"], duplex["languages"]) == (["murmur"], {"input": ["en"], "output": ["en"]})
    assert (duplex["tools"], duplex["text_input"], duplex["session_types"]) == (True, False, ["realtime"])
    assert duplex["limits"]["conversation_s"] is None


def test_a_key_may_be_for_any_model_that_is_served_and_for_no_other() -> None:
    engines = replace(no_engines(), native=ScriptedDuplex(), cascade=False)
    with TestClient(create_app(Settings(api_key="k-test"), engines), base_url=BASE_URL) as client:
        for model, status in (("duplex", 200), ("gpt-realtime", 200), ("cascade", 400), ("twin", 400)):
            body = {"session": {"type": "realtime", "model": model}}
            assert client.post(SECRETS, json=body, headers=KEY).status_code == status, model


def test_where_there_is_no_cascade_other_names_stand_for_the_full_duplex_model() -> None:
    engines = replace(no_engines(), native=ScriptedDuplex(), cascade=False)
    with TestClient(create_app(Settings(api_key="k-test"), engines), base_url=BASE_URL) as client:
        assert capabilities(client, "gpt-realtime") == capabilities(client, "duplex")
        assert client.get("/v1/models/cascade", headers=KEY).status_code == 404


def test_a_full_duplex_model_that_is_still_loading_is_listed_as_not_ready() -> None:
    async def load(_settings: Settings) -> Engines:
        return await asyncio.Event().wait()

    settings = Settings(api_key="k-test", duplex="scripted", cascade=False)
    with TestClient(create_app(settings, load=load), base_url=BASE_URL) as client:
        told = capabilities(client, "duplex")
    assert (told["ready"], told["tools"], told["engines"]) == (False, False, {})


def test_a_model_tells_what_stands_behind_its_name() -> None:
    bound: Any = Bound()
    infos = tuple(
        EngineInfo(*words)
        for words in (("asr", "Ear", "http://internal/v1"), ("end_of_turn", "audio"), ("end_of_turn", "lexical"))
    )
    engines = replace(no_engines(), asr=bound, chat=bound, infos=infos)
    settings = Settings(api_key="k-test", max_sessions=3, session_limit_s=60.0)
    with TestClient(create_app(settings, engines), base_url=BASE_URL) as client:
        told = capabilities(client)
        assert told == capabilities(client, "gpt-realtime")
    assert told["backend"] == "cascade"
    assert told["ready"] is True
    assert all(told[name] is True for name in ("interruptible", "truncatable", "manual_response", "text_input"))
    assert told["tools"] is False
    assert told["engines"] == {"asr": ["Ear"], "end_of_turn": ["audio", "lexical"]}  # and no address of a server
    assert told["languages"] == {"input": ["en", "fr"], "output": None}
    assert {"type": "audio/pcm", "rate": 24_000} in told["audio_formats"]
    assert told["limits"] == {
        "sessions": 3,
        "session_s": 60.0,
        "event_bytes": 25_165_824,
        "turn_s": 300,
        "context_tokens": 28_224,
    }


def test_a_gateway_that_still_loads_says_so_in_its_models() -> None:
    loading = asyncio.Event()

    async def load(_settings: Settings) -> Engines:
        await loading.wait()
        return no_engines()

    with TestClient(create_app(Settings(), load=load), base_url=BASE_URL) as client:
        told = capabilities(client)
    assert told["ready"] is False
    assert told["engines"] == {}
    assert told["tools"] is True


@pytest.mark.parametrize(
    ("method", "path", "words"),
    [
        ("POST", "/v1/realtime/calls", "WebRTC"),
        ("POST", "/v1/realtime/calls/rtc_1/accept", "WebRTC"),
        ("POST", "/v1/realtime/calls/rtc_1/hangup", "WebRTC"),
        ("POST", "/v1/realtime?model=gpt-realtime", "WebRTC"),
        ("POST", "/v1/realtime/translations/client_secrets", "translation"),
        ("GET", "/v1/realtime/translations", "translation"),
    ],
)
def test_what_is_not_served_says_so_in_one_sentence(client: TestClient, method: str, path: str, words: str) -> None:
    error = error_of(client.request(method, path), 404)
    assert words in error["message"]
    assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("path", "words"),
    [("/v1/realtime?call_id=rtc_1", "WebRTC"), ("/v1/realtime/translations?model=x", "translation")],
)
async def test_sockets_that_are_not_served_say_so_at_the_upgrade(serve: Serve, path: str, words: str) -> None:
    async with serve() as gateway:
        with pytest.raises(InvalidStatus) as caught:
            await connect(gateway.http(path).replace("http", "ws"))
    assert caught.value.response.status_code == 404
    assert words in json.loads(caught.value.response.body)["error"]["message"]


# --- pages ---------------------------------------------------------------------------------------------------------


def preflight(client: TestClient, origin: str) -> Any:
    headers = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,x-stainless-lang",
        "Access-Control-Request-Private-Network": "true",
    }
    return client.options(SECRETS, headers=headers)


def test_a_page_of_an_allowed_origin_may_ask_for_a_secret(client: TestClient) -> None:
    asked = preflight(client, "http://localhost:3000")
    assert asked.status_code == 200
    assert asked.headers["access-control-allow-origin"] == "http://localhost:3000"
    assert "POST" in asked.headers["access-control-allow-methods"]
    assert asked.headers["access-control-allow-headers"] == "authorization,content-type,x-stainless-lang"
    assert asked.headers["access-control-allow-private-network"] == "true"
    for headers in ({}, {"Authorization": "Bearer wrong"}):  # a refusal is readable, too
        answer = client.post(SECRETS, headers={"Origin": "http://localhost:3000", **headers})
        assert answer.headers["access-control-allow-origin"] == "http://localhost:3000"
        assert "origin" in answer.headers["vary"].lower()


def test_a_page_of_a_foreign_origin_may_not(client: TestClient) -> None:
    assert preflight(client, "https://evil.example").status_code == 403
    answer = client.post(SECRETS, headers={"Origin": "https://evil.example"})
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers
