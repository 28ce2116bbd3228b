"""Where Kokoro's files are: in a folder of the user's, or on the model hub, in the layouts that people publish."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from models.interfaces import EngineError

_HUB_FILES = ["onnx/model.onnx", "voices/*.bin"]
"""What is taken of a repository in that layout: the fp32 model, as the quantised ones are slower on many CPUs."""

_FLAT_FILES = ["kokoro-v*.onnx", "voices*.bin", "voices*.npz"]
"""What is taken of a repository in kokoro-onnx' own layout."""

_INSTEAD = "--profile embedded --tts kokoro without TTS_MODEL, whose weights come from packages"

_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")


class KokoroFiles(NamedTuple):
    """The model's file, and its voices: one file, or a folder of them."""

    model: Path
    voices: Path


def kokoro_files(model: str) -> KokoroFiles:
    """Return the files that `model` names: a folder, an .onnx file in one, or a repository of the hub.

    Blocks while a repository is fetched into the hub's own cache; one that is there is not asked for again. Raises
    EngineError with one sentence.
    """
    path = Path(model).expanduser()
    if path.exists() or not _REPOSITORY.fullmatch(model):
        return _files_in(path)
    return _files_in(_from_hub(model))


def _files_in(path: Path) -> KokoroFiles:
    folder = path.parent if path.suffix == ".onnx" else path
    if path.suffix == ".onnx":
        models = [path] if path.is_file() else []
    else:  # the shortest name is the fp32 file: the others say their quantisation
        found = [
            file for pattern in ("kokoro*.onnx", "model*.onnx", "onnx/model*.onnx") for file in folder.glob(pattern)
        ]
        models = sorted(found, key=lambda file: (len(file.name), file.name))
    roots = (folder, folder.parent) if folder.name == "onnx" else (folder,)
    voices = [voices for root in roots for voices in (*root.glob("voices*.bin"), *root.glob("voices*.npz"))]
    voices += [root / "voices" for root in roots if any((root / "voices").glob("*.bin"))]
    if not models or not voices:
        what = "a kokoro-v1.0*.onnx or model*.onnx" if not models else "a voices file or folder beside its model"
        raise EngineError(
            "tts_model",
            f"TTS_MODEL names {os.fspath(path)!r}, which has not {what}: give a folder with both, or choose "
            f"{_INSTEAD}.",
        )
    return KokoroFiles(models[0], voices[0])


def _from_hub(repository: str) -> Path:
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise EngineError(
            "tts_model",
            f"Fetching {repository} needs the package huggingface_hub: pip install 'duplex-gateway[onnx-asr]', or "
            f"choose {_INSTEAD}.",
        ) from error
    patterns = [*_HUB_FILES, *_FLAT_FILES]
    try:
        try:
            return Path(snapshot_download(repository, allow_patterns=patterns, local_files_only=True))
        except Exception:  # not there yet; the library has an error of its own for each way in which it may be missing
            return Path(snapshot_download(repository, allow_patterns=patterns))
    except Exception as error:  # the network's, the hub's, the disk's: what it means to the user is below
        raise EngineError(
            "tts_model",
            f"The model {repository} can't be fetched from the model hub ({type(error).__name__}): check its name and "
            f"the network, or choose {_INSTEAD}.",
        ) from error
