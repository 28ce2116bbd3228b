import asyncio
from collections.abc import AsyncIterator

import jiwer
import numpy as np
import pytest

from models.engines.moonshine_asr import MoonshineRecognizer
from models.engines.piper_tts import PiperSynthesizer, cut_between_words, loud_range
from models.inference_worker import InferenceWorker
from models.interfaces import EngineError
from models.weights import WeightsStore
from models.weights_manifest import MOONSHINE_TINY_EN, PIPER_JOE
from tests.models.conftest import collect, plain_words

needs_model = pytest.mark.models

SENTENCES = (
    "Sure, I can help with that.",
    "The capital of Australia is Canberra.",
    "Your meeting with doctor Brown is on Tuesday afternoon.",
    "I am sorry, but I could not find that song.",
    "The train leaves from platform nine in about twenty minutes.",
    "Would you like me to book a table for four people?",
    "It will be sunny tomorrow, with a light wind from the west.",
    "Please turn left at the next corner and walk past the bank.",
    "You can keep soup in the fridge for three days.",
    "My favourite season is autumn, because the leaves change colour.",
    "Let me check the weather and call you back.",
    "There are seven days in a week.",
)


@pytest.fixture
async def tts(store: WeightsStore) -> AsyncIterator[PiperSynthesizer]:
    store.fetch([PIPER_JOE])
    tts = PiperSynthesizer(store.path(PIPER_JOE, "en_US-joe-medium.onnx"), InferenceWorker("tts", 2))
    yield tts
    await tts.aclose()


@needs_model
async def test_what_is_spoken_is_understood(tts: PiperSynthesizer, store: WeightsStore) -> None:
    store.fetch([MOONSHINE_TINY_EN])
    asr = MoonshineRecognizer(store.path(MOONSHINE_TINY_EN), InferenceWorker("asr", 1))
    transcriptions = [await asr.transcribe(await collect(tts.synthesize(text))) for text in SENTENCES]
    heard = [plain_words(found.text if found else "") for found in transcriptions]
    await asr.aclose()
    wer = jiwer.wer([plain_words(text) for text in SENTENCES], heard)
    print(f"round trip word error rate {wer:.3f}")
    assert wer <= 0.10


@needs_model
async def test_sessions_side_by_side_get_the_audio_they_get_alone(tts: PiperSynthesizer) -> None:
    alone = [await collect(tts.synthesize(text)) for text in SENTENCES[:4]]
    for _ in range(3):
        together = await asyncio.gather(*(collect(tts.synthesize(text, first=True)) for text in SENTENCES[:4]))
        for one, other in zip(alone, together, strict=True):
            assert abs(len(other) - len(one)) <= 0.04 * len(one)


@needs_model
async def test_the_same_text_gives_the_same_samples(tts: PiperSynthesizer) -> None:
    assert await collect(tts.synthesize("Hello there.")) == await collect(tts.synthesize("Hello there."))


@needs_model
async def test_speed_changes_the_length(tts: PiperSynthesizer) -> None:
    normal = len(await collect(tts.synthesize(SENTENCES[1])))
    assert len(await collect(tts.synthesize(SENTENCES[1], speed=1.5))) == pytest.approx(normal / 1.5, rel=0.15)
    assert len(await collect(tts.synthesize(SENTENCES[1], speed=0.5))) == pytest.approx(normal * 2, rel=0.15)


@needs_model
async def test_audio_comes_in_whole_samples_loud_enough_and_with_little_silence(tts: PiperSynthesizer) -> None:
    pieces = [piece.pcm async for piece in tts.synthesize(SENTENCES[4], voice="nobody")]
    assert len(pieces) > 2
    assert all(len(piece) % 2 == 0 and len(piece) <= 24_000 for piece in pieces)
    samples = np.frombuffer(b"".join(pieces), "<i2") / 32_768
    loud = np.flatnonzero(np.abs(samples) > 0.01)
    assert np.abs(samples).max() > 0.2
    assert loud[0] < 0.1 * 24_000
    assert samples.size - loud[-1] < 0.1 * 24_000


@needs_model
async def test_text_without_sound_gives_none(tts: PiperSynthesizer) -> None:
    for text in ("", "  ", "...", "🎉", "—"):
        assert await collect(tts.synthesize(text)) == b"", text


@needs_model
async def test_long_text_is_spoken_to_its_end(tts: PiperSynthesizer) -> None:
    sentence = len(await collect(tts.synthesize(SENTENCES[1])))
    assert len(await collect(tts.synthesize(" ".join([SENTENCES[1]] * 15)))) > 12 * sentence


@needs_model
async def test_a_closed_synthesizer_says_so(tts: PiperSynthesizer) -> None:
    await tts.aclose()
    with pytest.raises(EngineError, match="shut down") as caught:
        await collect(tts.synthesize("Hello."))
    assert caught.value.code == "tts_failed"


def test_phonemes_are_cut_between_words() -> None:
    assert cut_between_words("aa bb cc", 8) == ["aa bb cc"]
    assert cut_between_words("aa bb cc", 7) == ["aa bb", "cc"]
    assert cut_between_words("aa bb cc", 5) == ["aa bb", "cc"]
    assert cut_between_words("aabbcc", 4) == ["aabb", "cc"]
    assert cut_between_words("", 4) == []


def test_silence_around_speech_is_trimmed_to_a_little() -> None:
    audio = np.concatenate((np.zeros(1_000), np.full(500, 0.5), np.zeros(1_000))).astype(np.float32)
    assert loud_range(audio, 10_000) == range(600, 1_900)
    assert loud_range(audio[900:1_600], 10_000) == range(700)
    assert loud_range(np.zeros(500, np.float32), 10_000) == range(0)
