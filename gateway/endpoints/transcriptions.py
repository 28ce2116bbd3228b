"""`POST /v1/audio/transcriptions`: a file, heard by the gateway's own recogniser (OpenAI: createTranscription).

Conversations come first: one piece of one upload is recognised at a time, 30 s at most, so that a user who has just
finished speaking waits for that piece at most, and for none while the recogniser has a thread to spare.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing
from functools import partial

import numpy as np
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from gateway.endpoints.access import Refusal
from gateway.endpoints.errors import Refused, error_response
from gateway.endpoints.keys import Keys
from gateway.endpoints.upload import uploaded
from gateway.service import Service, ServiceState
from models.interfaces import AUDIO_RATE_HZ, EngineError, SpeechRecognizer, Transcription
from models.long_audio import split_at_quiet_points
from models.streamed_audio import NotPcmError, StreamedAudio
from models.word_spaces import word_space
from protocol.errors import ProtocolError, missing_parameter
from protocol.transcription_requests import (
    MAX_AUDIO_S,
    TranscriptionRequest,
    TranscriptPiece,
    answer,
    audio_too_long,
    audio_too_short,
    delta_event,
    done_event,
    not_a_wav,
    transcription_request,
)

logger = logging.getLogger(__name__)

MAX_UPLOADS = 4
"""Uploads at a time, the one that is heard included (chosen): each holds its file in memory. A further one gets 429."""

MIN_AUDIO_S = 0.1
_BYTES_PER_S = 2 * AUDIO_RATE_HZ
_CHUNK_BYTES = 2**20


class TranscriptionsEndpoint:
    """Transcribes files. `recogniser` is asked once engines are loaded; `timeout_s`: its longest time for a piece."""

    def __init__(
        self, service: Service, keys: Keys, recogniser: Callable[[], SpeechRecognizer], *, timeout_s: float
    ) -> None:
        self._service = service
        self._keys = keys
        self._recogniser = recogniser
        self._timeout_s = timeout_s
        self._running = 0
        self._turn = asyncio.Semaphore(1)

    def routes(self, bases: Iterable[str]) -> list[BaseRoute]:
        """Return its routes below each base URL."""
        return [Route(f"{base}/audio/transcriptions", self.transcribe, methods=["POST"]) for base in bases]

    async def transcribe(self, request: Request) -> Response:
        """Answer with the transcript, in the form that was asked for, or with an error."""
        refusal = self._keys.refuse_request(request) or self._unavailable()
        if refusal is not None:
            return error_response(refusal)
        self._running += 1
        pieces: AsyncGenerator[TranscriptPiece, None] | None = None
        try:
            upload = await uploaded(request, "file")
            asked = transcription_request(upload.fields)
            if upload.file is None:
                raise missing_parameter("file")
            pcm = await asyncio.to_thread(_pcm, upload.file)
            pieces = self._heard(pcm, asked)
            if asked.as_events:
                first = await anext(pieces, None)  # so that an engine that can't hear is an answer, not a torn stream
                return _EventStream(_events(first, pieces), partial(self._done, pieces))
            heard = []
            async for piece in pieces:
                heard.append(piece)
                if await request.is_disconnected():
                    break
        except BaseException as error:
            await self._done(pieces)
            return error_response(_refusal(error))
        await self._done(pieces)
        text = _joined(heard)
        if asked.format == "text":
            return PlainTextResponse(text + "\n")
        return JSONResponse(answer(asked, text, heard, len(pcm) / _BYTES_PER_S))

    async def _done(self, pieces: AsyncGenerator[TranscriptPiece, None] | None) -> None:
        self._running -= 1
        if pieces is not None:
            await pieces.aclose()

    def _unavailable(self) -> Refusal | None:
        if self._service.state is not ServiceState.READY:
            return Refusal(503, "The gateway's engines are not loaded yet: try again.", "server_error", "not_ready")
        if self._running >= MAX_UPLOADS:
            message = "Too many files are being transcribed: try again later."
            return Refusal(429, message, "rate_limit_error", "rate_limit_exceeded")
        return None

    async def _heard(self, pcm: bytes, asked: TranscriptionRequest) -> AsyncGenerator[TranscriptPiece, None]:
        """Yield what is said in `pcm`, piece by piece. Raises EngineError."""
        recogniser, start = self._recogniser(), 0
        for piece in await asyncio.to_thread(_pieces, pcm):
            try:
                async with self._turn, asyncio.timeout(self._timeout_s):
                    heard = await recogniser.transcribe(
                        piece,
                        language=asked.language,
                        prompt=asked.prompt,
                        logprobs=asked.logprobs or asked.format == "verbose_json",
                    )
            except TimeoutError:
                raise EngineError("asr_timeout", "The speech recogniser took too long.") from None
            except EngineError:
                raise
            except Exception as error:  # what an adapter did not foresee ends one request
                logger.error("the speech recogniser failed unexpectedly", exc_info=error)
                raise EngineError("asr_failed", "The speech recogniser failed; the gateway's log says more.") from error
            end = start + len(piece)
            yield _told(heard or Transcription(""), start / _BYTES_PER_S, end / _BYTES_PER_S)
            start = end


class _EventStream(StreamingResponse):
    """A stream of events that is `done` however it ends, even before its first byte."""

    def __init__(self, body: AsyncIterator[bytes], done: Callable[[], Awaitable[None]]) -> None:
        super().__init__(body, media_type="text/event-stream", headers={"Cache-Control": "no-store"})
        self._done = done

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one client."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._done()


async def _events(first: TranscriptPiece | None, others: AsyncGenerator[TranscriptPiece, None]) -> AsyncIterator[bytes]:
    """Yield the events of a transcript; an engine that fails in its midst is one, too."""
    heard: list[TranscriptPiece] = []
    try:
        async with aclosing(others):
            piece = first
            while piece is not None:
                if piece.text:
                    space = word_space(piece.language) if any(earlier.text for earlier in heard) else ""
                    yield _event(delta_event(piece, space))
                heard.append(piece)
                piece = await anext(others, None)
    except EngineError as error:
        yield _event({"type": "error", **_refusal(error).body()})
    else:
        yield _event(done_event(_joined(heard), heard))


def _event(event: dict[str, object]) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def _pcm(file: bytes) -> bytes:
    """Return a WAV file's audio as the engines' border has it. Raises ProtocolError."""
    audio, pcm = StreamedAudio("audio/wav"), bytearray()
    try:
        for start in range(0, len(file), _CHUNK_BYTES):
            pcm += audio.feed(file[start : start + _CHUNK_BYTES])
            if len(pcm) > MAX_AUDIO_S * _BYTES_PER_S:
                raise audio_too_long()
        pcm += audio.finish()
    except NotPcmError as error:
        raise not_a_wav(str(error)) from error
    if len(pcm) < MIN_AUDIO_S * _BYTES_PER_S:
        raise audio_too_short()
    return bytes(pcm)


def _pieces(pcm: bytes) -> list[bytes]:
    samples = np.frombuffer(pcm, "<i2").astype(np.float32)
    pieces, start = [], 0
    for piece in split_at_quiet_points(samples, AUDIO_RATE_HZ):
        pieces.append(pcm[start : start + 2 * piece.size])
        start += 2 * piece.size
    return pieces


def _told(heard: Transcription, start_s: float, end_s: float) -> TranscriptPiece:
    tokens = None
    if heard.logprobs is not None:
        tokens = tuple(
            {"token": token.token, "logprob": token.logprob, "bytes": list(token.utf8)} for token in heard.logprobs
        )
    return TranscriptPiece(start_s, end_s, heard.text, tokens, heard.language)


def _joined(pieces: list[TranscriptPiece]) -> str:
    text = ""
    for piece in pieces:
        text += (word_space(piece.language) if text and piece.text else "") + piece.text
    return text


def _refusal(error: BaseException) -> Refusal:
    """Return what a client is told of `error`; what is no refusal is raised again."""
    match error:
        case Refused():
            return error.refusal
        case ProtocolError():
            return Refusal(400, error.message, error.type, error.code, error.param)
        case EngineError():
            logger.warning("engine failure %s, caused by %s", error.code, type(error.__cause__).__name__)
            return Refusal(503 if error.code == "asr_overloaded" else 500, error.message, "server_error", error.code)
        case _:
            raise error
