"""MLX in this process: the one thread that all of its work runs in, and how mlx-audio's models are loaded.

Streams and arrays of MLX belong to the thread that made them (since MLX 0.31.2 another thread is refused with "There is
no Stream(gpu, 0) in current thread"), mlx-audio makes streams when it is imported, and the GPU computes one thing at a
time anyway. So one worker with one thread imports, loads and runs everything, and its queue decides what is next: a
transcription waits for the piece of speech that is being computed, at most.
"""

from __future__ import annotations

import importlib.util
import json
import platform
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from models.inference_worker import InferenceWorker
from models.interfaces import EngineError, EngineInfo

Role = Literal["asr", "tts"]

DEFAULT_MODELS = {
    "asr": "mlx-community/parakeet-tdt-0.6b-v3",
    "tts": "mlx-community/Kokoro-82M-bf16",
}
"""Repositories of the model hub that are taken where none is named: those of mlx-audio's own examples."""

LICENCES = {DEFAULT_MODELS["asr"]: "CC-BY-4.0", DEFAULT_MODELS["tts"]: "Apache-2.0"}
"""By the model cards of NVIDIA and of Kokoro."""

_OTHER_ENGINES: dict[Role, str] = {"asr": "--asr onnx", "tts": "--tts kokoro"}
_SETTINGS: dict[Role, str] = {"asr": "--asr-model", "tts": "--tts-model"}

KNOWN_LAYOUTS = {"nemo.collections.asr": "parakeet"}
"""Beginning of `target` in a config.json → mlx-audio's name of the architecture. NVIDIA's name none, and mlx-audio
guesses it from the repository's name, which a folder need not bear."""


BUFFER_CACHE_BYTES = 1_500_000_000
"""Freed buffers that MLX keeps for later ones, at most. By itself it keeps as much as the GPU can hold; the states of
long conversations grow by being copied into larger buffers, and what is freed is never large enough again (chosen: the
passing buffers of a step, several times over)."""


class StoppedError(Exception):
    """The work was cancelled. Nobody waits for its result."""


class Stop:
    """Tells one job from any thread to end at its next step. MLX itself can't be interrupted within one."""

    def __init__(self) -> None:
        self._asked = threading.Event()

    def stop(self) -> None:
        """Ask the job to end."""
        self._asked.set()

    def check(self) -> None:
        """Raise StoppedError if it was asked to."""
        if self._asked.is_set():
            raise StoppedError


def open_mlx_worker() -> InferenceWorker:
    """Return a worker for everything that uses MLX. Its thread ends its streams, without which the process aborts.

    (MLX 0.32.4: a process that exits just after a thread with streams ends with SIGABRT in 4 of 8 tries, 2026-11-30.)
    """
    return InferenceWorker("mlx", 1, at_thread_end=_clear_streams)


def _clear_streams() -> None:
    core = sys.modules.get("mlx.core")
    if core is not None:
        core.clear_streams()


def bound_buffer_cache() -> None:
    """Have MLX keep few freed buffers. Call it in the worker's thread."""
    import mlx.core as mx

    mx.set_cache_limit(BUFFER_CACHE_BYTES)


def drop_buffer_cache() -> None:
    """Give the freed buffers that MLX keeps back to the system. Call it in the worker's thread."""
    core = sys.modules.get("mlx.core")
    if core is not None:
        core.clear_cache()


def require_mlx_audio(role: Role) -> None:
    """Raise EngineError, with one sentence, unless mlx-audio is installed. `role`: what to choose another engine for.

    It imports nothing: any thread may call it.
    """
    if importlib.util.find_spec("mlx_audio") is not None and importlib.util.find_spec("mlx") is not None:
        return
    another = _OTHER_ENGINES[role]
    if (sys.platform, platform.machine()) in (("darwin", "arm64"), ("linux", "x86_64")):
        raise EngineError(
            "engine_missing",
            f"The engine `mlx` needs the package mlx-audio: pip install 'duplex-gateway[mlx]', or choose {another}.",
        )
    raise EngineError(
        "engine_missing",
        f"The engine `mlx` needs a Mac with Apple Silicon, and this is {platform.system()} on {platform.machine()}: "
        f"choose {another}.",
    )


def load_model(role: Role, model: str) -> Any:
    """Return mlx-audio's model of a repository of the model hub, or of a folder. Call it in the worker's thread.

    Raises EngineError: model_missing.
    """
    setting = _SETTINGS[role]
    folder = Path(model).expanduser()
    if not folder.is_dir() and (folder.is_absolute() or model.startswith((".", "~")) or "\\" in model):
        raise EngineError(
            "model_missing",
            f"There is no folder {model}: give {setting} a folder with a model's files, or a repository of the model "
            "hub.",
        )
    try:
        if role == "asr":
            from mlx_audio.stt import load
        else:
            from mlx_audio.tts import load
        if not folder.is_dir():
            return load(model)
        return load(str(folder), **_architecture(folder))
    except Exception as error:  # mlx-audio's, the hub's, MLX's own: what they mean to the user is below
        raise _why_not(error, folder.name if folder.is_dir() else model, folder.is_dir(), setting) from error


def warm_up(role: Role, model: str, first_run: Callable[[], None]) -> None:
    """Call an engine's `first_run`, so that the first user doesn't pay for compiling kernels.

    Raises EngineError if the model fails at it: one that speaks in a given voice only, for instance.
    """
    try:
        first_run()
    except Exception as error:  # hundreds of models, each with errors of its own
        name = Path(model).name
        raise EngineError(
            "model_failed",
            f"The model {name} fails at its first try ({type(error).__name__}): give {_SETTINGS[role]} another model.",
        ) from error


def model_info(role: Role, model: str) -> EngineInfo:
    """Return what is told of a model: its name, and whether it is the hub's or a folder's."""
    folder = Path(model).expanduser()
    name, source = (folder.name, f"folder {folder.name}") if folder.is_dir() else (Path(model).name, "model hub")
    return EngineInfo(role, f"{name} on MLX", source, LICENCES.get(model, ""))


def _architecture(folder: Path) -> dict[str, str]:
    """Return what mlx-audio has to be told of a folder, as it would else guess by the folder's name."""
    config = json.loads((folder / "config.json").read_text("utf-8"))
    target = str(config.get("target", ""))
    if {"istftnet", "plbert"} <= config.keys() and not config.get("model_type"):
        return {"model_type": "kokoro"}
    return next(({"model_type": name} for start, name in KNOWN_LAYOUTS.items() if target.startswith(start)), {})


def _why_not(error: Exception, name: str, is_folder: bool, setting: str) -> EngineError:
    missing = error.__cause__ if isinstance(error.__cause__, ImportError) else error
    if isinstance(missing, ImportError) and missing.name:
        words = f"The model {name} needs the package {missing.name}, which mlx-audio doesn't bring: pip install it."
    elif isinstance(error, ValueError) and "not supported" in str(error):
        words = f"mlx-audio knows no such architecture as that of {name}: give {setting} another model."
    elif is_folder:
        words = f"The model in the folder {name} can't be loaded ({type(error).__name__}): fetch it anew."
    else:
        words = (
            f"The model {name} can't be fetched from the model hub ({type(error).__name__}): check the name and the "
            f"network, or give {setting} a folder with the model's files."
        )
    return EngineError("model_missing", words)
