"""The engines on MLX, with tiny checkpoints. They run where the extras `mlx` and `duplex` are installed, on Linux on
MLX's CPU build.

CI makes an environment of its own for that (tests/models/test_mlx_in_its_environment.py).
"""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from models.engine_plan import EnginePlan
from models.interfaces import Engines
from models.loading import load_engines
from models.weights import WeightsStore

collect_ignore_glob = ["test_*.py"]
if importlib.util.find_spec("mlx_audio"):
    collect_ignore_glob = [] if importlib.util.find_spec("mlx_vlm") else ["test_duplex_*.py"]

Load = Callable[[EnginePlan], Awaitable[Engines]]


@pytest.fixture(scope="session")
def parakeet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.mlx_engines.tiny_checkpoints import write_parakeet

    return write_parakeet(tmp_path_factory.mktemp("models") / "ears")


@pytest.fixture(scope="session")
def sense_voice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.mlx_engines.tiny_checkpoints import write_sense_voice

    return write_sense_voice(tmp_path_factory.mktemp("models") / "five-languages")


@pytest.fixture(scope="session")
def kokoro(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.mlx_engines.tiny_checkpoints import write_kokoro

    return write_kokoro(tmp_path_factory.mktemp("models") / "voice")


@pytest.fixture(scope="session")
def kitten(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.mlx_engines.tiny_checkpoints import write_kitten

    return write_kitten(tmp_path_factory.mktemp("models") / "kitten")


@pytest.fixture
async def load(tmp_path: Path) -> AsyncIterator[Load]:
    """Return what loads a plan's engines; they are closed after the test."""
    async with AsyncExitStack() as stack:

        async def loaded(plan: EnginePlan) -> Engines:
            engines = await load_engines(plan, store=WeightsStore(tmp_path / "nowhere"))
            stack.push_async_callback(engines.aclose)
            return engines

        yield loaded
