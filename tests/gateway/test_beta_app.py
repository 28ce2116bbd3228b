"""The composition gives a beta client a beta session with beta's defaults."""

from __future__ import annotations

import json
from typing import Any

import pytest
import websockets

from protocol.beta.wire_law import beta_violations
from protocol.wire_law import violations
from tests.gateway.conftest import Serve

BETA = {"OpenAI-Beta": "realtime=v1"}


async def first_event(serve: Serve, query: str, headers: dict[str, str], **settings: Any) -> dict[str, Any]:
    async with serve(whole=True, profile="scripted", **settings) as gateway:
        async with websockets.connect(gateway.url(query), additional_headers=headers) as socket:
            event: dict[str, Any] = json.loads(await socket.recv())
            return event


@pytest.mark.parametrize(
    ("query", "headers", "kind"),
    [
        ("?model=m", BETA, "session.created"),
        ("?intent=transcription", BETA, "transcription_session.created"),
        ("?deployment=m&api-version=2024-10-01-preview", {}, "session.created"),
    ],
)
async def test_a_beta_handshake_opens_a_beta_session(
    serve: Serve, query: str, headers: dict[str, str], kind: str
) -> None:
    event = await first_event(serve, query, headers)
    assert event["type"] == kind
    assert beta_violations(event) == []


async def test_a_plain_handshake_opens_a_ga_session(serve: Serve) -> None:
    event = await first_event(serve, "?model=m", {})
    assert violations(event) == []
    assert event["session"]["audio"]["output"]["voice"] == "marin"


@pytest.mark.parametrize(("setting", "shown"), [({}, "alloy"), ({"voice": "nova"}, "nova")])
async def test_the_voice_is_beta_s_unless_the_gateway_was_told_another(
    serve: Serve, setting: dict[str, str], shown: str
) -> None:
    assert (await first_event(serve, "?model=m", BETA, **setting))["session"]["voice"] == shown
