import asyncio
from collections.abc import AsyncIterator

import numpy as np
import pytest

from models.engines.smart_turn import HEARD_S, SmartTurnJudge, standardised
from models.inference_worker import InferenceWorker, Priority
from models.interfaces import EngineError, Utterance
from models.weights import WeightsStore
from models.weights_manifest import TURN_TAKING
from tests.models.conftest import REFERENCES, clip
from tests.models.eot_figures import auc

RATE_HZ = 16_000
MS = 24 * 2
"""Bytes of a millisecond at the border."""

SENTENCES = [name for name in REFERENCES if name not in ("cards_002", "cards_004", "librivox_0890")]
"""Clips that are whole utterances: no false starts, no subordinate clause alone."""


@pytest.fixture
async def judge(store: WeightsStore) -> AsyncIterator[SmartTurnJudge]:
    store.fetch([TURN_TAKING])
    worker = InferenceWorker("test", 1)
    judge = await asyncio.to_thread(SmartTurnJudge, store.path(TURN_TAKING, "smart-turn-v3.2-cpu.onnx"), worker)
    await asyncio.to_thread(judge.warm_up)
    yield judge
    await judge.aclose()


def spoken(name: str) -> tuple[bytes, int, int]:
    """Return a clip, and where its speech begins and ends in ms: at a twentieth of its loudest 20 ms."""
    pcm = clip(name)
    samples = np.frombuffer(pcm, "<i2").astype(np.float64)
    levels = np.sqrt((samples[: samples.size // 480 * 480].reshape(-1, 480) ** 2).mean(axis=1))
    loud = np.flatnonzero(levels > levels.max() / 20)
    return pcm, int(loud[0]) * 20, (int(loud[-1]) + 1) * 20


def test_short_audio_stands_at_the_end_and_the_whole_window_is_standardised() -> None:
    window = standardised(np.full(RATE_HZ, 0.25, np.float32))
    assert window.shape == (HEARD_S * RATE_HZ,)
    assert len(set(window[:-RATE_HZ].tolist())) == 1
    assert window[-1] > window[0]
    assert abs(float(window.mean())) < 1e-4
    assert abs(float(window.std()) - 1.0) < 1e-3


def test_long_audio_keeps_its_end() -> None:
    ramp = np.linspace(0.0, 1.0, 12 * RATE_HZ, dtype=np.float32)
    tail = ramp[-HEARD_S * RATE_HZ :]
    np.testing.assert_allclose(standardised(ramp), (tail - tail.mean()) / tail.std(), atol=1e-3)


@pytest.mark.models
async def test_real_speech_is_more_complete_at_its_end_than_in_mid_sentence(judge: SmartTurnJudge) -> None:
    ends, cuts = [], []
    for name in SENTENCES:
        pcm, start_ms, end_ms = spoken(name)
        whole = await judge.judge(Utterance(pcm=pcm[: (end_ms + 60) * MS]))
        assert whole.complete is not None
        ends.append(whole.complete)
        for share in (0.4, 0.55, 0.7):
            cut = await judge.judge(Utterance(pcm=pcm[: int(start_ms + share * (end_ms - start_ms)) * MS]))
            assert cut.complete is not None
            cuts.append(cut.complete)
    print(f"AUC {auc(ends, cuts):.3f} of {len(ends)} ends and {len(cuts)} cuts")
    assert auc(ends, cuts) > 0.7
    assert np.mean(ends) > np.mean(cuts) + 0.1


@pytest.mark.models
async def test_only_the_last_eight_seconds_count(judge: SmartTurnJudge) -> None:
    pcm, _, end_ms = spoken("librivox_0880")
    tail = pcm[: end_ms * MS]
    quiet = bytes((8_500 - end_ms) * MS)
    noise = np.random.default_rng(3).normal(0, 2_000, 24 * 3_000).astype("<i2").tobytes()
    alone, later = [await judge.judge(Utterance(pcm=pcm)) for pcm in (quiet + tail, noise + quiet + tail)]
    assert alone.complete == pytest.approx(later.complete, abs=0.01)


@pytest.mark.models
async def test_too_little_sound_is_no_opinion(judge: SmartTurnJudge) -> None:
    for pcm in (b"", bytes(99 * MS)):
        assert (await judge.judge(Utterance(pcm=pcm))).complete is None
    assert (await judge.judge(Utterance(pcm=bytes(100 * MS)))).complete is not None


@pytest.mark.models
async def test_a_closed_judge_says_so(judge: SmartTurnJudge) -> None:
    await judge.aclose()
    with pytest.raises(EngineError) as caught:
        await judge.judge(Utterance(pcm=bytes(500 * MS)))
    assert caught.value.code == "eot_failed"


def test_a_judgement_goes_before_speech_and_after_the_final_words() -> None:
    assert Priority.VAD < Priority.ASR_FINAL < Priority.END_OF_TURN < Priority.TTS_FIRST < Priority.ASR_PARTIAL
