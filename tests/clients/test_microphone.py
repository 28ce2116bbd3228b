from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Callable

import numpy as np

from clients.microphone import CHUNK_MS, Microphone
from clients.wav_audio import RATE_HZ, Clip

CHUNK = RATE_HZ * CHUNK_MS // 1000


async def record(microphone_of: Callable[..., Microphone], chunks: int) -> tuple[np.ndarray, list[float]]:
    """Run a microphone for that many chunks; return its audio and when each chunk left."""
    audio: list[bytes] = []
    times: list[float] = []

    async def send(frame: str) -> None:
        event = json.loads(frame)
        assert event["type"] == "input_audio_buffer.append"
        audio.append(base64.b64decode(event["audio"]))
        times.append(time.monotonic())
        if len(audio) == chunks:
            microphone.stop()

    microphone = microphone_of(send)
    await asyncio.wait_for(microphone.run(), 10)
    assert times[0] >= microphone.started_at_s + CHUNK_MS / 1000
    return np.frombuffer(b"".join(audio), "<i2"), times


async def test_a_chunk_leaves_when_its_last_sample_was_spoken() -> None:
    samples, times = await record(lambda send: Microphone(send), 5)
    assert len(samples) == 5 * CHUNK
    assert times[-1] - times[0] >= 3.5 * CHUNK_MS / 1000


async def test_between_clips_there_is_room_noise_and_no_digital_silence() -> None:
    samples, _ = await record(lambda send: Microphone(send), 5)
    assert 1 <= samples.std() <= 10
    silent, _ = await record(lambda send: Microphone(send, noise=0), 5)
    assert not silent.any()


async def test_clips_follow_each_other_from_where_they_are_said_to_lie(tone: Callable[[int], Clip]) -> None:
    first, second = tone(30), tone(50)  # no whole numbers of chunks

    def make(send: Callable[..., object]) -> Microphone:
        microphone = Microphone(send, noise=0)
        said.extend([microphone.say(first), microphone.say(second)])
        return microphone

    said: list = []
    samples, _ = await record(make, 6)
    assert [(utterance.onset, utterance.end) for utterance in said] == [(0, 720), (720, 1_920)]
    assert samples[:1_920].astype("<i2").tobytes() == first.pcm + second.pcm
    assert not samples[1_920:].any()
    assert (said[1].onset_ms, said[1].end_ms) == (30, 80)


async def test_a_clip_begins_with_the_next_chunk(tone: Callable[[int], Clip]) -> None:
    audio: list[bytes] = []
    said: list = []

    async def send(frame: str) -> None:
        audio.append(base64.b64decode(json.loads(frame)["audio"]))
        if len(audio) == 2:
            said.append(microphone.say(tone(20)))
        if len(audio) == 4:
            microphone.stop()

    microphone = Microphone(send, noise=0)
    await asyncio.wait_for(microphone.run(), 10)
    assert said[0].onset == 2 * CHUNK
    assert audio[2] == tone(20).pcm
    assert not any(audio[3])
    assert microphone.time_of(said[0].onset) == microphone.started_at_s + 0.04
    assert len(microphone.lateness_ms) == 4
