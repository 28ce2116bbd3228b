"""Cuts a Piper voice's graph in two, so that the first words are heard before the last ones are computed.

A VITS voice first makes latent frames of the whole text, which is the smaller part of the work, and then turns them
into samples by convolutions, which see a few frames to each side. That second part runs over a window at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import onnx

from models.engines.phoneme_durations import DURATIONS

_DECODER_WEIGHT = "dec.conv_pre.weight"
"""The first weight of the part that makes samples: exports of all ages call it so, as VITS' own code does."""


class VoiceGraph(NamedTuple):
    """Two ONNX files. The encoder takes the voice's inputs and gives `shared`, and DURATIONS if `timed`.

    The decoder takes `shared` and gives samples. The first of `shared` is float32 [1, channels, frames], of which any
    stretch can be decoded; the others don't depend on time.
    """

    encoder: bytes
    decoder: bytes
    shared: tuple[str, ...]
    timed: bool


def split_voice(model: bytes) -> VoiceGraph:
    """Return the two parts of a Piper voice's ONNX file. Raises ValueError if it is none."""
    try:
        whole = onnx.load_model_from_string(model)
    except Exception as error:  # protobuf has several of its own
        raise ValueError("this is no ONNX file") from error
    graph = whole.graph
    entrance = next((node for node in graph.node if _DECODER_WEIGHT in node.input), None)
    if entrance is None:
        raise ValueError("this is no Piper voice: its graph has no decoder that is called so")
    latent = entrance.input[0]
    decoding = _downstream(graph.node, latent)
    encoding = [node for node in graph.node if node not in decoding]
    stored = {weight.name for weight in graph.initializer}
    made = {name for node in decoding for name in node.output}
    constants = {node.output[0]: node for node in encoding if node.op_type == "Constant"}
    foreign = [name for node in decoding for name in node.input if name and name not in made | stored]
    used = [constants[name] for name in dict.fromkeys(foreign) if name in constants]
    shared = tuple(dict.fromkeys([latent, *(name for name in foreign if name not in constants)]))
    timed = any(DURATIONS in node.output for node in encoding)
    given = [_value(name) for name in (*shared, DURATIONS)[: len(shared) + timed]]
    encoder = _part(whole, encoding, list(graph.input), given)
    decoder = _part(whole, [*used, *decoding], [_value(name) for name in shared], list(graph.output))
    return VoiceGraph(encoder, decoder, shared, timed)


def _downstream(nodes: Iterable[onnx.NodeProto], name: str) -> list[onnx.NodeProto]:
    """Return the nodes, in order, that can't be computed before the value `name`."""
    reached, found = {name}, []
    for node in nodes:  # a graph's nodes stand in an order in which they can be computed
        if reached.intersection(node.input):
            reached.update(node.output)
            found.append(node)
    return found


def _value(name: str) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)


def _part(
    whole: onnx.ModelProto,
    nodes: Sequence[onnx.NodeProto],
    takes: Sequence[onnx.ValueInfoProto],
    gives: Sequence[onnx.ValueInfoProto],
) -> bytes:
    needed = {name for node in nodes for name in node.input}
    weights = [weight for weight in whole.graph.initializer if weight.name in needed]
    graph = onnx.helper.make_graph(nodes, "part", takes, gives, weights)
    part = onnx.helper.make_model(graph, opset_imports=whole.opset_import, ir_version=whole.ir_version)
    content: bytes = part.SerializeToString()
    return content
