"""Gateways as processes of their own, and a language model that records what it is asked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from offline_speech import OfflineSpeech
from recording_chat_server import RecordingChatServer

from clients.bench.gateway_process import GatewayProcess

_NO_KEYS = {"FOREGROUND_API_KEY": "", "DUPLEX_GATEWAY_API_KEY": ""}


@pytest.fixture(scope="session")
def chat_server() -> Iterator[RecordingChatServer]:
    with RecordingChatServer() as server:
        yield server


@pytest.fixture
def llm(chat_server: RecordingChatServer) -> RecordingChatServer:
    """The language model behind `scripted_url` and `spoken_url`, with nothing recorded yet."""
    chat_server.answer("Fine.")
    return chat_server


@pytest.fixture(scope="session")
def scripted_gateway(chat_server: RecordingChatServer) -> Iterator[GatewayProcess]:
    """Scripted ears and voice: quick, deaf to words."""
    environment = {**_NO_KEYS, "FOREGROUND_BASE_URL": chat_server.base_url}
    with GatewayProcess(["--profile", "scripted", "--llm-next-token-timeout-s", "5"], environment) as gateway:
        yield gateway


@pytest.fixture
def scripted_url(scripted_gateway: GatewayProcess) -> str:
    return scripted_gateway.url


@pytest.fixture(scope="session")
def spoken_gateway(chat_server: RecordingChatServer) -> Iterator[GatewayProcess]:
    """Real ears and voice around the recording language model."""
    environment = {**_NO_KEYS, "FOREGROUND_BASE_URL": chat_server.base_url}
    with GatewayProcess(["--profile", "embedded"], environment) as gateway:
        yield gateway


@pytest.fixture
def spoken_url(spoken_gateway: GatewayProcess) -> str:
    return spoken_gateway.url


@pytest.fixture(scope="session")
def embedded_gateway() -> Iterator[GatewayProcess]:
    """What `duplex-gateway serve --profile embedded` is: all engines real."""
    with GatewayProcess(
        ["--profile", "embedded"], {**_NO_KEYS, "FOREGROUND_BASE_URL": "", "FOREGROUND_TEMPERATURE": "0"}
    ) as gateway:
        yield gateway


@pytest.fixture
def embedded_url(embedded_gateway: GatewayProcess) -> str:
    return embedded_gateway.url


@pytest.fixture(scope="session")
def speech() -> Iterator[OfflineSpeech]:
    offline = OfflineSpeech()
    yield offline
    offline.close()
