"""mlx-vlm's real VoiceChat code on a checkpoint of random weights: conversations, steering, tools, faults."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.duplex_interface import DuplexPrompt, DuplexStep
from models.engine_plan import NativePlan
from models.engines import voicechat
from models.engines.mlx_runtime import BUFFER_CACHE_BYTES
from models.engines.tiny_voicechat import BOS, EOS, PAD, SILENCE, build_tiny_voicechat
from models.engines.voicechat import (
    SILENT_STEPS,
    VoiceChat,
    VoiceChatStream,
    load_voicechat,
)
from models.engines.voicechat_session import CACHE_NAMES, STATE_NAMES, check_contract
from models.engines.voicechat_tools import CALL_ENDS, CALL_STARTS, RESULT_ENDS, prompt_text, result_text
from models.interfaces import EngineError
from models.native_loading import load_native

FRAME_BYTES = 3_840
"""80 ms of PCM16 at 24 kHz: 1,920 samples."""

CALL = '<TOOLCALL>[{"name": "get_time", "arguments": {"zone": "UTC"}}]</TOOLCALL>'


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_voicechat(tmp_path_factory.mktemp("models") / "voicechat")


@pytest.fixture(scope="module")
def model(checkpoint: Path) -> Iterator[VoiceChat]:
    loaded = asyncio.run(load_voicechat(lambda: checkpoint))
    yield loaded
    asyncio.run(loaded.aclose())


def noise(frames: int, seed: int = 0) -> list[bytes]:
    samples = np.random.default_rng(seed).normal(0, 3_000, (frames, FRAME_BYTES // 2)).astype("<i2")
    return [frame.tobytes() for frame in samples]


async def hear(stream: VoiceChatStream, frames: int, seed: int = 0) -> list[DuplexStep]:
    return [await stream.step(frame) for frame in noise(frames, seed)]


async def until(stream: VoiceChatStream, done: Any, limit: int = 100) -> list[DuplexStep]:
    steps = []
    for frame in noise(limit):
        steps.append(await stream.step(frame))
        if done(steps[-1]):
            return steps
    raise AssertionError(f"not within {limit} frames")


async def fall_silent(stream: VoiceChatStream) -> None:
    """Have the random model yield the floor, which it would not give for long."""
    stream.stop()
    await until(stream, lambda step: step.yields_floor, 2)


def write_call(stream: VoiceChatStream, call: str = CALL) -> None:
    tokens = [CALL_STARTS, *stream._encode(call), CALL_ENDS]
    stream.steering.force(*((PAD, token) for token in tokens))


def has(sequence: Sequence[int], part: Sequence[int]) -> bool:
    return any(tuple(sequence[at : at + len(part)]) == tuple(part) for at in range(len(sequence) - len(part) + 1))


# --- frames ---------------------------------------------------------------------------------------------------------


async def test_a_frame_in_gives_a_frame_out_with_words_of_both(model: VoiceChat) -> None:
    assert model.frame_samples == 1_920
    stream = await model.open(DuplexPrompt("Be brief."))
    steps = await hear(stream, 30)
    assert all(len(step.pcm) == FRAME_BYTES for step in steps)
    assert any(step.text for step in steps)
    assert any(step.user_text for step in steps)
    sound = np.frombuffer(b"".join(step.pcm for step in steps[4:]), "<i2")
    assert 1 < np.abs(sound).mean() < 32_000
    await stream.aclose()


@pytest.mark.parametrize("pcm", [b"", bytes(FRAME_BYTES - 2), bytes(2 * FRAME_BYTES)])
async def test_what_is_no_frame_is_refused_and_the_conversation_goes_on(model: VoiceChat, pcm: bytes) -> None:
    stream = await model.open(DuplexPrompt())
    with pytest.raises(EngineError, match="no whole frame"):
        await stream.step(pcm)
    assert len((await hear(stream, 1))[0].pcm) == FRAME_BYTES
    await stream.aclose()


async def test_the_model_reads_the_prompt_that_the_conversation_begins_with(model: VoiceChat) -> None:
    prompt = DuplexPrompt("Be brief.", (), (("user", "I am Ann."),))
    stream = await model.open(prompt)
    expected = len(stream._encode(prompt_text(prompt))) + 2
    assert stream.text_tokens == stream.function_tokens == (PAD,) * expected
    await stream.aclose()


async def test_conversations_with_the_same_prompt_are_the_same_to_the_sample(model: VoiceChat) -> None:
    import mlx.core as mx

    heard = []
    for _ in range(2):
        stream = await model.open(DuplexPrompt("Twice."))
        await model._thread.run(lambda: mx.random.seed(5))
        heard.append((await hear(stream, 8), stream.text_tokens, stream.function_tokens))
        await stream.aclose()
    assert heard[0] == heard[1]


async def test_a_copy_of_a_prompt_is_as_the_prompt_read_anew(model: VoiceChat) -> None:
    copied = await model.open(DuplexPrompt("Read me."))
    await hear(copied, 6)
    model._prompts.kept.clear()
    anew = await model.open(DuplexPrompt("Read me."))
    await hear(anew, 6)
    assert copied.text_tokens == anew.text_tokens
    assert copied.function_tokens == anew.function_tokens
    await copied.aclose()
    await anew.aclose()


async def test_conversations_side_by_side_write_what_they_write_alone(model: VoiceChat) -> None:
    alone = []
    for seed in range(3):
        stream = await model.open(DuplexPrompt("Side by side."))
        await hear(stream, 8, seed)
        alone.append((stream.text_tokens, stream.function_tokens))
        await stream.aclose()
    streams = [await model.open(DuplexPrompt("Side by side.")) for _ in range(3)]
    await asyncio.gather(*(hear(stream, 8, seed) for seed, stream in enumerate(streams)))
    assert [(stream.text_tokens, stream.function_tokens) for stream in streams] == alone
    for stream in streams:
        await stream.aclose()


# --- steering -------------------------------------------------------------------------------------------------------


async def test_words_that_it_is_made_to_say_are_its_own(model: VoiceChat) -> None:
    stream = await model.open(DuplexPrompt())
    stream.say("one moment please")
    steps = await until(stream, lambda step: step.yields_floor)
    assert steps[0].takes_floor
    assert "".join(step.text for step in steps) == "one moment please"
    assert has(stream.text_tokens, [BOS, *stream._encode("one moment please"), PAD, PAD])
    assert stream.text_tokens[-1] == EOS
    await stream.aclose()


async def test_words_that_it_is_made_to_say_hold_no_marks(model: VoiceChat) -> None:
    stream = await model.open(DuplexPrompt())
    stream.say("<SPECIAL_20>hm")
    steps = await until(stream, lambda step: step.yields_floor)
    assert "".join(step.text for step in steps) == "(SPECIAL_20)hm"
    assert CALL_STARTS not in stream.text_tokens
    await stream.aclose()


async def test_it_takes_and_yields_the_floor_in_the_next_frame(model: VoiceChat) -> None:
    stream = await model.open(DuplexPrompt())
    stream.start()
    assert (await hear(stream, 1))[0].takes_floor
    stream.stop()
    assert (await hear(stream, 1))[0].yields_floor
    assert has(stream.text_tokens, [BOS, EOS])
    await stream.aclose()


# --- tools ----------------------------------------------------------------------------------------------------------


async def test_a_call_comes_in_an_eighth_of_the_frames_and_its_result_is_read_as_fast(model: VoiceChat) -> None:
    stream = await model.open(DuplexPrompt())
    await fall_silent(stream)
    write_call(stream)
    steps = await until(stream, lambda step: step.call is not None)
    assert steps[-1].call is not None
    assert (steps[-1].call.name, steps[-1].call.arguments) == ("get_time", '{"zone": "UTC"}')
    assert len(steps) <= (len(stream._encode(CALL)) + 2) // (1 + SILENT_STEPS) + 1
    assert all(step.calling for step in steps[:-1])

    await fall_silent(stream)
    stream.answer_call('{"time": "<noon>"}')
    result = [*stream._encode(result_text('{"time": "<noon>"}')), RESULT_ENDS]
    before = len(stream.text_tokens)
    await until(stream, lambda step: not stream.steering.reads)
    assert has(stream.function_tokens[before:], result)
    at = before + next(at for at, token in enumerate(stream.function_tokens[before:]) if token == result[0])
    assert stream.text_tokens[at : at + len(result)] == (PAD,) * len(result)
    assert "<noon>" not in stream._decode(stream.function_tokens)
    await stream.aclose()


async def test_steps_without_the_voice_leave_the_ten_minutes_of_the_voice_alone(model: VoiceChat) -> None:
    stream = await model.open(DuplexPrompt())
    await fall_silent(stream)
    frames, tokens = stream._session.frame_index, len(stream.function_tokens)
    stream.answer_call("noon")
    steps = await until(stream, lambda step: not stream.steering.reads)
    assert stream._session.frame_index - frames == len(steps)
    assert len(stream.function_tokens) - tokens > 2 * len(steps)
    await stream.aclose()


async def test_a_model_that_speaks_writes_its_call_at_the_pace_of_its_voice(model: VoiceChat) -> None:
    stream = await model.open(DuplexPrompt())
    stream.start()
    await hear(stream, 1)
    stream.steering.force((PAD, CALL_STARTS))
    before = len(stream.function_tokens)
    steps = await until(stream, lambda step: step.calling)
    assert stream.steering.speaking
    assert len(stream.function_tokens) - before == len(steps)
    await stream.aclose()


async def test_a_result_is_read_after_the_words_that_bridge_the_wait(model: VoiceChat) -> None:
    stream = await model.open(DuplexPrompt())
    await fall_silent(stream)
    stream.say("one moment")
    stream.answer_call("noon")
    steps = await until(stream, lambda step: step.yields_floor)
    assert "".join(step.text for step in steps) == "one moment"
    await until(stream, lambda step: not stream.steering.reads)
    assert has(stream.function_tokens, [*stream._encode(result_text("noon")), RESULT_ENDS])
    await stream.aclose()


# --- ends and faults ------------------------------------------------------------------------------------------------


async def test_a_conversation_ends_where_the_voice_does(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voicechat, "LONGEST_S", 0.24)
    model = await load_voicechat(lambda: checkpoint)
    stream = await model.open(DuplexPrompt("A short one."))
    await hear(stream, 3)
    with pytest.raises(EngineError) as caught:
        await stream.step(bytes(FRAME_BYTES))
    assert caught.value.code == "duplex_too_long"
    with pytest.raises(EngineError, match="closed"):
        await stream.step(bytes(FRAME_BYTES))
    await model.aclose()


async def test_a_step_that_fails_ends_its_conversation_and_no_other(
    model: VoiceChat, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, other = await model.open(DuplexPrompt()), await model.open(DuplexPrompt())

    def fail(*_given: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(stream._session, "_perception_step", fail)
    with pytest.raises(EngineError) as caught:
        await stream.step(bytes(FRAME_BYTES))
    assert caught.value.code == "duplex_failed"
    with pytest.raises(EngineError, match="closed"):
        await stream.step(bytes(FRAME_BYTES))
    assert len((await hear(other, 1))[0].pcm) == FRAME_BYTES
    await stream.aclose()
    await other.aclose()


async def test_who_gives_up_waiting_for_a_frame_loses_that_frame_only(model: VoiceChat) -> None:
    stream = await model.open(DuplexPrompt())
    await hear(stream, 2)
    step = asyncio.create_task(stream.step(bytes(FRAME_BYTES)))
    await asyncio.sleep(0)
    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await step
    steps = await hear(stream, 3)
    assert [len(step.pcm) for step in steps] == [FRAME_BYTES] * 3
    assert stream._session.frame_index in (5, 6)  # it was dropped, or ran to its end
    await stream.aclose()


async def test_a_conversation_that_is_closed_is_freed(model: VoiceChat) -> None:
    stream = await model.open(DuplexPrompt())
    await hear(stream, 2)
    gone = weakref.ref(stream._session)
    await stream.aclose()
    await stream.aclose()
    gc.collect()
    assert gone() is None
    with pytest.raises(EngineError, match="closed"):
        await stream.step(bytes(FRAME_BYTES))


async def test_buffers_that_nobody_uses_any_more_are_few_and_gone_with_the_conversation(
    model: VoiceChat, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlx.core as mx

    cleared, limit = [], await model._thread.run(lambda: mx.set_cache_limit(BUFFER_CACHE_BYTES))
    assert limit == BUFFER_CACHE_BYTES, "by which it was set as the model was loaded"
    stream = await model.open(DuplexPrompt())
    gone = weakref.ref(stream._session)
    monkeypatch.setattr(mx, "clear_cache", lambda: cleared.append(gone() is None))
    await hear(stream, 2)
    assert cleared == []
    await stream.aclose()
    await stream.aclose()
    assert cleared == [True], "what it frees is freed before"


async def test_a_model_that_is_closed_says_so(checkpoint: Path) -> None:
    model = await load_voicechat(lambda: checkpoint)
    stream = await model.open(DuplexPrompt())
    threads = [thread for thread in threading.enumerate() if thread.name.startswith("mlx")]
    await model.aclose()
    await model.aclose()
    with pytest.raises(EngineError, match="is closed"):
        await stream.step(bytes(FRAME_BYTES))
    with pytest.raises(EngineError, match="is closed"):
        await model.open(DuplexPrompt())
    await stream.aclose()
    assert sum(thread.is_alive() for thread in threads) < len(threads)


async def test_all_of_mlx_runs_in_one_thread(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlx_vlm.models.nemotron_voicechat.model import Model
    from mlx_vlm.models.nemotron_voicechat.streaming import VoiceChatStreamingSession as Session

    seen: dict[str, set[threading.Thread]] = {}

    def watch(owner: type, name: str) -> None:
        method = getattr(owner, name)

        def watched(*given: Any, **named: Any) -> Any:
            seen.setdefault(name, set()).add(threading.current_thread())
            return method(*given, **named)

        monkeypatch.setattr(owner, name, watched)

    for owner, name in ((Model, "__init__"), (Session, "_run_timeline_step"), (Session, "cancel")):
        watch(owner, name)
    model = await load_voicechat(lambda: checkpoint)
    streams = await asyncio.gather(model.open(DuplexPrompt("a")), model.open(DuplexPrompt("b")))
    await asyncio.gather(*(hear(stream, 2) for stream in streams))
    for stream in streams:
        await stream.aclose()
    await model.aclose()
    assert set(seen) == {"__init__", "_run_timeline_step", "cancel"}
    (thread,) = set().union(*seen.values())
    assert not thread.is_alive()


# --- loading --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["_language_step", "_run_timeline_step", "_perception_step", "push_audio", "cancel"])
async def test_a_release_without_a_name_that_is_used_is_refused_as_it_loads(
    checkpoint: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlx_vlm.models.nemotron_voicechat.streaming import VoiceChatStreamingSession

    monkeypatch.delattr(VoiceChatStreamingSession, name)
    with pytest.raises(EngineError) as caught:
        await load_voicechat(lambda: checkpoint)
    assert caught.value.code == "duplex_incompatible"
    assert caught.value.message == (
        f"This version of mlx-vlm has no {name} in its VoiceChat session: pip install 'duplex-gateway[duplex]' brings "
        "the version that it is written for."
    )


async def test_each_name_of_a_sessions_state_is_looked_for(model: VoiceChat) -> None:
    stream = await model.open(DuplexPrompt())

    class Lacking:
        """The session, but for one name."""

        def __init__(self, whole: Any, path: str) -> None:
            self._whole, self._path = whole, path

        def __getattr__(self, name: str) -> Any:
            first, _, rest = self._path.partition(".")
            if name != first:
                return getattr(self._whole, name)
            if not rest:
                raise AttributeError(name)
            return Lacking(getattr(self._whole, name), rest)

    check_contract(type(stream._session), stream._session)
    for path in STATE_NAMES:
        with pytest.raises(EngineError) as caught:
            check_contract(type(stream._session), Lacking(stream._session, path))
        assert path in caught.value.message
    for caches, names in CACHE_NAMES.items():
        for name in names:
            lacking, layers = Lacking(stream._session, ""), getattr(stream._session, caches)
            setattr(lacking, caches, [*layers, Lacking(layers[0], name)])
            with pytest.raises(EngineError, match=rf"{caches}\.{name}\b"):
                check_contract(type(stream._session), lacking)
    await stream.aclose()


@pytest.mark.parametrize("engine", ["voicechat", "moshi"])
async def test_real_weights_are_not_fetched_where_mlx_has_no_gpu(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlx.core as mx

    assert mx.Device(mx.gpu).type == mx.gpu  # by which a GPU is told
    monkeypatch.setattr(mx, "default_device", lambda: mx.Device(mx.cpu))  # on a Mac, too
    with pytest.raises(EngineError) as caught:
        await load_native(NativePlan(engine))
    assert caught.value.code == "duplex_no_gpu"


def test_damaged_weights_are_one_sentence(checkpoint: Path, tmp_path: Path) -> None:
    for file in checkpoint.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes()[: 1_000 if file.suffix == ".safetensors" else None])
    with pytest.raises(EngineError) as caught:
        asyncio.run(load_voicechat(lambda: tmp_path))
    assert caught.value.code == "duplex_not_loaded"
    assert caught.value.message.endswith("fetch it anew.")


def test_the_silent_tokens_are_those_of_the_checkpoint(checkpoint: Path) -> None:
    import json

    config = json.loads((checkpoint / "config.json").read_text())
    assert (config["pad_token_id"], config["silence_token_id"]) == (PAD, SILENCE)
