"""The session's ear: one VAD for all that listens to the user, whatever the backend.

To each VAD frame it adds the level, and how much of it is the agent's own voice coming back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from math import log10

import numpy as np
from numpy.typing import NDArray

from gateway.echo_lag import EARLIEST, SENT_SPAN, WINDOW
from gateway.self_hearing import LATEST, SelfHearing
from gateway.sent_audio import SentAudio
from gateway.turns.input_clock import InputClock
from gateway.turns.settings import DEFAULT_PLAYOUT_DELAY, SILENT_DBFS
from models.inference_worker import InferenceWorker, Priority, WorkerClosedError, WorkerOverloadedError
from models.interfaces import VAD_FRAME_SAMPLES, VoiceActivityDetector
from protocol.audio_time import BYTES_PER_SAMPLE, Samples, bytes_from_samples, samples_from_bytes
from protocol.backend_events import BackendEvent, EndStatus, OutputAudio, PlayoutCut, ResponseEnded, ResponseStarted
from protocol.commands import AppendAudio, SpeechFrame

logger = logging.getLogger(__name__)

POSSIBLE_SPEECH = 0.3
"""From this speech probability on a frame is asked for the agent's voice; below, it starts no overlap (chosen)."""

MANY_FRAMES = 100
"""The levels of so many frames (3.2 s of audio) in one append are taken off the event loop: a millisecond's work."""

_FULL_SCALE = 32_768.0

_Slices = tuple[NDArray[np.int16], NDArray[np.int16]]


class Hearing:
    """Adds to each append the VAD frames that it completes: probability, level, and the agent's share of each.

    It is told what the agent says (`saw`, `unsent`, `truncated`). The share is told while the agent is audible or was a
    moment ago, else it is 0. `worker` does the arithmetic; None: it is done at once, on the event loop.
    """

    def __init__(
        self,
        vad: VoiceActivityDetector,
        *,
        playout_delay: Samples = DEFAULT_PLAYOUT_DELAY,
        worker: InferenceWorker | None = None,
    ) -> None:
        self._stream = vad.open()
        self._heard_until: Samples = 0
        self._clock = InputClock()
        self._recent = bytearray(bytes_from_samples(WINDOW))  # ends with the last sample received
        self._sent = SentAudio(playout_delay)
        self._out_of_band: set[str] = set()
        self._self_hearing = SelfHearing()
        self._worker = worker

    async def hear(self, append: AppendAudio, now: Samples = 0) -> AppendAudio:
        """Return `append`, which arrived at `now` (gateway clock), with its frames. Calls must not overlap."""
        self._follow_clock(len(append.pcm), now)
        self._sent.settle(now)  # or minutes of audio in one append would all be compared with a reply long over
        self._recent += append.pcm
        probabilities = await self._stream.feed(append.pcm)
        if not probabilities:
            return append
        first = self._heard_until
        self._heard_until += len(probabilities) * VAD_FRAME_SAMPLES
        levels = await self._levels(first)
        ends = [first + (index + 1) * VAD_FRAME_SAMPLES for index in range(len(probabilities))]
        shares = await self._shares([end for end, p in zip(ends, probabilities, strict=True) if p >= POSSIBLE_SPEECH])
        del self._recent[: -bytes_from_samples(WINDOW + self._clock.received - self._heard_until)]
        return AppendAudio(
            append.pcm,
            tuple(
                SpeechFrame(end, probability, level, shares.get(end, 0.0))
                for end, probability, level in zip(ends, probabilities, levels, strict=True)
            ),
        )

    def saw(self, event: BackendEvent, now: Samples) -> None:
        """Take note of what the agent says, and of what cuts it short. Call it once the event has been carried out.

        Out-of-band responses are left out, as the virtual player leaves them out: when a client plays them is its own
        affair.
        """
        match event:
            case ResponseStarted(response_id=response_id, out_of_band=True):
                self._out_of_band.add(response_id)
            case OutputAudio() if event.response_id not in self._out_of_band:
                self._sent.push(event.item_id, event.pcm, now)
            case ResponseEnded(response_id=response_id, status=status):
                if response_id in self._out_of_band:
                    self._out_of_band.discard(response_id)
                elif status is EndStatus.CANCELLED:
                    self._sent.cut(now)
            case PlayoutCut():
                self._sent.cut(now)

    def unsent(self, item_id: str, samples: Samples, now: Samples) -> None:
        """Take note that the last `samples` of an item never left."""
        self._sent.drop(item_id, samples, now)

    def truncated(self, item_id: str, now: Samples) -> None:
        """Take note that the client plays no more of an item."""
        self._sent.stop(item_id, now)

    def _follow_clock(self, received_bytes: int, now: Samples) -> None:
        before = self._clock.gateway_time(0)
        self._clock.advance(samples_from_bytes(received_bytes), now)
        moved = self._clock.gateway_time(0) - before
        # Faster audio than any before corrects the map; after a stall it begins anew, which moves no echo.
        if moved < 0:
            self._self_hearing.shift(moved)

    def _samples(self, start: Samples, end: Samples) -> NDArray[np.int16]:
        """Return the input [start, end), which must lie within what is kept; before the session's first, zeros."""
        begin = samples_from_bytes(len(self._recent)) - self._clock.received + start
        # A copy: as long as a view lives, the bytes can't grow.
        return np.frombuffer(self._recent, "<i2", end - start, begin * BYTES_PER_SAMPLE).copy()

    async def _levels(self, first: Samples) -> list[float]:
        frames = self._samples(first, self._heard_until).reshape(-1, VAD_FRAME_SAMPLES)
        return levels_dbfs(frames) if len(frames) < MANY_FRAMES else await asyncio.to_thread(levels_dbfs, frames)

    async def _shares(self, ends: list[Samples]) -> dict[Samples, float]:
        """Return the agent's share of the frames that end at `ends`, where it was audible."""
        slices = {end: self._slices(end) for end in ends if self._audible(end)}
        if not slices:
            return {}

        def listen() -> dict[Samples, float]:
            return {end: self._self_hearing.share(heard, sent) for end, (heard, sent) in slices.items()}

        return await self._off_loop(listen)

    def _audible(self, end: Samples) -> bool:
        at = self._clock.gateway_time(end)
        return self._sent.audible(at - LATEST - VAD_FRAME_SAMPLES, at - EARLIEST)

    def _slices(self, end: Samples) -> _Slices:
        until = self._clock.gateway_time(end) - EARLIEST
        return self._samples(end - WINDOW, end), self._sent.between(until - SENT_SPAN, until)

    async def _off_loop(self, listen: Callable[[], dict[Samples, float]]) -> dict[Samples, float]:
        if self._worker is None:
            return listen()
        try:
            return await self._worker.run(listen, priority=Priority.VAD)
        except (WorkerOverloadedError, WorkerClosedError):
            # Without an opinion the other evidence decides; the VAD itself has said that there may be speech.
            logger.warning("no time to tell the agent's voice from the user's")
            return {}


def levels_dbfs(frames: NDArray[np.int16]) -> list[float]:
    """Return the RMS level of each row of int16 [frames, samples] in dB below full scale (a full square wave is 0)."""
    samples = frames.astype(np.float32)
    energies: list[float] = np.einsum("fs,fs->f", samples, samples).tolist()
    lowest = 10 ** (SILENT_DBFS / 10)
    return [10 * log10(max(energy / frames.shape[1] / _FULL_SCALE**2, lowest)) for energy in energies]
