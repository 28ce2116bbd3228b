"""`POST /v1/audio/speech`: a text spoken by the gateway's own voice, streamed as it is made (OpenAI: createSpeech)."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import struct
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing
from functools import partial

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from gateway.endpoints.access import Refusal
from gateway.endpoints.errors import Refused, error_response
from gateway.endpoints.json_body import json_body
from gateway.endpoints.keys import Keys
from gateway.service import Service, ServiceState
from gateway.turns.speakable_chunks import SpeakableChunks
from models.interfaces import AUDIO_RATE_HZ, EngineError, SpeechPiece, SpeechSynthesizer
from protocol.errors import ProtocolError
from protocol.speech_requests import SpeechRequest, speech_request

logger = logging.getLogger(__name__)

MAX_REQUESTS = 8
"""Texts spoken at a time (chosen): each holds its place in the synthesiser's queue, behind the conversations."""

_UNKNOWN_SIZE = 0xFFFF_FFFF
"""Size in a WAV header of a file whose length is not known yet (as OpenAI's own streamed WAV has it)."""

_MEDIA_TYPES = {"wav": "audio/wav", "pcm": f"audio/pcm;rate={AUDIO_RATE_HZ};channels=1"}
_EVENT_STREAM = "text/event-stream; charset=utf-8"


class SpeechEndpoint:
    """Speaks texts. `synthesizer` is asked once engines are loaded; `silence_s`: its longest pause between pieces."""

    def __init__(
        self,
        service: Service,
        keys: Keys,
        synthesizer: Callable[[], SpeechSynthesizer],
        *,
        language: str,
        silence_s: float,
    ) -> None:
        self._service = service
        self._keys = keys
        self._synthesizer = synthesizer
        self._language = language
        self._silence_s = silence_s
        self._running = 0

    def routes(self, bases: Iterable[str]) -> list[BaseRoute]:
        """Return its routes below each base URL."""
        return [Route(f"{base}/audio/speech", self.speak, methods=["POST"]) for base in bases]

    async def speak(self, request: Request) -> Response:
        """Answer with the audio, or with an error if nothing could be said of it."""
        refusal = self._keys.refuse_request(request) or self._unavailable()
        if refusal is not None:
            return error_response(refusal)
        self._running += 1
        speech: AsyncGenerator[bytes, None] | None = None
        try:
            asked = speech_request(await json_body(request))
            speech = self._speech(asked)
            beginning = await anext(speech, b"")  # so that an engine that can't speak is an answer, not a torn stream
        except BaseException as error:
            await self._done(speech)
            return error_response(_refusal(error))
        media_type = _EVENT_STREAM if asked.as_events else _MEDIA_TYPES[asked.format]
        return _SpokenResponse(_body(beginning, speech, asked), media_type, partial(self._done, speech))

    async def _done(self, speech: AsyncGenerator[bytes, None] | None) -> None:
        self._running -= 1
        if speech is not None:
            await speech.aclose()

    def _unavailable(self) -> Refusal | None:
        if self._service.state is not ServiceState.READY:
            return Refusal(503, "The gateway's engines are not loaded yet: try again.", "server_error", "not_ready")
        if self._running >= MAX_REQUESTS:
            message = "Too many texts are being spoken: try again later."
            return Refusal(429, message, "rate_limit_error", "rate_limit_exceeded")
        return None

    async def _speech(self, asked: SpeechRequest) -> AsyncGenerator[bytes, None]:
        """Yield the text's audio in pieces. Raises EngineError."""
        tts = self._synthesizer()
        chunks = SpeakableChunks(self._language)
        for chunk in filter(lambda chunk: chunk.spoken, (*chunks.feed(asked.text), *chunks.finish())):
            # Never `first`: whoever talks with the gateway waits for nobody who has it read something out.
            async with aclosing(tts.synthesize(chunk.spoken, voice=asked.voice, speed=asked.speed)) as pieces:
                while (piece := await self._next(pieces)) is not None:
                    yield piece

    async def _next(self, pieces: AsyncGenerator[SpeechPiece, None]) -> bytes | None:
        try:
            async with asyncio.timeout(self._silence_s):
                piece = await anext(pieces, None)
        except TimeoutError:
            raise EngineError("tts_timeout", "The speech synthesiser took too long.") from None
        return None if piece is None else piece.pcm


class _SpokenResponse(StreamingResponse):
    """A stream that is `done` however it ends, even before its first byte."""

    def __init__(self, body: AsyncIterator[bytes], media_type: str, done: Callable[[], Awaitable[None]]) -> None:
        super().__init__(body, media_type=media_type)
        self._done = done

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one client."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._done()


async def _body(beginning: bytes, speech: AsyncIterator[bytes], asked: SpeechRequest) -> AsyncIterator[bytes]:
    """Yield the body: audio, or events that hold it. An engine that fails in its midst tears it, or is an event."""
    head = _wav_head() if asked.format == "wav" else b""
    if not asked.as_events:
        yield head + beginning
        async for pcm in speech:
            yield pcm
        return
    try:
        yield _delta(head + beginning)
        async for pcm in speech:
            yield _delta(pcm)
    except EngineError as error:
        yield _event("error", {"error": _refusal(error).body()["error"]})
    else:  # nobody counts tokens here, but clients want the field
        yield _event("speech.audio.done", {"usage": {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}})


def _delta(audio: bytes) -> bytes:
    return _event("speech.audio.delta", {"audio": base64.b64encode(audio).decode()}) if audio else b""


def _event(kind: str, fields: dict[str, object]) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def _wav_head() -> bytes:
    """Return the beginning of a WAV file of unknown length: PCM16, mono, 24 kHz."""
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, AUDIO_RATE_HZ, 2 * AUDIO_RATE_HZ, 2, 16)
    riff = struct.pack("<4sI4s", b"RIFF", _UNKNOWN_SIZE, b"WAVE")
    return riff + form + struct.pack("<4sI", b"data", _UNKNOWN_SIZE)


def _refusal(error: BaseException) -> Refusal:
    """Return what a client is told of `error`; what is no refusal is raised again."""
    match error:
        case Refused():
            return error.refusal
        case ProtocolError():
            return Refusal(400, error.message, error.type, error.code, error.param)
        case EngineError():
            logger.warning("engine failure %s, caused by %s", error.code, type(error.__cause__).__name__)
            return Refusal(503 if error.code == "tts_overloaded" else 500, error.message, "server_error", error.code)
        case _:
            raise error
