import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.resampling import LOOKAHEAD_SAMPLES, SpeechDownsampler, pcm24k_from_float, pcm_from_float, to_float16k

SOUND = np.random.default_rng(7).integers(-32_768, 32_767, 5_000, np.int16).astype("<i2")


def downsampled(samples: np.ndarray) -> np.ndarray:
    """Return the output for `samples`, followed by enough silence to push everything out."""
    padded = np.concatenate((samples, np.zeros(100, np.int16)))
    return SpeechDownsampler().feed(np.asarray(padded, "<i2").tobytes())


def tone(frequency_hz: float, samples: int = 24_000) -> np.ndarray:
    return np.round(16_000 * np.sin(2 * np.pi * frequency_hz / 24_000 * np.arange(samples))).astype("<i2")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 1_500), max_size=12))
def test_the_output_is_the_same_to_the_bit_for_any_chunking(chunk_sizes: list[int]) -> None:
    whole = SpeechDownsampler().feed(SOUND.tobytes())
    chunked, outputs, position = SpeechDownsampler(), [], 0
    for size in [*chunk_sizes, SOUND.size]:
        outputs.append(chunked.feed(SOUND[position : position + size].tobytes()))
        position += size
    assert np.array_equal(np.concatenate(outputs), whole)


def test_an_impulse_comes_out_at_two_thirds_of_its_time() -> None:
    for at in (0, 3, 300, 301, 302, 1_501):
        samples = np.zeros(2_400, np.int16)
        samples[at] = 32_000
        assert abs(int(np.argmax(downsampled(samples))) - at / 1.5) <= 0.5


def test_a_chirp_keeps_its_phase() -> None:
    time_s = np.arange(24_000) / 24_000
    chirp = 20_000 * np.sin(2 * np.pi * (200 * time_s + 2_500 * time_s**2))
    output = downsampled(np.round(chirp).astype(np.int16))
    time_16k_s = np.arange(output.size) / 16_000
    wanted = 20_000 / 32_768 * np.sin(2 * np.pi * (200 * time_16k_s + 2_500 * time_16k_s**2))
    inner = slice(100, 15_800)
    assert np.abs(output[inner] - wanted[inner]).max() < 0.002


@pytest.mark.parametrize("frequency_hz", [50, 1_000, 4_000, 6_500])
def test_speech_frequencies_pass_unchanged(frequency_hz: int) -> None:
    output = downsampled(tone(frequency_hz))[500:15_500]
    gain_db = 20 * np.log10(np.sqrt(2) * output.std() / (16_000 / 32_768))
    assert abs(gain_db) < 0.1


@pytest.mark.parametrize("frequency_hz", [8_100, 9_500, 11_900])
def test_frequencies_that_would_alias_are_removed(frequency_hz: int) -> None:
    output = downsampled(tone(frequency_hz))[500:15_500]
    assert 20 * np.log10(np.sqrt(2) * output.std() / (16_000 / 32_768)) < -65


def test_a_frame_is_out_once_its_samples_and_the_lookahead_are_in() -> None:
    frame = 768
    early, enough = SpeechDownsampler(), SpeechDownsampler()
    assert early.feed(bytes(2 * (frame + LOOKAHEAD_SAMPLES - 1))).size == 480
    assert enough.feed(bytes(2 * (frame + LOOKAHEAD_SAMPLES))).size == 512
    assert LOOKAHEAD_SAMPLES <= 48


def test_whole_utterances_change_rate_and_keep_their_level() -> None:
    audio = to_float16k(tone(440).tobytes())
    assert audio.dtype == np.float32
    assert abs(audio.size - 16_000) <= 1
    assert abs(np.sqrt(2) * audio[1_000:15_000].std() - 16_000 / 32_768) < 0.002
    back = np.frombuffer(pcm24k_from_float(audio, 16_000), "<i2")
    assert abs(back.size - 24_000) <= 1


def test_too_loud_audio_saturates() -> None:
    samples = np.frombuffer(pcm_from_float(np.array([1.5, -1.5, 1.0, -1.0, 0.0])), "<i2")
    assert samples.tolist() == [32_767, -32_768, 32_767, -32_768, 0]


def test_nothing_in_gives_nothing_out() -> None:
    assert to_float16k(b"").size == 0
    assert pcm24k_from_float(np.empty(0, np.float32), 22_050) == b""
    assert SpeechDownsampler().feed(b"").size == 0
