import asyncio
from collections.abc import AsyncIterator
from typing import Any

import jiwer
import numpy as np
import pytest
from numpy.typing import NDArray

from models.engines.moonshine_asr import MoonshineRecognizer
from models.engines.ort_session import open_session
from models.engines.piper_tts import (
    FIRST_WINDOW_FRAMES,
    FRAME_SAMPLES,
    WINDOW_FRAMES,
    PiperSynthesizer,
    cut_between_words,
)
from models.engines.silence_trimming import SilenceTrimmer
from models.engines.vits_graph import split_voice
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


@needs_model
async def test_a_long_clause_is_heard_before_it_is_computed(tts: PiperSynthesizer) -> None:
    decoded: list[tuple[int, int]] = []
    decode = tts._decode

    def counted(latents: Any, start: int, end: int, run: Any) -> Any:
        decoded.append((start, end))
        return decode(latents, start, end, run)

    tts._decode = counted
    text = " and ".join(sentence.rstrip(".?") for sentence in SENTENCES[:3])
    pieces = tts.synthesize(text)
    first = await anext(pieces)
    assert decoded == [(0, FIRST_WINDOW_FRAMES)]
    assert 0.2 * 24_000 < len(first.pcm) / 2 <= FIRST_WINDOW_FRAMES * FRAME_SAMPLES * 24_000 / 22_050
    rest = [piece async for piece in pieces]
    assert len(rest) > 2
    assert all(end - start <= WINDOW_FRAMES for start, end in decoded)
    assert [start for start, _ in decoded[1:]] == [end for _, end in decoded[:-1]]


@needs_model
def test_windows_give_the_samples_of_the_whole(store: WeightsStore) -> None:
    store.fetch([PIPER_JOE])
    model = store.path(PIPER_JOE, "en_US-joe-medium.onnx").read_bytes()
    graph, whole = split_voice(model), open_session(model)
    ids = np.concatenate(([1, 0], np.stack((np.arange(20, 60), np.zeros(40)), 1).ravel(), [2])).astype(np.int64)[None]
    inputs = {"input": ids, "input_lengths": np.array([ids.size]), "scales": np.array([0, 1, 0], np.float32)}
    (wanted,) = whole.run(None, inputs)
    latents, durations = open_session(graph.encoder).run(None, inputs)
    assert graph.timed
    assert durations.sum() == latents.shape[2] == wanted.size / FRAME_SAMPLES
    decoder = open_session(graph.decoder)
    for start, end in ((0, 40), (40, 70), (70, latents.shape[2])):
        before = min(start, 10)
        (found,) = decoder.run(None, {graph.shared[0]: latents[:, :, start - before : end + 10]})
        found = found.ravel()[before * FRAME_SAMPLES : (before + end - start) * FRAME_SAMPLES]
        assert np.abs(found - wanted.ravel()[start * FRAME_SAMPLES : end * FRAME_SAMPLES]).max() < 2**-17


@pytest.mark.parametrize("content", [b"no model", b""])
def test_what_is_no_piper_voice_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="no (ONNX file|Piper voice)"):
        split_voice(content)


@pytest.mark.parametrize("step", [1, 7, 400, 10_000])
def test_silence_around_speech_is_trimmed_to_a_little_however_it_is_cut(step: int) -> None:
    audio = np.concatenate((np.zeros(1_000), np.full(500, 0.5), np.zeros(700), np.full(10, -0.5), np.zeros(1_000)))
    assert trimmed(audio, step) == (600, 400 + 500 + 700 + 10 + 400)
    assert trimmed(audio[900:1_600], step) == (0, 700)
    assert trimmed(np.zeros(500), step)[1] == 0


def trimmed(audio: NDArray[np.float64], step: int) -> tuple[int, int]:
    """Return how many samples at 10 kHz go before the first that stays, and how many stay."""
    trimmer = SilenceTrimmer(10_000)
    given = [trimmer.feed(audio[at : at + step].astype(np.float32)) for at in range(0, audio.size, step)]
    kept = np.concatenate((*given, trimmer.finish()))
    assert np.array_equal(kept, audio[trimmer.dropped : trimmer.dropped + kept.size].astype(np.float32))
    return trimmer.dropped, kept.size
