"""A folder that onnx-asr takes for Parakeet TDT: its file names, tensors and shapes, with weights that hear tones.

Each tone is a token: the encoder averages eight frames of the 128 mel bands, the decoder weighs the band that the tone
falls into. All between them is the library's own: preprocessor, TDT loop, joining of tokens, timestamps.
It tells nothing of Parakeet's accuracy or speed.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from models.resampling import pcm24k_from_float

TOKENS = {"▁go": 400.0, "▁for": 900.0, "ward": 1_800.0, "▁now": 3_500.0}
"""Each token's tone in Hz. The second and third are one word."""

BANDS = 128
FRAMES_PER_STEP = 8
STATE = 8
DURATIONS = 5
_TONE_WEIGHT, _BLANK_BIAS, _REPETITION = 3.0, 3.6, -50.0
_RATE_HZ = 16_000


def speak(*tokens: str, seed: int = 0) -> bytes:
    """Return the tones of `tokens`, 0.4 s each, with faint noise around them, as the engines' border has it."""
    noise = np.random.default_rng(seed)
    pieces = [noise.normal(0, 0.01, 4_000)]
    for token in tokens:
        time_s = np.arange(6_400) / _RATE_HZ
        pieces.append(0.3 * np.sin(2 * np.pi * TOKENS[token] * time_s) * np.hanning(6_400) ** 0.25)
        pieces.append(noise.normal(0, 0.01, 4_000))
    return pcm24k_from_float(np.concatenate(pieces), _RATE_HZ)


def make_tiny_tdt(folder: Path, *, suffix: str = ".int8") -> Path:
    """Write the model into `folder` and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = [*TOKENS, "<blk>"]
    lines = [f"{token} {number}\n" for number, token in enumerate(vocabulary)]
    (folder / "vocab.txt").write_text("".join(lines), "utf-8")
    config = {"model_type": "nemo-conformer-tdt", "features_size": BANDS, "subsampling_factor": FRAMES_PER_STEP}
    (folder / "config.json").write_text(json.dumps(config))
    _save(_encoder(), folder / f"encoder-model{suffix}.onnx")
    _save(_decoder(len(vocabulary)), folder / f"decoder_joint-model{suffix}.onnx")
    return folder


def _band(frequency_hz: float) -> int:
    """Return the mel band (Slaney's scale, 0…8 kHz) whose centre is nearest."""

    def mel(hz: float) -> float:
        return hz * 3 / 200 if hz < 1_000 else 15 + 27 * float(np.log(hz / 1_000) / np.log(6.4))

    return round(mel(frequency_hz) / mel(_RATE_HZ / 2) * (BANDS + 1)) - 1


def _encoder() -> Any:
    nodes = [
        helper.make_node(
            "AveragePool",
            ["audio_signal"],
            ["outputs"],
            kernel_shape=[FRAMES_PER_STEP],
            strides=[FRAMES_PER_STEP],
            ceil_mode=1,
        ),
        helper.make_node("Add", ["length", "one_less"], ["rounded"]),
        helper.make_node("Div", ["rounded", "step"], ["encoded_lengths"]),
    ]
    return _graph(
        nodes,
        inputs=[("audio_signal", TensorProto.FLOAT, ["b", BANDS, "t"]), ("length", TensorProto.INT64, ["b"])],
        outputs=[("outputs", TensorProto.FLOAT, ["b", BANDS, "s"]), ("encoded_lengths", TensorProto.INT64, ["b"])],
        constants={
            "one_less": np.array([FRAMES_PER_STEP - 1], np.int64),
            "step": np.array([FRAMES_PER_STEP], np.int64),
        },
    )


def _decoder(vocabulary: int) -> Any:
    """The blank wins unless a tone's band is loud; a token just said loses, and each step lasts one frame."""
    weights = np.zeros((BANDS, vocabulary + DURATIONS), np.float32)
    for number, frequency_hz in enumerate(TOKENS.values()):
        weights[_band(frequency_hz), number] = _TONE_WEIGHT
    bias = np.zeros(vocabulary + DURATIONS, np.float32)
    bias[vocabulary - 1] = _BLANK_BIAS
    bias[vocabulary + 1] = 1.0
    said = np.zeros((vocabulary, vocabulary + DURATIONS), np.float32)
    said[: len(TOKENS), : len(TOKENS)] = _REPETITION * np.eye(len(TOKENS))
    nodes = [
        helper.make_node("Transpose", ["encoder_outputs"], ["steps"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["steps", "weights"], ["weighed"]),
        helper.make_node("Add", ["weighed", "bias"], ["heard"]),
        helper.make_node("Gather", ["said", "targets"], ["penalty"]),
        helper.make_node("Add", ["heard", "penalty"], ["sum"]),
        helper.make_node("Unsqueeze", ["sum", "axis"], ["outputs"]),
        helper.make_node("Identity", ["input_states_1"], ["output_states_1"]),
        helper.make_node("Identity", ["input_states_2"], ["output_states_2"]),
        helper.make_node("Identity", ["target_length"], ["prednet_lengths"]),
    ]
    state = (TensorProto.FLOAT, [2, "b", STATE])
    return _graph(
        nodes,
        inputs=[
            ("encoder_outputs", TensorProto.FLOAT, ["b", BANDS, "s"]),
            ("targets", TensorProto.INT32, ["b", "u"]),
            ("target_length", TensorProto.INT32, ["b"]),
            ("input_states_1", *state),
            ("input_states_2", *state),
        ],
        outputs=[
            ("outputs", TensorProto.FLOAT, ["b", "s", "u", vocabulary + DURATIONS]),
            ("prednet_lengths", TensorProto.INT32, ["b"]),
            ("output_states_1", *state),
            ("output_states_2", *state),
        ],
        constants={"weights": weights, "bias": bias, "said": said, "axis": np.array([1], np.int64)},
    )


def _graph(
    nodes: list[Any],
    *,
    inputs: Sequence[tuple[str, int, list[Any]]],
    outputs: Sequence[tuple[str, int, list[Any]]],
    constants: dict[str, Any],
) -> Any:
    return helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(*value) for value in inputs],
        [helper.make_tensor_value_info(*value) for value in outputs],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )


def _save(graph: Any, path: Path) -> None:
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    onnx.checker.check_model(model)
    onnx.save(model, str(path))
