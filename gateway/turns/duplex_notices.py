"""What a full-duplex backend tells whoever watches, and nobody else: it changes nothing for the client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class NoticeKind(StrEnum):
    """What happened. The fields of each are named behind it; their units stand in their names."""

    CONVERSATION_OPENING = "conversation_opening"
    """The model begins to read what it is to know: `why` (begun, changed, too_long, failed)."""
    CONVERSATION_OPENED = "conversation_opened"
    """`why` (begun, changed, too_long, failed), `prompt_ms` (how long it took to read), `history` (messages in it)."""
    CONVERSATION_ENDED = "conversation_ended"
    """`why` as above, `length_ms`."""
    MODEL_FAILED = "model_failed"
    """`code`, `attempts` in a row, `retry_ms` (−1: with the user's next turn)."""
    MODEL_BEHIND = "model_behind"
    """`real_time_factor`, `backlog_ms`, and of audio never heard in all: `silence_ms`, `too_old_ms`."""
    MODEL_KEEPS_UP = "model_keeps_up"
    """The fields of `model_behind`."""
    MODEL_PACE = "model_pace"
    """Every few seconds: the fields of `model_behind`, and `step_p50_ms` and `step_p95_ms` of the latest frames."""
    TOOL_RESULT_CUT = "tool_result_cut"
    """`call_id`, `characters`, `kept`."""


@dataclass(frozen=True, slots=True)
class DuplexNotice:
    """One thing to be told."""

    kind: NoticeKind
    fields: Mapping[str, str | int | float] = field(default_factory=dict)
