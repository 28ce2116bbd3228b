"""The threads that all in-process speech engines share."""

from __future__ import annotations

from models.inference_worker import InferenceWorker

SPEECH_THREADS = 2
"""Threads that ASR and TTS share, so that a long synthesis never blocks a transcription (or two, on two cores)."""


class SpeechWorker:
    """One InferenceWorker, made when the first engine asks for it. Loading threads must not race: one loop uses it."""

    def __init__(self) -> None:
        self._worker: InferenceWorker | None = None

    def get(self) -> InferenceWorker:
        """Return the worker. Whoever closes it closes it for all."""
        if self._worker is None:
            self._worker = InferenceWorker("speech", SPEECH_THREADS)
        return self._worker

    async def aclose(self) -> None:
        """Close the worker, if there is one."""
        if self._worker is not None:
            await self._worker.aclose()
