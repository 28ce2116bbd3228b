"""Loads a model of onnx-asr by name or from a folder, and says in one sentence what is wrong when it can't."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models.engine_plan import Device
from models.engines.ort_providers import CPU, device_name, providers_of, require_provider
from models.engines.ort_session import session_options
from models.interfaces import EngineError

logger = logging.getLogger(__name__)

DEFAULT_MODEL = "nemo-parakeet-tdt-0.6b-v3"

FULL_PRECISION = "fp32"
"""What people call the files without a quantisation in their name."""

_PARAKEET_V3 = "bg cs da de el en es et fi fr hr hu it lt lv mt nl pl pt ro ru sk sl sv uk"

_LANGUAGES = {
    "nemo-parakeet-tdt-0.6b-v3": _PARAKEET_V3,
    "nemo-canary-1b-v2": _PARAKEET_V3,
    "nemo-parakeet-tdt-0.6b-v2": "en",
    "nemo-parakeet-ctc-0.6b": "en",
    "nemo-parakeet-rnnt-0.6b": "en",
    "nemo-fastconformer-ru-ctc": "ru",
    "nemo-fastconformer-ru-rnnt": "ru",
    "gigaam-v2-ctc": "ru",
    "gigaam-v2-rnnt": "ru",
    "gigaam-v3-ctc": "ru",
    "gigaam-v3-rnnt": "ru",
    "gigaam-v3-e2e-ctc": "ru",
    "gigaam-v3-e2e-rnnt": "ru",
    "alphacep/vosk-model-ru": "ru",
    "alphacep/vosk-model-small-ru": "ru",
    "t-tech/t-one": "ru",
}
"""What each model is trained on, by its model card. Of others nobody here knows."""

_LICENCES = {"nemo-parakeet": "CC-BY-4.0", "nemo-canary": "CC-BY-4.0", "whisper": "MIT"}
"""By the beginning of a name; by the model cards."""


@dataclass(frozen=True, slots=True)
class OnnxAsrModel:
    """A loaded model. `languages` None: not known. `adapter`: the library's, untyped so that it is imported late."""

    name: str
    source: str
    description: str
    licence: str
    languages: tuple[str, ...] | None
    adapter: Any


def load_model(model: str, quantization: str, device: Device, threads: int) -> OnnxAsrModel:
    """Return `model` ("": the default), a name that onnx-asr knows, a repository of the hub, or a folder.

    `quantization` "": the int8 files on a CPU, where they are several times faster, if there are any; else full
    precision. Raises EngineError: engine_missing, device_missing, model_missing.
    """
    try:
        from onnx_asr.loader import Manager
    except ImportError as error:
        raise EngineError(
            "engine_missing",
            "The recogniser `onnx` needs the package onnx-asr: pip install 'duplex-gateway[onnx-asr]'.",
        ) from error

    providers = providers_of(device)
    folder = _folder(model)
    name = folder.name if folder is not None else model or DEFAULT_MODEL
    manager = Manager(session_options(threads), providers)
    adapter, files = None, ""
    for files in _choices(quantization, providers):
        try:
            adapter = manager.create_asr(
                None if folder is not None else name,
                folder,
                quantization=None if files == FULL_PRECISION else files,
            )
            break
        except Exception as error:  # the library's, the hub's, onnxruntime's: what they mean is below
            if files != FULL_PRECISION and not quantization and _lacks_a_file(error):
                logger.info("the model %s has no %s files; full precision is taken", name, files)
                continue
            raise _why_not(error, name, folder, files) from error
    assert adapter is not None  # the last choice breaks or raises
    used = _used_providers(adapter.asr)
    require_provider(device, providers, used)
    source = f"folder {folder.name}" if folder is not None else "model hub"
    languages = _LANGUAGES.get(name)
    return OnnxAsrModel(
        name,
        source,
        f"{name} ({files}, {device_name(used)})",
        licence_of(name),
        None if languages is None else tuple(languages.split()),
        adapter,
    )


def licence_of(name: str) -> str:
    """Return the licence of the model called `name`, "" where nobody here knows."""
    return next((licence for start, licence in _LICENCES.items() if name.startswith(start)), "")


def _folder(model: str) -> Path | None:
    """Return the folder that `model` names, None where it is a name. Raises EngineError if that folder isn't there."""
    path = Path(model).expanduser()
    if model and path.is_dir():
        return path
    if path.is_absolute() or model.startswith((".", "~")) or "\\" in model:
        raise EngineError(
            "model_missing",
            f"There is no folder {model}: give --asr-model a folder with a model's files, or a name such as "
            f"{DEFAULT_MODEL}.",
        )
    return None


def _choices(quantization: str, providers: list[str]) -> tuple[str, ...]:
    if quantization:
        return (quantization,)
    return ("int8", FULL_PRECISION) if providers[0] == CPU else (FULL_PRECISION,)


def _lacks_a_file(error: Exception) -> bool:
    from onnx_asr.utils import ModelFileNotFoundError

    return isinstance(error, ModelFileNotFoundError) and "config.json" not in str(error)


def _why_not(error: Exception, name: str, folder: Path | None, files: str) -> EngineError:
    from onnx_asr.utils import InvalidModelTypeInConfigError, ModelFileNotFoundError, ModelNotSupportedError

    match error:
        case ModelNotSupportedError():
            words = (
                f"onnx-asr knows no model called {name}: give --asr-model one that it knows, such as {DEFAULT_MODEL}, "
                "a repository of the model hub (OWNER/NAME), or a folder."
            )
        case InvalidModelTypeInConfigError():
            words = f"The model {name} is of no type that onnx-asr knows: its config.json must name one as model_type."
        case ModelFileNotFoundError() if "config.json" in str(error):
            words = f"The folder of {name} has no config.json: write one that names the model_type, as onnx-asr's do."
        case ModelFileNotFoundError():
            words = f"The model {name} has no {files} files: choose others with --asr-quantization (int8, fp32)."
        case ModuleNotFoundError():
            words = "Fetching models needs the package huggingface_hub: pip install 'duplex-gateway[onnx-asr]'."
        case _ if folder is not None:
            words = f"The model in the folder {name} can't be loaded ({type(error).__name__}): fetch it anew."
        case _:
            words = (
                f"The model {name} can't be fetched from the model hub ({type(error).__name__}): check the name and "
                "the network, or give --asr-model a folder with the model's files."
            )
    return EngineError("model_missing", words)


def _used_providers(asr: object) -> list[str]:
    import onnxruntime

    sessions = [value for value in vars(asr).values() if isinstance(value, onnxruntime.InferenceSession)]
    return list(sessions[0].get_providers()) if sessions else []
