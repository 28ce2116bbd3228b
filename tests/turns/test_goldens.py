"""Whole conversations, event by event, against recordings that a human has read.

One output a line: gateway time in samples, the kind, its fields; sample counts instead of audio. `UPDATE_GOLDENS=1`
rewrites them.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from protocol.backend_events import OutputAudio, ResponseEnded, TokenUsage
from tests.simulation.conversation import Conversation, Timed
from tests.simulation.scenarios import SCENARIOS

GOLDENS = Path(__file__).parent / "golden"


def line(timed: Timed) -> str:
    fields: dict[str, Any] = asdict(timed.output)
    if isinstance(timed.output, OutputAudio):
        fields["samples"] = len(fields.pop("pcm")) // 2
    if isinstance(timed.output, ResponseEnded) and timed.output.usage == TokenUsage():
        del fields["usage"]
    return json.dumps({"at": timed.at, "what": type(timed.output).__name__, **fields})


def record(conversation: Conversation) -> str:
    return "".join(f"{line(timed)}\n" for timed in conversation.timeline)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_conversation_is_the_recorded_one(name: str) -> None:
    golden = GOLDENS / f"{name}.jsonl"
    recorded = record(SCENARIOS[name]())
    if os.environ.get("UPDATE_GOLDENS") == "1":
        golden.write_text(recorded, encoding="utf-8")
    assert recorded == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_same_conversation_twice_gives_the_same_events(name: str) -> None:
    assert record(SCENARIOS[name]()) == record(SCENARIOS[name]())


def test_there_is_no_golden_without_its_conversation() -> None:
    assert {path.stem for path in GOLDENS.glob("*.jsonl")} == set(SCENARIOS)
