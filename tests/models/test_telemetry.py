"""onnxruntime sends nothing home."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SESSION = """
import onnx
from onnx import TensorProto, helper
from models.engines.ort_session import open_session

node = helper.make_node("Identity", ["x"], ["y"])
ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
model = helper.make_model(helper.make_graph([node], "g", ends[:1], ends[1:]), ir_version=10)
model.opset_import[0].version = 17
open_session(model.SerializeToString())
"""


def kept_after_a_session(home: Path, **variables: str) -> list[str]:
    """Return what a process that ran an onnxruntime session has left in its home."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ORT_", "XDG_", "CI"))}
    environment |= {"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache"), **variables}
    subprocess.run([sys.executable, "-c", SESSION], env=environment, check=True, timeout=60)
    return sorted(path.name for path in home.rglob("*"))


def test_onnxruntimes_telemetry_is_off_and_leaves_no_device_id(tmp_path: Path) -> None:
    assert kept_after_a_session(tmp_path) == []


def test_who_wants_it_can_have_it(tmp_path: Path) -> None:
    kept = kept_after_a_session(tmp_path, ORT_DISABLE_TELEMETRY="0")
    if not kept:
        pytest.skip("this build of onnxruntime has no telemetry, or thinks that it runs in CI")
    assert "deviceid" in kept
