"""Servers that already run on this machine, as they answer `/v1/models`."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from gateway import local_servers
from gateway.bounded_calls import within
from gateway.local_servers import ask_port, chat_models, find_local_servers
from tests.gateway.trap_server import TrapServer

LLAMA_CPP = {
    "models": [{"name": "qwen3.gguf", "model": "qwen3.gguf", "capabilities": ["completion"]}],
    "object": "list",
    "data": [{"id": "qwen3.gguf", "object": "model", "owned_by": "llamacpp", "meta": {"n_ctx_train": 40960}}],
}
VLLM = {"object": "list", "data": [{"id": "Qwen/Qwen3-8B", "object": "model", "owned_by": "vllm", "root": "Qwen"}]}
OLLAMA = {"object": "list", "data": [{"id": "llama3.2:latest", "owned_by": "library"}, {"id": "nomic-embed-text"}]}
LM_STUDIO = {"data": [{"id": "text-embedding-nomic-embed-text-v1.5"}, {"id": "qwen2.5-7b-instruct"}]}
SPEACHES = {
    "data": [
        {"id": "Systran/faster-distil-medium.en", "task": "automatic-speech-recognition"},
        {"id": "speaches-ai/Kokoro-82M-v1.0-ONNX", "task": "text-to-speech"},
    ]
}
OURS = {"object": "list", "data": [{"id": "gpt-realtime", "object": "model", "owned_by": "duplex-gateway"}]}


@pytest.mark.parametrize(
    ("listing", "models"),
    [
        (LLAMA_CPP, ("qwen3.gguf",)),
        (VLLM, ("Qwen/Qwen3-8B",)),
        (OLLAMA, ("llama3.2:latest",)),
        (LM_STUDIO, ("qwen2.5-7b-instruct",)),
        (SPEACHES, ()),
        (OURS, ()),
        ({"data": [{"id": "whisper-1"}, {"id": "hexgrad/Kokoro-82M"}, {"id": "tts-1"}]}, ()),
        ({"data": []}, ()),
        ({"data": None}, ()),
        ({"data": [None, {"id": 1}, {"id": ""}, {"id": "a\nb"}, {"id": "x" * 201}, {}]}, ()),
        ({"status": "ok"}, ()),
        (["qwen"], ()),
        (None, ()),
    ],
)
def test_chat_servers_are_told_from_others_by_the_models_that_they_list(listing: Any, models: tuple[str, ...]) -> None:
    assert chat_models(listing) == models


def test_a_server_is_asked_for_its_models_and_given_nothing() -> None:
    with TrapServer(json.dumps(LLAMA_CPP)) as server:
        assert ask_port(server.port) == ("qwen3.gguf",)
    (request,) = server.requests
    assert request.startswith(b"GET /v1/models HTTP/1.1\r\n")
    assert b"authorization" not in request.lower()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        ("200 OK", "<html>a web page</html>"),
        ("200 OK", "[" * 100_000),
        ("401 Unauthorized", json.dumps(VLLM)),
        ("404 Not Found", "{}"),
        ("200 OK", '{"data": ' + "x" * 2_000_000),
    ],
)
def test_a_server_of_another_kind_is_none(status: str, body: str) -> None:
    with TrapServer(body, status=status) as server:
        assert ask_port(server.port) == ()


def test_a_redirect_is_not_followed() -> None:
    with TrapServer(json.dumps(VLLM)) as other:
        header = f"Location: http://127.0.0.1:{other.port}/v1/models\r\n"
        with TrapServer("", status="302 Found", header=header) as server:
            assert ask_port(server.port) == ()
    assert len(server.requests) == 1
    assert other.requests == []


def test_no_proxy_is_asked_about_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with TrapServer() as proxy, TrapServer(json.dumps(VLLM)) as server:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        assert ask_port(server.port) == ("Qwen/Qwen3-8B",)
    assert proxy.requests == []


def test_an_answer_that_is_no_http_is_none() -> None:
    with TrapServer("\x00\x01", status="") as server:
        assert ask_port(server.port) == ()


@contextmanager
def silent_server() -> Iterator[int]:
    """Accept connections, say nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def test_all_ports_are_asked_at_once_and_none_is_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    with silent_server() as one, silent_server() as two, TrapServer(json.dumps(VLLM)) as three:
        ports = {one: "llama.cpp", two: "LM Studio", three.port: "vLLM"}
        monkeypatch.setattr(local_servers, "USUAL_PORTS", ports)
        (found,) = find_local_servers(without=())
        assert (found.port, found.kind) == (three.port, "vLLM")
        assert find_local_servers(without=ports) == ()


def test_who_takes_longer_than_the_limit_is_left_behind() -> None:
    never = threading.Event()
    began_s = time.monotonic()
    assert within(0.05, [lambda: 1, lambda: never.wait() and 2, lambda: 3]) == [1, None, 3]
    assert time.monotonic() - began_s < 30  # it returned, although one call never does
    never.set()
