"""Audio as speech servers send it, to PCM16 at 24 kHz, while it comes and however it is cut.

Asked for `pcm`, servers send raw samples at 24 kHz as OpenAI does, or at a rate that they tell, or a WAV file, or (a
mistake) MP3 or a page of HTML. What it is shows in the content type and in the first bytes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from email.message import Message

import numpy as np
from numpy.typing import NDArray

from models.resampling import BORDER_RATE_HZ, PcmResampler

MAX_HEADER_BYTES = 65_536
"""Longest part of a WAV file before its samples (chosen): some writers put a picture there, servers don't."""

MIN_RATE_HZ, MAX_RATE_HZ = 4_000, 192_000
MAX_CHANNELS = 8

_SNIFFED_BYTES = 12
"""How much of the beginning tells what it is: `RIFF`, a size, `WAVE`."""

_UNKNOWN_SIZE = 0x7FFF_0000
"""A WAV file that claims this much or more is a stream whose length its writer didn't know."""

_RAW = frozenset({"", "audio/pcm", "audio/l16", "audio/raw", "audio/x-raw", "application/octet-stream"})
_RAW_ENDINGS = ("/octet-stream", "pcm", "l16", "raw")
_WAV_TYPES = frozenset({"audio/wav", "audio/x-wav", "audio/wave", "audio/vnd.wave"})

_BEGINNINGS = (
    (b"ID3", "MP3"),
    (b"OggS", "Ogg"),
    (b"fLaC", "FLAC"),
    (b"\x1aE\xdf\xa3", "WebM"),
    (b'{"', "JSON"),
    (b"<!", "HTML"),
    (b"<html", "HTML"),
)

_SAMPLES = {(1, 8): "u1", (1, 16): "<i2", (1, 24): "i3", (1, 32): "<i4", (3, 32): "<f4", (3, 64): "<f8"}
"""WAVE's format tag and bits a sample → how numpy reads it ("i3": three bytes, which it can't)."""

_EXTENSIBLE = 0xFFFE


class NotPcmError(Exception):
    """The audio is not what was asked for. The text completes "sent …": what it is instead."""


@dataclass(frozen=True, slots=True)
class _Format:
    """How samples lie in the stream."""

    rate_hz: int = BORDER_RATE_HZ
    channels: int = 1
    samples: str = "<i2"

    @property
    def frame_bytes(self) -> int:
        return self.channels * int(self.samples[-1])


class StreamedAudio:
    """One body of audio with the server's `content_type`. Raises NotPcmError as soon as it is known to be none."""

    def __init__(self, content_type: str) -> None:
        header = Message()
        header["Content-Type"] = content_type or "application/octet-stream"
        self._type = header.get_content_type() if content_type else ""
        if not self._is_raw and self._type not in _WAV_TYPES:
            raise NotPcmError(f"{self._type} instead of PCM")
        self._format: _Format | None = None
        self._told = _format(
            _whole_number(header.get_param("rate"), BORDER_RATE_HZ),
            _whole_number(header.get_param("channels"), 1),
            1,
            16,
        )
        self._held = b""
        self._left: int | None = None  # bytes of samples that are yet to come, None: until the end
        self._resampler: PcmResampler | None = None

    @property
    def _is_raw(self) -> bool:
        return self._type in _RAW or self._type.endswith(_RAW_ENDINGS)

    @property
    def as_asked(self) -> bool:
        """Say whether the samples are those of the border, so that converting them costs nothing."""
        return self._format == _Format()

    def feed(self, data: bytes) -> bytes:
        """Return the PCM that `data` completes."""
        self._held += data
        if self._format is None and not self._begin():
            return b""
        return self._converted(last=False)

    def finish(self) -> bytes:
        """Return the rest: the body is complete. Half a sample at its end is dropped."""
        if self._format is None and not self._begin(last=True):
            return b""
        return self._converted(last=True)

    def _begin(self, *, last: bool = False) -> bool:
        """Find out what it is; False if more of it must come first."""
        if len(self._held) < _SNIFFED_BYTES and not last:
            return False
        if self._held[:4] == b"RIFF" and self._held[8:12] == b"WAVE":
            return self._begin_wav(last)
        if self._type in _WAV_TYPES and self._held:
            raise NotPcmError("something that is no WAV file")
        if name := _known_beginning(self._held, raw_by_type=self._type not in ("", "application/octet-stream")):
            raise NotPcmError(f"{name} instead of PCM")
        self._start(self._told)
        return True

    def _begin_wav(self, last: bool) -> bool:
        at, found = 12, None
        while len(self._held) >= at + 8:
            name, size = struct.unpack_from("<4sI", self._held, at)
            at += 8
            if name == b"data" and found is not None:
                self._left = size if 0 < size < _UNKNOWN_SIZE else None
                self._held = self._held[at:]
                self._start(found)
                return True
            if name == b"fmt " and len(self._held) >= at + size:
                found = _wav_format(self._held[at : at + size])
            at += size + size % 2
        if last or len(self._held) > MAX_HEADER_BYTES:
            raise NotPcmError("a WAV file without samples")
        return False

    def _start(self, found: _Format) -> None:
        self._format = found
        self._resampler = PcmResampler(found.rate_hz)

    def _converted(self, *, last: bool) -> bytes:
        assert self._format is not None
        assert self._resampler is not None
        whole = len(self._held) - len(self._held) % self._format.frame_bytes
        data, self._held = self._held[:whole], self._held[whole:]
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
        if self.as_asked:
            return data
        return self._resampler.feed(_mono(data, self._format), last=last)


def _known_beginning(data: bytes, *, raw_by_type: bool) -> str:
    """Return the name of a format by its first bytes, "" if it may be samples."""
    for beginning, name in _BEGINNINGS:
        if data.lower().startswith(beginning.lower()):
            return name
    # A frame of MPEG audio begins with 11 ones; so may samples, whose server says that they are some.
    is_frame = len(data) > 2 and data[0] == 0xFF and data[1] & 0xE6 == 0xE2 and data[2] & 0xF0 not in (0, 0xF0)
    return "MP3" if is_frame and not raw_by_type else ""


def _whole_number(text: object, default: int) -> int:
    return int(text) if isinstance(text, str) and text.isascii() and text.isdigit() else default


def _wav_format(chunk: bytes) -> _Format:
    if len(chunk) < 16:
        raise NotPcmError("a WAV file that is damaged")
    tag, channels, rate_hz, _, _, bits = struct.unpack_from("<HHIIHH", chunk)
    if tag == _EXTENSIBLE and len(chunk) >= 26:
        (tag,) = struct.unpack_from("<H", chunk, 24)
    return _format(rate_hz, channels, tag, bits)


def _format(rate_hz: int, channels: int, tag: int, bits: int) -> _Format:
    samples = _SAMPLES.get((tag, bits))
    if samples is None:
        raise NotPcmError(f"a WAV file with compressed samples (format {tag}, {bits} bits)")
    if not MIN_RATE_HZ <= rate_hz <= MAX_RATE_HZ or not 1 <= channels <= MAX_CHANNELS:
        raise NotPcmError(f"audio with {channels} channels at {rate_hz} Hz")
    return _Format(rate_hz, channels, samples)


def _mono(data: bytes, found: _Format) -> NDArray[np.float32]:
    """Return whole frames as float32 [samples], −1…1, the mean of their channels."""
    if found.samples == "i3":
        padded = np.zeros((len(data) // 3, 4), np.uint8)
        padded[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
        samples = padded.view("<i4").ravel() / 2.0**31
    else:
        raw = np.frombuffer(data, found.samples)
        match found.samples[-2]:
            case "u":
                samples = (raw.astype(np.float64) - 128.0) / 128.0
            case "i":
                samples = raw / 2.0 ** (8 * raw.itemsize - 1)
            case _:
                samples = np.nan_to_num(raw.astype(np.float64))
    mono: NDArray[np.float32] = samples.reshape(-1, found.channels).mean(axis=1).astype(np.float32)
    return mono
