"""Loads the full-duplex model that a plan names, warm."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from models.duplex_interface import DuplexModel
from models.engine_plan import NativePlan
from models.native_files import NativeFiles, find_files, require_package, voicechat_problem
from models.weights import ProgressCallback


async def load_native(plan: NativePlan, progress: ProgressCallback | None = None) -> DuplexModel | None:
    """Return the model, None if the plan names none; its weights are fetched first. Raises EngineError.

    `progress` is called from another thread.
    """
    match plan.engine:
        case "none":
            return None
        case "scripted":
            from models.engines.scripted_duplex import TRIAL, ScriptedDuplex

            return ScriptedDuplex(TRIAL)
        case "voicechat":
            return await _voicechat(plan, progress)
        case "moshi":
            return await _moshi(plan, progress)


async def _voicechat(plan: NativePlan, progress: ProgressCallback | None) -> DuplexModel:
    from models.engines.tiny_voicechat import build_tiny_voicechat
    from models.engines.voicechat import MODEL, STATE_BYTES, load_voicechat

    files = NativeFiles(
        "VoiceChat",
        ("mlx_vlm", "mlx-vlm"),
        MODEL,
        ("*.json", "*.safetensors", "*.txt", "*.model"),
        voicechat_problem,
        STATE_BYTES,
    )
    require_package(files.name, files.package)
    if plan.tiny:
        with TemporaryDirectory(prefix="tiny-voicechat-") as folder:  # its weights are read while it loads
            return await load_voicechat(lambda: build_tiny_voicechat(Path(folder)))
    return await load_voicechat(lambda: find_files(files, plan.model, progress), plan.model or MODEL)


async def _moshi(plan: NativePlan, progress: ProgressCallback | None) -> DuplexModel:
    from models.engines.moshi import (
        CODEC_FILE,
        MODEL,
        STATE_BYTES,
        TEXT_FILE,
        WEIGHT_FILES,
        load_moshi,
        load_tiny_moshi,
    )

    def problem(folder: Path) -> str | None:
        if not any((folder / name).is_file() for name in WEIGHT_FILES):
            return f"has none of {', '.join(WEIGHT_FILES)}"
        missing = [name for name in (TEXT_FILE, CODEC_FILE) if not (folder / name).is_file()]
        return f"lacks {missing[0]}" if missing else None

    files = NativeFiles(
        "Moshi",
        ("mlx_audio", "mlx-audio"),
        MODEL,
        ("config.json", *WEIGHT_FILES, TEXT_FILE, CODEC_FILE),
        problem,
        STATE_BYTES,
    )
    require_package(files.name, files.package)
    if plan.tiny:
        return await load_tiny_moshi()
    return await load_moshi(lambda: find_files(files, plan.model, progress), plan.model or MODEL)
