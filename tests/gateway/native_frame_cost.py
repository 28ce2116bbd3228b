"""CPU time that the gateway's code takes for a frame of a full-duplex conversation: all but the model's step.

A frame is four appends of 20 ms in, JSON and base64 included, hearing, turns, protocol and what goes out for it: all
that runs on the event loop, and what the ear for the agent's own voice (gateway.self_hearing: 3 ms, only while both
speak) takes in its thread. The VAD's inference has a thread, too, as the model has, and is an engine's.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import cycle

import numpy as np
from numpy.typing import NDArray

from gateway.hearing import Hearing
from gateway.self_hearing import SelfHearing
from models.batching_worker import BatchingWorker
from models.duplex_interface import DuplexPrompt, DuplexStep
from models.engines.scripted_duplex import DuplexReply, ScriptedDuplexStream
from models.engines.silero_vad import SileroVad
from models.inference_worker import InferenceWorker
from models.weights import WeightsStore
from models.weights_manifest import TURN_TAKING
from protocol.audio_time import samples_from_ms
from tests.gateway.fed_time import FedTime, settle
from tests.gateway.native_session import NativeSession, native_session
from tests.gateway.scripted_cascade import quiet, voice
from tests.models.conftest import clip

FRAME_MS = 80
APPENDS_PER_FRAME = 4
SAID_BYTES = 48 * 1_600
REPLIES = (DuplexReply("so this is what I have to say about it, and that is all"), DuplexReply("Yes."))


class _Stopwatch:
    """CPU time that the model and the ear took since it was last asked."""

    def __init__(self) -> None:
        self.model_s = 0.0
        self.ear_s = 0.0

    def watch(self, stream: ScriptedDuplexStream) -> ScriptedDuplexStream:
        step = stream.step

        async def timed(pcm: bytes, *, own_voice: bool = False) -> DuplexStep:
            began = time.thread_time()
            told = await step(pcm, own_voice=own_voice)
            self.model_s += time.thread_time() - began
            return told

        stream.step = timed
        return stream

    def listen(self, ear: SelfHearing) -> None:
        share = ear.share

        def timed(heard: NDArray[np.int16], sent: NDArray[np.int16]) -> float:
            began = time.thread_time()
            found = share(heard, sent)
            self.ear_s += time.thread_time() - began
            return found

        ear.share = timed

    def beside_s(self) -> float:
        """Return what is to be added to the time on the loop: the ear's, without the model's."""
        beside, self.model_s, self.ear_s = self.ear_s - self.model_s, 0.0, 0.0
        return beside


@asynccontextmanager
async def measured_conversation(store: WeightsStore | None = None) -> AsyncIterator[Callable[[], Awaitable[float]]]:
    """Run a conversation; yield a function that plays its next frame and returns the frame's CPU time in ms.

    `store` holds the real VAD, which audio is handed to; None: a scripted one on the loop.
    """
    stopwatch = _Stopwatch()
    vad = None if store is None else SileroVad(store.path(TURN_TAKING, "silero_vad.onnx"))
    listening = InferenceWorker("self-hearing", threads=1)
    hearing = None if vad is None else Hearing(vad, worker=listening)
    if hearing is not None:
        stopwatch.listen(hearing._self_hearing)
    async with native_session(FedTime(), *REPLIES, heard=("one two three four",) * 200, hearing=hearing) as native:
        opened = native.model.open

        async def watched(prompt: DuplexPrompt) -> ScriptedDuplexStream:
            return stopwatch.watch(await opened(prompt))

        native.model.open = watched
        await native.play(quiet(480))
        stopwatch.beside_s()
        turn = (voice(1_600) if vad is None else clip("librivox_0870")[:SAID_BYTES]) + quiet(4_800)
        appends = [_append(turn[at : at + 960]) for at in range(0, len(turn), 960)]
        frames = cycle(appends[at : at + APPENDS_PER_FRAME] for at in range(0, len(appends), APPENDS_PER_FRAME))

        async def next_frame_ms() -> float:
            frame = next(frames)
            began = time.thread_time()
            await _frame(native, frame)
            return (time.thread_time() - began + stopwatch.beside_s()) * 1000

        yield next_frame_ms
    await listening.aclose()
    if vad is not None:
        await vad.aclose()


async def frame_costs_ms(audio_s: int, store: WeightsStore | None = None) -> list[float]:
    """Return the CPU time of each frame of a conversation of `audio_s`, in ms."""
    async with measured_conversation(store) as next_frame_ms:
        return [await next_frame_ms() for _ in range(audio_s * 1000 // FRAME_MS)]


def _append(pcm: bytes) -> str:
    return json.dumps({"type": "input_audio_buffer.append", "audio": base64.b64encode(pcm).decode()})


async def _frame(native: NativeSession, appends: Sequence[str]) -> None:
    """Have a frame heard, and take what the client is told, as a socket does."""
    running = native.running
    for append in appends:
        running.time.samples += samples_from_ms(FRAME_MS) // APPENDS_PER_FRAME  # no timer is due: whole frames come
        await running.session.receive_text(append)
    await settle()
    outbox = running.session.outbox
    while outbox.waiting_bytes:
        await outbox.next_frame()
        outbox.accepted()


def packing_ms() -> float:
    """Return the CPU time of a fixed piece of work: a frame's audio, packed and unpacked as clients send it."""
    pcm = voice(20)
    began = time.thread_time()
    for _ in range(APPENDS_PER_FRAME):
        base64.b64decode(json.loads(_append(pcm))["audio"])
    return (time.thread_time() - began) * 1000


def calibration_ms(frames: int = 200) -> float:
    """Return the median of `packing_ms`."""
    return share([packing_ms() for _ in range(frames)], 0.5)


def hand_off_ms(times: int = 100) -> float:
    """Return the median CPU time that the event loop's thread spends on waking an idle thread, and on being woken.

    A frame has 2.5 such hand-offs, to the VAD's thread. In a virtual machine most of it is waking a processor that
    sleeps: 0.03 ms where both threads are busy, 0.09 to 0.3 where they are idle (measured 2026-11-30).
    """

    async def measured() -> list[float]:
        worker: BatchingWorker[int, int] = BatchingWorker("hand-off", lambda items: items)
        taken = []
        for _ in range(times):
            await asyncio.sleep(0.01)  # both threads are idle
            began = time.thread_time()
            await worker.run(1)
            taken.append((time.thread_time() - began) * 1000)
        await worker.aclose()
        return taken

    return share(asyncio.run(measured()), 0.5)


def share(values: Sequence[float], part: float) -> float:
    """Return the value that `part` of `values` stay below."""
    return sorted(values)[round(part * (len(values) - 1))]


def run(audio_s: int, store: WeightsStore | None = None) -> list[float]:
    """Return `frame_costs_ms` on an event loop of its own."""
    return asyncio.run(frame_costs_ms(audio_s, store))
