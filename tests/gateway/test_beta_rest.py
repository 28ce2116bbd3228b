"""Beta's REST: sessions that come with their ephemeral key, and the sockets that it opens."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError
from openai.types.beta.realtime import SessionCreateResponse, TranscriptionSession
from starlette.testclient import TestClient
from websockets.asyncio.client import connect

from gateway.app import create_app
from gateway.settings import Settings
from protocol import shapes
from protocol.beta.wire_law import beta_violations
from protocol.shapes import Rules
from tests.gateway.conftest import Serve, no_engines

BASE_URL = "http://127.0.0.1:8765"
SESSIONS = "/v1/realtime/sessions"
TRANSCRIPTION_SESSIONS = "/v1/realtime/transcription_sessions"
BETA = {"OpenAI-Beta": "realtime=v1"}
BEYOND_THE_TYPES = Rules(
    tolerated=frozenset(
        {
            *("id", "object", "expires_at", "model", "include", "input_audio_noise_reduction"),
            *("turn_detection.create_response", "turn_detection.interrupt_response"),
        }
    )
)
"""Keys of OpenAI's own answers that the types of the answers do not know."""


@pytest.fixture
def client() -> Iterator[TestClient]:
    app = create_app(Settings(api_key="k-test"), no_engines())
    with TestClient(app, base_url=BASE_URL, headers={"Authorization": "Bearer k-test"}) as client:
        yield client


def test_a_session_comes_flat_and_with_a_key_of_one_minute(client: TestClient) -> None:
    began_s = int(time.time())
    answer = client.post(
        SESSIONS, json={"model": "gpt-4o-realtime-preview", "voice": "verse", "temperature": 0.7}
    ).json()
    assert [problem.message for problem in shapes.problems(answer, SessionCreateResponse, rules=BEYOND_THE_TYPES)] == []
    assert answer["object"] == "realtime.session"
    assert (answer["model"], answer["voice"], answer["temperature"]) == ("gpt-4o-realtime-preview", "verse", 0.7)
    assert (answer["modalities"], answer["input_audio_format"]) == (["text", "audio"], "pcm16")
    assert answer["client_secret"]["value"].startswith("ek_")
    assert began_s + 60 <= answer["client_secret"]["expires_at"] <= int(time.time()) + 60


def test_without_a_body_it_is_betas_default_session(client: TestClient) -> None:
    answer = client.post(SESSIONS).json()
    assert (answer["voice"], answer["turn_detection"]["type"]) == ("alloy", "server_vad")


def test_a_transcription_session_comes_with_a_key(client: TestClient) -> None:
    body = {"input_audio_transcription": {"model": "whisper-1", "language": "en"}}
    answer = client.post(TRANSCRIPTION_SESSIONS, json=body).json()
    assert [problem.message for problem in shapes.problems(answer, TranscriptionSession, rules=BEYOND_THE_TYPES)] == []
    assert answer["object"] == "realtime.transcription_session"
    assert answer["input_audio_transcription"] == {"model": "whisper-1", "language": "en"}


@pytest.mark.parametrize(
    ("path", "body", "code", "param"),
    [
        (SESSIONS, {"modalities": ["audio"]}, "invalid_value", "modalities"),
        (SESSIONS, {"turn_detection": {"type": "x"}}, "invalid_value", "turn_detection.type"),
        (SESSIONS, {"speed": 9.5}, "decimal_above_max_value", "speed"),
        (SESSIONS, {"temperature": 2.0}, "decimal_above_max_value", "temperature"),
        (SESSIONS, {"output_modalities": ["text"]}, "unknown_parameter", "output_modalities"),
        (SESSIONS, {"model": "duplex"}, "model_not_found", "model"),
        (
            SESSIONS,
            {"client_secret": {"expires_after": {"anchor": "created_at", "seconds": 5}}},
            "integer_below_min_value",
            "client_secret.expires_after.seconds",
        ),
        (TRANSCRIPTION_SESSIONS, {"voice": "verse"}, "unknown_parameter", "voice"),
    ],
)
def test_what_is_wrong_is_named_by_its_place_in_the_body(
    client: TestClient, path: str, body: dict[str, Any], code: str, param: str
) -> None:
    response = client.post(path, json=body)
    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", code, param)
    assert "'session." not in error["message"]


def test_azures_preview_makes_its_keys_at_an_address_of_its_own(client: TestClient) -> None:
    answer = client.post("/openai/realtimeapi/sessions?api-version=2025-04-01-preview", json={"model": "m"}).json()
    assert answer["client_secret"]["value"].startswith("ek_")


def test_a_key_makes_no_further_sessions(client: TestClient) -> None:
    key = client.post(SESSIONS).json()["client_secret"]["value"]
    for path in (SESSIONS, TRANSCRIPTION_SESSIONS):
        assert client.post(path, headers={"Authorization": f"Bearer {key}"}).status_code == 403
        assert client.post(path, headers={"Authorization": "Bearer wrong"}).status_code == 401


async def test_the_stock_sdk_makes_a_session_and_a_beta_socket_shows_it(serve: Serve) -> None:
    async with serve(whole=True, profile="scripted", api_key="k-test") as gateway:
        async with AsyncOpenAI(api_key="k-test", base_url=gateway.http("/v1")) as sdk:
            made = await sdk.beta.realtime.sessions.create(
                instructions="Be kind.",
                voice="verse",
                temperature=0.7,
                client_secret={"expires_after": {"anchor": "created_at", "seconds": 600}},
            )
            assert made.voice == "verse"
            assert made.client_secret.expires_at > time.time() + 500
            heard = await sdk.beta.realtime.transcription_sessions.create(
                input_audio_transcription={"model": "whisper-1"}
            )
            with pytest.raises(BadRequestError) as caught:
                await sdk.beta.realtime.sessions.create(speed=7.0)
            assert caught.value.param == "speed"
        conversation = await first_event(gateway.url("?model=m"), made.client_secret.value)
        assert conversation["type"] == "session.created"
        shown = conversation["session"]
        assert (shown["instructions"], shown["voice"], shown["temperature"]) == ("Be kind.", "verse", 0.7)
        transcription = await first_event(gateway.url(""), heard.client_secret.value)
        assert transcription["type"] == "transcription_session.created"
        assert transcription["session"]["input_audio_transcription"]["model"] == "whisper-1"


async def first_event(url: str, key: str) -> dict[str, Any]:
    async with (
        connect(url, additional_headers={**BETA, "Authorization": f"Bearer {key}"}) as client,
        asyncio.timeout(5),
    ):
        event: dict[str, Any] = json.loads(await client.recv())
    assert beta_violations(event) == []
    return event
