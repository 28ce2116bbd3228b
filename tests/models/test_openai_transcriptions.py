import asyncio
import io
import socket
import wave
from typing import Any

import pytest
from aiohttp import web

from models.engine_plan import AsrPlan, EnginePlan
from models.engines import openai_transcriptions
from models.engines.openai_transcriptions import DEFAULT_MODEL, MAX_LOOKS, EndpointRecognizer
from models.interfaces import EngineError, TokenLogprob, Transcription
from models.loading import load_engines
from models.weights import WeightsStore
from tests.models.transcription_server import Answer, Asked, plain, streaming, transcription_server

SPEECH = b"\x00\x10" * 2_400
"""0.1 s of something."""

DELTAS = (
    {"type": "transcript.text.delta", "delta": "Hello"},
    {"type": "transcript.text.delta", "delta": " there."},
)
DONE = {"type": "transcript.text.done", "text": "Hello there."}


async def ask(answer: Answer, pcm: bytes = SPEECH, *, times: int = 1, **options: Any) -> tuple[Any, list[Asked]]:
    """Return the last answer, and all that the server was asked."""
    async with transcription_server(answer) as server:
        asr = EndpointRecognizer(server.base_url, "some-model", api_key=options.pop("api_key", ""))
        try:
            for _ in range(times):
                heard = await asr.transcribe(pcm, **options)
        finally:
            await asr.aclose()
        return heard, server.asked


async def test_the_request_holds_the_audio_as_a_wav_and_what_the_client_said() -> None:
    heard, (asked,) = await ask(plain, language="pt-BR", prompt="Zürich, Oerlikon", api_key="k")
    assert heard == Transcription("Hello there.", None, "pt")
    assert sorted(asked.fields) == [
        ("language", "pt"),
        ("model", "some-model"),
        ("prompt", "Zürich, Oerlikon"),
        ("response_format", "json"),
        ("stream", "true"),
    ]
    with wave.open(io.BytesIO(asked.file)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (24_000, 1, 2)
        assert file.readframes(file.getnframes()) == SPEECH
    assert asked.headers["Authorization"] == "Bearer k"


async def test_without_a_key_or_a_language_none_is_sent() -> None:
    heard, (asked,) = await ask(plain)
    assert heard == Transcription("Hello there.")
    assert "Authorization" not in asked.headers
    assert asked["language"] is asked["prompt"] is None


@pytest.mark.parametrize(
    "events",
    [
        (*DELTAS, DONE),
        DELTAS,
        tuple(
            {"object": "transcription.chunk", "choices": [{"delta": {"content": text}}]}
            for text in (" Hello", " there.")
        ),
        ({"text": "Hello"}, {"text": " there."}),
    ],
    ids=["openai", "without its end", "vllm", "bare"],
)
async def test_a_stream_is_read_in_every_dialect(events: tuple[Any, ...]) -> None:
    heard, _ = await ask(streaming(*events))
    assert heard == Transcription("Hello there.")


async def test_a_server_that_answers_bare_text_is_understood() -> None:
    async def answer(asked: Asked, request: web.Request) -> web.StreamResponse:
        return web.Response(text="Hello there.\n")

    assert (await ask(answer))[0] == Transcription("Hello there.")


async def test_a_server_that_refuses_streams_is_asked_without_from_then_on() -> None:
    async def answer(asked: Asked, request: web.Request) -> web.StreamResponse:
        if asked["stream"]:
            return web.json_response({"error": {"message": "no stream"}}, status=400)
        return await plain(asked, request)

    heard, asked = await ask(answer, times=3, logprobs=True)
    assert heard == Transcription("Hello there.")
    assert [request["stream"] for request in asked] == ["true", None, None, None]


async def test_log_probabilities_come_through_if_they_are_the_texts() -> None:
    told = [
        {"token": " Hello", "logprob": -0.1, "bytes": list(b" Hello")},
        {"token": " there.", "logprob": -0.2},
    ]
    heard, (asked,) = await ask(streaming({**DONE, "logprobs": told}), logprobs=True)
    assert ("include[]", "logprobs") in asked.fields
    assert heard.logprobs == (TokenLogprob("Hello", -0.1, b"Hello"), TokenLogprob(" there.", -0.2, b" there."))
    for other in ([told[1]], [{"token": 1}], None):
        heard, _ = await ask(streaming({**DONE, "logprobs": other}), logprobs=True)
        assert heard == Transcription("Hello there.")


async def test_silence_asks_nobody() -> None:
    heard, asked = await ask(plain, bytes(4_800), logprobs=True)
    assert (heard, asked) == (Transcription("", ()), [])


async def failing(answer: Answer) -> EngineError:
    with pytest.raises(EngineError) as caught:
        await ask(answer, api_key="key-secret")
    assert "secret" not in caught.value.message
    return caught.value


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (401, {"error": {"message": "bad key-secret"}}, "asr_auth"),
        (404, {"error": {"message": "The model `x` does not exist", "code": "model_not_found"}}, "asr_model_not_found"),
        (404, {"detail": "Not Found"}, "asr_http_error"),
        (400, {"error": {"message": "Audio file might be corrupted", "code": "invalid_value"}}, "asr_http_error"),
        (429, {}, "asr_rate_limit"),
        (500, {}, "asr_http_error"),
        (200, {"words": []}, "asr_bad_response"),
        (200, {"text": None}, "asr_bad_response"),
        (200, [], "asr_bad_response"),
    ],
)
async def test_what_goes_wrong_has_a_code_and_a_sentence(status: int, body: Any, code: str) -> None:
    async def answer(asked: Asked, request: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=status)

    error = await failing(answer)
    assert error.code == code
    assert error.message.startswith("The transcription server 127.0.0.1:")


async def test_json_that_is_none_and_a_stream_without_words_are_unreadable() -> None:
    async def html(asked: Asked, request: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>", content_type="text/html")

    assert (await failing(html)).code == "asr_bad_response"
    assert (await failing(streaming())).code == "asr_bad_response"
    assert (await failing(streaming(["no object"]))).code == "asr_bad_response"


async def test_a_server_that_dies_in_mid_stream_fails_the_transcript() -> None:
    assert (await failing(streaming(DELTAS[0], done=False))).code == "asr_stream_broken"


async def test_a_server_that_is_not_there_is_named() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    asr = EndpointRecognizer(f"http://127.0.0.1:{port}", "")
    with pytest.raises(EngineError, match=f"server 127.0.0.1:{port} can't be reached") as caught:
        await asr.transcribe(SPEECH)
    assert caught.value.code == "asr_unreachable"
    assert asr.model == DEFAULT_MODEL
    await asr.aclose()


async def never(asked: Asked, request: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    raise AssertionError


async def test_cancelling_hangs_up() -> None:
    async with transcription_server(never) as server:
        asr = EndpointRecognizer(server.base_url, "m")
        task = asyncio.create_task(asr.transcribe(SPEECH))
        async with asyncio.timeout(5):
            while not server.asked:  # noqa: ASYNC110 - the server has no event for it
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.hung_up.wait()
        await asr.aclose()


async def test_a_server_that_never_answers_runs_into_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_transcriptions, "DEADLINE_S", 0.2)
    monkeypatch.setattr(openai_transcriptions, "LOOK_DEADLINE_S", 0.2)
    for options in ({}, {"partial_of": "item"}):
        with pytest.raises(EngineError, match="did not answer in time") as caught:
            await ask(never, **options)
        assert caught.value.code == "asr_timeout"


async def test_looks_are_few_and_never_two_at_one_utterance() -> None:
    release = asyncio.Event()

    async def answer(asked: Asked, request: web.Request) -> web.StreamResponse:
        await release.wait()
        return await plain(asked, request)

    async with transcription_server(answer) as server:
        asr = EndpointRecognizer(server.base_url, "m")
        looks = [asyncio.create_task(asr.transcribe(SPEECH, partial_of=f"item {n}")) for n in range(MAX_LOOKS)]
        await asyncio.sleep(0)
        assert await asr.transcribe(SPEECH, partial_of="item 0") is None
        assert await asr.transcribe(SPEECH, partial_of="another") is None
        final = asyncio.create_task(asr.transcribe(SPEECH))
        release.set()
        assert await asyncio.gather(*looks, final) == [Transcription("Hello there.")] * (MAX_LOOKS + 1)
        assert await asr.transcribe(SPEECH, partial_of="item 0") == Transcription("Hello there.")
        await asr.aclose()


async def test_a_plan_puts_the_recogniser_on_its_endpoint(tmp_path: Any) -> None:
    plan = AsrPlan("endpoint", "m", language="de", base_url="http://localhost:8000", api_key="k")
    engines = await load_engines(EnginePlan(asr=plan), store=WeightsStore(tmp_path))
    assert [(info.name, info.source) for info in engines.infos if info.role == "asr"] == [("m", "localhost:8000")]
    await engines.aclose()
    with pytest.raises(ValueError, match="not an http"):
        await load_engines(EnginePlan(asr=AsrPlan("endpoint", base_url="localhost:8000")), store=WeightsStore(tmp_path))
