import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise

import numpy as np
import pytest

from models.engines.silero_vad import SileroVad
from models.interfaces import VAD_FRAME_SAMPLES
from models.resampling import LOOKAHEAD_SAMPLES, SpeechDownsampler
from models.weights import WeightsStore
from models.weights_manifest import TURN_TAKING
from tests.models.conftest import REFERENCES, clip

pytestmark = pytest.mark.models


@pytest.fixture
async def vad(store: WeightsStore) -> AsyncIterator[SileroVad]:
    store.fetch([TURN_TAKING])
    vad = SileroVad(store.path(TURN_TAKING, "silero_vad.onnx"))
    yield vad
    await vad.aclose()


async def probabilities(vad: SileroVad, pcm: bytes, chunk_samples: int) -> list[float]:
    stream = vad.open()
    result = []
    for start in range(0, len(pcm), 2 * chunk_samples):
        result += await stream.feed(pcm[start : start + 2 * chunk_samples])
    return result


async def test_speech_is_told_from_silence_in_every_clip(vad: SileroVad) -> None:
    for name in REFERENCES:
        pcm = bytes(48_000) + clip(name) + bytes(48_000)
        found = await probabilities(vad, pcm, 480)
        speech_start = 24_000 // VAD_FRAME_SAMPLES
        assert max(found[: speech_start - 1]) < 0.2, name
        assert max(found) > 0.9, name
        assert max(found[-15:]) < 0.2, name


async def test_probabilities_do_not_depend_on_chunks_or_on_company(vad: SileroVad) -> None:
    pcm = clip("goforward")
    alone = await probabilities(vad, pcm, len(pcm) // 2)
    together = await asyncio.gather(
        *(probabilities(vad, pcm, size) for size in (480, 481, 768, 1_000, 5_000)),
        *(probabilities(vad, clip("numbers"), 480) for _ in range(3)),
    )
    for found in together[:5]:
        assert np.allclose(found, alone, atol=1e-6)


async def test_a_frame_is_reported_within_the_lookahead(vad: SileroVad) -> None:
    stream = vad.open()
    assert await stream.feed(bytes(2 * (VAD_FRAME_SAMPLES + LOOKAHEAD_SAMPLES - 1))) == []
    assert len(await stream.feed(bytes(2))) == 1
    assert len(await stream.feed(bytes(2 * 3 * VAD_FRAME_SAMPLES))) == 3


async def test_it_agrees_with_silero_run_frame_by_frame(vad: SileroVad, store: WeightsStore) -> None:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(store.path(TURN_TAKING, "silero_vad.onnx")))
    pcm = clip("librivox_0880")
    samples = SpeechDownsampler().feed(pcm)
    state, context, wanted = np.zeros((2, 1, 128), np.float32), np.zeros(64, np.float32), []
    for start in range(0, samples.size - 511, 512):
        frame = samples[start : start + 512]
        row = np.concatenate((context, frame))[None]
        output, state = session.run(None, {"input": row, "state": state, "sr": np.array(16_000, np.int64)})
        context = frame[-64:]
        wanted.append(float(output[0, 0]))
    assert np.allclose(await probabilities(vad, pcm, 480), wanted, atol=1e-5)


async def test_onsets_come_when_the_speech_does(vad: SileroVad) -> None:
    """The onset moves with the audio, to the frame: no hidden delay."""
    speech = clip("cards_001")
    onsets = []
    for frames in (20, 30, 45):
        found = await probabilities(vad, bytes(2 * VAD_FRAME_SAMPLES * frames) + speech, 480)
        onsets.append(next(index for index, value in enumerate(found) if value > 0.5) - frames)
    assert all(abs(a - b) <= 1 for a, b in pairwise(onsets))
