"""Whole conversations, event by event. A human reads the difference when one changes.

Write them anew with `UPDATE_GOLDENS=1 pytest tests/protocol/test_wire_goldens.py`. Audio is told by its samples.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from openai.types.realtime import RealtimeServerEvent
from pydantic import TypeAdapter

from protocol.backend_events import (
    ContextRequested,
    EndReason,
    EndStatus,
    FunctionCallArgumentsDelta,
    FunctionCallStarted,
    InputCommitted,
    InputTranscriptCompleted,
    InputTranscriptDelta,
    OutputAudio,
    OutputItemEnded,
    OutputSpoken,
    OutputTextDelta,
    PlayoutCut,
    ResponseEnded,
    ResponseStarted,
    SpeechStarted,
    SpeechStopped,
    TokenUsage,
)
from protocol.outputs import DiscardAudio, DiscardItemAudio, Output, ServerEvent

GOLDEN = Path(__file__).parent / "golden"
TOOL = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}


def told(value: Any, key: str = "") -> Any:
    """Return a value for a golden, with its audio told by its length."""
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, bytes):
        return f"<{len(value) // 2} samples>"
    if isinstance(value, dict):
        is_audio = value.get("type") == "response.output_audio.delta"
        return {name: told(inner, "audio" if is_audio and name == "delta" else name) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [told(inner) for inner in value]
    return told(base64.b64decode(value)) if key == "audio" and isinstance(value, str) else value


def line(output: Output) -> dict[str, Any]:
    """Return an output as a line of a golden."""
    if isinstance(output, ServerEvent):
        payload: dict[str, Any] = told(output.payload)
        return payload
    if isinstance(output, DiscardAudio):
        return {"discard_audio": output.response_id}
    if isinstance(output, DiscardItemAudio):
        return {"discard_item_audio": output.item_id}
    return {"to_backend": type(output.command).__name__, **told(dataclasses.asdict(output.command))}


def spoken_turn(talk: Any) -> None:
    """RB-07: a user speaks, the agent answers."""
    talk.update(audio={"input": {"transcription": {"model": "gpt-4o-mini-transcribe"}}})
    talk.append(bytes(96_000))
    talk.backend(
        SpeechStarted("item_u1", 4_800),
        SpeechStopped("item_u1", 46_080),
        InputCommitted("item_u1", 4_800, 46_080),
        ResponseStarted("resp_a1"),
        InputTranscriptDelta("item_u1", "What is the capital"),
        InputTranscriptDelta("item_u1", " of France?"),
        InputTranscriptCompleted("item_u1", "What is the capital of France?", 41_280),
        ContextRequested("resp_a1"),
        OutputTextDelta("resp_a1", "item_a1", "Paris."),
        OutputAudio("resp_a1", "item_a1", bytes(2 * 12_000)),
        OutputSpoken("resp_a1", "item_a1", 6, 12_000),
        OutputItemEnded("resp_a1", "item_a1"),
        ResponseEnded("resp_a1", EndStatus.COMPLETED, 12_000, usage=TokenUsage(30, 0, 2)),
    )


def interrupted_turn(talk: Any) -> None:
    """RB-18: the user speaks over the agent, the client truncates, the next turn knows what was heard."""
    talk.user_types("tell me everything about tea", id="item_u1")
    talk.send("response.create", event_id="evt_1")
    talk.backend(
        ResponseStarted("resp_1"),
        ContextRequested("resp_1"),
        OutputTextDelta("resp_1", "item_a1", "Tea is a plant. "),
        OutputAudio("resp_1", "item_a1", bytes(2 * 24_000)),
        OutputSpoken("resp_1", "item_a1", 16, 24_000),
        OutputTextDelta("resp_1", "item_a1", "It grows in China and in India."),
        OutputAudio("resp_1", "item_a1", bytes(2 * 4_800)),
        SpeechStarted("item_u2", 0),
        OutputSpoken("resp_1", "item_a1", 47, 72_000),
        PlayoutCut("item_a1", 26_000),
        ResponseEnded("resp_1", EndStatus.CANCELLED, 26_000, EndReason.TURN_DETECTED),
    )
    talk.send("conversation.item.truncate", item_id="item_a1", content_index=0, audio_end_ms=1100)
    talk.send("conversation.item.retrieve", item_id="item_a1")
    talk.backend(
        SpeechStopped("item_u2", 30_000),
        InputCommitted("item_u2", 0, 30_000),
        ResponseStarted("resp_a2"),
        InputTranscriptCompleted("item_u2", "Wait, stop please.", 30_000),
        ContextRequested("resp_a2"),
        ResponseEnded("resp_a2", EndStatus.COMPLETED),
    )


def function_call(talk: Any) -> None:
    """Protocol 2.8: words, a call, its result, the answer."""
    talk.update(tools=[TOOL], output_modalities=["text"])
    talk.user_types("weather?", id="item_u1")
    talk.send("response.create", response={"metadata": {"client_event_id": "c1"}})
    talk.backend(
        ResponseStarted("resp_1"),
        ContextRequested("resp_1"),
        OutputTextDelta("resp_1", "item_a1", "Let me see."),
        OutputItemEnded("resp_1", "item_a1"),
        FunctionCallStarted("resp_1", "item_f1", "call_w", "get_weather"),
        FunctionCallArgumentsDelta("resp_1", "item_f1", '{"city": '),
        FunctionCallArgumentsDelta("resp_1", "item_f1", '"Oslo"}'),
        OutputItemEnded("resp_1", "item_f1"),
        ResponseEnded("resp_1", EndStatus.COMPLETED),
    )
    output = {"type": "function_call_output", "call_id": "call_w", "output": '{"sky": "☀"}'}
    talk.send("conversation.item.create", item=output)
    talk.send("response.create")
    talk.backend(
        ResponseStarted("resp_2"),
        ContextRequested("resp_2"),
        OutputTextDelta("resp_2", "item_a2", "Sunny."),
        OutputItemEnded("resp_2", "item_a2"),
        ResponseEnded("resp_2", EndStatus.COMPLETED),
    )


@pytest.mark.parametrize("script", [spoken_turn, interrupted_turn, function_call])
def test_a_conversation_is_told_as_before(new_talk: Callable[..., Any], script: Callable[[Any], None]) -> None:
    talk = new_talk()
    talk.open()
    script(talk)
    stream = "".join(json.dumps(line(output), ensure_ascii=False) + "\n" for output in talk.outputs)
    golden = GOLDEN / f"{script.__name__}.jsonl"
    if os.environ.get("UPDATE_GOLDENS") == "1":
        golden.write_text(stream, encoding="utf-8")
    assert stream == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("golden", sorted(GOLDEN.glob("*.jsonl")), ids=lambda path: path.stem)
def test_pydantic_itself_accepts_every_server_event(golden: Path) -> None:
    """The wire law walks OpenAI's types by itself; agents-python asks pydantic, which must agree."""
    adapter: TypeAdapter[Any] = TypeAdapter(RealtimeServerEvent)
    lines = [json.loads(text) for text in golden.read_text(encoding="utf-8").splitlines()]
    events = [event for event in lines if "type" in event]
    assert events
    for event in events:
        assert adapter.validate_python(event).type == event["type"]
