"""mlx-audio's real Moshi code on random weights: conversations, faults, and the layout that Kyutai publishes."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.duplex_interface import DuplexPrompt, DuplexStep
from models.engines import moshi
from models.engines.mlx_runtime import BUFFER_CACHE_BYTES
from models.engines.moshi import CODEC_FILE, TEXT_FILE, Moshi, MoshiStream, load_moshi, load_tiny_moshi, tiny_parts
from models.interfaces import EngineError

FRAME_BYTES = 3_840


@pytest.fixture(scope="module")
def model() -> Iterator[Moshi]:
    loaded = asyncio.run(load_tiny_moshi())
    yield loaded
    asyncio.run(loaded.aclose())


async def hear(stream: MoshiStream, frames: int, seed: int = 0) -> list[DuplexStep]:
    samples = np.random.default_rng(seed).normal(0, 3_000, (frames, FRAME_BYTES // 2)).astype("<i2")
    return [await stream.step(frame.tobytes()) for frame in samples]


async def test_a_frame_in_gives_a_frame_out_with_the_agents_words(model: Moshi) -> None:
    stream = await model.open(DuplexPrompt("It reads no instructions."))
    steps = await hear(stream, 20)
    assert all(len(step.pcm) == FRAME_BYTES for step in steps)
    assert any(step.text for step in steps)
    assert not any(step.user_text or step.takes_floor or step.yields_floor or step.call for step in steps)
    sound = np.frombuffer(b"".join(step.pcm for step in steps[8:]), "<i2").astype(float)
    assert 100 < np.sqrt((sound**2).mean()) < 10_000
    await stream.aclose()


async def test_conversations_side_by_side_hear_their_own_user(model: Moshi) -> None:
    import mlx.core as mx

    async def alone(seed: int) -> list[DuplexStep]:
        await model._thread.run(lambda: mx.random.seed(1))
        stream = await model.open(DuplexPrompt())
        steps = await hear(stream, 6, seed)
        await stream.aclose()
        return steps

    first = await alone(1)
    assert first == await alone(1)
    assert first != await alone(2)
    one, two = await model.open(DuplexPrompt()), await model.open(DuplexPrompt())
    assert one._parts is not None
    assert two._parts is not None
    assert one._parts.lm is not two._parts.lm
    await asyncio.gather(hear(one, 3, 1), hear(two, 5, 2))
    assert (one._generator.step_idx, two._generator.step_idx) == (3, 5)
    await one.aclose()
    await two.aclose()


async def test_it_cannot_be_steered(model: Moshi) -> None:
    stream = await model.open(DuplexPrompt())
    assert not model.abilities.steered
    for steer in (stream.start, stream.stop, lambda: stream.say("hello"), lambda: stream.answer_call("noon")):
        with pytest.raises(NotImplementedError):
            steer()
    await stream.aclose()


@pytest.mark.parametrize("pcm", [b"", bytes(FRAME_BYTES - 2)])
async def test_what_is_no_frame_is_refused_and_the_conversation_goes_on(model: Moshi, pcm: bytes) -> None:
    stream = await model.open(DuplexPrompt())
    with pytest.raises(EngineError, match="no whole frame"):
        await stream.step(pcm)
    assert len((await hear(stream, 1))[0].pcm) == FRAME_BYTES
    await stream.aclose()


async def test_a_conversation_ends_where_its_steps_do(model: Moshi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moshi, "LONGEST_S", 0.24)
    stream = await model.open(DuplexPrompt())
    await hear(stream, 3)
    with pytest.raises(EngineError) as caught:
        await stream.step(bytes(FRAME_BYTES))
    assert caught.value.code == "duplex_too_long"
    with pytest.raises(EngineError, match="closed"):
        await stream.step(bytes(FRAME_BYTES))


async def test_a_step_that_fails_ends_its_conversation_and_no_other(
    model: Moshi, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, other = await model.open(DuplexPrompt()), await model.open(DuplexPrompt())

    def fail(*_given: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(stream._generator, "step", fail)
    with pytest.raises(EngineError) as caught:
        await stream.step(bytes(FRAME_BYTES))
    assert caught.value.code == "duplex_failed"
    with pytest.raises(EngineError, match="closed"):
        await stream.step(bytes(FRAME_BYTES))
    assert len((await hear(other, 1))[0].pcm) == FRAME_BYTES
    await other.aclose()


async def test_a_conversation_that_is_closed_is_freed(model: Moshi) -> None:
    stream = await model.open(DuplexPrompt())
    await hear(stream, 2)
    assert stream._parts is not None
    gone = weakref.ref(stream._parts.lm)
    await stream.aclose()
    await stream.aclose()
    gc.collect()
    assert gone() is None


async def test_buffers_that_nobody_uses_any_more_are_few_and_gone_with_the_conversation(
    model: Moshi, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlx.core as mx

    cleared: list[bool] = []
    limit = await model._thread.run(lambda: mx.set_cache_limit(BUFFER_CACHE_BYTES))
    assert limit == BUFFER_CACHE_BYTES, "by which it was set as the model was loaded"
    stream = await model.open(DuplexPrompt())
    monkeypatch.setattr(mx, "clear_cache", lambda: cleared.append(stream._generator is None))
    await hear(stream, 2)
    assert cleared == []
    await stream.aclose()
    await stream.aclose()
    assert cleared == [True]


PIECES = 290
"""Of the text: 256 bytes, a few letters and words."""


# --- as Kyutai publishes it -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in Kyutai's layout, but for the sizes, and without the language model's weights."""
    import mlx.core as mx
    import sentencepiece

    folder = tmp_path_factory.mktemp("moshiko")
    words = folder / "words.txt"
    words.write_text("\n".join(f"hello there number {number}" for number in range(200)))
    sentencepiece.SentencePieceTrainer.train(
        input=str(words), model_prefix=str(folder / "text"), vocab_size=PIECES, byte_fallback=True, minloglevel=2
    )
    (folder / "text.model").rename(folder / TEXT_FILE)
    mx.save_safetensors(str(folder / CODEC_FILE), {"unused": mx.zeros((1,))})
    return folder


@pytest.mark.parametrize("bits", [None, 4, 8])
async def test_weights_of_each_kind_are_loaded_as_kyutai_publishes_them(
    published: Path, bits: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlx.core as mx
    import mlx.nn as nn
    from mlx.utils import tree_flatten
    from mlx_audio.sts.models.moshi import lm as moshi_lm
    from mlx_audio.sts.models.moshi import moshi as theirs

    tiny = tiny_parts()
    deep = replace(tiny.lm.cfg.depformer.transformer, d_model=64)
    wide = replace(tiny.lm.cfg.transformer, dim_feedforward=192)  # 2/3 of it is a width, which 64 has to divide
    deep = replace(deep, dim_feedforward=192)
    small = replace(
        tiny.lm.cfg,
        transformer=wide,
        depformer=replace(tiny.lm.cfg.depformer, transformer=deep),
        text_in_vocab_size=PIECES + 1,
        text_out_vocab_size=PIECES,
    )
    lm = moshi_lm.Lm(small)
    lm.set_dtype(mx.bfloat16)
    if bits is not None:
        nn.quantize(lm, bits=bits, group_size={4: 32, 8: 64}[bits])
    for name in (TEXT_FILE, CODEC_FILE):
        (tmp_path / name).symlink_to(published / name)
    name = "model.safetensors" if bits is None else f"model.q{bits}.safetensors"
    mx.save_safetensors(str(tmp_path / name), dict(tree_flatten(lm.parameters())))
    monkeypatch.setattr(moshi_lm, "config_v0_1", lambda: small)
    monkeypatch.setattr(theirs, "mimi_202407", lambda _codebooks: tiny.mimi.cfg)

    model = await load_moshi(lambda: tmp_path, "a folder")
    stream = await model.open(DuplexPrompt())
    steps = await hear(stream, 8)
    assert all(len(step.pcm) == FRAME_BYTES for step in steps)
    assert all("\u2581" not in step.text and "<0x" not in step.text for step in steps)
    await stream.aclose()
    await model.aclose()


async def test_damaged_weights_are_one_sentence(published: Path, tmp_path: Path) -> None:
    for name in (TEXT_FILE, CODEC_FILE):
        (tmp_path / name).symlink_to(published / name)
    (tmp_path / "model.q4.safetensors").write_bytes(b"nothing")
    with pytest.raises(EngineError) as caught:
        await load_moshi(lambda: tmp_path, "a folder")
    assert caught.value.code == "duplex_not_loaded"
    assert caught.value.message.endswith("fetch it anew.")


# --- the names that are used ----------------------------------------------------------------------------------------

USED = (
    ("mlx_audio.sts.models.moshi", "MoshiSTSModel.from_pretrained"),
    ("mlx_audio.sts.models.moshi.generate", "LmGen.step"),
    ("mlx_audio.sts.models.moshi.generate", "LmGen.last_audio_tokens"),
    ("mlx_audio.sts.models.moshi.lm", "Lm"),
    ("mlx_audio.sts.models.moshi.lm", "config_v0_1"),
    ("mlx_audio.sts.models.moshi.utils.sampling", "Sampler"),
    ("mlx_audio.codec.models.mimi.mimi", "Mimi.encode_step"),
    ("mlx_audio.codec.models.mimi.mimi", "Mimi.decode_step"),
    ("mlx_audio.codec.models.mimi.mimi", "Mimi.reset_state"),
    ("mlx_audio.codec.models.mimi.mimi", "mimi_202407"),
)


@pytest.mark.parametrize(("module", "path"), USED)
def test_what_we_use_of_moshi_is_there(module: str, path: str) -> None:
    from tests.mlx_engines.test_mlx_contract import found

    assert found(module, path) is not None


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        ("mlx_audio.sts.models.moshi.generate:LmGen", "last_audio_tokens"),
        ("mlx_audio.codec.models.mimi.mimi:Mimi", "reset_state"),
        ("mlx_audio.codec.models.mimi.mimi:Mimi", "encode_step"),
    ],
)
async def test_a_release_without_a_name_that_is_used_is_refused_as_it_loads(
    owner: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.mlx_engines.test_mlx_contract import found

    holder: Any = found(*owner.split(":"))
    monkeypatch.delattr(holder, name)
    with pytest.raises(EngineError) as caught:
        await load_tiny_moshi()
    assert caught.value.code == "duplex_incompatible"
    assert name in caught.value.message
