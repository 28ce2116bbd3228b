"""Silero VAD v6 on onnxruntime: the speech probability of each 32 ms frame, for all sessions in one thread."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models.batching_worker import BatchingWorker
from models.engines.ort_session import open_session
from models.inference_worker import WorkerClosedError, WorkerOverloadedError
from models.interfaces import VAD_FRAME_SAMPLES, EngineError
from models.resampling import LOOKAHEAD_SAMPLES, SPEECH_RATE_HZ, SpeechDownsampler

FRAME_SAMPLES_16K = 512
"""Silero's only frame size at 16 kHz."""

CONTEXT_SAMPLES_16K = 64
"""Samples of the previous frame that go before each frame (silero-vad's own OnnxWrapper)."""

GATHER_S = 0.004
"""Shortest time between two runs. A lone session's frames are 32 ms apart and never wait; with 40 sessions a run then
serves about five frames, for half the CPU (measured 2026-11-29)."""

_MAX_BATCH = 64
"""Rows of one onnxruntime call: bounds its working memory; more rows take further calls."""

_BYTES_PER_SAMPLE = 2


class SileroStream:
    """One session's VAD. Its state belongs to the worker thread while a `feed` is under way."""

    def __init__(self, worker: BatchingWorker[tuple[SileroStream, bytes], list[float]]) -> None:
        self._worker = worker
        self._unsent = bytearray()
        self._received_samples = 0
        self._frames = 0
        self.downsampler = SpeechDownsampler()
        self.unframed: NDArray[np.float32] = np.empty(0, np.float32)
        self.context: NDArray[np.float32] = np.zeros(CONTEXT_SAMPLES_16K, np.float32)
        self.state: NDArray[np.float32] = np.zeros((2, 128), np.float32)

    async def feed(self, pcm: bytes) -> list[float]:
        """Return the speech probability of each frame that `pcm` completes; see SpeechProbabilityStream."""
        self._unsent += pcm
        self._received_samples += len(pcm) // _BYTES_PER_SAMPLE
        frames = max(0, self._received_samples - LOOKAHEAD_SAMPLES) // VAD_FRAME_SAMPLES
        if frames == self._frames:
            return []  # most calls: nothing to compute yet, no thread to wake
        self._frames = frames
        work, self._unsent = bytes(self._unsent), bytearray()
        try:
            return await self._worker.run((self, work))
        except WorkerOverloadedError as error:
            raise EngineError("vad_failed", "The voice detector can't keep up: too many sessions.") from error
        except WorkerClosedError as error:
            raise EngineError("vad_failed", "The voice detector is shut down.") from error

    def take_frames(self, pcm: bytes) -> NDArray[np.float32]:
        """Return float32 [frames, 512] at 16 kHz: the frames that `pcm` completes. Worker thread only."""
        samples = np.concatenate((self.unframed, self.downsampler.feed(pcm)))
        frames = samples.size // FRAME_SAMPLES_16K
        self.unframed = samples[frames * FRAME_SAMPLES_16K :].copy()
        return samples[: frames * FRAME_SAMPLES_16K].reshape(frames, FRAME_SAMPLES_16K)


class SileroVad:
    """VoiceActivityDetector over one `silero_vad.onnx`, shared by all sessions; loading takes about 50 ms."""

    def __init__(self, model: Path) -> None:
        self._session = open_session(model)
        self._rate = np.array(SPEECH_RATE_HZ, np.int64)
        self._worker: BatchingWorker[tuple[SileroStream, bytes], list[float]] = BatchingWorker(
            "silero-vad", self._run_batch, min_interval_s=GATHER_S
        )

    def open(self) -> SileroStream:
        """Return a new session's stream."""
        return SileroStream(self._worker)

    async def aclose(self) -> None:
        """End the worker thread."""
        await self._worker.aclose()

    def _run_batch(self, items: list[tuple[SileroStream, bytes]]) -> list[list[float]]:
        """Return the probabilities of each item's frames: a stream's frames in sequence, streams side by side."""
        frames = [stream.take_frames(pcm) for stream, pcm in items]
        probabilities: list[list[float]] = [[] for _ in items]
        for turn in range(max(len(own) for own in frames)):
            ready = [index for index, own in enumerate(frames) if turn < len(own)]
            for start in range(0, len(ready), _MAX_BATCH):
                rows = ready[start : start + _MAX_BATCH]
                streams = [items[index][0] for index in rows]
                results = self._run_rows(streams, [frames[index][turn] for index in rows])
                for index, probability in zip(rows, results, strict=True):
                    probabilities[index].append(probability)
        return probabilities

    def _run_rows(self, streams: list[SileroStream], frames: list[NDArray[np.float32]]) -> list[float]:
        """Advance each stream by its frame in one call; a row's result doesn't depend on the other rows."""
        rows = np.empty((len(streams), CONTEXT_SAMPLES_16K + FRAME_SAMPLES_16K), np.float32)
        state = np.empty((2, len(streams), 128), np.float32)
        for row, (stream, frame) in enumerate(zip(streams, frames, strict=True)):
            rows[row, :CONTEXT_SAMPLES_16K] = stream.context
            rows[row, CONTEXT_SAMPLES_16K:] = frame
            state[:, row] = stream.state
        output, new_state = self._session.run(None, {"input": rows, "state": state, "sr": self._rate})
        for row, stream in enumerate(streams):
            stream.context = rows[row, -CONTEXT_SAMPLES_16K:]
            stream.state = new_state[:, row]
        return [float(value) for value in output[:, 0]]
