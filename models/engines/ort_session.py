"""onnxruntime sessions as all our engines want them: quiet, with few threads that don't spin."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any


def open_session(model: Path | bytes, *, threads: int = 1, providers: Sequence[str] = ("CPUExecutionProvider",)) -> Any:
    """Return an `onnxruntime.InferenceSession` of a model file or its content, with `threads` intra-op threads."""
    import onnxruntime

    return onnxruntime.InferenceSession(
        model if isinstance(model, bytes) else str(model), session_options(threads), providers=list(providers)
    )


def session_options(threads: int) -> Any:
    """Return `onnxruntime.SessionOptions` with `threads` intra-op threads.

    Spinning is off: spinning threads keep a core busy between calls, which starves the event loop on small machines.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors only
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    return options


class StoppableRun:
    """The RunOptions of one job. `stop()`, from any thread, makes the run in progress and all later ones raise."""

    def __init__(self) -> None:
        import onnxruntime

        self.options: Any = onnxruntime.RunOptions()
        self.options.log_severity_level = 4  # a stopped run is no error to write about

    def stop(self) -> None:
        """End the job's inference at its next operator."""
        self.options.terminate = True
