"""Where a turn's waiting went: stages on one clock, of which those on the critical path add up to the whole.

Stages overlap: the recogniser may be done before the decision that it served, the language model may have begun before
it. Each stage therefore has its raw span, and a length that counts only what it added: from the latest mark before it
to its own. The lengths sum exactly to the total.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from protocol.audio_time import Samples, ms_from_samples


class Stage(StrEnum):
    """The stages of a turn in the order of the critical path. Their names are stable: logs, metrics, consoles use them.

    They are those of the turn-taking metrics (M12), with `request`, `first_clause`, `tool_call` and `tools` besides.
    M12's `uplink` is missing: it lies before this clock and is the client's to measure.
    """

    VAD_HANG = "vad_hang"
    """From the end of the voice to the frame in which the VAD saw the pause."""
    EOT_MODEL = "eot_model"
    """Until the last end-of-turn judge had answered about this pause."""
    EOT_WAIT = "eot_wait"
    """Until the turn was committed: silence that was still waited for."""
    STT_FINAL = "stt_final"
    """Until the final transcript."""
    FLOOR = "floor"
    """Until a full-duplex model took the floor, in place of all stages before: it listens and decides in one."""
    REQUEST = "request"
    """Until a response was asked for: nothing where the VAD does it, the client's doing where the client does."""
    QUEUE = "queue"
    """Until the language model was asked: the context is put together, turns of a burst client wait in line."""
    LLM_TTFT = "llm_ttft"
    """Until the model's first token, one of its reasoning included."""
    TOOL_CALL = "tool_call"
    """Until a function call was written, in a response that said nothing."""
    TOOLS = "tools"
    """Until the response that follows the call began: the tool's own time, and the client's."""
    FIRST_CLAUSE = "first_clause"
    """Until the first clause that a voice can say was given to the synthesiser."""
    TTS_TTFA = "tts_ttfa"
    """Until the first audio of it."""
    SEND = "send"
    """Until the socket had taken that audio."""
    PLAYOUT = "playout"
    """Until the user heard it, by estimate: the player's delay, what it still plays, the silence that leads in."""


@dataclass(frozen=True, slots=True)
class Span:
    """A stage as it ran (gateway clock), whatever ran beside it."""

    stage: Stage
    start: Samples
    end: Samples


@dataclass(frozen=True, slots=True)
class Waterfall:
    """A turn from `begin` through its `spans`, which stand in the order of the critical path."""

    begin: Samples
    spans: tuple[Span, ...]

    def stages_ms(self) -> dict[Stage, int]:
        """Return what each stage added to the waiting, in whole ms; a stage that came twice counts for both.

        They sum to `total_ms`, since every mark is rounded down to its millisecond before lengths are taken.
        """
        lengths: dict[Stage, int] = {}
        reached = ms_from_samples(self.begin)
        for span in self.spans:
            end = max(reached, ms_from_samples(span.end))
            lengths[span.stage] = lengths.get(span.stage, 0) + end - reached
            reached = end
        return lengths

    @property
    def total_ms(self) -> int:
        """The whole waiting: from the beginning to the latest mark."""
        began = ms_from_samples(self.begin)
        return max([began, *(ms_from_samples(span.end) for span in self.spans)]) - began

    @property
    def slowest(self) -> str:
        """The stage that added most; `none` where nothing has been waited for."""
        lengths = self.stages_ms()
        return max(lengths, key=lambda stage: lengths[stage], default="none")


ROUND = (Stage.QUEUE, Stage.LLM_TTFT, Stage.TOOL_CALL, Stage.FIRST_CLAUSE, Stage.TTS_TTFA, Stage.SEND, Stage.PLAYOUT)
"""The stages of one response. A turn with tool calls goes through several rounds, with `tools` between them."""

LISTENING = (Stage.VAD_HANG, Stage.EOT_MODEL, Stage.EOT_WAIT, Stage.STT_FINAL, Stage.REQUEST)
"""The stages before the first round."""


def in_order(stages: Iterable[Stage], *accounts: dict[Stage, Span]) -> list[Span]:
    """Return the spans of `stages` in that order, each from the first of the `accounts` that knows it."""
    found: list[Span] = []
    for stage in stages:
        span = next((account[stage] for account in accounts if stage in account), None)
        if span is not None:
            found.append(span)
    return found
