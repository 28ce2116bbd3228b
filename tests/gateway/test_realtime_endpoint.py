from __future__ import annotations

import asyncio
import json
import logging
import socket
import struct
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from gateway.endpoints import socket_session
from gateway.endpoints.realtime import ModelNotFound, choose_backend, choose_recogniser
from gateway.endpoints.unknown_models import MOST_NAMES, UnknownModels
from gateway.serving import configure_logging
from gateway.settings import Remote
from protocol.errors import session_expired
from protocol.wire import Dialect
from tests.gateway.conftest import Serve


async def event(client: ClientConnection) -> dict[str, Any]:
    async with asyncio.timeout(5):
        return json.loads(await client.recv())


async def closed(client: ClientConnection) -> tuple[int | None, str | None]:
    """Read on until the socket is closed; return its code and reason."""
    async with asyncio.timeout(8):
        while True:
            try:
                await client.recv()
            except ConnectionClosed as end:
                return (end.rcvd.code, end.rcvd.reason) if end.rcvd else (None, None)


async def refusal(url: str, **arguments: Any) -> tuple[int, dict[str, Any]]:
    with pytest.raises(InvalidStatus) as caught:
        await connect(url, **arguments)
    response = caught.value.response
    return response.status_code, json.loads(response.body)["error"]


async def test_a_client_is_greeted_before_it_says_anything(serve: Serve) -> None:
    async with serve() as gateway, connect(gateway.url()) as client:
        assert (await event(client))["type"] == "session.created"
        assert client.subprotocol is None
        assert gateway.service.sessions_active == 1
    assert gateway.service.sessions_active == 0
    assert gateway.service.sessions_total == 1


async def test_frames_are_answered_in_order_and_binary_ones_are_passed_on(serve: Serve) -> None:
    async with serve() as gateway, connect(gateway.url()) as client:
        await event(client)
        for number in range(20):
            await client.send(str(number))
        await client.send(b"\0\1")
        assert [(await event(client))["text"] for _ in range(20)] == [str(number) for number in range(20)]
        assert await event(client) == {"type": "binary", "bytes": 2}


async def test_a_browser_gets_the_subprotocol_realtime_and_never_its_key_back(serve: Serve) -> None:
    async with serve(api_key="k-test") as gateway:
        offered: Any = ["realtime", "openai-insecure-api-key.k-test", "openai-agents-sdk.1"]
        async with connect(gateway.url(), subprotocols=offered) as client:
            assert client.subprotocol == "realtime"
            assert client.response is not None
            assert "k-test" not in str(client.response.headers)
            assert "k-test" not in json.dumps(await event(client))


@pytest.mark.parametrize("authorization", ["Bearer k-test", "bearer k-test"])
async def test_the_right_key_opens_a_session(serve: Serve, authorization: str) -> None:
    async with (
        serve(api_key="k-test") as gateway,
        connect(gateway.url(), additional_headers={"Authorization": authorization}) as client,
    ):
        assert (await event(client))["type"] == "session.created"


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer k-tes"}, {"Authorization": "Bearer k-test2"}])
async def test_a_missing_or_wrong_key_is_refused_at_the_upgrade(
    serve: Serve, headers: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="gateway")
    async with serve(api_key="k-test") as gateway:
        status, error = await refusal(gateway.url(), additional_headers=headers)
    assert status == 401
    assert error["code"] == "invalid_api_key"
    assert gateway.sessions == []
    assert "k-tes" not in caplog.text


async def test_a_refused_upgrade_is_no_error_in_the_log(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    configure_logging("info")
    async with serve(api_key="k-test") as gateway:
        await refusal(gateway.url())
    assert caplog.text == ""


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer anything"}])
async def test_without_a_configured_key_every_client_connects(serve: Serve, headers: dict[str, str]) -> None:
    async with serve() as gateway, connect(gateway.url(), additional_headers=headers) as client:
        assert (await event(client))["type"] == "session.created"


async def test_a_foreign_page_is_refused_and_a_loopback_page_is_not(serve: Serve) -> None:
    async with serve() as gateway:
        status, error = await refusal(gateway.url(), origin="https://evil.example")
        assert (status, error["code"]) == (403, "origin_not_allowed")
        async with connect(gateway.url(), origin="http://localhost:3000") as client:
            await event(client)


async def test_a_rebound_name_is_refused(serve: Serve) -> None:
    async with serve() as gateway:
        url = gateway.url().replace("127.0.0.1", "evil.example")
        status, error = await refusal(url, host="127.0.0.1", port=gateway.port)
        assert (status, error["code"]) == (403, "host_not_allowed")


async def test_a_socket_at_another_path_is_not_found(serve: Serve) -> None:
    async with serve() as gateway:
        status, error = await refusal(f"ws://127.0.0.1:{gateway.port}/v1/elsewhere")
        assert status == 404
        assert "Invalid URL" in error["message"]


async def test_one_session_more_than_the_limit_is_refused_until_one_ends(serve: Serve) -> None:
    async with serve(max_sessions=1) as gateway:
        async with connect(gateway.url()) as client:
            await event(client)
            status, error = await refusal(gateway.url())
            assert (status, error["code"]) == (503, "sessions_exhausted")
        await gateway.idle()
        async with connect(gateway.url()) as client:
            await event(client)


def test_any_name_that_is_not_ours_gets_the_default_backend() -> None:
    for model in (None, "", "gpt-realtime", "gpt-4o-realtime-preview", "cascade"):
        assert choose_backend(model) == "cascade"
    for model in ("duplex", "twin"):
        with pytest.raises(ModelNotFound, match=model):
            choose_backend(model)


@pytest.mark.parametrize(
    ("model", "served", "sentence"),
    [
        ("twin", ("cascade", "duplex"), "a session with two backends is not built yet."),
        ("cascade", ("duplex",), "this gateway serves `duplex` only."),
        ("cascade", ("openai",), "this gateway serves `openai` only."),
        ("cascade", ("duplex", "mac", "openai"), "this gateway serves `duplex`, `mac`, `openai` only."),
        (
            "duplex",
            ("cascade", "mac"),
            "this gateway has no native full-duplex model loaded, and DUPLEX_BASE_URL names no server that has one.",
        ),
    ],
)
def test_what_is_said_of_a_backend_that_is_not_there_is_true_of_this_gateway(
    model: str, served: tuple[str, ...], sentence: str
) -> None:
    with pytest.raises(ModelNotFound) as refused:
        choose_backend(model, served)
    assert str(refused.value) == f"The model `{model}` is not available: {sentence}"


def test_dictation_beside_a_full_duplex_model_is_told_which_names_take_it() -> None:
    with pytest.raises(ModelNotFound, match="has a full-duplex model only, which answers what it hears"):
        choose_recogniser("whisper-1", ("duplex",))
    with pytest.raises(ModelNotFound, match="Name another model of this gateway as \\?model=: `mac`, `openai`"):
        choose_recogniser("whisper-1", ("duplex", "mac", "openai"))
    assert choose_recogniser("mac", ("duplex", "mac", "openai")) == "mac"


async def test_who_mistypes_a_models_name_finds_in_the_log_what_was_opened_instead(
    serve: Serve, caplog: pytest.LogCaptureFixture, unused_tcp_port: int
) -> None:
    openai = Remote("openai", f"http://127.0.0.1:{unused_tcp_port}/v1")
    asked = ("openia", "openia", "gpt-realtime", "cascade", "openai", "", "a%0Ab%1B%5B31m" + "c" * 99)
    async with serve(remotes=(openai,)) as gateway:
        for query in (*(f"?model={name}" for name in asked), "", "?model=whisper-1&intent=transcription"):
            async with connect(gateway.url(query)) as client:
                assert (await event(client))["type"] == "session.created"
        assert [session.request.backend for session in gateway.sessions].count("openai") == 1
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    rest = "`: its client got `cascade`, the default; there are `cascade`, `openai`"
    assert told == [f"no model is named `openia{rest}", f"no model is named `ab[31m{'c' * 58}{rest}"]


async def test_where_there_is_one_model_any_name_means_it(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    async with serve() as gateway, connect(gateway.url("?model=openia")) as client:
        await event(client)
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


def test_a_client_that_makes_names_up_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    unknown = UnknownModels()
    for number in range(10 * MOST_NAMES):
        unknown.opened(f"name-{number}", "cascade", ("cascade", "openai"))
    assert len(caplog.records) == MOST_NAMES


@pytest.mark.parametrize("model", ["duplex", "twin"])
async def test_a_backend_that_is_not_there_is_never_replaced_by_another(serve: Serve, model: str) -> None:
    async with serve() as gateway, connect(gateway.url(f"?model={model}")) as client:
        error = await event(client)
        assert error["type"] == "error"
        assert error["event_id"].startswith("event_")
        assert error["error"]["code"] == "model_not_found"
        assert model in error["error"]["message"]
        assert await closed(client) == (4000, "invalid_request_error.model_not_found")
        assert gateway.sessions == []


async def test_a_server_of_a_full_duplex_model_alone_refuses_transcription_sessions(serve: Serve) -> None:
    async with serve() as gateway:
        gateway.service.backends = ("duplex",)
        async with connect(gateway.url("?intent=transcription")) as client:
            error = (await event(client))["error"]
            assert error["code"] == "model_not_found"
            assert "transcription" in error["message"]
            assert await closed(client) == (4000, "invalid_request_error.model_not_found")
        async with connect(gateway.url("?model=gpt-realtime")) as client:
            assert (await event(client))["type"] == "session.created"
        assert [session.request.backend for session in gateway.sessions] == ["duplex"]


async def test_the_session_is_told_what_the_handshake_said(serve: Serve) -> None:
    async with serve() as gateway:
        headers = {"OpenAI-Beta": "realtime=v1"}
        async with connect(gateway.url("?model=m&intent=transcription"), additional_headers=headers) as client:
            await event(client)
        async with connect(gateway.url("")) as client:
            await event(client)
    first, second = (session.request for session in gateway.sessions)
    assert (first.model, first.backend, first.query["intent"]) == ("m", "cascade", "transcription")
    assert first.dialect is Dialect.BETA
    assert (second.model, second.dialect) == (None, Dialect.GA)


@pytest.mark.parametrize("bug", ["bug in run", "bug in receive"])
async def test_a_bug_closes_its_session_with_1011_and_touches_no_other(
    serve: Serve, bug: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve() as gateway, connect(gateway.url()) as other, connect(gateway.url()) as client:
        await event(other)
        await event(client)
        await client.send(bug)
        error = await event(client)
        assert (error["type"], error["error"]["type"]) == ("error", "server_error")
        assert (await closed(client))[0] == 1011
        await other.send("still there")
        assert (await event(other))["text"] == "still there"
    assert "RuntimeError: scripted bug" in caplog.text
    assert all(session.ended.is_set() for session in gateway.sessions)


async def test_a_session_that_ends_itself_says_its_last_words(serve: Serve) -> None:
    async with serve() as gateway, connect(gateway.url()) as client:
        await event(client)
        await client.send("end")
        assert (await event(client))["type"] == "last words"
        assert (await closed(client))[0] == 1000


async def test_at_its_longest_duration_a_session_is_told_and_closed(serve: Serve) -> None:
    async with serve(session_limit_s=0.05) as gateway, connect(gateway.url()) as client:
        await event(client)
        assert (await event(client))["error"]["code"] == "session_expired"
        assert await closed(client) == (1001, "Your session hit the maximum duration of 1 minute.")
    assert gateway.sessions[0].ended.is_set()


async def test_a_client_that_reads_too_slowly_is_closed(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    async with serve() as gateway, connect(gateway.url(), max_queue=1) as client:
        await event(client)
        await client.send("flood")
        async with asyncio.timeout(5):
            await gateway.sessions[0].ended.wait()
        assert await closed(client) == (1008, "client reads too slowly")
        await gateway.idle()
    assert "reads too slowly" in caplog.text
    assert "Traceback" not in caplog.text


async def test_a_client_that_never_reads_does_not_keep_its_session(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_session, "CLOSE_DEADLINE_S", 0.1)
    async with serve() as gateway:
        with closing(await upgraded(gateway.port)) as raw:
            raw.sendall(text_frame("flood"))
            await gateway.idle()
            assert gateway.sessions[0].ended.is_set()


async def test_a_client_that_vanishes_in_mid_reply_is_cleaned_up_at_once(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve() as gateway:
        for round_number in range(20):
            raw = await upgraded(gateway.port)
            raw.sendall(text_frame("speak on and on"))
            async with asyncio.timeout(2):
                await gateway.sessions[round_number].busy.wait()
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raw.close()  # RST
            async with asyncio.timeout(2):
                await gateway.sessions[round_number].ended.wait()
            async with connect(gateway.url()) as client:
                assert (await event(client))["session"]["id"] == gateway.sessions[round_number + 1].session_id
            await gateway.idle()
            gateway.sessions.pop()  # so that round n's client is session n
    assert caplog.text == ""


async def test_a_real_session_keeps_the_clients_words_and_records_none_of_them(serve: Serve, tmp_path: Path) -> None:
    settings = {"profile": "scripted", "event_log": tmp_path, "voice": "cedar", "instructions": "Be kind."}
    async with serve(whole=True, **settings) as gateway:
        async with connect(gateway.url("?model=gpt-realtime-2.1")) as client:
            session = (await event(client))["session"]
            await client.send(
                json.dumps({"type": "session.update", "session": {"type": "realtime", "instructions": "secret"}})
            )
            assert (await event(client))["session"]["instructions"] == "secret"
        await gateway.idle()
    assert session["model"] == "gpt-realtime-2.1"
    assert session["audio"]["output"]["voice"] == "cedar"
    assert session["instructions"] == "Be kind."
    recorded = (tmp_path / f"{session['id']}.jsonl").read_text(encoding="utf-8")
    assert "session.updated" in recorded
    assert "secret" not in recorded


async def test_a_real_session_that_expires_is_told_so_at_the_time_that_it_was_told(serve: Serve) -> None:
    async with serve(whole=True, profile="scripted", session_limit_s=1.0) as gateway:
        opened_s = time.time()
        async with connect(gateway.url()) as client:
            created = await event(client)
            assert created["type"] == "session.created"
            assert created["session"]["expires_at"] >= opened_s + 1.0  # its whole time
            error = (await event(client))["error"]
            assert time.time() >= created["session"]["expires_at"]
            assert error["code"] == "session_expired"
            assert await closed(client) == (1001, error["message"])


def test_the_longest_duration_is_told_in_minutes_as_openai_words_it() -> None:
    assert session_expired(60).message == "Your session hit the maximum duration of 60 minutes."
    assert session_expired(1).message == "Your session hit the maximum duration of 1 minute."


async def upgraded(port: int) -> socket.socket:
    """Return a raw TCP socket after the upgrade, which nobody reads from."""
    loop = asyncio.get_running_loop()
    raw = socket.socket()
    raw.setblocking(False)
    await loop.sock_connect(raw, ("127.0.0.1", port))
    request = (
        f"GET /v1/realtime HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    await loop.sock_sendall(raw, request.encode())
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += await loop.sock_recv(raw, 4096)
    assert answer.startswith(b"HTTP/1.1 101")
    return raw


def text_frame(text: str) -> bytes:
    """Return a masked client frame (mask 0) of at most 125 characters."""
    return bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text.encode()


async def test_our_own_settings_in_the_url_are_shown_at_once_and_to_nobody_else(serve: Serve) -> None:
    async with serve(whole=True, profile="scripted") as gateway:
        async with connect(gateway.url("?model=cascade&gateway.barge_in=off")) as client:
            assert (await event(client))["session"]["gateway"] == {"barge_in": "off", "speculation": True}
        async with connect(gateway.url()) as client:
            assert "gateway" not in (await event(client))["session"]


async def test_a_wrong_one_of_our_own_settings_in_the_url_is_named(serve: Serve) -> None:
    async with serve() as gateway, connect(gateway.url("?gateway.barge_in=loud")) as client:
        error = (await event(client))["error"]
        assert (error["param"], error["code"]) == ("session.gateway.barge_in", "invalid_value")
        assert await closed(client) == (4000, "invalid_request_error.invalid_value")
