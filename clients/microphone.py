"""A microphone of files: sends audio at the pace at which it would be spoken."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clients.wav_audio import RATE_HZ, Clip

CHUNK_MS = 20
ROOM_NOISE = 3.0
"""Standard deviation of the noise between clips, in steps of 16 bits: no real microphone sends digital silence."""

_NOISE_SEED = 7
_ROOM_CHUNKS = 50


@dataclass(frozen=True, slots=True)
class Utterance:
    """Where a clip's speech lies in the microphone's audio, in samples since its start."""

    clip: Clip
    onset: int
    end: int

    @property
    def onset_ms(self) -> float:
        """Return the first speech sample in ms of audio."""
        return self.onset * 1000 / RATE_HZ

    @property
    def end_ms(self) -> float:
        """Return the end of the last speech sample in ms of audio."""
        return self.end * 1000 / RATE_HZ


class Microphone:
    """Appends `CHUNK_MS` of audio at a time at its due time: room noise, mixed with the clips that it is told to say.

    The chunk with audio [p, p + 20 ms) leaves at start + p + 20 ms, as from a sound card, so that audio position p is
    spoken at start + p of the clock.
    """

    def __init__(self, send: Callable[[str], Awaitable[None]], *, noise: float = ROOM_NOISE) -> None:
        self.utterances: list[Utterance] = []
        self.lateness_ms: list[float] = []
        self.started_at_s = 0.0
        self._send = send
        self._chunk = RATE_HZ * CHUNK_MS // 1000
        shape = np.random.default_rng(_NOISE_SEED).standard_normal((_ROOM_CHUNKS, self._chunk))
        self._room = np.round(shape * noise).astype(np.int32)
        self._room_frames = [_frame(chunk) for chunk in self._room]  # encoded once: most of what is sent is room noise
        self._position = 0  # samples handed out
        self._queue: list[tuple[int, NDArray[np.int16]]] = []
        self._queue_end = 0
        self._stopping = False

    def say(self, clip: Clip) -> Utterance:
        """Speak `clip` from the next chunk on, or after what is already being said; return where it lies."""
        start = max(self._position, self._queue_end)
        self._queue.append((start, np.frombuffer(clip.pcm, "<i2")))
        self._queue_end = start + clip.samples
        utterance = Utterance(clip, start + clip.onset, start + clip.end)
        self.utterances.append(utterance)
        return utterance

    def time_of(self, position: float) -> float:
        """Return when audio position `position` (samples) was or will be spoken, in seconds of the monotonic clock."""
        return self.started_at_s + position / RATE_HZ

    def stop(self) -> None:
        """End `run` after the current chunk."""
        self._stopping = True

    async def run(self) -> None:
        """Send until `stop`."""
        self.started_at_s = time.monotonic()
        while not self._stopping:
            frame = self._next_frame()
            due_s = self.time_of(self._position)
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            self.lateness_ms.append(max(0.0, (time.monotonic() - due_s) * 1000))
            await self._send(frame)

    def _next_frame(self) -> str:
        start = self._position
        self._position += self._chunk
        while self._queue and self._queue[0][0] + len(self._queue[0][1]) <= start:
            self._queue.pop(0)
        room = start // self._chunk % _ROOM_CHUNKS
        if not self._queue:
            return self._room_frames[room]
        mixed = self._room[room].copy()
        for at, samples in self._queue:
            skip, begin = max(0, start - at), max(0, at - start)
            piece = samples[skip : skip + max(0, self._chunk - begin)]
            mixed[begin : begin + len(piece)] += piece
        return _frame(mixed)


def _frame(chunk: NDArray[np.int32]) -> str:
    audio = np.clip(chunk, -32_768, 32_767).astype("<i2").tobytes()
    return '{"type":"input_audio_buffer.append","audio":"' + base64.b64encode(audio).decode("ascii") + '"}'
