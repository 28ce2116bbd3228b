"""Speech to text by any server that has OpenAI's `/audio/transcriptions`: OpenAI, vLLM, Speaches, mlx-audio, ours."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import wave
from collections.abc import Mapping
from typing import Any

import numpy as np

from models.engines.openai_endpoint import (
    as_engine_error,
    authorization,
    normal_base_url,
    on_a_live_connection,
    open_client,
    server_name,
)
from models.engines.spoken_languages import SpokenLanguages
from models.interfaces import AUDIO_RATE_HZ, EngineError, TokenLogprob, Transcription
from models.long_audio import SILENCE_PEAK

logger = logging.getLogger(__name__)

DEFAULT_MODEL = "whisper-1"
"""OpenAI's oldest name, which servers with one model take for theirs."""

DEADLINE_S = 120.0
"""Longest time for a final transcript (chosen). A session waits less (`asr_timeout_s`) and then cancels the request."""

LOOK_DEADLINE_S = 5.0
"""Longest time for a look at unfinished speech: later it tells nothing any more (chosen)."""

MAX_LOOKS = 4
"""Looks that a server is asked for at a time, at one utterance never two: finals must find it free (chosen)."""

_SILENT_BELOW = round(SILENCE_PEAK * 32_768)


class EndpointRecognizer:
    """SpeechRecognizer over `POST {base_url}/audio/transcriptions`. An empty `api_key` sends none.

    The answer is asked for as a stream, so that a cancelled request ends the server's work, and read as whatever comes:
    OpenAI's events, vLLM's chunks, or plain JSON. A server that refuses the optional fields is asked without them from
    then on. Raises ValueError if `base_url` is none.
    """

    def __init__(self, base_url: str, model: str, *, api_key: str = "", language: str = "") -> None:
        """`language`: what is spoken where the client names none, "": the server finds out."""
        self.base_url = normal_base_url(base_url)
        self.server = server_name(self.base_url)
        self.model = model or DEFAULT_MODEL
        self._languages = SpokenLanguages(self.server, None, own=language)
        self._client = open_client(self.base_url, api_key)
        self._headers = {**authorization(api_key), "Content-Type": "multipart/form-data"}
        self._plain = False
        self._looking: set[str] = set()

    async def transcribe(
        self,
        pcm: bytes,
        *,
        language: str | None = None,
        prompt: str = "",
        partial_of: str | None = None,
        logprobs: bool = False,
    ) -> Transcription | None:
        """Return the words of `pcm`; see SpeechRecognizer. A look that would be one too many is None at once.

        Raises EngineError: asr_unreachable, asr_timeout, asr_auth, asr_model_not_found, asr_http_error and the like.
        """
        spoken = self._languages.chosen(language)
        if _is_silent(pcm):
            return Transcription("", () if logprobs else None, spoken)
        if partial_of is None:
            return await self._within(DEADLINE_S, pcm, spoken, prompt, logprobs)
        if partial_of in self._looking or len(self._looking) >= MAX_LOOKS:
            return None
        self._looking.add(partial_of)
        try:
            return await self._within(LOOK_DEADLINE_S, pcm, spoken, prompt, logprobs)
        finally:
            self._looking.discard(partial_of)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.close()

    async def _within(self, deadline_s: float, pcm: bytes, language: str, prompt: str, logprobs: bool) -> Transcription:
        try:
            async with asyncio.timeout(deadline_s):
                return await self._ask(_wav(pcm), language, prompt, logprobs)
        except TimeoutError as error:
            raise EngineError(
                "asr_timeout", f"The transcription server {self.server} did not answer in time."
            ) from error
        except EngineError:
            raise
        except Exception as error:  # the SDK's, JSON's and the network's: one sentence for the client
            raise self._fault(error) from error

    async def _ask(self, wav: bytes, language: str, prompt: str, logprobs: bool) -> Transcription:
        import openai

        form: dict[str, Any] = {"model": self.model, "response_format": "json"}
        if language:
            form["language"] = language
        if prompt:
            form["prompt"] = prompt
        optional: dict[str, Any] = {"stream": True}
        if logprobs:
            optional["include"] = ["logprobs"]
        if self._plain:
            return await self._heard(form, wav, language, logprobs)
        try:
            return await self._heard({**form, **optional}, wav, language, logprobs)
        except (openai.BadRequestError, openai.UnprocessableEntityError):
            heard = await self._heard(form, wav, language, logprobs)  # raises again if it wasn't for those
            self._plain = True
            logger.info("the transcription server refuses stream or include; it is asked without from now on")
            return heard

    async def _heard(self, form: dict[str, Any], wav: bytes, language: str, logprobs: bool) -> Transcription:
        answer = await on_a_live_connection(lambda: self._post(form, wav))
        try:
            text, tokens, told = await _read(answer)
        except (AttributeError, KeyError, TypeError) as error:  # JSON of another shape
            raise self._fault(ValueError("unexpected answer")) from error
        except Exception as error:  # a stream that breaks off raises as many classes as there are transports
            known = self._fault(error)
            if known.code != "asr_unreachable":
                raise known from error
            # What the connection lost is the answer, not the server.
            raise EngineError(
                "asr_stream_broken", f"The transcription server {self.server} broke off its answer."
            ) from error
        finally:
            await answer.close()  # closes the connection, on which the server stops its work
        return Transcription(text, _tokens(tokens, text) if logprobs else None, language or told)

    def _fault(self, error: Exception) -> EngineError:
        return as_engine_error(error, self.server, role="transcription", prefix="asr")

    async def _post(self, form: dict[str, Any], wav: bytes) -> Any:
        from openai import AsyncStream

        return await self._client.post(
            "/audio/transcriptions",
            body=form,
            files={"file": ("audio.wav", wav, "audio/wav")},
            options={"headers": self._headers},
            cast_to=object,
            stream=True,  # of the SDK: the answer is handed over before it is whole, whatever it turns out to be
            stream_cls=AsyncStream[object],
        )


async def _read(answer: Any) -> tuple[str, list[Any], str]:
    """Return the text of an answer, its tokens as the server tells them, and the language, "" if it doesn't."""
    kind = answer.response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "text/event-stream":
        content = await answer.response.aread()
        if kind == "text/plain":  # a server that doesn't know `response_format`
            return content.decode().strip(), [], ""
        return _whole(json.loads(content))
    said: list[str] = []
    tokens: list[Any] = []
    async for event in answer:
        if event.get("type") == "transcript.text.done":
            text, final, language = _whole(event)
            return text, final or tokens, language
        said.append(_delta(event))
        tokens += event.get("logprobs") or ()
    if not said:
        raise ValueError("a stream without an event")
    return "".join(said).strip(), tokens, ""


def _whole(body: Mapping[str, Any]) -> tuple[str, list[Any], str]:
    text, language = body["text"], body.get("language")
    if not isinstance(text, str):
        raise ValueError("a transcript that is no text")
    return text.strip(), list(body.get("logprobs") or ()), language if isinstance(language, str) else ""


def _delta(event: Mapping[str, Any]) -> str:
    """Return the piece of text of OpenAI's event, of vLLM's chunk, or of a bare object with a text."""
    if "choices" in event:
        choices = event["choices"] or [{}]
        return (choices[0].get("delta") or {}).get("content") or ""
    return event.get("delta") or event.get("text") or ""


def _tokens(told: list[Any], text: str) -> tuple[TokenLogprob, ...] | None:
    """Return the tokens that a server told, None if it told none or they are not the text's."""
    found = []
    for entry in told:
        token, logprob, utf8 = entry.get("token"), entry.get("logprob"), entry.get("bytes")
        if not isinstance(token, str) or not isinstance(logprob, int | float):
            return None
        known = bytes(int(byte) for byte in utf8) if isinstance(utf8, list) else token.encode()
        found.append(TokenLogprob(token, float(logprob), known))
    if found and (bare := found[0].utf8.lstrip()) != found[0].utf8:  # the text is stripped
        found[0] = TokenLogprob(found[0].token.lstrip(), found[0].logprob, bare)
    joined = b"".join(token.utf8 for token in found)
    return tuple(found) if found and joined == text.encode() else None


def _is_silent(pcm: bytes) -> bool:
    samples = np.frombuffer(pcm, "<i2")
    return samples.size == 0 or int(np.abs(samples.astype(np.int32)).max()) <= _SILENT_BELOW


def _wav(pcm: bytes) -> bytes:
    """Return `pcm` as a WAV file. Its rate stays: servers bring audio to that of their model themselves."""
    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(AUDIO_RATE_HZ)
        file.writeframes(pcm)
    return content.getvalue()
