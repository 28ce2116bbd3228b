"""One gateway with scripted ears and voice, and a language model whose words the tests choose."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "endtoend"))  # the language model stub lives there

from recording_chat_server import RecordingChatServer

from clients.bench.gateway_process import GatewayProcess


@pytest.fixture(scope="session")
def chat_server() -> Iterator[RecordingChatServer]:
    with RecordingChatServer() as server:
        yield server


@pytest.fixture
def llm(chat_server: RecordingChatServer) -> RecordingChatServer:
    """The language model, with nothing recorded yet."""
    chat_server.answer("Fine.")
    return chat_server


@pytest.fixture(scope="session")
def served(chat_server: RecordingChatServer) -> Iterator[GatewayProcess]:
    environment = {"FOREGROUND_BASE_URL": chat_server.base_url, "FOREGROUND_API_KEY": "", "DUPLEX_GATEWAY_API_KEY": ""}
    with GatewayProcess(["--profile", "scripted"], environment) as gateway:
        yield gateway


@pytest.fixture
def base_url(served: GatewayProcess) -> str:
    """What an OpenAI SDK takes as `base_url`."""
    return served.http_url + "/v1"


@pytest.fixture
def socket_url(served: GatewayProcess) -> str:
    return served.url + "?model=gpt-realtime"
