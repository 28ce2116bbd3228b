"""The threads that all in-process speech engines share; those on MLX have one of their own."""

from __future__ import annotations

from models.inference_worker import InferenceWorker

SPEECH_THREADS = 2
"""Threads that ASR and TTS share, so that a long synthesis never blocks a transcription (or two, on two cores)."""


class SpeechWorker:
    """InferenceWorkers, made when the first engine asks for them. Loading threads must not race: one loop uses it."""

    def __init__(self) -> None:
        self._worker: InferenceWorker | None = None
        self._mlx_worker: InferenceWorker | None = None

    def get(self) -> InferenceWorker:
        """Return the worker. Whoever closes it closes it for all."""
        if self._worker is None:
            self._worker = InferenceWorker("speech", SPEECH_THREADS)
        return self._worker

    def mlx(self) -> InferenceWorker:
        """Return the worker with the one thread for all that MLX computes. Whoever closes it closes it for all."""
        if self._mlx_worker is None:
            from models.engines.mlx_runtime import open_mlx_worker

            self._mlx_worker = open_mlx_worker()
        return self._mlx_worker

    async def aclose(self) -> None:
        """Close the workers that there are."""
        for worker in (self._worker, self._mlx_worker):
            if worker is not None:
                await worker.aclose()
