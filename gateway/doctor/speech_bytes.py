"""What a speech endpoint really sends: its first bytes tell the format, a WAV header the rate."""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass
from typing import Literal

from gateway.doctor.endpoint import Endpoint, http_client
from models.engines.openai_endpoint import normal_base_url

Kind = Literal["pcm", "wav", "mp3", "ogg", "flac", "json", "page", "nothing"]

_LONGEST_BYTES = 4 * 2**20
_WAV_HEADER = struct.Struct("<4sI4s")


@dataclass(frozen=True, slots=True)
class Sample:
    """The bytes of one answer. `seconds`, `rate_hz`: of a WAV, by its own header. `broken`: it ended too soon."""

    kind: Kind = "nothing"
    body: bytes = b""
    rate_hz: int = 0
    seconds: float = 0.0
    broken: bool = False


async def speech_sample(endpoint: Endpoint, text: str, voice: str, response_format: str, limit_s: float) -> Sample:
    """Return what the endpoint sends for `text`. Raises nothing: what fails is a sample of nothing."""
    request = {"model": endpoint.model, "input": text, "voice": voice, "response_format": response_format}
    body, broken, content_type = b"", False, ""
    try:
        async with (
            asyncio.timeout(limit_s),
            http_client(endpoint, limit_s) as client,
            client.stream("POST", normal_base_url(endpoint.base_url) + "/audio/speech", json=request) as response,
        ):
            if response.status_code != 200:
                return Sample()
            content_type = response.headers.get("content-type", "").lower()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > _LONGEST_BYTES:
                    break
    except Exception:  # the adapter's own failure is what is told; this only says more about it
        broken = bool(body)
    kind = _kind_of(body, content_type)
    if kind == "wav":
        rate_hz, seconds = _wav_length(body)
        return Sample(kind, body, rate_hz, seconds, broken)
    return Sample(kind, body, broken=broken)


def _kind_of(body: bytes, content_type: str) -> Kind:
    start = body[:16]
    if not body:
        return "nothing"
    if start[:4] == b"RIFF":
        return "wav"
    if start[:3] == b"ID3" or (start[0] == 0xFF and len(start) > 1 and start[1] in (0xFB, 0xF3, 0xF2, 0xFA)):
        return "mp3"
    if start[:4] == b"OggS":
        return "ogg"
    if start[:4] == b"fLaC":
        return "flac"
    if "json" in content_type:
        return "json"
    if "html" in content_type or start.lstrip()[:9].lower().startswith((b"<!doctype", b"<html")):
        return "page"
    return "pcm"


def _wav_length(body: bytes) -> tuple[int, float]:
    """Return rate and seconds of a WAV, which may have been streamed and so not know its own length."""
    at, rate_hz, bytes_a_second = _WAV_HEADER.size, 0, 0
    while at + 8 <= len(body):
        name, size = body[at : at + 4], int.from_bytes(body[at + 4 : at + 8], "little")
        if name == b"fmt " and at + 20 <= len(body):
            rate_hz = int.from_bytes(body[at + 12 : at + 16], "little")
            bytes_a_second = int.from_bytes(body[at + 16 : at + 20], "little")
        if name == b"data":
            length = min(size, len(body) - at - 8)
            return rate_hz, length / bytes_a_second if bytes_a_second else 0.0
        at += 8 + size + size % 2
    return rate_hz, 0.0
