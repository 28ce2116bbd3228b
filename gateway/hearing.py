"""The session's ear: one VAD for all that listens to the user, whatever the backend."""

from __future__ import annotations

from dataclasses import replace

from models.interfaces import VAD_FRAME_SAMPLES, VoiceActivityDetector
from protocol.audio_time import Samples
from protocol.commands import AppendAudio, SpeechFrame


class Hearing:
    """Adds to each append the speech probabilities of the VAD frames that it completes."""

    def __init__(self, vad: VoiceActivityDetector) -> None:
        self._stream = vad.open()
        self._heard_until: Samples = 0

    async def hear(self, append: AppendAudio) -> AppendAudio:
        """Return `append` with its frames. Calls must not overlap."""
        frames = []
        for probability in await self._stream.feed(append.pcm):
            self._heard_until += VAD_FRAME_SAMPLES
            frames.append(SpeechFrame(self._heard_until, probability))
        return replace(append, frames=tuple(frames))
