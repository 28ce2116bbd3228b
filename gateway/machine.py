"""What this machine offers to engines: its processor, its cores, the packages that are installed."""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path

ENGINE_PACKAGES = ("mlx_audio", "onnx_asr", "huggingface_hub", "ctranslate2")
"""Packages, by the name of their import, that are not everywhere and that an engine needs."""

_CGROUP_LIMIT = Path("/sys/fs/cgroup/cpu.max")


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine, as far as the choice of engines depends on it. `packages`: those of ENGINE_PACKAGES that it has."""

    apple_silicon: bool
    cores: int
    packages: frozenset[str]


def this_machine() -> Machine:
    """Return what this process may use. Imports nothing."""
    return Machine(
        apple_silicon=sys.platform == "darwin" and platform.machine() == "arm64",
        cores=_cores(),
        packages=frozenset(name for name in ENGINE_PACKAGES if importlib.util.find_spec(name) is not None),
    )


def _cores() -> int:
    """Return the cores that this process may run on, by its affinity and its container's limit (Linux, cgroup 2)."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = _CGROUP_LIMIT.read_text(encoding="ascii").split()
        limit = int(quota) // int(period) if quota != "max" else allowed
    except (OSError, ValueError):
        limit = allowed
    return max(1, min(allowed, limit))
