"""What the voices in this process have in common: how a part's samples leave, and which errors they raise."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from models.engines.silence_trimming import SilenceTrimmer
from models.inference_worker import WorkerClosedError, WorkerOverloadedError
from models.interfaces import AUDIO_RATE_HZ, EngineError, SpeechPiece, WordTime
from models.resampling import PcmResampler

PIECE_S = 0.5
"""Longest piece handed out, so that a reply can be cut near the point where it stopped."""

MIN_SPEED, MAX_SPEED = 0.25, 1.5
"""The Realtime API's range of `speed`."""

_BYTES_PER_SAMPLE = 2


@contextmanager
def engine_errors() -> Iterator[None]:
    """Turn whatever fails in here into an EngineError with one sentence."""
    try:
        yield
    except WorkerOverloadedError as error:
        raise EngineError("tts_overloaded", "The speech synthesiser is overloaded: too many sessions.") from error
    except WorkerClosedError as error:
        raise EngineError("tts_failed", "The speech synthesiser is shut down.") from error
    except Exception as error:  # the engines' libraries have classes of their own
        raise EngineError("tts_failed", "The speech synthesiser failed on this text.") from error


class PartAudio:
    """One part's samples on their way out: without the silence around them, at 24 kHz, with the words in them.

    `said`: samples at 24 kHz that came before it, and later those up to its end.
    """

    def __init__(self, rate_hz: int, said: int) -> None:
        self.said = said
        self._offset = said
        self._scale = AUDIO_RATE_HZ / rate_hz
        self._trimmer = SilenceTrimmer(rate_hz)
        self._resampler = PcmResampler(rate_hz)
        self._words: deque[tuple[int, int]] | None = None

    def feed(
        self, samples: NDArray[np.float32], words: tuple[tuple[int, int], ...] | None, *, last: bool
    ) -> list[SpeechPiece]:
        """Return what `samples` (float32 [samples], the voice's rate) complete. Array work: call it in a worker.

        `words`: (end in the text, end in samples of the voice's rate) of those of the whole part, None if unknown.
        """
        loud = self._trimmer.feed(samples)
        if last:
            loud = np.concatenate((loud, self._trimmer.finish()))
        pcm = self._resampler.feed(loud, last=last)
        if self._words is None and words is not None and pcm:
            self._words = deque((text_end, self._place(end)) for text_end, end in words)
        pieces = []
        size = int(PIECE_S * AUDIO_RATE_HZ)
        for start in range(0, len(pcm) // _BYTES_PER_SAMPLE, size):
            piece = pcm[start * _BYTES_PER_SAMPLE : (start + size) * _BYTES_PER_SAMPLE]
            self.said += len(piece) // _BYTES_PER_SAMPLE
            rest = last and (start + size) * _BYTES_PER_SAMPLE >= len(pcm)
            pieces.append(SpeechPiece(piece, None if words is None else self._ended(rest)))
        return pieces

    def _place(self, end: int) -> int:
        """Return where a word ends (24 kHz, in the whole text), `end` samples into the part at the voice's rate."""
        return self._offset + max(0, math.ceil((end - self._trimmer.dropped) * self._scale))

    def _ended(self, rest: bool) -> tuple[WordTime, ...]:
        """Return the words that have ended by now, at the part's end all the `rest`."""
        ended = []
        while self._words and (rest or self._words[0][1] <= self.said):
            text_end, audio_end = self._words.popleft()
            ended.append(WordTime(text_end, min(audio_end, self.said)))
        return tuple(ended)
