"""Reads what a GGUF file says of its model, before llama.cpp is asked to load it: name, context, template, size.

Layout: ggml's docs/gguf.md, versions 2 and 3.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_MOST_ENTRIES = 100_000
"""Metadata entries and tensors of a file that is meant (chosen: large models have some thousands)."""

_LONGEST_STRING = 4 * 1024 * 1024
"""Bytes (chosen: chat templates have some 20,000)."""

_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9
_DEFAULT_ALIGNMENT = 32
_NOT_CHAT = frozenset({"bert", "nomic-bert", "jina-bert-v2", "t5encoder", "clip", "wavtokenizer-dec", "whisper"})
"""Architectures of embedders, encoders, projectors and vocoders."""


class BadGguf(ValueError):
    """The file can't be used. The text is one sentence that says why and what to give instead."""


@dataclass(frozen=True, slots=True)
class GgufModel:
    """What a file says. `context_tokens`: what the model is trained to, 0 if unsaid. `chat_template`: jinja, or "".

    `cache_bytes_per_token`: memory for a token of context, 16 bits a number; 0 if unsaid. `licence`: as its makers
    named it, or "".
    """

    name: str
    context_tokens: int
    chat_template: str
    cache_bytes_per_token: int
    licence: str = ""


def read_gguf(path: Path) -> GgufModel:
    """Return what the file at `path` says. Raises BadGguf; what only llama.cpp can tell of a file stays to be seen."""
    try:
        with path.open("rb") as file:
            return _read(file, path)
    except OSError as error:
        why = "there is no such file" if isinstance(error, FileNotFoundError) else error.strerror or str(error)
        raise BadGguf(f"The GGUF file {path} can't be read ({why}): give the path of a model's file.") from error


def _read(file: BinaryIO, path: Path) -> GgufModel:
    if file.read(4) != _MAGIC:
        raise BadGguf(f"{path} is no GGUF file: give a model's file whose name ends in .gguf.")
    reader = _Reader(file)
    try:
        version = reader.number("<I")
        if version not in _VERSIONS:
            raise BadGguf(f"{path} is a GGUF file of version {version}: give one of version 3.")
        tensors, entries = reader.number("<Q"), reader.number("<Q")
        if max(tensors, entries) > _MOST_ENTRIES:
            raise ValueError("too many entries")
        metadata = dict(reader.entry() for _ in range(entries))
        last_offset = max((reader.tensor_offset() for _ in range(tensors)), default=0)
    except BadGguf:
        raise
    except (ValueError, struct.error, RecursionError) as error:
        raise BadGguf(f"The GGUF file {path} is damaged or was not fetched to its end: fetch it again.") from error
    alignment = _whole(metadata.get("general.alignment")) or _DEFAULT_ALIGNMENT
    data_start = -(-file.tell() // alignment) * alignment
    if data_start + last_offset >= path.stat().st_size:
        raise BadGguf(f"The GGUF file {path} was not fetched to its end: fetch it again.")
    return _model(metadata, path)


def _model(metadata: dict[str, Any], path: Path) -> GgufModel:
    architecture = str(metadata.get("general.architecture", ""))
    if not architecture or architecture in _NOT_CHAT or metadata.get("general.type", "model") != "model":
        raise BadGguf(
            f"The GGUF file {path} holds no language model ({architecture or 'unknown'}): give one that chats."
        )

    def of_model(key: str) -> int:
        return _whole(metadata.get(f"{architecture}.{key}"))

    heads = of_model("attention.head_count")
    head_size = of_model("attention.key_length") or (of_model("embedding_length") // heads if heads else 0)
    key_heads = of_model("attention.head_count_kv") or heads
    return GgufModel(
        name=str(metadata.get("general.name") or path.stem),
        context_tokens=of_model("context_length"),
        chat_template=str(metadata.get("tokenizer.chat_template", "")),
        cache_bytes_per_token=of_model("block_count")
        * key_heads
        * head_size
        * 2
        * 2,  # keys and values, two bytes each
        licence=str(metadata.get("general.license") or ""),
    )


def _whole(value: Any) -> int:
    """Return a number; of one for each layer the largest; 0 for anything else."""
    if isinstance(value, list):
        return max((_whole(element) for element in value), default=0)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


class _Reader:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def number(self, form: str) -> Any:
        return struct.unpack(form, self._file.read(struct.calcsize(form)))[0]

    def entry(self) -> tuple[str, Any]:
        key = self._string()
        return key, self._value(self.number("<I"))

    def tensor_offset(self) -> int:
        self._string()
        for _ in range(self.number("<I")):
            self.number("<Q")
        self.number("<I")
        return int(self.number("<Q"))

    def _string(self) -> str:
        length = self.number("<Q")
        if length > _LONGEST_STRING:
            raise ValueError("a string without end")
        data = self._file.read(length)
        if len(data) < length:
            raise ValueError("the file ends in a string")
        return data.decode("utf-8", "replace")

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            return self._array()
        if kind not in _SCALARS:
            raise ValueError("an unknown type")
        return self.number(_SCALARS[kind])

    def _array(self) -> list[Any]:
        """Return a short array of numbers; of all others, such as a vocabulary, []."""
        kind, length = self.number("<I"), self.number("<Q")
        if kind in _SCALARS:
            if length <= 1024:
                return [self.number(_SCALARS[kind]) for _ in range(length)]
            self._file.seek(length * struct.calcsize(_SCALARS[kind]), 1)
            return []
        for _ in range(length):
            self._value(kind)
        return []
