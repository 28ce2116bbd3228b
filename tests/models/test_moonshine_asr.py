import asyncio
import time
from collections.abc import AsyncIterator

import jiwer
import numpy as np
import pytest

from models.engines.moonshine_asr import MoonshineRecognizer, read_tokens, stripped
from models.inference_worker import InferenceWorker, Priority
from models.interfaces import EngineError
from models.long_audio import split_at_quiet_points
from models.weights import WeightsStore
from models.weights_manifest import MOONSHINE_TINY_EN
from tests.models.conftest import REFERENCES, clip, plain_words

needs_model = pytest.mark.models


@pytest.fixture
async def asr(store: WeightsStore) -> AsyncIterator[MoonshineRecognizer]:
    store.fetch([MOONSHINE_TINY_EN])
    asr = MoonshineRecognizer(store.path(MOONSHINE_TINY_EN), InferenceWorker("asr", 2))
    yield asr
    await asr.aclose()


async def words(asr: MoonshineRecognizer, pcm: bytes) -> str:
    """Return the final transcript of `pcm`."""
    heard = await asr.transcribe(pcm)
    assert heard is not None
    assert heard.logprobs is None
    return heard.text


def noise(level_dbfs: float, duration_s: float) -> bytes:
    samples = np.random.default_rng(1).normal(0, 32_768 * 10 ** (level_dbfs / 20), int(24_000 * duration_s))
    return samples.clip(-32_768, 32_767).astype("<i2").tobytes()


@needs_model
async def test_real_speech_comes_out_with_few_wrong_words(asr: MoonshineRecognizer) -> None:
    texts = [await words(asr, clip(name)) for name in REFERENCES]
    wer = jiwer.wer(list(REFERENCES.values()), [plain_words(text) for text in texts])
    print(f"word error rate {wer:.3f}")
    assert wer <= 0.10


@needs_model
async def test_silence_and_noise_are_no_words(asr: MoonshineRecognizer) -> None:
    assert await words(asr, b"") == ""
    assert await words(asr, bytes(48_000)) == ""
    for level_dbfs in (-50, -40, -30, -20):
        for duration_s in (0.3, 1.0, 3.0):
            assert await words(asr, noise(level_dbfs, duration_s)) == "", (level_dbfs, duration_s)


@needs_model
async def test_a_word_alone_comes_out(asr: MoonshineRecognizer) -> None:
    five = clip("cards_004")[: int(0.75 * 48_000)]
    assert plain_words(await words(asr, five)) in ("five", "5")


@needs_model
async def test_speech_longer_than_the_model_reads_comes_out_whole(asr: MoonshineRecognizer) -> None:
    names = [name for name in REFERENCES if name.startswith("librivox")] * 2
    pcm = b"".join(clip(name) + bytes(24_000) for name in names)
    assert len(pcm) / 48_000 > 45
    text = plain_words(await words(asr, pcm))
    assert jiwer.wer(" ".join(REFERENCES[name] for name in names), text) <= 0.15


@needs_model
async def test_tokens_and_how_probable_they_are_add_up_to_the_text(asr: MoonshineRecognizer) -> None:
    long = b"".join(clip(name) + bytes(24_000) for name in ("librivox_0870", "librivox_0920")) * 3
    assert len(long) / 48_000 > 32  # decoded in pieces
    for pcm in (clip("librivox_0880"), long):
        heard = await asr.transcribe(pcm, logprobs=True)
        assert heard is not None
        assert heard.logprobs
        assert heard.text == await words(asr, pcm)
        assert b"".join(token.utf8 for token in heard.logprobs).decode() == heard.text
        assert all(token.logprob <= 0 for token in heard.logprobs)
        assert sum(token.logprob for token in heard.logprobs) / len(heard.logprobs) > -0.3  # clear speech
    silence = await asr.transcribe(bytes(48_000), logprobs=True)
    assert silence is not None
    assert silence.logprobs == ()


@needs_model
async def test_a_final_one_never_is_none_and_a_waiting_partial_gives_way(asr: MoonshineRecognizer) -> None:
    pcm = clip("librivox_0870")
    partials = [asyncio.create_task(asr.transcribe(pcm, partial_of="item")) for _ in range(6)]
    final = asyncio.create_task(asr.transcribe(pcm))
    texts = await asyncio.gather(*partials)
    assert texts[-1]
    assert texts[-1].text
    assert None in texts
    assert await final


@needs_model
async def test_cancelling_frees_the_thread_soon(store: WeightsStore) -> None:
    store.fetch([MOONSHINE_TINY_EN])
    worker = InferenceWorker("asr", 1)
    asr = MoonshineRecognizer(store.path(MOONSHINE_TINY_EN), worker)
    task = asyncio.create_task(asr.transcribe(clip("librivox_0870") * 8))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    start = time.monotonic()
    await worker.run(lambda: None, priority=Priority.ASR_PARTIAL)
    assert time.monotonic() - start < 0.5
    await asr.aclose()


@needs_model
async def test_a_closed_recognizer_says_so(asr: MoonshineRecognizer) -> None:
    await asr.aclose()
    with pytest.raises(EngineError, match="shut down") as caught:
        await asr.transcribe(noise(-20, 1))
    assert caught.value.code == "asr_failed"


def test_long_audio_is_cut_at_its_quietest_point() -> None:
    audio = np.random.default_rng(0).normal(0, 0.1, 50 * 16_000).astype(np.float32)
    quiet = slice(int(24.0 * 16_000), int(24.3 * 16_000))
    audio[quiet] *= 0.01
    pieces = split_at_quiet_points(audio)
    assert [piece.size for piece in pieces] == [pieces[0].size, audio.size - pieces[0].size]
    assert quiet.start <= pieces[0].size <= quiet.stop
    assert np.array_equal(np.concatenate(pieces), audio)


def test_audio_of_the_longest_length_stays_whole() -> None:
    assert len(split_at_quiet_points(np.zeros(30 * 16_000, np.float32))) == 1
    assert len(split_at_quiet_points(np.zeros(30 * 16_000 + 1, np.float32))) == 2


def test_a_text_begins_and_ends_without_blanks_whatever_its_tokens() -> None:
    assert stripped([(b" ", -1.0), (b" a", -2.0), (b" b ", -3.0), (b" ", -4.0)]) == [(b"a", -2.0), (b" b", -3.0)]
    assert stripped([(b" ", -1.0)]) == stripped([]) == []


def test_tokens_have_one_or_two_byte_lengths() -> None:
    long = b"x" * 300
    table = b"\x00" + b"\x03abc" + bytes([128 + 300 % 128, 300 // 128]) + long + b"\x01z"
    assert read_tokens(table) == [b"", b"abc", long, b"z"]
