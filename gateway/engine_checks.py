"""Refuses a plan that this machine can't carry out, before anything is fetched. Each refusal is one sentence."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Collection

from gateway.engine_choice import engine_plan, is_english
from gateway.machine import Machine
from gateway.settings import Settings, SettingsError
from models.engine_plan import EnginePlan

NEEDED = {
    ("asr", "onnx"): "onnx_asr",
    ("asr", "whisper"): "ctranslate2",
    ("asr", "mlx"): "mlx_audio",
    ("tts", "mlx"): "mlx_audio",
}
"""Package that an engine needs and that not every installation has, by role and engine."""

PACKAGES = {
    "onnx_asr": ("onnx-asr", "duplex-gateway[onnx-asr]"),
    "huggingface_hub": ("huggingface-hub", "duplex-gateway[onnx-asr]"),
    "ctranslate2": ("ctranslate2", "duplex-gateway[whisper]"),
    "mlx_audio": ("mlx-audio", "duplex-gateway[mlx]"),
}
"""What people call a package, and what pip is told to install for it."""

_PROVIDERS = {
    "cuda": ("CUDAExecutionProvider", "onnxruntime-gpu"),
    "coreml": ("CoreMLExecutionProvider", "onnxruntime"),
}
"""onnxruntime's name for a device, and the package that has it."""

_ON_ONNXRUNTIME = {"moonshine", "onnx", "whisper", "piper", "kokoro"}

ListProviders = Callable[[], Collection[str]]
"""Returns onnxruntime's execution providers."""


def onnxruntime_providers() -> Collection[str]:
    """Return what onnxruntime can compute on here. Imports it."""
    import onnxruntime

    return list(onnxruntime.get_available_providers())


def check_engines(settings: Settings, machine: Machine, providers: ListProviders = onnxruntime_providers) -> EnginePlan:
    """Return the plan of `settings`, which `machine` can carry out. Raises SettingsError."""
    plan = engine_plan(settings)
    for role, engine in (("asr", plan.asr.engine), ("tts", plan.tts.engine)):
        _check_server(settings, role, engine)
        _check_packages(settings, machine, role, engine)
    _check_languages(settings, plan)
    _check_device(plan, providers)
    return plan


def _check_server(settings: Settings, role: str, engine: str) -> None:
    variable = f"{role.upper()}_BASE_URL"
    if engine == "endpoint" and not getattr(settings, f"{role}_base_url"):
        raise SettingsError(
            f"The profile {settings.profile} wants a server for `{role}`: give its address in {variable}, or an engine "
            f"in process with --{role}."
        )


def _check_packages(settings: Settings, machine: Machine, role: str, engine: str) -> None:
    needed = NEEDED.get((role, engine))
    if needed is None or needed in machine.packages:
        return
    language = getattr(settings, f"{role}_language")
    if getattr(settings, role) == engine:
        chosen = f"The engine {engine} of `{role}`"
    elif engine == "whisper":  # what speaks English only gave way to it
        chosen = f"{role.upper()}_LANGUAGE {language}, which whisper understands here,"
    else:
        chosen = f"The profile {settings.profile}"
    name, extra = PACKAGES[needed]
    where = "" if engine != "mlx" or machine.apple_silicon else " (it is for Apple Silicon)"
    raise SettingsError(
        f"{chosen} needs {name}, which is not installed{where}: pip install '{extra}', or choose another --{role} or "
        "--profile."
    )


def _check_languages(settings: Settings, plan: EnginePlan) -> None:
    if plan.asr.engine == "moonshine" and not is_english(plan.asr.language):
        raise SettingsError(
            f"`asr` is moonshine, which hears English only, and ASR_LANGUAGE is {settings.asr_language}: "
            "choose --asr whisper or onnx."
        )
    if plan.tts.engine == "piper" and not is_english(plan.tts.language):
        raise SettingsError(
            f"`tts` is piper, which speaks English only, and TTS_LANGUAGE is {settings.tts_language}: "
            "choose --tts kokoro."
        )


def _check_device(plan: EnginePlan, providers: ListProviders) -> None:
    if plan.asr.device not in _PROVIDERS or not {plan.asr.engine, plan.tts.engine} & _ON_ONNXRUNTIME:
        return
    wanted, package = _PROVIDERS[plan.asr.device]
    if wanted not in providers():
        raise SettingsError(
            f"The setting `device` is {plan.asr.device}, but the onnxruntime that is installed "
            f"({_onnxruntime_version()}) can't compute there: install {package}, or choose --device auto."
        )


def _onnxruntime_version() -> str:
    for name in ("onnxruntime-gpu", "onnxruntime"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "unknown"
