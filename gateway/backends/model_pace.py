"""How fast a full-duplex model is, over its last frames: whether it keeps real time, and when that is to be told."""

from __future__ import annotations

from collections import deque

from gateway.turns.duplex_notices import NoticeKind
from protocol.audio_time import Samples, s_from_samples

SPEED_WINDOW_FRAMES = 64
"""Frames over which the model's speed is measured: 5 s of 80 ms."""


class ModelPace:
    """One session's. `frame`: the model's."""

    def __init__(self, frame: Samples) -> None:
        self._frame_s = s_from_samples(frame)
        self._steps: deque[float] = deque(maxlen=SPEED_WINDOW_FRAMES)
        self._slow = False
        self._measured = 0

    @property
    def real_time_factor(self) -> float:
        """Time that the model needs for a second of audio, over the last frames; above 1 it falls behind."""
        return sum(self._steps) / (len(self._steps) * self._frame_s) if self._steps else 0.0

    def stepped(self, took_s: float) -> list[NoticeKind]:
        """Take how long a frame took; return what is to be told: the pace once a window, and each change of it."""
        self._steps.append(took_s)
        self._measured = (self._measured + 1) % SPEED_WINDOW_FRAMES
        slow = len(self._steps) == SPEED_WINDOW_FRAMES and self.real_time_factor > 1
        told = [] if self._measured else [NoticeKind.MODEL_PACE]
        if slow is not self._slow:
            self._slow = slow
            told.append(NoticeKind.MODEL_BEHIND if slow else NoticeKind.MODEL_KEEPS_UP)
        return told

    def step_lengths(self) -> dict[str, float]:
        """Return the median and the 95th percentile of the last frames, in ms, as fields of a notice."""
        steps = sorted(self._steps)
        p50, p95 = (steps[round(share * (len(steps) - 1))] for share in (0.5, 0.95))
        return {"step_p50_ms": round(p50 * 1000, 1), "step_p95_ms": round(p95 * 1000, 1)}
