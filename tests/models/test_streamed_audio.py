import struct

import numpy as np
import pytest
from numpy.typing import NDArray

from models.resampling import pcm24k_from_float
from models.streamed_audio import NotPcmError, StreamedAudio

TONE = np.sin(np.arange(6_000) * 2 * np.pi * 440 / 24_000) * 0.5


def tone(rate_hz: int, seconds: float = 0.25) -> NDArray[np.float64]:
    """A tone of 440 Hz."""
    return np.sin(np.arange(int(seconds * rate_hz)) * 2 * np.pi * 440 / rate_hz) * 0.5


def int16(audio: NDArray[np.float64]) -> bytes:
    return np.rint(audio * 32_767).astype("<i2").tobytes()


def wav(
    samples: bytes, rate_hz: int, *, channels: int = 1, tag: int = 1, bits: int = 16, size: int | None = None
) -> bytes:
    """A WAV file with something before its samples and after them."""
    block = channels * bits // 8
    head = struct.pack("<HHIIHH", tag, channels, rate_hz, rate_hz * block, block, bits)
    listing = b"LIST" + struct.pack("<I", 5) + b"INFO!\0"
    data = b"data" + struct.pack("<I", len(samples) if size is None else size) + samples
    body = b"WAVEfmt " + struct.pack("<I", len(head)) + head + listing + data
    return b"RIFF" + struct.pack("<I", len(body)) + body + (listing if size is None else b"")


def converted(content_type: str, body: bytes, step: int = 0) -> bytes:
    """What comes of a body in pieces of `step` bytes, 0: whole."""
    audio, step = StreamedAudio(content_type), step or len(body)
    return b"".join([audio.feed(body[at : at + step]) for at in range(0, len(body), step)]) + audio.finish()


@pytest.mark.parametrize(
    "content_type", ["", "audio/pcm", "application/octet-stream", "audio/pcm;rate=24000;channels=1"]
)
@pytest.mark.parametrize("step", [1, 3, 4_095, 0])
def test_samples_as_asked_pass_byte_for_byte_however_they_are_cut(content_type: str, step: int) -> None:
    assert converted(content_type, int16(TONE), step) == int16(TONE)


def test_half_a_sample_at_the_end_is_dropped() -> None:
    assert converted("audio/pcm", int16(TONE) + b"\x01") == int16(TONE)


FORMATS = {
    "raw at 16 kHz": ("audio/pcm; rate=16000", int16(tone(16_000))),
    "raw at 48 kHz, stereo": ("audio/L16;rate=48000;channels=2", int16(np.repeat(tone(48_000), 2))),
    "WAV at 24 kHz": ("audio/wav", wav(int16(TONE), 24_000)),
    "WAV by its bytes only": ("application/octet-stream", wav(int16(TONE), 24_000)),
    "WAV that is called PCM": ("audio/pcm", wav(int16(tone(22_050)), 22_050)),
    "WAV of 44.1 kHz, stereo": ("audio/x-wav", wav(int16(np.repeat(tone(44_100), 2)), 44_100, channels=2)),
    "WAV of unknown length": ("audio/wav", wav(int16(TONE), 24_000, size=0xFFFF_FFFF)),
    "WAV of length 0, as some write streams": ("audio/wav", wav(int16(TONE), 24_000, size=0)),
    "WAV of floats": ("audio/wav", wav(TONE.astype("<f4").tobytes(), 24_000, tag=3, bits=32)),
    "WAV of 24 bits": (
        "audio/wav",
        wav(b"".join(int(x * 2**23).to_bytes(3, "little", signed=True) for x in TONE), 24_000, bits=24),
    ),
    "WAV of 8 bits": ("audio/wav", wav(np.rint(TONE * 127 + 128).astype("u1").tobytes(), 24_000, bits=8)),
}


@pytest.mark.parametrize(("content_type", "body"), FORMATS.values(), ids=FORMATS.keys())
def test_every_kind_of_pcm_becomes_the_same_tone(content_type: str, body: bytes) -> None:
    whole = converted(content_type, body)
    assert converted(content_type, body, 7) == whole
    samples = np.frombuffer(whole, "<i2") / 32_768
    assert abs(samples.size - TONE.size) <= 2
    middle = slice(500, 5_500)
    assert np.abs(samples[middle] - TONE[middle]).max() < 0.02


def test_a_resampled_stream_is_what_the_whole_would_be() -> None:
    body = int16(tone(16_000, 1.0))
    whole = np.frombuffer(pcm24k_from_float(np.frombuffer(body, "<i2") / 32_768, 16_000), "<i2").astype(int)
    streamed = np.frombuffer(converted("audio/pcm;rate=16000", body, 999), "<i2").astype(int)
    assert np.abs(streamed[: whole.size] - whole[: streamed.size]).max() <= 2


WRONG = {
    "MP3 by type": ("audio/mpeg", b"", "audio/mpeg"),
    "a page": ("text/html; charset=utf-8", b"<html>", "text/html"),
    "JSON": ("application/json", b"{}", "application/json"),
    "MP3 by tag": ("audio/pcm", b"ID3\x04" + bytes(20), "MP3"),
    "MP3 by frame": ("application/octet-stream", b"\xff\xfb\x90\x64" + bytes(20), "MP3"),
    "Ogg": ("application/octet-stream", b"OggS" + bytes(20), "Ogg"),
    "FLAC": ("audio/pcm", b"fLaC" + bytes(20), "FLAC"),
    "JSON that is called PCM": ("audio/pcm", b'{"error": "no such voice"}', "JSON"),
    "a page that is called nothing": ("", b"<!DOCTYPE html><html>", "HTML"),
    "WAV that is none": ("audio/wav", bytes(100), "no WAV file"),
    "WAV without samples": ("audio/wav", wav(b"", 24_000)[:30], "without samples"),
    "WAV of head only": ("audio/wav", b"RIFF....WAVEjunk\xff\xff\xff\x7f" + bytes(70_000), "without samples"),
    "WAV of µ-law": ("audio/wav", wav(bytes(100), 8_000, tag=7, bits=8), "compressed"),
    "a rate that is none": ("audio/pcm;rate=1", bytes(100), "at 1 Hz"),
}  # fmt: skip


@pytest.mark.parametrize(("content_type", "body", "words"), WRONG.values(), ids=WRONG.keys())
@pytest.mark.parametrize("step", [5, 0])
def test_what_is_no_pcm_is_said_by_name(content_type: str, body: bytes, words: str, step: int) -> None:
    with pytest.raises(NotPcmError, match=words):
        converted(content_type, body, step)


def test_loud_samples_that_begin_like_mp3_are_samples_where_the_server_says_so() -> None:
    body = b"\xff\xfb\x90\x64" + bytes(20)
    assert converted("audio/pcm", body) == body
