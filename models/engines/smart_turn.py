"""The audio judge: Smart Turn v3.2 hears from melody and rhythm whether an utterance is over. 23 languages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models.engines.calibration import Calibration
from models.engines.ort_session import StoppableRun, open_session
from models.inference_worker import InferenceWorker, Priority, WorkerClosedError, WorkerOverloadedError
from models.interfaces import AUDIO_RATE_HZ, EngineError, Judgement, Utterance
from models.languages import knows
from models.log_mel import log_mel
from models.resampling import SPEECH_RATE_HZ, to_float16k

NAME = "audio"

LANGUAGES = frozenset("ar bn da de en es fi fr hi id it ja ko mr nl no pl pt ru tr uk vi zh".split()) | {"nb", "nn"}
"""The 23 languages it was trained on, by its model card (Norwegian in all its codes)."""

HEARD_S = 8
"""The model hears the last 8 s; shorter utterances stand at the end, zeros before them (its model card)."""

SHORTEST_S = 0.1
"""Less sound than this says nothing about melody (chosen: the shortest input that can be committed)."""

CALIBRATION = Calibration(slope=0.483, offset=-0.387)
"""The model's own output is too sure, above all of ends: a quarter of the pauses in mid-sentence get 0.85 or more.

Fitted on 254 ends and 136 pauses of 70 texts of TurnLab's dev half, two synthetic voices, audio up to 96 ms after the
last speech (AUC .84; log loss .50 instead of .64; 2026-11-29)."""

_BYTES_PER_SAMPLE = 2
_HEARD_BYTES = HEARD_S * AUDIO_RATE_HZ * _BYTES_PER_SAMPLE
_SHORTEST_BYTES = int(SHORTEST_S * AUDIO_RATE_HZ) * _BYTES_PER_SAMPLE
_VARIANCE_FLOOR = 1e-7


class SmartTurnJudge:
    """EndOfTurnJudge over `smart-turn-v3.2-cpu.onnx`; loading takes about 0.1 s, a judgement 60…80 ms of one core.

    It wants audio that ends at most 0.1 s after the last speech: trailing silence makes it worse.
    """

    name = NAME
    listens = True
    languages = LANGUAGES

    def __init__(self, model: Path, worker: InferenceWorker) -> None:
        """Load the model (blocking). `worker` may be shared with other engines."""
        self._session = open_session(model)
        self._worker = worker

    async def judge(self, utterance: Utterance) -> Judgement:
        """Return how probable it is that the turn is over. Raises EngineError: eot_overloaded, eot_failed."""
        pcm = utterance.pcm[-_HEARD_BYTES:]
        if len(pcm) < _SHORTEST_BYTES or not knows(self, utterance.language):
            return Judgement(None)
        run = StoppableRun()
        try:
            score = await self._worker.run(
                lambda: self._score(to_float16k(pcm), run), priority=Priority.END_OF_TURN, terminate=run.stop
            )
            return Judgement(CALIBRATION.probability(score))
        except WorkerOverloadedError as error:
            raise EngineError("eot_overloaded", "The end-of-turn judge is overloaded: too many sessions.") from error
        except WorkerClosedError as error:
            raise EngineError("eot_failed", "The end-of-turn judge is shut down.") from error
        except Exception as error:  # onnxruntime raises classes of its own; whatever it is, the other judges decide
            raise EngineError("eot_failed", "The end-of-turn judge failed on this audio.") from error

    async def aclose(self) -> None:
        """Close the worker, for all who share it."""
        await self._worker.aclose()

    def warm_up(self) -> None:
        """Judge faint noise once, so that the first pause doesn't pay for first-run allocations."""
        noise = np.random.default_rng(0).normal(0.0, 0.01, SPEECH_RATE_HZ).astype(np.float32)
        self._score(noise, StoppableRun())

    def _score(self, audio: NDArray[np.float32], run: StoppableRun) -> float:
        features = log_mel(standardised(audio))
        (scores,) = self._session.run(None, {"input_features": features[None]}, run.options)
        return min(1.0, max(0.0, float(scores.reshape(-1)[0])))


def standardised(audio: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the last `HEARD_S` of `audio` (16 kHz), zeros before it, with mean 0 and variance 1 over the whole."""
    window = np.zeros(HEARD_S * SPEECH_RATE_HZ, np.float32)
    kept = audio[-window.size :]
    if kept.size:
        window[-kept.size :] = kept
    deviation = np.sqrt(window.var() + _VARIANCE_FLOOR)
    standard: NDArray[np.float32] = ((window - window.mean()) / deviation).astype(np.float32)
    return standard
