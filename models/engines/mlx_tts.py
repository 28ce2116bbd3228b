"""Text to speech by mlx-audio, on Apple Silicon's GPU: any of its models that takes a text.

Audio leaves as the model makes it: token by token where it streams, else a segment at a time. Only a model of random
weights has run on the machines of this project: how fast and how good the real ones are is not measured here.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.engine_plan import TtsPlan
from models.engines.espeak_phonemes import phonemize
from models.engines.mlx_runtime import Stop
from models.engines.spoken_part import MAX_SPEED, MIN_SPEED, PartAudio, engine_errors
from models.inference_worker import InferenceWorker, Priority
from models.interfaces import SpeechPiece

STREAMING_INTERVAL_S = 0.4
"""Speech that a streaming model collects before it hands it out; mlx-audio's default of 2 s would be heard (chosen)."""

MAX_SEGMENTS = 4096
"""Segments of one text that may wait for their reader; a model that makes more has gone astray and is stopped (chosen:
27 min of speech at the interval above)."""

Samples = NDArray[np.float32]


class MlxSynthesizer:
    """SpeechSynthesizer over one model of mlx-audio. Texts are spoken one after the other.

    Many of these models keep state between their steps, so that a text is one job, whose pieces leave as they come.
    """

    def __init__(self, model: Any, worker: InferenceWorker, plan: TtsPlan) -> None:
        """Speak by `model`, loaded. The plan's voices and language are told to it as they are."""
        phonemize("a")  # shows the models that use espeak-ng where it is
        self._worker = worker
        self._model = model
        self._takes = frozenset(inspect.signature(model.generate).parameters)
        self._single = dict(plan.voices)
        self._all = plan.voice
        self._language = plan.language

    async def synthesize(
        self, text: str, *, voice: str = "", speed: float = 1.0, first: bool = False, language: str = ""
    ) -> AsyncGenerator[SpeechPiece, None]:
        """Yield the audio of `text`; see SpeechSynthesizer. Text without any sound yields nothing."""
        if not any(character.isalnum() for character in text):
            return
        priority = Priority.TTS_FIRST if first else Priority.TTS_REST
        options = self._options(voice, speed, language)
        stop = Stop()
        made: asyncio.Queue[list[SpeechPiece] | None] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def hand_out(pieces: list[SpeechPiece]) -> None:
            if made.qsize() < MAX_SEGMENTS:
                made.put_nowait(pieces)
            else:
                stop.stop()

        def ended(work: asyncio.Task[None]) -> None:
            if not work.cancelled():
                work.exception()  # who reads on gets it; who left doesn't want it
            made.put_nowait(None)

        def job() -> None:
            audio: PartAudio | None = None
            for samples, rate_hz in self._segments(text, options, stop.check):
                audio = audio or PartAudio(rate_hz, 0)
                loop.call_soon_threadsafe(hand_out, audio.feed(samples, None, last=False))
            if audio is not None:
                loop.call_soon_threadsafe(hand_out, audio.feed(np.empty(0, np.float32), None, last=True))

        with engine_errors():
            work = asyncio.create_task(self._worker.run(job, priority=priority, terminate=stop.stop))
            work.add_done_callback(ended)
            try:
                while (pieces := await made.get()) is not None:
                    for piece in pieces:
                        yield piece
                await work
            finally:
                stop.stop()  # now: the task hears of its end in the loop's next turn only
                work.cancel()

    async def aclose(self) -> None:
        """Close the worker, for all who share it."""
        await self._worker.aclose()

    def warm_up(self) -> None:
        """Speak a word. Call it in the worker's thread."""
        for _ in self._segments("Ready.", self._options("", 1.0, ""), lambda: None):
            pass

    def _voice(self, name: str) -> str:
        """Return the model's voice for a client's name, "": the model's own."""
        own: Any = getattr(self._model, "voices", ())
        return self._single.get(name) or self._all or (name if name in (own or ()) else "")

    def _options(self, voice: str, speed: float, language: str) -> dict[str, Any]:
        """Return what the model is told beside the text: of all that may be said, what it takes."""
        told = {
            "speed": min(max(speed, MIN_SPEED), MAX_SPEED),
            "lang_code": self._language or language,
            "voice": self._voice(voice),
            "stream": True,
            "streaming_interval": STREAMING_INTERVAL_S,
            "verbose": False,
        }
        return {name: value for name, value in told.items() if name in self._takes and value != ""}

    def _segments(self, text: str, options: dict[str, Any], check: Callable[[], None]) -> Iterator[tuple[Samples, int]]:
        """Yield samples (float32 [samples], −1…1) and their rate as the model makes them."""
        import mlx.core as mx

        mx.random.seed(0)  # the same text gives the same samples
        check()
        for result in self._model.generate(text, **options):
            check()
            if result.audio.size:
                yield np.array(result.audio.astype(mx.float32)).ravel(), int(result.sample_rate)
        mx.clear_cache()  # buffers of this text's size are of no use to the next, and the GPU shares memory with all
