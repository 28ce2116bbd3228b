"""`/v1/audio/transcriptions` by the stock SDK, by hand, and by our own endpoint recogniser."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import struct
import wave
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
from openai import APIStatusError, AsyncOpenAI, AuthenticationError, BadRequestError
from websockets.asyncio.client import connect

from gateway.endpoints import transcriptions, upload
from models.engines.onnx_recognizer import OnnxRecognizer
from models.engines.openai_transcriptions import EndpointRecognizer
from models.engines.scripted import ScriptedChat, ScriptedRecognizer, ScriptedSynthesizer, ScriptedVad
from models.inference_worker import InferenceWorker
from models.interfaces import EngineError, Engines, TokenLogprob, Transcription
from protocol.wire_law import violations
from tests.gateway.conftest import Gateway, Serve
from tests.models.tiny_tdt import make_tiny_tdt, speak


def wav(duration_s: float = 1.0, rate_hz: int = 16_000, channels: int = 1, level: int = 3_000) -> bytes:
    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate_hz)
        samples = np.full(int(duration_s * rate_hz) * channels, level, "<i2")
        file.writeframes(samples.tobytes())
    return content.getvalue()


def float_wav(duration_s: float) -> bytes:
    data = np.full(int(duration_s * 24_000), 0.1, "<f4").tobytes()
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 3, 1, 24_000, 96_000, 4, 32)
    body = b"WAVE" + form + struct.pack("<4sI", b"data", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


class Hearing:
    """A recogniser that notes what it is asked and hears the length of the audio."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.fail: Exception | None = None
        self.fail_from = 0
        self.at_a_time = 0
        self.most_at_a_time = 0
        self.language = "en"

    async def transcribe(self, pcm: bytes, **options: Any) -> Transcription:
        self.asked.append(options)
        self.at_a_time += 1
        self.most_at_a_time = max(self.most_at_a_time, self.at_a_time)
        await asyncio.sleep(0.01)
        self.at_a_time -= 1
        if self.fail is not None and len(self.asked) > self.fail_from:
            raise self.fail
        text = f"{len(pcm) / 48_000:.0f} seconds."
        tokens = (TokenLogprob(text, -0.5, text.encode()),) if options["logprobs"] else None
        return Transcription(text, tokens, self.language)


def engines(asr: Any) -> Engines:
    return Engines(vad=ScriptedVad(), asr=asr, chat=ScriptedChat(), tts=ScriptedSynthesizer())


@pytest.fixture
def ear() -> Hearing:
    return Hearing()


def sdk(gateway: Gateway, key: str = "k") -> AsyncOpenAI:
    return AsyncOpenAI(api_key=key, base_url=gateway.http("/v1"), max_retries=0)


async def test_the_stock_sdk_gets_each_form_of_answer(serve: Serve, ear: Hearing) -> None:
    async with serve(whole=True, engines=engines(ear)) as gateway, sdk(gateway) as client:
        create = client.audio.transcriptions.create
        file = ("hello.wav", wav(2.0))
        plain = await create(model="whisper-1", file=file, language="fr", prompt="Oerlikon")
        assert plain.text == "2 seconds."
        assert plain.usage is not None
        assert plain.usage.model_dump() == {"type": "duration", "seconds": 2.0}
        assert ear.asked == [{"language": "fr", "prompt": "Oerlikon", "logprobs": False}]
        assert await create(model="m", file=file, response_format="text") == "2 seconds.\n"
        verbose = await create(model="m", file=file, response_format="verbose_json")
        assert (verbose.text, verbose.language, verbose.duration) == ("2 seconds.", "en", 2.0)
        assert verbose.segments is not None
        (segment,) = verbose.segments
        assert (segment.start, segment.end, segment.text, segment.avg_logprob) == (0.0, 2.0, "2 seconds.", -0.5)
        sure = await create(model="m", file=file, include=["logprobs"])
        assert sure.logprobs is not None
        assert bytes(int(byte) for byte in sure.logprobs[0].bytes or ()) == b"2 seconds."


async def test_a_long_file_streams_its_pieces_which_add_up(serve: Serve, ear: Hearing) -> None:
    async with serve(whole=True, engines=engines(ear)) as gateway, sdk(gateway) as client:
        stream = await client.audio.transcriptions.create(model="m", file=("a.wav", wav(65.0)), stream=True)
        events = [event async for event in stream]
        verbose = await client.audio.transcriptions.create(
            model="m", file=("a.wav", wav(65.0)), response_format="verbose_json"
        )
    assert [event.type for event in events] == ["transcript.text.delta"] * 3 + ["transcript.text.done"]
    deltas, done = events[:-1], events[-1]
    assert done.type == "transcript.text.done"
    assert "".join(event.delta for event in deltas if event.type == "transcript.text.delta") == done.text
    assert verbose.segments is not None
    assert [segment.start for segment in verbose.segments[1:]] == [segment.end for segment in verbose.segments[:-1]]
    assert verbose.segments[-1].end == 65.0
    assert all(segment.end - segment.start <= 30.0 for segment in verbose.segments)


async def test_pieces_of_a_language_without_spaces_are_joined_without_any(serve: Serve, ear: Hearing) -> None:
    ear.language = "ja"
    async with serve(whole=True, engines=engines(ear)) as gateway, sdk(gateway) as client:
        heard = await client.audio.transcriptions.create(model="m", file=("a.wav", wav(45.0)))
    assert heard.text.count("seconds.") == 2
    assert "seconds. " not in heard.text


@pytest.mark.parametrize(
    "content",
    [wav(1.0, 8_000), wav(1.0, 44_100, channels=2), wav(1.0, 24_000), float_wav(1.0)],
    ids=["8 kHz", "stereo", "24 kHz", "float"],
)
async def test_any_wav_is_heard_whole(serve: Serve, ear: Hearing, content: bytes) -> None:
    async with serve(whole=True, engines=engines(ear)) as gateway, sdk(gateway) as client:
        assert (await client.audio.transcriptions.create(model="m", file=("a.wav", content))).text == "1 seconds."


async def refused(serve: Serve, ear: Hearing, **request: Any) -> APIStatusError:
    async with serve(whole=True, engines=engines(ear)) as gateway, sdk(gateway) as client:
        with pytest.raises(APIStatusError) as caught:
            await client.audio.transcriptions.create(**{"model": "m", "file": ("a.wav", wav()), **request})
    return caught.value


@pytest.mark.parametrize(
    ("request_", "code", "param"),
    [
        ({"file": ("a.mp3", b"ID3" + bytes(500))}, "unsupported_format", "file"),
        ({"file": ("a.wav", b"")}, "audio_too_short", "file"),
        ({"file": ("a.wav", wav(0.09))}, "audio_too_short", "file"),
        ({"file": ("a.wav", wav(1_501, 4_000))}, "audio_too_long", "file"),
        ({"model": ""}, "missing_required_parameter", "model"),
        ({"response_format": "srt"}, "invalid_value", "response_format"),
        ({"timestamp_granularities": ["word"]}, "invalid_value", "timestamp_granularities"),
        ({"include": ["words"]}, "invalid_value", "include"),
        ({"prompt": "x" * 4_097}, "string_above_max_length", "prompt"),
        ({"language": "x" * 257}, "string_above_max_length", "language"),
    ],
)
async def test_what_is_wrong_is_refused_as_openai_does(
    serve: Serve, ear: Hearing, request_: dict[str, Any], code: str, param: str
) -> None:
    error = await refused(serve, ear, **request_)
    assert isinstance(error, BadRequestError)
    assert (error.code, error.param, error.type) == (code, param, "invalid_request_error")
    assert ear.asked == []


async def test_an_engine_that_fails_is_a_server_error_and_nothing_of_it_leaks(serve: Serve, ear: Hearing) -> None:
    ear.fail = EngineError("asr_failed", "The speech recogniser failed on this audio.")
    error = await refused(serve, ear)
    assert (error.status_code, error.code, error.type) == (500, "asr_failed", "server_error")
    ear.fail = RuntimeError("a secret path")
    error = await refused(serve, ear)
    assert (error.status_code, error.code) == (500, "asr_failed")
    assert "secret" not in error.message
    assert (await refused(serve, ear, stream=True)).status_code == 500  # before the first event: no torn stream


async def test_an_engine_that_fails_in_mid_stream_says_so_in_an_event(serve: Serve, ear: Hearing) -> None:
    async with serve(whole=True, engines=engines(ear)) as gateway, sdk(gateway) as client:
        ear.fail, ear.fail_from = EngineError("asr_failed", "It failed."), 2
        stream = await client.audio.transcriptions.create(model="m", file=("a.wav", wav(65.0)), stream=True)
        events: list[str] = []
        with pytest.raises(Exception, match="It failed"):
            await _note(stream, events)
    assert events == ["transcript.text.delta"] * 2


async def _note(stream: Any, events: list[str]) -> None:
    async for event in stream:
        events.append(event.type)


async def test_a_key_is_needed_where_one_is_configured(serve: Serve, ear: Hearing) -> None:
    async with serve(whole=True, engines=engines(ear), api_key="right") as gateway:
        async with sdk(gateway, "wrong") as client:
            with pytest.raises(AuthenticationError):
                await client.audio.transcriptions.create(model="m", file=("a.wav", wav()))
        async with sdk(gateway, "right") as client:
            secret = await client.realtime.client_secrets.create()
            assert (await client.audio.transcriptions.create(model="m", file=("a.wav", wav()))).text
            with pytest.raises(APIStatusError) as caught:
                await client.with_options(api_key=secret.value).audio.transcriptions.create(
                    model="m", file=("a.wav", wav())
                )
            assert caught.value.status_code == 403


async def by_hand(gateway: Gateway, **request: Any) -> Any:
    async with httpx2.AsyncClient() as client:
        return await client.post(gateway.http("/v1/audio/transcriptions"), **request)


async def test_an_upload_over_the_limit_is_refused_and_one_at_the_limit_is_read(
    serve: Serve, ear: Hearing, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve(whole=True, engines=engines(ear)) as gateway:
        form = {"data": {"model": "m"}, "files": {"file": ("a.wav", wav())}}
        size = int(httpx2.Request("POST", "http://x", **form).headers["content-length"])
        monkeypatch.setattr(upload, "MAX_UPLOAD_BYTES", size)
        assert (await by_hand(gateway, **form)).status_code == 200
        monkeypatch.setattr(upload, "MAX_UPLOAD_BYTES", size - 1)
        assert (await by_hand(gateway, **form)).json()["error"]["code"] == "request_too_large"
        request = httpx2.Request("POST", "http://x", **form)
        body, kind = request.read(), request.headers["content-type"]

        async def chunks() -> Any:
            yield body

        undeclared = await by_hand(gateway, content=chunks(), headers={"Content-Type": kind})
        assert undeclared.status_code == 413


async def test_what_is_no_form_is_refused(serve: Serve, ear: Hearing) -> None:
    async with serve(whole=True, engines=engines(ear)) as gateway:
        answer = await by_hand(gateway, json={"model": "m"})
        assert answer.json()["error"]["code"] == "unsupported_content_type"
        for kind in ("multipart/form-data", "multipart/form-data; boundary=x"):
            torn = await by_hand(gateway, content=b"--y\r\nnonsense", headers={"Content-Type": kind})
            assert (torn.status_code, torn.json()["error"]["type"]) == (400, "invalid_request_error")
        missing = await by_hand(gateway, data={"model": "m"}, files={"other": ("a.wav", wav())})
        assert missing.json()["error"]["param"] == "file"


async def test_uploads_are_few_and_heard_one_piece_at_a_time(
    serve: Serve, ear: Hearing, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve(whole=True, engines=engines(ear)) as gateway, sdk(gateway) as client:
        many = [client.audio.transcriptions.create(model="m", file=("a.wav", wav(40.0))) for _ in range(4)]
        texts = [heard.text for heard in await asyncio.gather(*many)]
        assert len(set(texts)) == 1
        assert ear.most_at_a_time == 1
        monkeypatch.setattr(transcriptions, "MAX_UPLOADS", 0)
        with pytest.raises(APIStatusError) as caught:
            await client.audio.transcriptions.create(model="m", file=("a.wav", wav()))
    assert (caught.value.status_code, caught.value.code) == (429, "rate_limit_exceeded")


async def test_our_own_endpoint_recogniser_hears_through_it(serve: Serve, ear: Hearing) -> None:
    async with serve(whole=True, engines=engines(ear), api_key="k-own") as gateway:
        asr = EndpointRecognizer(gateway.http("/v1"), "any", api_key="k-own")
        heard = await asr.transcribe(b"\x00\x10" * 48_000, language="en-US", prompt="Oerlikon", logprobs=True)
        await asr.aclose()
    text = "2 seconds."
    assert heard == Transcription(text, (TokenLogprob(text, -0.5, text.encode()),), "en")
    assert ear.asked == [{"language": "en", "prompt": "Oerlikon", "logprobs": True}]


def event(kind: str, **fields: Any) -> str:
    return json.dumps({"type": kind, **fields})


async def one_turn(gateway: Gateway, pcm: bytes, transcription: dict[str, Any]) -> dict[str, Any]:
    """Return the completed transcript of audio that a client commits by hand."""
    session = {"type": "realtime", "audio": {"input": {"turn_detection": None, "transcription": transcription}}}
    async with connect(gateway.url()) as client, asyncio.timeout(20):
        await client.send(event("session.update", session=session))
        for start in range(0, len(pcm), 9_600):
            audio = base64.b64encode(pcm[start : start + 9_600]).decode()
            await client.send(event("input_audio_buffer.append", audio=audio))
        await client.send(event("input_audio_buffer.commit"))
        while True:
            received: dict[str, Any] = json.loads(await client.recv())
            assert violations(received) == []
            assert received["type"] != "error", received
            if received["type"] == "conversation.item.input_audio_transcription.completed":
                return received


async def test_a_session_on_onnx_asrs_parakeet_layout_hears_a_turn(serve: Serve, tmp_path: Path) -> None:
    asr = OnnxRecognizer(str(make_tiny_tdt(tmp_path / "tiny")), InferenceWorker("asr", 2))
    async with serve(whole=True, engines=engines(asr)) as gateway:
        heard = await one_turn(gateway, speak("▁go", "▁for", "ward", "▁now"), {"model": "gpt-4o-transcribe"})
    assert heard["transcript"] == "go forward now"


async def test_a_session_hands_its_language_prompt_and_keywords_to_the_recogniser(serve: Serve) -> None:
    asked: list[dict[str, Any]] = []

    class Noting(ScriptedRecognizer):
        async def transcribe(self, pcm: bytes, **options: Any) -> Any:
            asked.append(options)
            return await super().transcribe(pcm, **options)

    given = {"model": "gpt-transcribe", "language": "de", "prompt": "Ein Anruf.", "keywords": ["Oerlikon", "Zürich"]}
    async with serve(whole=True, engines=engines(Noting())) as gateway:
        await one_turn(gateway, speak("▁go"), given)
    assert asked[0]["language"] == "de"
    assert asked[0]["prompt"] == "Ein Anruf. Oerlikon, Zürich"
