"""A full-duplex model's own account of a turn: it takes the floor, its first words, its first sound.

It explains and is never compared, as the cascade's (`turn_marks.py`).
"""

from __future__ import annotations

from collections import OrderedDict

from gateway.audible_output import audible_spans
from gateway.waterfall import Span, Stage
from protocol.audio_time import Samples
from protocol.backend_events import OutputAudio, OutputTextDelta, ResponseStarted

KEPT_ACCOUNTS = 64
"""Responses whose marks are kept; the oldest leave first (chosen: far more than run)."""


class DuplexMarks:
    """Collects the spans of stages by response. One per session."""

    def __init__(self) -> None:
        self._accounts: OrderedDict[str, dict[Stage, Span]] = OrderedDict()

    def take(self, key: str) -> dict[Stage, Span]:
        """Return what is known of a response, by its id, and forget it; {} for others' ids."""
        return self._accounts.pop(key, {})

    def told(self, output: object, now: Samples) -> None:
        """Note what the conversation did at `now`."""
        match output:
            case ResponseStarted(response_id=response_id):
                self._accounts[response_id] = {Stage.FLOOR: Span(Stage.FLOOR, now, now)}
                if len(self._accounts) > KEPT_ACCOUNTS:
                    self._accounts.popitem(last=False)
            case OutputTextDelta(response_id=response_id):
                self._first(response_id, Stage.LLM_TTFT, now)
            case OutputAudio(response_id=response_id, pcm=pcm):
                marks = self._accounts.get(response_id, {})
                if marks and Stage.TTS_TTFA not in marks and audible_spans(pcm):
                    self._first(response_id, Stage.TTS_TTFA, now)
            case _:
                pass

    def _first(self, response_id: str, stage: Stage, now: Samples) -> None:
        marks = self._accounts.get(response_id)
        if marks is not None and stage not in marks and Stage.TTS_TTFA not in marks:
            marks[stage] = Span(stage, max(span.end for span in marks.values()), now)
