"""The one thread that a full-duplex model on MLX lives in, and what its failures are called."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TypeVar

from models.engines.mlx_runtime import open_mlx_worker
from models.inference_worker import Priority, WorkerClosedError, WorkerOverloadedError
from models.interfaces import EngineError

T = TypeVar("T")

FRAME = Priority.VAD
"""Of what runs against the clock: frames of conversations."""

OPENING = Priority.TTS_REST
"""Of what may take long: loading, and reading prompts, piece by piece."""

FREE_DEADLINE_S = 2.0
"""How long closing waits for the job that runs: a frame takes less, a download may take minutes (chosen)."""


class DuplexThread:
    """Runs jobs one after the other, frames first. MLX's arrays belong to the thread that made them."""

    def __init__(self) -> None:
        self._worker = open_mlx_worker()

    async def run(self, job: Callable[[], T], priority: Priority = FRAME) -> T:
        """Return what `job` returns. Raises EngineError, whatever it raises.

        When the await is cancelled, a job that waits is dropped and one that runs goes on to its end.
        """
        try:
            return await self._worker.run(job, priority=priority)
        except EngineError:
            raise
        except (WorkerClosedError, WorkerOverloadedError) as error:
            raise EngineError("duplex_closed", "The full-duplex model is closed, or has too much to do.") from error
        except Exception as error:  # MLX's own, such as too little memory: it has no errors that say what they are
            raise EngineError("duplex_failed", f"The full-duplex model failed ({type(error).__name__}).") from error

    async def aclose(self, free: Callable[[], None]) -> None:
        """Call `free` as the last job and end the thread, which is left behind if its job doesn't end."""
        with contextlib.suppress(EngineError, TimeoutError):
            async with asyncio.timeout(FREE_DEADLINE_S):
                await self.run(free)
        await self._worker.aclose()
