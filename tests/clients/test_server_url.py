"""What `wav --url` and `--target URL` take, and what a server that refuses the connection is told as."""

from __future__ import annotations

import http
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
import websockets

from clients.play_wav import main
from clients.realtime_connection import RealtimeConnection, RealtimeError
from clients.server_url import on_this_machine, socket_url
from clients.wav_audio import Clip, write_wav

Refuse = Callable[[int, str], AbstractAsyncContextManager[str]]


@pytest.mark.parametrize(
    ("given", "socket"),
    [
        ("http://127.0.0.1:18801/v1", "ws://127.0.0.1:18801/v1/realtime"),
        ("http://127.0.0.1:18801/v1/", "ws://127.0.0.1:18801/v1/realtime"),
        ("http://127.0.0.1:18801", "ws://127.0.0.1:18801/v1/realtime"),
        ("https://example.org/", "wss://example.org/v1/realtime"),
        ("ws://[::1]:8765/v1?model=m", "ws://[::1]:8765/v1/realtime?model=m"),
        ("HTTPS://example.org/openai/v1", "wss://example.org/openai/v1/realtime"),
        ("wss://example.org/v1/realtime?model=m", "wss://example.org/v1/realtime?model=m"),
        ("https://example.org/v1/realtime", "wss://example.org/v1/realtime"),
        ("ws://127.0.0.1:9/realtime", "ws://127.0.0.1:9/realtime"),
    ],
)
def test_the_base_url_that_sdks_take_is_as_good_as_the_sockets_own(given: str, socket: str) -> None:
    assert socket_url(given) == socket


@pytest.mark.parametrize("word", ["127.0.0.1:8765", "ftp://example.org", "http://", "ws://[x", "ws://x:99999", ""])
def test_what_is_no_url_of_a_server_is_refused(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="such as http://127.0.0.1:8765/v1"):
        socket_url(word)
    with pytest.raises(SystemExit) as ended:
        main(["in.wav", "--url", word])
    assert ended.value.code == 2
    assert "such as http://127.0.0.1:8765/v1" in capsys.readouterr().err


def test_a_target_with_a_scheme_that_is_not_known_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["in.wav", "--target", "cascade", "--target", "ftp://example.org"])
    assert "argument --target: " in capsys.readouterr().err


def test_this_machine_is_told_by_the_name_alone() -> None:
    for url in ("ws://127.0.0.1:8765/v1/realtime", "ws://LOCALHOST/", "wss://[::1]:1/", "ws://app.localhost/"):
        assert on_this_machine(url), url
    for url in ("wss://api.openai.com/v1/realtime", "ws://192.168.1.5:8765/", "ws://localhost.example.org/"):
        assert not on_this_machine(url), url


# --- refusals ------------------------------------------------------------------------------------------------------


@pytest.fixture
def refusing() -> Refuse:
    """Serve one that refuses every connection with a status and a body."""

    @asynccontextmanager
    async def serving(status: int, body: str) -> AsyncIterator[str]:
        def refuse(connection: websockets.ServerConnection, _request: websockets.Request) -> websockets.Response:
            return connection.respond(http.HTTPStatus(status), body)

        async def nobody(_socket: websockets.ServerConnection) -> None:
            raise AssertionError("refused")

        async with websockets.serve(nobody, "127.0.0.1", 0, process_request=refuse) as listening:
            yield f"ws://127.0.0.1:{next(iter(listening.sockets)).getsockname()[1]}/v1/realtime"

    return serving


def error(code: str, message: str) -> str:
    return json.dumps({"error": {"type": "invalid_request_error", "code": code, "message": message}})


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (401, error("invalid_api_key", "Incorrect API key provided."), ("key provided. (HTTP 401)", "--api-key")),
        (403, error("host_not_allowed", "Not served."), ("Not served. (HTTP 403)", "--allow-host 127.0.0.1")),
        (403, error("origin_not_allowed", "Pages may not."), ("Pages may not. (HTTP 403)",)),
        (404, "<html>nginx</html>", ("HTTP 404", "/v1")),
        (503, error("sessions_exhausted", "All sessions are taken: try again later."), ("All sessions are taken",)),
        (503, "", ("HTTP 503", "try again")),
        (500, '{"error": "broken"}', ("HTTP 500",)),
        (502, "[1]", ("HTTP 502",)),
    ],
)
async def test_a_refusal_is_told_by_what_it_says_and_what_to_do(
    refusing: Refuse, status: int, body: str, told: tuple[str, ...]
) -> None:
    async with refusing(status, body) as url:
        with pytest.raises(RealtimeError) as refused:
            async with RealtimeConnection(url, api_key="sk-secret"):
                pass
    sentence = str(refused.value)
    assert url in sentence
    assert all(words in sentence for words in told), sentence
    assert "is a gateway running there" not in sentence
    assert "<html>" not in sentence
    assert "sk-secret" not in sentence
    assert ("--allow-host" in sentence) == ("host_not_allowed" in body)


# --- keys ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "arguments", "key"),
    [
        ("ws://127.0.0.1:8765/v1", [], "gateways"),
        ("http://localhost:8765/v1", [], "gateways"),
        ("wss://example.org/v1", [], "unused"),
        ("wss://api.openai.com/v1", [], "unused"),
        ("wss://example.org/v1", ["--api-key", "theirs"], "theirs"),
        ("ws://127.0.0.1:8765/v1", ["--api-key", "ours"], "ours"),
    ],
)
def test_a_key_of_the_environment_goes_to_the_gateway_on_this_machine_and_openais_to_nobody(
    url: str,
    arguments: list[str],
    key: str,
    tmp_path: Path,
    tone: Callable[[int], Clip],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_wav(tmp_path / "in.wav", tone(100).pcm)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("DUPLEX_GATEWAY_API_KEY", "gateways")
    sent: list[tuple[str, str]] = []

    def connect(socket: str, *, update: object, api_key: str) -> None:
        sent.append((socket, api_key))
        raise RealtimeError("not today")

    monkeypatch.setattr("clients.play_wav.Conversation", connect)
    monkeypatch.setattr("clients.compare_targets.Conversation", connect)
    assert main([str(tmp_path / "in.wav"), "--url", url, *arguments]) == 1
    assert main([str(tmp_path / "in.wav"), "--url", url, *arguments, "--target", url]) == 1
    assert sent == [(socket_url(url), key)] * 2
