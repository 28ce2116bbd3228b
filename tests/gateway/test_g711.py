"""G.711 at the session's border: the tables, the exact count, the quality on real speech."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.wav_audio import read_clip
from gateway.g711 import G711Codec, decoding_table, encoding_table
from protocol.audio_format import AudioFormat

G711_FORMATS = [AudioFormat.PCMU, AudioFormat.PCMA]
SPEECH = Path(__file__).parent.parent / "data" / "speech"
DELAY = 66

both = pytest.mark.parametrize("audio_format", G711_FORMATS, ids=["µ-law", "A-law"])


@cache
def speech(name: str = "librivox_0870") -> np.ndarray:
    return np.frombuffer(read_clip(SPEECH / f"{name}.wav").pcm, "<i2")


def in_band(samples: np.ndarray, edge_hz: float = 3_300.0) -> np.ndarray:
    """Return `samples` without what a telephone cannot carry."""
    spectrum = np.fft.rfft(samples.astype(np.float64))
    spectrum[np.fft.rfftfreq(samples.size, 1 / 24_000) > edge_hz] = 0
    return np.fft.irfft(spectrum, samples.size)


def snr_db(wanted: np.ndarray, got: np.ndarray) -> float:
    noise = got.astype(np.float64) - wanted
    return float(10 * np.log10((wanted**2).sum() / (noise**2).sum()))


def coded(samples: np.ndarray, audio_format: AudioFormat) -> bytes:
    encoder = G711Codec().encoder(audio_format)
    return encoder.feed(samples.astype("<i2").tobytes()) + encoder.flush()


def sounding(audio: bytes, audio_format: AudioFormat) -> np.ndarray:
    return np.frombuffer(G711Codec().decoder(audio_format).feed(audio), "<i2")


# --- the tables ----------------------------------------------------------------------------------------------------


@both
def test_a_code_that_was_decoded_is_encoded_as_itself(audio_format: AudioFormat) -> None:
    codes = np.arange(256, dtype=np.uint8)
    back = encoding_table(audio_format)[decoding_table(audio_format)[codes].view(np.uint16)]
    minus_zero = {AudioFormat.PCMU: [0x7F], AudioFormat.PCMA: []}[audio_format]
    assert [code for code in codes if back[code] != code] == minus_zero


@both
def test_every_sample_gets_a_code_whose_error_is_half_a_step_at_most(audio_format: AudioFormat) -> None:
    samples = np.arange(-32_768, 32_768)
    decoded = decoding_table(audio_format)[encoding_table(audio_format)[samples.astype(np.int16).view(np.uint16)]]
    error = np.abs(decoded.astype(int) - samples)
    # A step is a sixteenth of its segment's start, so that half of it is a 32nd of the sample at most.
    assert (error <= np.maximum(8, np.abs(samples) / 32 + 4.2)).all()


@both
def test_the_tables_are_those_of_the_standard_library(audio_format: AudioFormat) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        audioop = pytest.importorskip("audioop", reason="it left Python with 3.13")
    law = {AudioFormat.PCMU: "ulaw", AudioFormat.PCMA: "alaw"}[audio_format]
    codes = bytes(range(256))
    assert decoding_table(audio_format).astype("<i2").tobytes() == getattr(audioop, f"{law}2lin")(codes, 2)
    # Of samples that lie exactly between two codes the two round differently, and below zero audioop rounds down.
    samples = np.arange(0, 32_768, 16, dtype="<i2")
    ours = encoding_table(audio_format)[samples.view(np.uint16)].tobytes()
    assert ours == getattr(audioop, f"lin2{law}")(samples.tobytes(), 2)


@pytest.mark.parametrize(("audio_format", "silence"), [(AudioFormat.PCMU, 0xFF), (AudioFormat.PCMA, 0xD5)])
def test_silence_has_the_standards_code(audio_format: AudioFormat, silence: int) -> None:
    assert set(coded(np.zeros(2_400), audio_format)) == {silence}
    assert np.abs(sounding(bytes([silence]) * 800, audio_format)).max() <= 10  # A-law has no zero: 8, and its onset


# --- the count -----------------------------------------------------------------------------------------------------


@both
@given(audio=st.binary(max_size=600), sizes=st.lists(st.integers(0, 90), max_size=9))
def test_a_byte_is_three_samples_at_once_and_the_same_ones_for_any_chunking(
    audio_format: AudioFormat, audio: bytes, sizes: list[int]
) -> None:
    decoder, at, out = G711Codec().decoder(audio_format), 0, b""
    for size in [*sizes, len(audio)]:
        chunk = audio[at : at + size]
        piece = decoder.feed(chunk)
        assert len(piece) == 2 * 3 * len(chunk)
        out += piece
        at += size
    assert out == G711Codec().decoder(audio_format).feed(audio)


@both
def test_a_large_append_is_as_exact_as_one_of_one_byte(audio_format: AudioFormat) -> None:
    one = bytes(np.random.default_rng(3).integers(0, 256, 100_000, np.uint8))
    decoder = G711Codec().decoder(audio_format)
    large = decoder.feed(one * 3)
    assert len(large) == 6 * 3 * len(one)
    single = G711Codec().decoder(audio_format)
    assert b"".join(single.feed(one[at : at + 1]) for at in range(2_000)) == large[:12_000]


@both
@given(samples=st.integers(0, 700), sizes=st.lists(st.integers(0, 200), max_size=6))
def test_an_item_has_a_byte_for_every_three_samples_whatever_its_deltas(
    audio_format: AudioFormat, samples: int, sizes: list[int]
) -> None:
    pcm = speech()[20_000 : 20_000 + samples].tobytes()
    encoder, at, out = G711Codec().encoder(audio_format), 0, b""
    for size in [*sizes, samples]:
        out += encoder.feed(pcm[2 * at : 2 * (at + size)])
        at += size
    out += encoder.flush()
    assert len(out) == -(-samples // 3)
    assert out == coded(np.frombuffer(pcm, "<i2"), audio_format)


# --- the quality ---------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("name", ["librivox_0870", "goforward"])
def test_real_speech_survives_the_round_trip(audio_format: AudioFormat, name: str) -> None:
    original = np.round(in_band(speech(name))).astype(np.int16)
    back = sounding(coded(original, audio_format), audio_format)
    found = snr_db(original[: back.size - DELAY].astype(np.float64), back[DELAY : original.size])
    assert found > 30, found


@both
def test_speech_in_chunks_has_no_clicks(audio_format: AudioFormat) -> None:
    """Chunks of 20 ms, encoded and decoded one by one, add nothing above the band, where a click would show."""
    original = speech()
    encoder, decoder = G711Codec().encoder(audio_format), G711Codec().decoder(audio_format)
    chunks = [original[at : at + 480].tobytes() for at in range(0, original.size, 480)]
    back = np.frombuffer(b"".join(decoder.feed(encoder.feed(chunk)) for chunk in chunks), "<i2").astype(np.float64)
    above = back - in_band(back, 4_200.0)
    assert 10 * np.log10((above**2).mean() / (back**2).mean()) < -55
    assert np.abs(above).max() < 40


@both
def test_two_streams_know_nothing_of_each_other(audio_format: AudioFormat) -> None:
    codec = G711Codec()
    codec.decoder(audio_format).feed(bytes(500))
    assert codec.decoder(audio_format).feed(b"\xd5") == G711Codec().decoder(audio_format).feed(b"\xd5")
