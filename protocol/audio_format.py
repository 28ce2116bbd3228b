"""The audio formats of the wire (Realtime GA: `audio.input.format`, `audio.output.format`) and what converts them.

Inside, all audio is the session's: PCM16, mono, 24 kHz. G.711 is converted at the session's border by what the gateway
injects, since filters want numpy and this room stays without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Protocol

from protocol.audio_time import BYTES_PER_SAMPLE, SESSION_RATE_HZ, Samples

_G711_RATE_HZ = 8_000


class AudioFormat(Enum):
    """A format by its name on the wire."""

    PCM = "audio/pcm"
    PCMU = "audio/pcmu"
    PCMA = "audio/pcma"

    def to_wire(self) -> dict[str, Any]:
        """Return the `format` object; only PCM has a rate (OpenAI's types)."""
        return {"type": self.value, "rate": SESSION_RATE_HZ} if self is AudioFormat.PCM else {"type": self.value}

    @property
    def rate_hz(self) -> int:
        """The sample rate on the wire."""
        return SESSION_RATE_HZ if self is AudioFormat.PCM else _G711_RATE_HZ

    @property
    def bytes_per_sample(self) -> int:
        """The bytes of one sample on the wire."""
        return BYTES_PER_SAMPLE if self is AudioFormat.PCM else 1

    @property
    def wav_coding(self) -> int:
        """The format's number in a WAV header (RFC 2361)."""
        return {AudioFormat.PCM: 1, AudioFormat.PCMA: 6, AudioFormat.PCMU: 7}[self]

    @property
    def words(self) -> str:
        """What an error calls it."""
        return {AudioFormat.PCM: "PCM16", AudioFormat.PCMA: "G.711 A-law", AudioFormat.PCMU: "G.711 µ-law"}[self]

    def samples_in(self, length_bytes: int) -> Samples:
        """Return the session's samples that `length_bytes` of this format stand for."""
        return length_bytes // self.bytes_per_sample * (SESSION_RATE_HZ // self.rate_hz)


def merged_format(current: AudioFormat, given: Mapping[str, Any] | None) -> AudioFormat:
    """Return the format that an update's `format` object leads to; null is the default, absent keys change nothing."""
    if given is None:
        return AudioFormat.PCM
    if given.get("type") is not None:
        return AudioFormat(given["type"])
    return current if given.get("rate") is None else AudioFormat.PCM


class G711Decoder(Protocol):
    """Turns one stream of G.711 into the session's samples. The result doesn't depend on how the stream is cut."""

    def feed(self, audio: bytes) -> bytes:
        """Return exactly three samples for each byte, so that the input clock stays exact."""
        ...


class G711Encoder(Protocol):
    """Turns one stream of the session's samples into G.711. The result doesn't depend on how the stream is cut."""

    def feed(self, pcm: bytes) -> bytes:
        """Return the bytes that `pcm` completes."""
        ...

    def flush(self) -> bytes:
        """Return what the stream still holds: with it there is a byte for every three samples, rounded up."""
        ...


class G711(Protocol):
    """What converts G.711; `audio_format` is PCMU or PCMA."""

    def decoder(self, audio_format: AudioFormat) -> G711Decoder:
        """Return a decoder for a new stream."""
        ...

    def encoder(self, audio_format: AudioFormat) -> G711Encoder:
        """Return an encoder for a new stream."""
        ...


def encoded(pcm: bytes, audio_format: AudioFormat, g711: G711) -> bytes:
    """Return a whole piece of the session's audio in `audio_format`."""
    if audio_format is AudioFormat.PCM:
        return pcm
    encoder = g711.encoder(audio_format)
    return encoder.feed(pcm) + encoder.flush()
