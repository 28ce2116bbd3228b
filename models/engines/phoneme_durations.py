"""How long a voice says each phoneme: its graph computes the durations, but no output of the file tells them.

Protobuf merges a message's field that comes twice, and repeated fields add up: so a few bytes at the end of the file
are one more entry in the graph's list of outputs. No ONNX library is needed, and the rest is not read.
"""

from __future__ import annotations

DURATIONS = "/Ceil_output_0"
"""The value that holds them in graphs which Piper exports: float32 [1, 1, ids], in frames of the vocoder's hop. It is
the ceiling of the predicted durations times `length_scale`, so that their sum is the audio's length."""

_MODEL_GRAPH = 7
_GRAPH_OUTPUT = 12
_VALUE_NAME = 1
"""Field numbers of onnx.proto (ModelProto.graph, GraphProto.output, ValueInfoProto.name)."""


def with_output(model: bytes, tensor: str) -> bytes:
    """Return the ONNX file `model` with the inner tensor `tensor` (its name: at most 120 ASCII characters) as one more
    output.
    """
    value = _field(_VALUE_NAME, tensor.encode("ascii"))
    return model + _field(_MODEL_GRAPH, _field(_GRAPH_OUTPUT, value))


def _field(number: int, content: bytes) -> bytes:
    """Return a length-delimited protobuf field; its number is below 16 and its content shorter than 128 bytes."""
    return bytes([number << 3 | 2, len(content)]) + content
