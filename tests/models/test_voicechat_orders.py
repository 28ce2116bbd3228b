"""What VoiceChat is told to do while its thread is at work: obeyed in that thread, with the next frame."""

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from models.engines.voicechat import VoiceChatStream
from models.engines.voicechat_steering import REPLY_WITHIN_FRAMES
from models.interfaces import EngineError

FRAME = bytes(2 * 1_920)
BOS, EOS, PAD, SILENCE = 1, 2, 12, 13


class Session:
    """Stands for mlx-vlm's: it writes what it is steered to write."""

    config = SimpleNamespace(bos_token_id=BOS, eos_token_id=EOS, pad_token_id=PAD, silence_token_id=SILENCE)
    frame_samples, input_sample_rate, output_sample_rate = 1_280, 16_000, 22_050

    def __init__(self) -> None:
        self.tokenizer = self
        self.encoded_in: list[int] = []
        self.steering: Any = None
        self._text_tokens, self._function_tokens = [PAD], [PAD]
        self.heard_words = ""

    def encode(self, text: str, **_: object) -> list[int]:
        self.encoded_in.append(threading.get_ident())
        if "unspeakable" in text:
            raise ValueError(text)
        return [100 + len(text)]

    def decode(self, tokens: list[int], **_: object) -> str:
        return " ".join(map(str, tokens))

    def push_audio(self, samples: np.ndarray, sample_rate: int) -> list[Any]:
        """Return a frame of sound, 80 ms of a steady level."""
        text, function = self.steering.next(PAD, PAD)
        self._text_tokens.append(text)
        self._function_tokens.append(function)
        words, self.heard_words = self.heard_words, ""
        heard = [SimpleNamespace(kind="user_transcript_delta", delta=words)] if words else []
        return [*heard, SimpleNamespace(kind="audio", samples=np.full(1_764, 0.5, np.float32))]

    def step_silently(self, silence: Any) -> int:
        return int(self.steering.next_silently(PAD))

    def cancel(self) -> None:
        pass


def stepped(stream: VoiceChatStream, frames: int) -> None:
    with ThreadPoolExecutor(1) as thread:
        for _ in range(frames):
            thread.submit(stream._step, FRAME).result()


async def unused(_job: Any) -> Any:
    raise AssertionError("the test steps by itself")


def test_what_it_is_told_is_done_in_the_models_thread_and_in_order() -> None:
    session = Session()
    stream = VoiceChatStream(session, None, unused)
    stream.start()
    stream.say("Hello")
    stream.answer_call('{"time": "noon"}')
    assert session.encoded_in == []
    assert not stream.steering.reads
    stepped(stream, 3)
    assert len(set(session.encoded_in)) == 1
    assert threading.get_ident() not in session.encoded_in
    assert session._text_tokens[1:] == [BOS, BOS, 105]
    stream.stop()
    stepped(stream, 1)
    assert session._text_tokens[-1] == EOS


def test_its_voice_has_no_gaps_in_all_of_the_longest_conversation() -> None:
    """The resampler gives its output in blocks: frames of 80 ms in are no frames of 80 ms out."""
    stream = VoiceChatStream(Session(), None, unused)
    frames = [np.frombuffer(stream._step(FRAME).pcm, "<i2") for _ in range(8_000)]
    assert {frame.size for frame in frames} == {1_920}
    sound = np.concatenate(frames)
    begins = int(np.argmax(sound != 0))
    assert sound[begins + 200 :].min() > 16_000
    assert 0.04 < begins / 24_000 < 0.05, "which is what that costs"


# --- its own echo ---------------------------------------------------------------------------------------------------

QUIET, ECHO, USER = (0, False), (400, True), (400, False)
"""What a frame holds: its level, and whether most of it is the agent's own voice."""


def waits_for_an_answer(*frames: tuple[tuple[int, bool], int]) -> bool:
    """Return whether the words that are written at the last of these frames are the user's, who waits for an answer."""
    session = Session()
    stream = VoiceChatStream(session, None, unused)
    every = [frame for frame, count in frames for _ in range(count)]
    for at, (level, own) in enumerate(every):
        session.heard_words = " thank you" if at == len(every) - 1 else ""
        pcm = (level * np.sin(np.arange(1_920) / 10)).astype("<i2").tobytes()
        step = stream._step(pcm, own)
        assert bool(step.user_text) == (at == len(every) - 1), "what it hears it tells, whoever said it"
    for _ in range(REPLY_WITHIN_FRAMES + 1):
        stream._step(FRAME)
    return BOS in session._text_tokens


def test_a_model_that_hears_itself_does_not_answer_itself() -> None:
    assert not waits_for_an_answer((ECHO, 30))
    assert not waits_for_an_answer((ECHO, 30), (QUIET, 6)), "words come half a second late"
    assert not waits_for_an_answer((QUIET, 30), (ECHO, 2), (QUIET, 5)), "however short they are"


def test_a_user_who_speaks_soon_after_the_model_is_answered() -> None:
    assert waits_for_an_answer((QUIET, 10))
    assert waits_for_an_answer((USER, 30))
    assert waits_for_an_answer((ECHO, 30), (QUIET, 4), (USER, 4), (QUIET, 5))
    assert waits_for_an_answer((ECHO, 30), (USER, 6), (QUIET, 3))


async def test_whose_voice_a_frame_holds_goes_with_it_to_the_models_thread() -> None:
    async def at_once(job: Any) -> Any:
        return job()

    session = Session()
    stream = VoiceChatStream(session, None, at_once)
    for _ in range(10):
        await stream.step(FRAME.replace(b"\0\0", b"\0\1"), own_voice=True)
    session.heard_words = " me"
    await stream.step(FRAME)
    for _ in range(REPLY_WITHIN_FRAMES + 1):
        await stream.step(FRAME)
    assert BOS not in session._text_tokens


def test_an_order_that_cannot_be_obeyed_ends_the_conversation_not_the_session() -> None:
    stream = VoiceChatStream(Session(), None, unused)
    stream.say("unspeakable")
    with pytest.raises(EngineError) as failed:
        stepped(stream, 1)
    assert failed.value.code == "duplex_failed"
    assert stream.closed
