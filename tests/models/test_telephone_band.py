from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.telephone_band import DELAY_SAMPLES, TelephoneDownsampler, TelephoneUpsampler

SOUND = np.random.default_rng(7).integers(-32_768, 32_767, 4_000, np.int16).astype("<i2")
CHUNKS = st.lists(st.integers(0, 900), max_size=12)


def tone(frequency_hz: float, rate_hz: int) -> np.ndarray:
    return np.round(16_000 * np.sin(2 * np.pi * frequency_hz / rate_hz * np.arange(rate_hz))).astype("<i2")


def level_db(samples: np.ndarray) -> float:
    """Return the level against the tone's, edges left out."""
    inner = samples[samples.size // 10 : -samples.size // 10].astype(np.float64)
    return float(20 * np.log10(np.sqrt(2) * inner.std() / 16_000 + 1e-12))


def in_chunks(sound: np.ndarray, sizes: list[int]) -> list[np.ndarray]:
    return np.split(sound, np.minimum(np.cumsum(sizes, dtype=int), sound.size))


@given(CHUNKS)
def test_each_sample_up_gives_three_at_once_and_the_same_ones_for_any_chunking(sizes: list[int]) -> None:
    whole, chunked = TelephoneUpsampler().feed(SOUND), TelephoneUpsampler()
    chunks = in_chunks(SOUND, sizes)
    outputs = [chunked.feed(chunk) for chunk in chunks]
    assert [out.size for out in outputs] == [3 * chunk.size for chunk in chunks]
    assert np.array_equal(np.concatenate(outputs), whole)


@given(CHUNKS, st.integers(0, SOUND.size))
def test_down_gives_a_third_rounded_up_and_the_same_for_any_chunking(sizes: list[int], samples: int) -> None:
    whole, chunked = TelephoneDownsampler(), TelephoneDownsampler()
    sound = SOUND[:samples]
    expected = np.concatenate((whole.feed(sound), whole.flush()))
    outputs = [*(chunked.feed(chunk) for chunk in in_chunks(sound, sizes)), chunked.flush()]
    assert np.array_equal(np.concatenate(outputs), expected)
    assert expected.size == -(-samples // 3)


@pytest.mark.parametrize("samples", [0, 1, 2, 3, 65, 66, 67, 200])
def test_a_short_piece_comes_out_whole_once_flushed_and_what_follows_is_a_new_stream(samples: int) -> None:
    down = TelephoneDownsampler()
    first = np.concatenate((down.feed(SOUND[:samples]), down.flush()))
    again = np.concatenate((down.feed(SOUND[:samples]), down.flush()))
    assert first.size == -(-samples // 3)
    assert np.array_equal(first, again)


@pytest.mark.parametrize("frequency_hz", [50, 1_000, 3_400])
def test_the_band_passes_unchanged_both_ways(frequency_hz: int) -> None:
    assert abs(level_db(TelephoneUpsampler().feed(tone(frequency_hz, 8_000)))) < 0.1
    assert abs(level_db(TelephoneDownsampler().feed(tone(frequency_hz, 24_000)))) < 0.1


@pytest.mark.parametrize("frequency_hz", [300, 1_000, 3_400])
def test_no_image_of_the_band_is_heard_above_it(frequency_hz: int) -> None:
    up = TelephoneUpsampler().feed(tone(frequency_hz, 8_000))[2_400:21_600].astype(np.float64)
    spectrum = np.abs(np.fft.rfft(up * np.hanning(up.size)))
    above = np.fft.rfftfreq(up.size, 1 / 24_000) > 4_200
    assert 20 * np.log10(spectrum[above].max() / spectrum.max()) < -65


@pytest.mark.parametrize("frequency_hz", [4_250, 6_000, 11_900])
def test_what_would_alias_into_the_band_is_removed(frequency_hz: int) -> None:
    assert level_db(TelephoneDownsampler().feed(tone(frequency_hz, 24_000))) < -65


@pytest.mark.parametrize("level", [1, 8, 1_000, -1_000, 32_767, -32_768])
def test_a_constant_stays_what_it_is(level: int) -> None:
    constant = np.full(600, level, np.int16)
    assert set(TelephoneUpsampler().feed(constant)[2 * DELAY_SAMPLES :].tolist()) == {level}
    assert set(TelephoneDownsampler().feed(constant)[DELAY_SAMPLES:].tolist()) == {level}


def test_up_is_late_by_its_delay_and_down_is_not_late_at_all() -> None:
    for at in (30, 31, 95):
        impulse = np.zeros(200, np.int16)
        impulse[at] = 32_000
        assert int(np.argmax(TelephoneUpsampler().feed(impulse))) == 3 * at + DELAY_SAMPLES
        impulse = np.zeros(600, np.int16)
        impulse[3 * at] = 32_000
        assert int(np.argmax(TelephoneDownsampler().feed(impulse))) == at


def test_the_loudest_sound_saturates_instead_of_wrapping() -> None:
    square = np.where(np.arange(400) // 8 % 2 == 0, 32_767, -32_768).astype(np.int16)
    up = TelephoneUpsampler().feed(square).astype(int)
    assert (up.max(), up.min()) == (32_767, -32_768)
    assert np.abs(np.diff(up)).max() < 40_000
