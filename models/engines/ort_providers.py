"""Where onnxruntime computes: the execution providers behind the setting `device`."""

from __future__ import annotations

from collections.abc import Sequence

from models.engine_plan import Device
from models.interfaces import EngineError

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
CORE_ML = "CoreMLExecutionProvider"

_WHAT_BRINGS_IT = {
    CUDA: "install onnxruntime-gpu in place of onnxruntime, with NVIDIA's driver and CUDA libraries",
    CORE_ML: "CoreML is part of onnxruntime on macOS only",
}


def providers_of(device: Device) -> list[str]:
    """Return the providers for `device`, best first, the CPU always last: it runs what the others can't.

    `auto` stands for CUDA where this onnxruntime has it, else the CPU. CoreML must be asked for: it compiles each model
    at its first load, and nobody here has measured whether that pays. Raises EngineError (device_missing) for a device
    that this onnxruntime has not.
    """
    import onnxruntime

    available = onnxruntime.get_available_providers()
    if device == "cpu":
        return [CPU]
    if device == "auto":
        return [CUDA, CPU] if CUDA in available else [CPU]
    wanted = CUDA if device == "cuda" else CORE_ML
    if wanted not in available:
        raise _missing(device, wanted)
    return [wanted, CPU]


def require_provider(device: Device, wanted: Sequence[str], used: Sequence[str]) -> None:
    """Raise EngineError (device_missing) where a session `used` other providers than `wanted`.

    onnxruntime falls back to the CPU with no more than a line in its log when CUDA's libraries are missing. With `auto`
    that is right, and what the engine tells of itself says so; whoever asked for a device wants to know.
    """
    if device not in ("auto", "cpu") and wanted[0] not in used:
        raise _missing(device, wanted[0])


def device_name(used: Sequence[str]) -> str:
    """Return what people call the best of the providers that a session uses."""
    return {CUDA: "CUDA", CORE_ML: "CoreML"}.get(used[0] if used else CPU, "CPU")


def _missing(device: str, provider: str) -> EngineError:
    return EngineError(
        "device_missing",
        f"This onnxruntime can't compute on {device}: {_WHAT_BRINGS_IT[provider]}, or set --device auto or cpu.",
    )
