"""The handshake tells the dialect: by header, by subprotocol, by Azure's preview."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from gateway.endpoints.dialect import dialect_of
from protocol.wire import Dialect


def headers(*values: str) -> Headers:
    return Headers(raw=[(b"openai-beta", value.encode()) for value in values])


@pytest.mark.parametrize(
    "values", [("realtime=v1",), ("assistants=v2, realtime=v1",), ("assistants=v2", "realtime=v1")]
)
def test_the_header_tells_beta(values: tuple[str, ...]) -> None:
    assert dialect_of(headers(*values), [], {}) is Dialect.BETA


def test_the_subprotocol_tells_beta() -> None:
    offered = ["realtime", "openai-insecure-api-key.k", "openai-beta.realtime-v1"]
    assert dialect_of(headers(), offered, {}) is Dialect.BETA


@pytest.mark.parametrize(
    "query",
    [
        {"api-version": "2024-10-01-preview", "deployment": "gpt-4o-realtime-preview"},
        {"api-version": "2025-04-01-preview", "model": "m"},
        {"deployment": "m"},
    ],
)
def test_azure_s_preview_tells_beta(query: dict[str, str]) -> None:
    assert dialect_of(headers(), [], query) is Dialect.BETA


@pytest.mark.parametrize(
    ("values", "offered", "query"),
    [
        ((), [], {"model": "gpt-realtime"}),
        (("assistants=v2",), ["realtime", "openai-insecure-api-key.k", "openai-agents-sdk.0.24"], {}),
        (("realtime=v2",), [], {"api-version": "2025-08-28", "intent": "transcription"}),
        ((), ["openai-insecure-api-key.openai-beta.realtime-v1"], {"model": "deployment"}),
    ],
)
def test_all_else_is_ga(values: tuple[str, ...], offered: list[str], query: dict[str, str]) -> None:
    assert dialect_of(headers(*values), offered, query) is Dialect.GA
