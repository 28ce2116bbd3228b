"""Speech from any OpenAI-compatible server: OpenAI, Kokoro-FastAPI, vLLM, Speaches, mlx-audio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Any

from models.engines.openai_endpoint import (
    as_engine_error,
    authorization,
    normal_base_url,
    on_a_live_connection,
    open_client,
    refusal_words,
    server_name,
)
from models.engines.spoken_part import MAX_SPEED, MIN_SPEED, PIECE_S
from models.engines.voice_map import VoiceMap
from models.interfaces import AUDIO_RATE_HZ, EngineError, SpeechPiece
from models.streamed_audio import NotPcmError, StreamedAudio

FIRST_PIECE_TIMEOUT_S = 30.0
"""Longest wait for a text's first audio: a server that loads its model for the first one takes that long (chosen)."""

NEXT_PIECE_TIMEOUT_S = 10.0
"""Longest silence within an answer (chosen: most servers send every second of speech, or all at once)."""

MAX_SPEECH_S = 300.0
"""Longest audio taken for one text (chosen): a piece of a reply is 15 s at most, so such a server never ends."""

_PIECE_BYTES = int(2 * PIECE_S * AUDIO_RATE_HZ)


class EndpointSynthesizer:
    """SpeechSynthesizer over `POST {base_url}/audio/speech`, streamed. An empty `api_key` sends none.

    Servers tell no word times. Raises ValueError if `base_url` is none.
    """

    def __init__(self, base_url: str, model: str, voice_map: VoiceMap, *, api_key: str = "") -> None:
        self.base_url = normal_base_url(base_url)
        self.server = server_name(self.base_url)
        self.model = model
        self.voice_map = voice_map
        self.client = open_client(self.base_url, api_key)
        self.headers = authorization(api_key)

    async def synthesize(
        self, text: str, *, voice: str = "", speed: float = 1.0, first: bool = False, language: str = ""
    ) -> AsyncGenerator[SpeechPiece, None]:
        """Yield the audio of `text` as it comes; see SpeechSynthesizer. Closing the generator closes the request.

        Raises EngineError: tts_unreachable, tts_auth, tts_http_error and the like, tts_voice, tts_bad_response (no
        audio, or none that is PCM), tts_stream_broken.
        """
        if not any(map(str.isalnum, text)):
            return  # servers answer such a text with an error or with noise
        name = self.voice_map.voice(voice, language)
        body: dict[str, Any] = {"model": self.model, "input": text, "voice": name, "response_format": "pcm"}
        if speed != 1.0:  # some servers refuse the field, none needs it at 1
            body["speed"] = min(max(speed, MIN_SPEED), MAX_SPEED)
        async with AsyncExitStack() as stack:
            chunks, audio = await self._open(stack, body)
            timeout_s, said_bytes = FIRST_PIECE_TIMEOUT_S, 0
            data: bytes | None = b""
            while data is not None:
                data = await self._next(chunks, timeout_s)
                timeout_s = NEXT_PIECE_TIMEOUT_S
                pcm = await self._convert(audio, data)
                said_bytes += len(pcm)
                if said_bytes > 2 * MAX_SPEECH_S * AUDIO_RATE_HZ:
                    raise EngineError("tts_bad_response", f"The speech server {self.server} sent audio without an end.")
                for piece in _pieces(pcm):
                    yield piece
            if not said_bytes:
                raise EngineError("tts_bad_response", f"The speech server {self.server} sent no audio.")

    async def aclose(self) -> None:
        """Close all connections."""
        await self.client.close()

    async def _open(self, stack: AsyncExitStack, body: dict[str, Any]) -> tuple[AsyncIterator[bytes], StreamedAudio]:
        """Return the answer's chunks and what converts them; the answer is closed with `stack`."""
        try:
            async with asyncio.timeout(FIRST_PIECE_TIMEOUT_S):
                response = await on_a_live_connection(lambda: stack.enter_async_context(self._request(body)))
        except TimeoutError as error:
            raise self._too_slow() from error
        except Exception as error:  # the SDK's and the network's: one sentence for the client
            raise self._refused(error, body["voice"]) from error
        try:
            audio = StreamedAudio(response.headers.get("content-type", ""))
        except NotPcmError as error:
            raise self._unusable(error) from error
        return response.iter_bytes(), audio

    def _request(self, body: dict[str, Any]) -> Any:
        return self.client.audio.speech.with_streaming_response.create(**body, extra_headers=self.headers)

    async def _next(self, chunks: AsyncIterator[bytes], timeout_s: float) -> bytes | None:
        """Return the next chunk, None at the end."""
        try:
            async with asyncio.timeout(timeout_s):
                return await anext(chunks, None)
        except TimeoutError as error:
            raise self._too_slow() from error
        except Exception as error:  # whatever tears a stream: half of the text was said, and it has failed
            raise EngineError(
                "tts_stream_broken", f"The speech server {self.server} broke off in the middle of its audio."
            ) from error

    async def _convert(self, audio: StreamedAudio, data: bytes | None) -> bytes:
        """Return the PCM that `data` completes, with None the last of it."""
        try:
            if data is None:
                return audio.finish()
            # Samples as they were asked for are only counted; others are resampled, which is no work for the loop.
            return audio.feed(data) if audio.as_asked else await asyncio.to_thread(audio.feed, data)
        except NotPcmError as error:
            raise self._unusable(error) from error

    def _too_slow(self) -> EngineError:
        return EngineError("tts_unreachable", f"The speech server {self.server} did not answer in time.")

    def _unusable(self, error: NotPcmError) -> EngineError:
        return EngineError(
            "tts_bad_response",
            f"The speech server {self.server} sent {error}: it must answer `response_format: pcm` with PCM or WAV.",
        )

    def _refused(self, error: Exception, voice: str) -> EngineError:
        import openai

        if isinstance(error, openai.APIStatusError) and error.status_code in (400, 404, 422):
            if "voice" in refusal_words(error).lower():
                return EngineError(
                    "tts_voice",
                    f"The speech server {self.server} refuses the voice {voice!r}: set TTS_VOICE to one that it has.",
                )
        return as_engine_error(error, self.server, role="speech", prefix="tts")


def _pieces(pcm: bytes) -> Iterator[SpeechPiece]:
    for start in range(0, len(pcm), _PIECE_BYTES):
        yield SpeechPiece(pcm[start : start + _PIECE_BYTES])
