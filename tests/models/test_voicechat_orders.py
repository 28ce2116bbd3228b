"""What VoiceChat is told to do while its thread is at work: obeyed in that thread, with the next frame."""

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from models.engines.voicechat import VoiceChatStream
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
        return [SimpleNamespace(kind="audio", samples=np.full(1_764, 0.5, np.float32))]

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


def test_an_order_that_cannot_be_obeyed_ends_the_conversation_not_the_session() -> None:
    stream = VoiceChatStream(Session(), None, unused)
    stream.say("unspeakable")
    with pytest.raises(EngineError) as failed:
        stepped(stream, 1)
    assert failed.value.code == "duplex_failed"
    assert stream.closed
