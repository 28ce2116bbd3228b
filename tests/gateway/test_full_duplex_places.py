"""How many sessions a full-duplex model serves at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from websockets.asyncio.client import connect

from gateway import duplex_server, service
from gateway.capabilities import duplex_capabilities, full_duplex_sessions
from gateway.settings import Settings
from models.engines.moshi import Moshi
from models.engines.scripted_duplex import DuplexScript, ScriptedDuplex
from models.engines.voicechat import VoiceChat
from models.interfaces import Engines
from tests.gateway.conftest import Serve
from tests.gateway.fed_time import FedTime
from tests.gateway.scripted_cascade import scripted_engines
from tests.gateway.test_realtime_endpoint import closed, event


def engines(**abilities: Any) -> Engines:
    model = ScriptedDuplex(DuplexScript())
    model.abilities = replace(model.abilities, **abilities)
    return replace(scripted_engines(FedTime()), native=model)


def test_real_weights_serve_one_session_and_all_else_any_number_if_nobody_says_otherwise() -> None:
    for model, expected in (
        (VoiceChat("VoiceChat", "mlx-community/NemotronLabs-VoiceChat-11B-4bit"), 1),
        (Moshi("Moshi", "kyutai/moshiko-mlx-q4"), 1),
        (VoiceChat("VoiceChat (tiny)", ""), None),
        (Moshi("Moshi (tiny)", ""), None),
        (ScriptedDuplex(DuplexScript()), None),
        (None, None),
    ):
        assert full_duplex_sessions(Settings(), model) == expected
    assert full_duplex_sessions(Settings(duplex_sessions=3), ScriptedDuplex(DuplexScript())) == 3
    assert duplex_capabilities(Settings(), VoiceChat("VoiceChat", "weights"), None)["limits"]["sessions"] == 1
    assert duplex_capabilities(Settings(), ScriptedDuplex(DuplexScript()), None)["limits"]["sessions"] == 64


async def test_one_full_duplex_session_more_than_the_model_holds_is_refused_in_words(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "PLACE_FREED_S", 0.05)
    async with serve(whole=True, engines=engines(at_once=1)) as gateway:
        async with connect(gateway.url("?model=duplex")) as first:
            assert (await event(first))["type"] == "session.created"
            async with connect(gateway.url("?model=duplex")) as second:
                error = await event(second)
                assert (error["type"], error["error"]["code"]) == ("error", "sessions_exhausted")
                assert "DUPLEX_GATEWAY_DUPLEX_SESSIONS" in error["error"]["message"]
                assert await closed(second) == (1013, "server_error.sessions_exhausted")
            async with connect(gateway.url("?model=cascade")) as other:
                assert (await event(other))["type"] == "session.created"


async def test_who_connects_again_waits_until_the_last_session_has_given_its_place_back(serve: Serve) -> None:
    async with serve(whole=True, engines=engines(at_once=1)) as gateway:
        for _ in range(3):
            async with connect(gateway.url("?model=duplex")) as client:
                assert (await event(client))["type"] == "session.created"


def test_duplex_server_takes_the_number_of_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    decided: list[Settings] = []
    monkeypatch.setattr(duplex_server, "serve_decided", lambda decision, _name: decided.append(decision.settings) or 0)
    assert duplex_server.main(["--engine", "scripted", "--sessions", "2"]) == 0
    assert decided[0].duplex_sessions == 2
