"""What a full-duplex model needs before it is loaded: packages, a GPU, memory, its files. Each refusal is one sentence.

Everything here blocks, and runs in the model's thread.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from models.hub_download import fetch_repository, is_repository
from models.interfaces import EngineError
from models.weights import ProgressCallback

SETTING = "DUPLEX_MODEL (duplex-server's --model)"
"""What names a model, for the sentences."""

GPU_SHARE = 0.75
"""What the GPU can hold of a machine's memory where Metal doesn't say it (chosen: its own figure is two thirds to three
quarters)."""

_GB = 1_000_000_000


@dataclass(frozen=True, slots=True)
class NativeFiles:
    """What a model's folder holds. `patterns`: of the hub's files. `problem`: returns what is wrong with a folder.

    `package`: what loads it, by the name of its import, and as people call it. `state_bytes`: what one conversation
    takes beside the weights, at its longest.
    """

    name: str
    package: tuple[str, str]
    default: str
    patterns: tuple[str, ...]
    problem: Callable[[Path], str | None]
    state_bytes: int


def voicechat_problem(folder: Path) -> str | None:
    """Return why a folder holds no VoiceChat, in words behind "which …"; None if it does."""
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
    except OSError:
        return "has no config.json"
    except ValueError:
        return "has a damaged config.json"
    kind = config.get("model_type") if isinstance(config, dict) else None
    if kind != "nemotron_voicechat":
        return f"holds a model of another architecture ({kind})"
    index = folder / "model.safetensors.index.json"
    try:
        shards = set(json.loads(index.read_text("utf-8"))["weight_map"].values())
    except OSError:
        shards = {"model.safetensors"}
    except (ValueError, KeyError, AttributeError):
        return f"has a damaged {index.name}"
    missing = sorted(name for name in shards if not (folder / str(name)).is_file())
    return f"lacks {missing[0]}" if missing else None


def find_files(files: NativeFiles, model: str, progress: ProgressCallback | None) -> Path:
    """Return the folder of `model`, a folder or a name on the hub, "": the default; fetched if it has to be.

    Raises EngineError.
    """
    require_gpu(files.name)
    folder = Path(model).expanduser()
    if model and folder.is_dir():
        if (problem := files.problem(folder)) is not None:
            raise EngineError(
                "duplex_not_loaded",
                f"{SETTING} names the folder {model}, which {problem}: give it a folder with the files of "
                f"{files.default}, or leave it out to have them fetched.",
            )
        check_memory(files, _size_of(folder))
        return folder
    if model and not is_repository(model):
        raise EngineError(
            "duplex_not_loaded",
            f"There is no folder {model}: give {SETTING} a folder with a model's files, or a name on the model hub "
            f"such as {files.default}.",
        )
    found = fetch_repository(
        model or files.default,
        files.patterns,
        is_whole=lambda kept: files.problem(kept) is None,
        check_size=lambda size: check_memory(files, size),
        progress=progress,
        setting=SETTING,
    )
    if (problem := files.problem(found)) is not None:
        raise EngineError(
            "duplex_not_loaded", f"{SETTING} names {model or files.default}, which {problem}: name {files.default}."
        )
    check_memory(files, _size_of(found))
    return found


def require_package(name: str, package: tuple[str, str]) -> None:
    """Raise EngineError unless the package is installed. Imports nothing: any thread may call it."""
    module, distribution = package
    if importlib.util.find_spec(module) is not None and importlib.util.find_spec("mlx") is not None:
        return
    machine = (sys.platform, platform.machine())
    if machine in (("darwin", "arm64"), ("linux", "x86_64")):
        words = f"The full-duplex model {name} needs the package {distribution}: pip install 'duplex-gateway[duplex]'."
    else:
        words = (
            f"The full-duplex model {name} needs a Mac with Apple Silicon, and this is {platform.system()} on "
            f"{platform.machine()}: take the engine scripted, or serve it on such a Mac with duplex-server."
        )
    raise EngineError("duplex_not_installed", words)


def require_gpu(name: str) -> None:
    """Raise EngineError unless MLX computes on a GPU here. Imports MLX: call it in the model's thread."""
    import mlx.core as mx

    if mx.default_device().type == mx.gpu:
        return
    raise EngineError(
        "duplex_no_gpu",
        f"The full-duplex model {name} needs Apple Silicon, and MLX finds no GPU on this {platform.system()} on "
        f"{platform.machine()}: give duplex-server --tiny, or serve --duplex-tiny (DUPLEX_GATEWAY_DUPLEX_TINY=1), to "
        "run the same code on random weights, or serve the model on such a Mac with duplex-server.",
    )


def check_memory(files: NativeFiles, weights_bytes: int) -> None:
    """Raise EngineError if the GPU can't hold weights of that size and a conversation. Imports MLX, as above."""
    room = gpu_bytes()
    if weights_bytes + files.state_bytes > room:
        raise EngineError(
            "duplex_too_large",
            f"{files.name} takes {weights_bytes / _GB:.1f} GB of weights and {files.state_bytes / _GB:.1f} GB for a "
            f"conversation (computed), and the GPU here can hold {room / _GB:.1f} GB: give {SETTING} a smaller "
            f"conversion, such as {files.default}, or another machine.",
        )


def gpu_bytes() -> int:
    """Return what the GPU can hold without the system taking it away, as Metal recommends. Imports MLX, as above."""
    import mlx.core as mx

    ask = getattr(mx, "device_info", None) or mx.metal.device_info  # where it was before MLX 0.30
    return int(ask().get("max_recommended_working_set_size") or memory_bytes() * GPU_SHARE)


def memory_bytes() -> int:
    """Return the memory of this machine, which on Apple Silicon is the GPU's, too."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))
