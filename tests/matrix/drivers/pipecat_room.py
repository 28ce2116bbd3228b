"""A transport for Pipecat without a network: a microphone that never stops, and a loudspeaker that keeps time.

Imported by the Pipecat drivers only; it imports nothing but Pipecat, the standard library and the dialogue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from dialogue import BYTES_PER_MS, CHUNK_MS, SILENCE, spoken
from pipecat.audio.utils import create_stream_resampler
from pipecat.frames.frames import InputAudioRawFrame, OutputAudioRawFrame, StartFrame
from pipecat.transports.base_input import BaseInputTransport
from pipecat.transports.base_output import BaseOutputTransport
from pipecat.transports.base_transport import BaseTransport, TransportParams

CLIP_HZ = 500 * BYTES_PER_MS


class Microphone(BaseInputTransport):
    """Gives the pipeline a frame every 20 ms, of silence or of what is spoken, at the pipeline's own rate."""

    def __init__(self, params: TransportParams) -> None:
        super().__init__(params)
        self._speech: Iterator[bytes] = iter(())
        self._resampler = create_stream_resampler()

    def speak(self, name: str) -> None:
        """Speak a clip from now on."""
        self._speech = iter(spoken(name))

    async def start(self, frame: StartFrame) -> None:
        await super().start(frame)
        await self.set_transport_ready(frame)
        self._task = self.create_task(self._run())

    async def cleanup(self) -> None:
        await self.cancel_task(self._task)
        await super().cleanup()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        while True:
            pcm = await self._resampler.resample(next(self._speech, SILENCE), CLIP_HZ, self.sample_rate)
            if pcm:
                await self.push_audio_frame(InputAudioRawFrame(audio=pcm, sample_rate=self.sample_rate, num_channels=1))
            due_s += CHUNK_MS / 1000
            await asyncio.sleep(max(0.0, due_s - loop.time()))


class Loudspeaker(BaseOutputTransport):
    """Takes each chunk of audio for as long as it sounds."""

    async def start(self, frame: StartFrame) -> None:
        await super().start(frame)
        self._due_s = 0.0
        await self.set_transport_ready(frame)

    async def write_audio_frame(self, frame: OutputAudioRawFrame) -> bool:
        loop = asyncio.get_running_loop()
        self._due_s = max(self._due_s, loop.time()) + len(frame.audio) / 2 / frame.sample_rate
        await asyncio.sleep(self._due_s - loop.time())
        return True


class Room(BaseTransport):
    """Both."""

    def __init__(self) -> None:
        super().__init__()
        params = TransportParams(audio_in_enabled=True, audio_out_enabled=True)
        self.microphone, self.loudspeaker = Microphone(params), Loudspeaker(params)

    def input(self) -> Microphone:
        return self.microphone

    def output(self) -> Loudspeaker:
        return self.loudspeaker
