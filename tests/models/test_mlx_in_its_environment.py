"""The engines on MLX: tests/mlx_engines in an environment of its own, and what is said where mlx-audio isn't installed.

The extras `mlx` and `duplex` weigh a gigabyte and serve Macs, so that the environment which all else is tested in lacks
them.
"""

import importlib.util
import os
import platform
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from uv import find_uv_bin

from models.engine_plan import AsrPlan, EnginePlan, TtsPlan
from models.interfaces import EngineError
from models.loading import load_engines
from models.weights import WeightsStore
from tests.matrix.environments import NEWEST, Environment, Environments

ROOT = Path(__file__).parents[2]
DEADLINE_S = 600.0
"""A minute of speech is streamed at its own pace; loading and the rest take two on two quiet cores."""

INSTALLED_HERE = importlib.util.find_spec("mlx_audio") is not None and importlib.util.find_spec("mlx_vlm") is not None
FOR_LINUX = (sys.platform, platform.machine()) == ("linux", "x86_64")

makes_environment = pytest.mark.skipif(
    INSTALLED_HERE or not FOR_LINUX, reason="tests/mlx_engines runs right here, or MLX not at all"
)


@pytest.fixture
def environment() -> Iterator[Environment]:
    home = os.environ.get("DUPLEX_MATRIX_HOME")
    with tempfile.TemporaryDirectory(prefix="duplex-mlx-") as temporary:
        yield Environments(Path(home) if home and not NEWEST else Path(temporary)).ensure("mlx")


@pytest.mark.models
@makes_environment
def test_the_engines_on_mlx_pass_their_tests(environment: Environment) -> None:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV_", "PYTEST"))}
    done = subprocess.run(
        [*environment.command, "-m", "pytest", "tests/mlx_engines", "-q", "-p", "no:cacheprovider"],
        cwd=ROOT,
        env=inherited,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    print(f"environment in {environment.took_s:.1f} s; {done.stdout.splitlines()[-1]}")
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed
    assert int(passed[1]) > 140
    assert "skipped" not in done.stdout.splitlines()[-1]


@pytest.mark.models
@makes_environment
def test_the_extras_go_together_with_all_else_that_we_need(tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = [
        line for name in ("mlx", "duplex", "onnx-asr", "whisper") for line in project["optional-dependencies"][name]
    ]
    wanted = tmp_path / "wanted.txt"
    others = [line for line in extras if not line.startswith("duplex-gateway[")]
    wanted.write_text("\n".join([*project["dependencies"], *others]))
    done = subprocess.run(
        [find_uv_bin(), "pip", "install", "--dry-run", "--python", sys.executable, "-r", str(wanted)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "+ mlx-audio==" in done.stderr
    assert "+ mlx-vlm==" in done.stderr
    assert " - " not in done.stderr, "something that is installed would be taken away or replaced"


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (("darwin", "arm64"), r"pip install 'duplex-gateway\[mlx\]', or choose {other}\.$"),
        (("linux", "x86_64"), r"pip install 'duplex-gateway\[mlx\]', or choose {other}\.$"),
        (("darwin", "x86_64"), r"needs a Mac with Apple Silicon, and this is .*: choose {other}\.$"),
        (("win32", "AMD64"), r"needs a Mac with Apple Silicon, and this is .*: choose {other}\.$"),
    ],
)
@pytest.mark.parametrize(
    ("plan", "other"),
    [
        (EnginePlan(asr=AsrPlan("mlx")), "--asr onnx"),
        (EnginePlan(tts=TtsPlan("mlx")), "--tts kokoro"),
    ],
)
async def test_without_mlx_audio_one_sentence_says_what_to_do(
    plan: EnginePlan,
    other: str,
    machine: tuple[str, str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "platform", machine[0])
    monkeypatch.setattr(platform, "machine", lambda: machine[1])
    with pytest.raises(EngineError, match=words.format(other=other)) as caught:
        await load_engines(plan, store=WeightsStore(tmp_path))
    assert caught.value.code == "engine_missing"
    assert len(re.findall(r"\.( |$)", caught.value.message)) == 1
