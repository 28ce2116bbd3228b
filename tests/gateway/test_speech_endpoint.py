import asyncio
import base64
import io
import json
import wave
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest
from openai import AsyncOpenAI, AuthenticationError, BadRequestError, InternalServerError, PermissionDeniedError

from gateway.endpoints.speech import MAX_REQUESTS
from models.engines.scripted import ScriptedChat, ScriptedRecognizer, ScriptedSynthesizer, ScriptedVad
from models.interfaces import EngineError, Engines, SpeechPiece
from tests.gateway.conftest import Gateway, Serve

TEXT = "Hello **there**. It costs $5, and more words follow so that it takes two pieces."


class Voice(ScriptedSynthesizer):
    """Notes the voices, and does what the test's words say."""

    def __init__(self) -> None:
        super().__init__(ttfb_ms=0.0, realtime_factor=1e6)
        self.asked: list[tuple[str, str, float, bool]] = []
        self.closed = asyncio.Event()
        self.go_on = asyncio.Event()

    async def synthesize(
        self, text: str, *, voice: str = "", speed: float = 1.0, first: bool = False
    ) -> AsyncGenerator[SpeechPiece, None]:
        self.asked.append((text, voice, speed, first))
        try:
            if "fail at once" in text:
                raise EngineError("tts_failed", "The speech synthesiser failed on this text.")
            async for piece in super().synthesize(text, voice=voice, speed=speed):
                yield piece
                if "fail later" in text:
                    raise EngineError("tts_failed", "The speech synthesiser failed on this text.")
                if "wait" in text:
                    await self.go_on.wait()
        finally:
            self.closed.set()


@pytest.fixture
def voice() -> Voice:
    return Voice()


@pytest.fixture
def engines(voice: Voice) -> Engines:
    return Engines(ScriptedVad(), ScriptedRecognizer(), ScriptedChat(), voice)


def served(serve: Serve, engines: Engines, **settings: Any) -> Any:
    return serve(whole=True, engines=engines, profile="scripted", **settings)


def sdk_of(gateway: Gateway, key: str = "any") -> AsyncOpenAI:
    return AsyncOpenAI(api_key=key, base_url=gateway.http("/v1"), max_retries=0)


BODY: dict[str, Any] = {"model": "tts-1", "voice": "marin", "input": "Hello."}


async def test_the_stock_sdk_streams_speech_as_pcm(serve: Serve, engines: Engines, voice: Voice) -> None:
    async with (
        served(serve, engines) as gateway,
        sdk_of(gateway) as sdk,
        sdk.audio.speech.with_streaming_response.create(
            model="gpt-4o-mini-tts", voice="cedar", input=TEXT, response_format="pcm", speed=1.25, instructions="Calm."
        ) as response,
    ):
        assert response.headers["content-type"] == "audio/pcm;rate=24000;channels=1"
        pcm = b"".join([chunk async for chunk in response.iter_bytes()])
    assert [text for text, *_ in voice.asked] == [
        "Hello there.",
        "It costs 5 dollars, and more words follow so that it takes two pieces.",
    ]
    assert {(name, speed, first) for _, name, speed, first in voice.asked} == {("cedar", 1.25, False)}
    assert len(pcm) == sum(2 * int(call.audio_ms * 24) for call in voice.calls)


async def test_without_a_format_it_is_a_wav_file(serve: Serve, engines: Engines) -> None:
    async with served(serve, engines) as gateway, sdk_of(gateway) as sdk:
        default = await sdk.audio.speech.create(model="tts-1", voice="alloy", input="One two.")
        asked = await sdk.audio.speech.create(model="tts-1", voice="alloy", input="One two.", response_format="wav")
    assert default.content == asked.content
    with wave.open(io.BytesIO(default.content)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (24_000, 1, 2)
        assert len(file.readframes(file.getnframes())) == 2 * 14_400


async def test_audio_leaves_before_the_rest_is_made(serve: Serve, engines: Engines, voice: Voice) -> None:
    async with (
        served(serve, engines) as gateway,
        sdk_of(gateway) as sdk,
        sdk.audio.speech.with_streaming_response.create(
            model="tts-1", voice="alloy", input="Please wait a moment.", response_format="pcm"
        ) as response,
    ):
        async with asyncio.timeout(5):
            chunks = response.iter_bytes()
            assert len(await anext(chunks)) == 2 * 4_800
            voice.go_on.set()
            assert len(b"".join([chunk async for chunk in chunks])) == 2 * (28_800 - 4_800)


async def test_a_client_that_leaves_stops_the_synthesis(serve: Serve, engines: Engines, voice: Voice) -> None:
    async with served(serve, engines) as gateway, httpx2.AsyncClient() as client:
        for _ in range(MAX_REQUESTS + 1):  # so that each gives its place back
            voice.closed.clear()
            body = {**BODY, "input": "Please wait a moment."}
            async with client.stream("POST", gateway.http("/v1/audio/speech"), json=body) as response:
                await anext(response.aiter_bytes())
            async with asyncio.timeout(5):
                await voice.closed.wait()


async def test_events_hold_the_audio_where_they_are_asked_for(serve: Serve, engines: Engines) -> None:
    body = {**BODY, "response_format": "pcm", "stream_format": "sse"}
    async with served(serve, engines) as gateway, httpx2.AsyncClient() as client:
        response = await client.post(gateway.http("/openai/v1/audio/speech"), json=body)
    assert response.headers["content-type"].startswith("text/event-stream")
    events = [json.loads(line.removeprefix("data: ")) for line in response.text.splitlines() if line[:5] == "data:"]
    assert [event["type"] for event in events] == ["speech.audio.delta"] * 2 + ["speech.audio.done"]
    assert len(b"".join(base64.b64decode(event["audio"]) for event in events[:-1])) == 2 * 7_200
    assert set(events[-1]["usage"]) == {"input_tokens", "output_tokens", "total_tokens"}


async def test_a_failure_is_an_error_before_the_audio_and_tears_it_after(serve: Serve, engines: Engines) -> None:
    async with served(serve, engines) as gateway, sdk_of(gateway) as sdk, httpx2.AsyncClient() as client:
        with pytest.raises(InternalServerError, match="failed on this text") as caught:
            await sdk.audio.speech.create(model="tts-1", voice="alloy", input="This will fail at once.")
        assert (caught.value.code, caught.value.type) == ("tts_failed", "server_error")
        body = {**BODY, "input": "This will fail later, after a few words of it."}
        with pytest.raises(httpx2.RemoteProtocolError):
            await client.post(gateway.http("/v1/audio/speech"), json=body)
        response = await client.post(gateway.http("/v1/audio/speech"), json={**body, "stream_format": "sse"})
    assert json.loads(response.text.splitlines()[-2].removeprefix("data: "))["error"]["code"] == "tts_failed"


async def test_an_engine_that_hangs_is_given_up(serve: Serve, engines: Engines) -> None:
    async with (
        served(serve, engines, tts_timeout_s=0.1) as gateway,
        sdk_of(gateway) as sdk,
        sdk.audio.speech.with_streaming_response.create(
            model="tts-1", voice="alloy", input="Please wait a moment.", response_format="pcm"
        ) as response,
    ):
        with pytest.raises(httpx2.RemoteProtocolError):
            async with asyncio.timeout(5):
                await response.read()


async def test_no_more_texts_are_spoken_at_a_time_than_fit(serve: Serve, engines: Engines, voice: Voice) -> None:
    async with served(serve, engines) as gateway, httpx2.AsyncClient() as client:
        url, body = gateway.http("/v1/audio/speech"), {**BODY, "input": "Please wait a moment."}
        tasks = [asyncio.create_task(client.post(url, json=body)) for _ in range(MAX_REQUESTS)]
        async with asyncio.timeout(5):
            while len(voice.asked) < MAX_REQUESTS:  # noqa: ASYNC110 - the voice has no event for a number
                await asyncio.sleep(0.01)
        refused = await client.post(url, json=body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limit_exceeded")
        voice.go_on.set()
        assert {response.status_code for response in await asyncio.gather(*tasks)} == {200}
        assert (await client.post(url, json=body)).status_code == 200


MISTAKES = {
    "no text": ({"input": None}, "missing_required_parameter", "input"),
    "no model": ({"model": None}, "missing_required_parameter", "model"),
    "no voice": ({"voice": None}, "missing_required_parameter", "voice"),
    "an empty text": ({"input": "  "}, "invalid_value", "input"),
    "a text that is too long": ({"input": "x" * 4_097}, "string_above_max_length", "input"),
    "a text that is none": ({"input": 5}, "invalid_type", "input"),
    "a voice that is none": ({"voice": ["a"]}, "invalid_type", "voice"),
    "a custom voice without an id": ({"voice": {}}, "invalid_value", "voice"),
    "too slow": ({"speed": 0.1}, "decimal_below_min_value", "speed"),
    "too fast": ({"speed": 2}, "decimal_above_max_value", "speed"),
    "a speed that is none": ({"speed": "fast"}, "invalid_type", "speed"),
    "no number": ({"speed": True}, "invalid_type", "speed"),
    "MP3": ({"response_format": "mp3"}, "invalid_value", "response_format"),
    "an unknown format": ({"response_format": ["wav"]}, "invalid_value", "response_format"),
    "an unknown stream": ({"stream_format": "ws"}, "invalid_value", "stream_format"),
}


@pytest.mark.parametrize(("change", "code", "param"), MISTAKES.values(), ids=MISTAKES.keys())
async def test_a_mistake_is_answered_in_openais_shape(
    serve: Serve, engines: Engines, change: dict[str, Any], code: str, param: str
) -> None:
    async with served(serve, engines) as gateway, httpx2.AsyncClient() as client:
        response = await client.post(gateway.http("/v1/audio/speech"), json={**BODY, **change})
    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", code, param)


async def test_compressed_formats_are_refused_with_what_there_is(serve: Serve, engines: Engines) -> None:
    async with served(serve, engines) as gateway, sdk_of(gateway) as sdk:
        with pytest.raises(BadRequestError, match="ask for 'wav' or 'pcm'"):
            await sdk.audio.speech.create(model="tts-1", voice="alloy", input="x", response_format="opus")


async def test_a_custom_voice_is_its_id_and_a_text_of_4096_characters_is_taken(
    serve: Serve, engines: Engines, voice: Voice
) -> None:
    async with served(serve, engines) as gateway, httpx2.AsyncClient() as client:
        body = {**BODY, "voice": {"id": "voice_1"}, "input": "word " * 819 + "x"}
        assert (await client.post(gateway.http("/v1/audio/speech"), json=body)).status_code == 200
    assert {name for _, name, _, _ in voice.asked} == {"voice_1"}


async def test_a_text_without_a_word_is_silence(serve: Serve, engines: Engines) -> None:
    async with served(serve, engines) as gateway, httpx2.AsyncClient() as client:
        response = await client.post(gateway.http("/v1/audio/speech"), json={**BODY, "input": "🎉"})
    assert (response.status_code, len(response.content)) == (200, 44)


async def test_a_key_is_needed_where_one_is_set_and_an_ephemeral_one_does_not_speak(
    serve: Serve, engines: Engines, voice: Voice
) -> None:
    async with served(serve, engines, api_key="k-test") as gateway, sdk_of(gateway, "k-test") as sdk:
        await sdk.audio.speech.create(model="tts-1", voice="alloy", input="Hello.")
        secret = await sdk.realtime.client_secrets.create()
        for key, error in (("wrong", AuthenticationError), (secret.value, PermissionDeniedError)):
            with pytest.raises(error):
                await sdk.with_options(api_key=key).audio.speech.create(model="tts-1", voice="alloy", input="No.")
    assert len(voice.asked) == 1


async def test_before_the_engines_are_loaded_it_says_so(serve: Serve) -> None:
    async with serve() as gateway, httpx2.AsyncClient() as client:
        gateway.service.fail("No.")
        response = await client.post(gateway.http("/v1/audio/speech"), json=BODY)
    assert (response.status_code, response.json()["error"]["code"]) == (503, "not_ready")
