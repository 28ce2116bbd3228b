"""What a LiveKit room would be to an agent: a microphone that never stops, and a player that keeps time.

Imported by the LiveKit drivers only; it imports nothing but LiveKit, the standard library and the dialogue.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

from dialogue import CHUNK_MS, GATEWAY_KEY, GATEWAY_URL, SILENCE, spoken
from livekit import rtc
from livekit.agents import utils
from livekit.agents.voice import io

RATE_HZ = 24_000

ADDRESS = {"base_url": GATEWAY_URL, "api_key": GATEWAY_KEY}
"""What the plugin's RealtimeModel is told; all else is its default."""


class Microphone:
    """Gives `push` a frame every 20 ms, of silence or of what is spoken, until it is closed."""

    def __init__(self, push: Callable[[rtc.AudioFrame], None]) -> None:
        self._push = push
        self._speech: Iterator[bytes] = iter(())
        self._task = asyncio.create_task(self._run())

    def speak(self, name: str) -> None:
        """Speak a clip from now on."""
        self._speech = iter(spoken(name))

    async def close(self) -> None:
        """Push no more frames."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        due_s = time.monotonic()
        while True:
            pcm = next(self._speech, SILENCE)
            samples = len(pcm) // 2
            self._push(rtc.AudioFrame(pcm, sample_rate=RATE_HZ, num_channels=1, samples_per_channel=samples))
            due_s += CHUNK_MS / 1000
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))


class RoomAudioInput(io.AudioInput):
    """An AgentSession's ear. Put frames into `push`."""

    def __init__(self) -> None:
        super().__init__(label="microphone")
        self._frames = utils.aio.Chan[rtc.AudioFrame]()

    def push(self, frame: rtc.AudioFrame) -> None:
        self._frames.send_nowait(frame)

    async def __anext__(self) -> rtc.AudioFrame:
        return await self._frames.__anext__()


class RoomAudioOutput(io.AudioOutput):
    """An AgentSession's mouth: plays each segment at the pace of speech, to nobody."""

    def __init__(self) -> None:
        super().__init__(label="player", capabilities=io.AudioOutputCapabilities(pause=False), sample_rate=RATE_HZ)
        self._pushed_s = 0.0
        self._began_s = 0.0
        self._end: asyncio.TimerHandle | None = None

    async def capture_frame(self, frame: rtc.AudioFrame) -> None:
        await super().capture_frame(frame)
        if not self._pushed_s:
            self._began_s = time.time()
            self.on_playback_started(created_at=self._began_s)
        self._pushed_s += frame.duration

    def flush(self) -> None:
        super().flush()
        if self._pushed_s:
            left_s = self._pushed_s - (time.time() - self._began_s)
            self._end = asyncio.get_running_loop().call_later(max(0.0, left_s), self._finish, False)

    def clear_buffer(self) -> None:
        if self._pushed_s:
            self._finish(interrupted=True)

    def _finish(self, interrupted: bool) -> None:
        if self._end:
            self._end.cancel()
            self._end = None
        played_s = min(self._pushed_s, time.time() - self._began_s)
        self._pushed_s = 0.0
        self.on_playback_finished(playback_position=played_s, interrupted=interrupted)
