"""How VoiceChat reads prompts: as mlx-vlm itself does, but for the work."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.duplex_interface import DuplexPrompt
from models.engines.tiny_voicechat import build_tiny_voicechat
from models.engines.voicechat import VoiceChat, VoiceChatStream, load_voicechat
from models.engines.voicechat_prompts import KEPT_PROMPTS, VOICE_STEPS_AT_ONCE, WORDS_AT_ONCE, Prompts
from models.interfaces import EngineError

FRAME = bytes(3_840)
"""80 ms of PCM16 at 24 kHz."""

NARROW = 64
"""A window of the voice that a prompt fills: 37 steps of it are there before the first one."""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_voicechat(tmp_path_factory.mktemp("models") / "voicechat")


@pytest.fixture(scope="module")
def loaded(checkpoint: Path) -> Iterator[VoiceChat]:
    model = asyncio.run(load_voicechat(lambda: checkpoint))
    yield model
    asyncio.run(model.aclose())


@pytest.fixture
async def model(loaded: VoiceChat) -> VoiceChat:
    """Return a model that has read nothing."""
    await begin_anew(loaded)
    return loaded


async def begin_anew(model: VoiceChat) -> None:
    import mlx.core as mx

    def anew() -> None:
        model._prompts = Prompts(model._prompts._blank, mx)
        mx.random.seed(0)  # as mlx-vlm does with each session

    await model._thread.run(anew)


def prompt(tokens: int) -> DuplexPrompt:
    """Return a prompt of so many tokens, the two around it included."""
    return DuplexPrompt(("xyz" * tokens)[: tokens - 2] if tokens else "")


async def read_by_mlx_vlm(model: VoiceChat, text: str) -> Any:
    from mlx_vlm.models.nemotron_voicechat.streaming import VoiceChatStreamingSession

    parent = model._prompts._blank.parent
    return await model._thread.run(
        lambda: VoiceChatStreamingSession(parent, system_prompt=text, max_streaming_seconds=600.0)
    )


def voice_of(session: Any) -> list[Any]:
    """Return all that the voice knows: what it said last, and each layer's past."""
    past = [
        part
        for cache in session._tts_cache
        for kind in (cache.keys, cache.values)
        for part in (cache.offset, np.array(kind[..., : min(cache.offset, kind.shape[2]), :]))
    ]
    return [np.array(session._previous_code), *past]


def heard(session: Any) -> tuple[list[int], list[int], str, bytes]:
    """Return what is written and said while some frames are heard."""
    import mlx.core as mx

    mx.random.seed(5)
    sound = []
    for frame in np.random.default_rng(3).normal(0, 0.1, (6, 1_280)).astype(np.float32):
        events = session.push_audio(frame, sample_rate=16_000)
        sound += [np.array(event.samples).tobytes() for event in events if event.kind == "audio"]
    return session._text_tokens, session._function_tokens, session._rnnt.text, b"".join(sound)


async def same(model: VoiceChat, stream: VoiceChatStream, tokens: int) -> None:
    """Assert that a conversation is as one whose prompt of so many tokens mlx-vlm has read."""
    ours, theirs = stream._session, await read_by_mlx_vlm(model, prompt(tokens).instructions)
    assert (
        len(ours._text_tokens) == len(theirs._text_tokens) == ours._timeline_index == theirs._timeline_index == tokens
    )

    def compare() -> None:
        for mine, other in zip(voice_of(ours), voice_of(theirs), strict=True):
            assert np.array_equal(mine, other)
        ours.steering = None
        found = heard(ours)
        assert found == heard(theirs)
        assert len(found[3]) == 6 * 1_764 * 4

    await model._thread.run(compare)


async def test_a_prompt_is_as_mlx_vlm_reads_it_whatever_was_read_before(model: VoiceChat) -> None:
    """Shorter than another, as long, longer; beyond the 256 steps by which caches grow."""
    streams = {tokens: await model.open(prompt(tokens)) for tokens in (260, 0, 3, 60, 260, 264)}
    assert model._prompts.voice.length == 264
    for tokens, stream in streams.items():
        await same(model, stream, tokens)
        await stream.aclose()


@pytest.mark.parametrize("tokens", [20, 27, 28, 45])
async def test_a_prompt_that_fills_the_voices_windows_is_as_mlx_vlm_reads_it(
    checkpoint: Path, tokens: int, tmp_path: Path
) -> None:
    folder = tmp_path / "narrow"
    shutil.copytree(checkpoint, folder)
    config = json.loads((folder / "config.json").read_text())
    config["tts_config"]["sliding_window"] = NARROW
    (folder / "config.json").write_text(json.dumps(config))
    narrow = await load_voicechat(lambda: folder)
    assert narrow._prompts.voice.longest == NARROW - 37
    for _ in range(2):  # read, and copied
        await begin_anew(narrow)
        stream = await narrow.open(prompt(tokens))
        await same(narrow, stream, tokens)
        await stream.aclose()
    copied = await narrow.open(prompt(tokens))
    await same(narrow, copied, tokens)
    await narrow.aclose()


async def test_a_prompt_no_longer_than_another_steps_the_voice_not_at_all(
    model: VoiceChat, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = []
    voice = model._prompts.voice._session
    step = voice.step_voice
    monkeypatch.setattr(voice, "step_voice", lambda: steps.append(1) or step())
    for tokens, expected in ((60, 60), (60, 60), (59, 60), (12, 60), (0, 60), (62, 62)):
        await (await model.open(prompt(tokens))).aclose()
        assert len(steps) == expected


async def test_a_conversation_leaves_the_voice_of_the_next_alone(model: VoiceChat) -> None:
    first = await model.open(prompt(40))
    for _ in range(3):
        await first.step(FRAME)
    second = await model.open(prompt(40))
    await begin_anew(model)
    await same(model, second, 40)
    await first.aclose()
    await second.aclose()


async def test_frames_of_others_come_in_between_while_a_prompt_is_read(model: VoiceChat) -> None:
    talking = await model.open(DuplexPrompt())
    opening = asyncio.create_task(model.open(prompt(100)))
    frames = 0
    while not opening.done():
        await talking.step(FRAME)
        frames += 1
    pieces = 100 // VOICE_STEPS_AT_ONCE + 100 // WORDS_AT_ONCE
    assert frames >= pieces // 2
    await opening.result().aclose()
    await talking.aclose()


async def test_a_prompt_that_two_want_at_once_is_read_once(model: VoiceChat, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    session_class = type(model._prompts._blank)
    prepare = session_class.prepare
    monkeypatch.setattr(session_class, "prepare", lambda self, text: read.append(text) or prepare(self, text))
    streams = await asyncio.gather(*(model.open(DuplexPrompt("Wanted twice.")) for _ in range(2)))
    assert read == ["Wanted twice."]
    for stream in streams:
        await stream.aclose()


async def test_prompts_that_are_read_at_the_same_time_share_the_voices_steps(model: VoiceChat) -> None:
    lengths = (40, 70)
    streams = await asyncio.gather(*(model.open(prompt(tokens)) for tokens in lengths))
    assert model._prompts.voice.length == 70
    for tokens, stream in zip(lengths, streams, strict=True):
        await same(model, stream, tokens)
        await stream.aclose()


async def test_who_gives_up_waiting_for_a_prompt_leaves_the_voices_steps_behind_and_nothing_else(
    model: VoiceChat,
) -> None:
    talking = await model.open(DuplexPrompt())
    opening = asyncio.create_task(model.open(prompt(130)))
    while model._prompts.voice.length < 6:
        await talking.step(FRAME)
    assert not opening.done()
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    await talking.step(FRAME)
    assert list(model._prompts.kept) == [""]
    grown = model._prompts.voice.length
    assert 6 <= grown < 130
    again = await model.open(prompt(grown))
    assert model._prompts.voice.length == grown
    await again.aclose()
    await talking.aclose()


async def test_a_step_of_the_voice_that_fails_is_taken_anew(model: VoiceChat, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlx.core as mx

    decoder = model._prompts._blank.model.tts_model.tts_model
    step, left = decoder.generate_codes, [20]

    def failing(*given: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            raise RuntimeError("out of memory")
        return step(*given)

    monkeypatch.setattr(decoder, "generate_codes", failing)
    with pytest.raises(EngineError) as caught:
        await model.open(prompt(40))
    assert caught.value.code == "duplex_failed"
    await model._thread.run(lambda: mx.random.seed(0))
    stream = await model.open(prompt(40))
    await same(model, stream, 40)
    await stream.aclose()


async def test_few_prompts_are_kept_and_none_with_a_voice(model: VoiceChat) -> None:
    for number in range(KEPT_PROMPTS + 2):
        await (await model.open(DuplexPrompt(f"n{number}"))).aclose()
    await (await model.open(DuplexPrompt("n3"))).aclose()
    assert list(model._prompts.kept) == ["n2", "n4", "n5", "n3"]
    assert not any(session.has_voice for session in model._prompts.kept.values())
