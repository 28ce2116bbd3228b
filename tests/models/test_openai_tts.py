import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

import models.engines.openai_tts as openai_tts
from models.engine_plan import TtsPlan
from models.engines.openai_tts import EndpointSynthesizer
from models.engines.voice_map import VoiceMap
from models.interfaces import EngineError
from models.speech_worker import SpeechWorker
from models.tts_loading import load_tts
from models.weights import WeightsStore
from tests.models.chat_server import ChatServer, Exchange, chat_server
from tests.models.conftest import collect
from tests.models.test_streamed_audio import int16, tone, wav

SPEECH = int16(tone(24_000, 1.0))

Answer = Callable[[Exchange], Awaitable[None]]


async def head(exchange: Exchange, content_type: str) -> None:
    exchange.writer.write(
        f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    )
    await exchange.writer.drain()


def answer(content_type: str, *chunks: bytes) -> Answer:
    """A whole answer in chunks."""

    async def respond(exchange: Exchange) -> None:
        await head(exchange, content_type)
        for chunk in chunks:
            await exchange.raw(chunk)
        exchange.writer.write(b"0\r\n\r\n")
        await exchange.writer.drain()

    return respond


def refusal(status: int, body: Any) -> Answer:
    async def respond(exchange: Exchange) -> None:
        await exchange.refuse(status, json.dumps(body))

    return respond


@asynccontextmanager
async def speaking(
    respond: Answer, plan: TtsPlan | None = None
) -> AsyncIterator[tuple[EndpointSynthesizer, ChatServer]]:
    """A server and the synthesiser that asks it."""
    async with chat_server(respond) as server:
        voices = VoiceMap(plan or TtsPlan(), own=None, standing={})
        tts = EndpointSynthesizer(server.base_url, "kokoro", voices, api_key="k-tts")
        yield tts, server
        await tts.aclose()


async def failure(respond: Answer) -> EngineError:
    async with speaking(respond) as (tts, server):
        with pytest.raises(EngineError) as caught:
            await collect(tts.synthesize("Hello.", voice="marin"))
        assert server.base_url.split("/")[2] in caught.value.message
    return caught.value


async def test_the_request_is_openais_and_the_audio_comes_as_it_was_sent() -> None:
    async with speaking(answer("audio/pcm", SPEECH[:1001], SPEECH[1001:30_000], SPEECH[30_000:])) as (tts, server):
        assert await collect(tts.synthesize("Hello.", voice="marin")) == SPEECH
        assert await collect(tts.synthesize("Hello.", voice="marin", speed=9.0)) == SPEECH
    first, second = server.exchanges
    assert first.path == "/v1/audio/speech"
    assert first.headers["authorization"] == "Bearer k-tts"
    assert first.body == {"model": "kokoro", "input": "Hello.", "voice": "marin", "response_format": "pcm"}
    assert second.body["speed"] == 1.5


async def test_pieces_are_whole_samples_of_half_a_second_at_most() -> None:
    async with speaking(answer("audio/pcm", SPEECH[:5], SPEECH[5:])) as (tts, _):
        pieces = [piece async for piece in tts.synthesize("Hello.")]
    assert all(len(piece.pcm) % 2 == 0 and 0 < len(piece.pcm) <= 24_000 for piece in pieces)
    assert all(piece.words is None for piece in pieces)


async def test_audio_is_handed_out_before_the_rest_is_there() -> None:
    more = asyncio.Event()

    async def respond(exchange: Exchange) -> None:
        await head(exchange, "audio/pcm")
        await exchange.raw(SPEECH[:4_000])
        await more.wait()
        await exchange.raw(SPEECH[4_000:])
        exchange.writer.write(b"0\r\n\r\n")
        await exchange.writer.drain()

    async with speaking(respond) as (tts, _):
        pieces = tts.synthesize("Hello.")
        first = await anext(pieces)
        assert first.pcm == SPEECH[:4_000]
        more.set()
        assert b"".join([piece.pcm async for piece in pieces]) == SPEECH[4_000:]


async def test_closing_the_synthesis_closes_the_request() -> None:
    async def respond(exchange: Exchange) -> None:
        await head(exchange, "audio/pcm")
        await exchange.raw(SPEECH)
        await asyncio.Event().wait()

    async with speaking(respond) as (tts, server):
        pieces = tts.synthesize("Hello.")
        await anext(pieces)
        await pieces.aclose()
        async with asyncio.timeout(5):
            await server.exchanges[0].client_gone.wait()


async def test_cancelling_a_wait_for_the_first_audio_closes_the_request() -> None:
    asked = asyncio.Event()

    async def respond(exchange: Exchange) -> None:
        asked.set()
        await asyncio.Event().wait()

    async with speaking(respond) as (tts, server):
        task = asyncio.create_task(collect(tts.synthesize("Hello.")))
        async with asyncio.timeout(5):
            await asked.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.exchanges[0].client_gone.wait()


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("audio/wav", wav(int16(tone(44_100, 1.0)), 44_100)),
        ("audio/pcm;rate=16000", int16(tone(16_000, 1.0))),
        ("application/octet-stream", wav(int16(tone(24_000, 1.0)), 24_000, size=0xFFFF_FFFF)),
    ],
)
async def test_other_rates_and_wav_files_are_converted(content_type: str, body: bytes) -> None:
    async with speaking(answer(content_type, body[:9], body[9:40_000], body[40_000:])) as (tts, _):
        assert len(await collect(tts.synthesize("Hello."))) == pytest.approx(len(SPEECH), abs=8)


REFUSALS = {
    "a wrong key": (401, {"error": {"message": "k-tts is wrong", "code": "invalid_api_key"}}, "tts_auth", "API key"),
    "an unknown model": (404, {"error": {"code": "model_not_found"}}, "tts_model_not_found", "model name"),
    "an unknown voice": (400, {"detail": {"message": "Voice 'marin' not found"}}, "tts_voice", "'marin'.*TTS_VOICE"),
    "too many requests": (429, {}, "tts_rate_limit", "no more requests"),
    "a failure of its own": (500, {"error": "boom"}, "tts_http_error", "answered 500"),
    "a redirect": (307, {}, "tts_http_error", "final address"),
}


@pytest.mark.parametrize(("status", "body", "code", "words"), REFUSALS.values(), ids=REFUSALS.keys())
async def test_each_refusal_says_what_to_do(status: int, body: Any, code: str, words: str) -> None:
    error = await failure(refusal(status, body))
    assert error.code == code
    with pytest.raises(EngineError, match=words):
        raise error
    assert "k-tts" not in error.message


@pytest.mark.parametrize(
    ("content_type", "body", "words"),
    [
        ("audio/mpeg", b"\xff\xfb", "sent audio/mpeg instead of PCM"),
        ("application/json", b'{"error": "x"}', "sent application/json"),
        ("text/html", b"<html>", "sent text/html"),
        ("audio/pcm", b"ID3" + bytes(100), "sent MP3 instead of PCM"),
        ("audio/pcm", b"", "sent no audio"),
    ],
)
async def test_what_is_no_audio_is_an_error(content_type: str, body: bytes, words: str) -> None:
    chunks = (body,) if body else ()
    error = await failure(answer(content_type, *chunks))
    assert error.code == "tts_bad_response"
    assert words in error.message


async def test_a_server_that_dies_in_mid_stream_breaks_off() -> None:
    async def respond(exchange: Exchange) -> None:
        await head(exchange, "audio/pcm")
        await exchange.raw(SPEECH[:1_000])

    assert (await failure(respond)).code == "tts_stream_broken"


async def test_a_server_that_is_not_there_is_unreachable() -> None:
    tts = EndpointSynthesizer("http://127.0.0.1:9/v1", "m", VoiceMap(TtsPlan(), own=None, standing={}))
    with pytest.raises(EngineError, match=r"127.0.0.1:9 can't be reached") as caught:
        await collect(tts.synthesize("Hello."))
    assert caught.value.code == "tts_unreachable"
    await tts.aclose()


@pytest.mark.parametrize("begun", [False, True])
async def test_a_server_that_falls_silent_is_given_up(monkeypatch: pytest.MonkeyPatch, begun: bool) -> None:
    monkeypatch.setattr(openai_tts, "NEXT_PIECE_TIMEOUT_S" if begun else "FIRST_PIECE_TIMEOUT_S", 0.05)

    async def respond(exchange: Exchange) -> None:
        if begun:
            await head(exchange, "audio/pcm")
            await exchange.raw(SPEECH[:1_000])
        await asyncio.Event().wait()

    error = await failure(respond)
    assert error.code == "tts_unreachable"
    assert "in time" in error.message


async def test_a_text_without_a_word_asks_nobody() -> None:
    async with speaking(answer("audio/pcm", SPEECH)) as (tts, server):
        for text in ("", "…", "🎉"):
            assert await collect(tts.synthesize(text)) == b""
    assert server.exchanges == []


# --- what a server tells of itself ---------------------------------------------------------------------------------


def server_with(models: Any, voices: Any) -> Answer:
    """A speech server that lists models and voices; None: 404."""

    async def respond(exchange: Exchange) -> None:
        listing = {"/v1/models": models, "/v1/audio/voices": voices}.get(exchange.path, ...)
        if listing is ...:
            await answer("audio/pcm", SPEECH)(exchange)
        elif listing is None:
            await exchange.refuse(404, '{"detail": "Not Found"}')
        else:
            data = json.dumps(listing).encode()
            exchange.writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(data) + data
            )
            await exchange.writer.drain()

    return respond


async def asked(models: Any, voices: Any, plan: TtsPlan, name: str) -> dict[str, Any]:
    """Return what a server is asked for that is loaded by `plan`, for a client's voice `name`."""
    async with chat_server(server_with(models, voices)) as server:
        plan = TtsPlan(**{**{field: getattr(plan, field) for field in plan.__slots__}, "base_url": server.base_url})
        tts, info = await load_tts(plan, WeightsStore(), SpeechWorker())
        assert info.source == server.base_url.split("/")[2]
        await collect(tts.synthesize("Hello.", voice=name))
        await tts.aclose()
    return server.exchanges[-1].body


MODELS = {"data": [{"id": "whisper-1"}, {"id": "kokoro"}, {"id": "tts-1"}]}
KOKORO = {"voices": ["af_heart", "am_michael", "af_bella", "ff_siwis"]}


@pytest.mark.parametrize(
    ("models", "voices", "plan", "name", "model", "voice"),
    [
        (None, None, TtsPlan("endpoint"), "marin", "tts-1", "marin"),
        (MODELS, None, TtsPlan("endpoint"), "marin", "kokoro", "marin"),
        (MODELS, None, TtsPlan("endpoint", "mine", voice="v"), "marin", "mine", "v"),
        (MODELS, KOKORO, TtsPlan("endpoint"), "marin", "kokoro", "af_heart"),
        (MODELS, KOKORO, TtsPlan("endpoint"), "cedar", "kokoro", "am_michael"),
        (MODELS, KOKORO, TtsPlan("endpoint"), "af_bella", "kokoro", "af_bella"),
        (MODELS, KOKORO, TtsPlan("endpoint"), "whoever", "kokoro", "af_heart"),
        (MODELS, KOKORO, TtsPlan("endpoint", language="fr"), "cedar", "kokoro", "ff_siwis"),
        (MODELS, KOKORO, TtsPlan("endpoint", voice="af_bella+af_sky"), "cedar", "kokoro", "af_bella+af_sky"),
        (MODELS, [{"id": "amy"}, {"name": "bob"}], TtsPlan("endpoint"), "marin", "kokoro", "amy"),
        (MODELS, [{"id": "amy"}, {"name": "bob"}], TtsPlan("endpoint"), "coral", "kokoro", "bob"),
        ({"data": "none"}, {"voices": {"a": 1}}, TtsPlan("endpoint"), "marin", "tts-1", "marin"),
    ],
)
async def test_a_servers_own_lists_choose_model_and_voices(
    models: Any, voices: Any, plan: TtsPlan, name: str, model: str, voice: str
) -> None:
    body = await asked(models, voices, plan, name)
    assert (body["model"], body["voice"]) == (model, voice)


async def test_a_voice_that_the_server_does_not_list_is_one_sentence_at_start() -> None:
    with pytest.raises(EngineError, match="TTS_VOICE names the voice 'nobody'.*give one of .*af_heart") as caught:
        await asked(MODELS, KOKORO, TtsPlan("endpoint", voice="nobody"), "marin")
    assert caught.value.code == "tts_voice"


async def test_a_server_that_is_down_at_the_start_is_loaded_all_the_same() -> None:
    tts, info = await load_tts(TtsPlan("endpoint", base_url="http://127.0.0.1:9"), WeightsStore(), SpeechWorker())
    assert (info.name, info.source) == ("tts-1", "127.0.0.1:9")
    await tts.aclose()


async def test_a_server_that_never_ends_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_tts, "MAX_SPEECH_S", 3.0)
    error = await failure(answer("audio/pcm", *[SPEECH] * 4))
    assert error.code == "tts_bad_response"
    assert "without an end" in error.message
