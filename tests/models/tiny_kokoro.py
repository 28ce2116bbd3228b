"""A graph with Kokoro's inputs and outputs and no weights: each phoneme is 8 frames of a tone, pitched by the style."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

FRAME_SAMPLES = 600
FRAMES = 8

VOICES = {"af_heart": 200.0, "am_michael": 120.0, "bf_emma": 210.0, "ff_siwis": 230.0, "jf_alpha": 250.0}
"""Voice → pitch in Hz."""


def tiny_kokoro(
    *, tokens: str = "tokens", speed_type: int = TensorProto.FLOAT, durations: str = "/encoder/Clip_output_0",
    told: bool = False,
) -> bytes:  # fmt: skip
    """Return an export: what its tokens and durations are called, its speed's type; `told`: durations are an output."""

    def constant(name: str, value: Any, kind: int = TensorProto.FLOAT) -> onnx.NodeProto:
        values = np.atleast_1d(value)
        tensor = helper.make_tensor(name, kind, values.shape if np.ndim(value) else (), values.tolist())
        return helper.make_node("Constant", [], [name], value=tensor)

    nodes = [
        constant("frames_each", float(FRAMES)),
        constant("hop", float(FRAME_SAMPLES)),
        constant("zero", 0.0),
        constant("one", 1.0),
        constant("axes", [1], TensorProto.INT64),
        constant("level", 0.5),
        helper.make_node("Cast", [tokens], ["ids"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["speed"], ["pace"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["ids", "zero"], ["zeros"]),
        helper.make_node("Add", ["zeros", "frames_each"], ["normal"]),
        helper.make_node("Div", ["normal", "pace"], ["exact"]),
        helper.make_node("Round", ["exact"], [durations]),
        helper.make_node("ReduceSum", [durations], ["total"], keepdims=0),
        helper.make_node("Mul", ["total", "hop"], ["length"]),
        helper.make_node("Range", ["zero", "length", "one"], ["time"]),
        helper.make_node("ReduceMean", ["style", "axes"], ["pitch"], keepdims=0),
        helper.make_node("Mul", ["time", "pitch"], ["phase"]),
        helper.make_node("Sin", ["phase"], ["sine"]),
        helper.make_node("Mul", ["sine", "level"], ["audio"]),
    ]
    inputs = [
        helper.make_tensor_value_info(tokens, TensorProto.INT64, [1, "n"]),
        helper.make_tensor_value_info("style", TensorProto.FLOAT, [1, 256]),
        helper.make_tensor_value_info("speed", speed_type, [1]),
    ]
    outputs = [helper.make_tensor_value_info("audio", TensorProto.FLOAT, ["samples"])]
    if told:
        outputs.append(helper.make_tensor_value_info(durations, TensorProto.FLOAT, [1, "n"]))
    graph = helper.make_graph(nodes, "tiny", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    content: bytes = model.SerializeToString()
    return content


def style(pitch_hz: float) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Return a voice's vectors, float32 [510, 1, 256], whose tone is of `pitch_hz`."""
    return np.full((510, 1, 256), 2 * np.pi * pitch_hz / 24_000, np.float32)


def write_kokoro(folder: Path, *, name: str = "kokoro-v1.0.onnx", **export: Any) -> Path:
    """Write a model and a voices file as kokoro-onnx publishes them; return the model's path."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(tiny_kokoro(**export))
    with (folder / "voices-v1.0.bin").open("wb") as file:
        np.savez(file, **{voice: style(pitch) for voice, pitch in VOICES.items()})
    return folder / name


def write_hub_layout(folder: Path, **export: Any) -> Path:
    """Write a model and a folder of voices as the hub's repository has them; return the repository's path."""
    (folder / "onnx").mkdir(parents=True)
    (folder / "voices").mkdir()
    (folder / "onnx" / "model.onnx").write_bytes(tiny_kokoro(tokens="input_ids", **export))
    for voice, pitch in VOICES.items():
        style(pitch).tofile(folder / "voices" / f"{voice}.bin")
    return folder
