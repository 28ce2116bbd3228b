"""How a recogniser in this process uses the shared worker: finals first, partial looks superseded, faults in words."""

from __future__ import annotations

from collections.abc import Callable

from models.inference_worker import InferenceWorker, Priority, WorkerClosedError, WorkerOverloadedError
from models.interfaces import EngineError, Transcription


class RecognitionQueue:
    """The worker's queue, as SpeechRecognizer promises it."""

    def __init__(self, worker: InferenceWorker) -> None:
        self._worker = worker

    async def run(
        self, job: Callable[[], Transcription], *, stop: Callable[[], None], partial_of: str | None
    ) -> Transcription | None:
        """Return what `job` hears; None for a look that a newer one replaced. `stop` ends a running job soon.

        Raises EngineError: asr_overloaded, asr_failed.
        """
        try:
            if partial_of is None:
                return await self._worker.run(job, priority=Priority.ASR_FINAL, terminate=stop)
            return await self._worker.run_latest(
                job, key=("asr", partial_of), priority=Priority.ASR_PARTIAL, terminate=stop
            )
        except WorkerOverloadedError as error:
            raise EngineError("asr_overloaded", "The speech recogniser is overloaded: too many sessions.") from error
        except WorkerClosedError as error:
            raise EngineError("asr_failed", "The speech recogniser is shut down.") from error
        except Exception as error:  # the engines' libraries have classes of their own
            raise EngineError("asr_failed", "The speech recogniser failed on this audio.") from error

    async def aclose(self) -> None:
        """Close the worker, for all who share it."""
        await self._worker.aclose()
