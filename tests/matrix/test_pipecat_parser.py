"""Every kind of server event in front of Pipecat's own parser: what it raises on would end a bot for good.

The events are those of the protocol's golden conversations, and of one conversation more in which all the rest occurs.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, get_args

import pytest
from openai.types.realtime import RealtimeServerEvent

from protocol.backend_events import (
    CommandRefused,
    EndReason,
    EndStatus,
    EngineFault,
    InputCleared,
    InputCommitted,
    InputTimedOut,
    InputTranscriptDelta,
    InputTranscriptFailed,
    OutputAudio,
    OutputSpoken,
    OutputTextDelta,
    RefusalKind,
    ResponseEnded,
    ResponseStarted,
)
from tests.matrix.environments import Environments
from tests.protocol.conftest import Talk

pytestmark = pytest.mark.compatibility

PROGRAM = Path(__file__).parent / "pipecat_parse.py"
GOLDEN = Path(__file__).parent.parent / "protocol" / "golden"

KINDS = {get_args(event.model_fields["type"].annotation)[0] for event in get_args(get_args(RealtimeServerEvent)[0])}
"""The types of all server events that OpenAI knows."""

NOT_SENT = {
    "conversation.created",  # nobody waits for it
    "conversation.item.created",  # the beta dialect's
    "conversation.item.input_audio_transcription.segment",  # of models that tell speakers apart
    "input_audio_buffer.dtmf_event_received",  # telephony's
}
"""What a session of this gateway on a WebSocket never sends."""


def is_asked_for(kind: str) -> bool:
    """Whether a client gets an event of this kind only after asking for what Pipecat's API has no words for: MCP."""
    return kind.startswith(("mcp_", "response.mcp_"))


def goldens() -> list[dict[str, Any]]:
    lines = [line for path in sorted(GOLDEN.glob("*.jsonl")) for line in path.read_text(encoding="utf-8").splitlines()]
    return [event for event in map(json.loads, lines) if "type" in event]


def the_rest() -> list[dict[str, Any]]:
    """Return the events of a session in which whatever can go wrong does, and every setting of Pipecat's is set."""
    talk = Talk()
    events = talk.open()
    for listening in (
        {"turn_detection": {"type": "semantic_vad", "eagerness": "low"}, "noise_reduction": {"type": "near_field"}},
        {"turn_detection": {"type": "server_vad", "threshold": 0.7, "idle_timeout_ms": 6_000}},
        {"turn_detection": None, "transcription": {"model": "whisper-1", "language": "en", "prompt": "tea"}},
        {"transcription": {"model": "gpt-realtime-whisper"}},
    ):
        events += talk.update(audio={"input": listening, "output": {"voice": "cedar", "speed": 1.2}})
    function = {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}}
    events += talk.update(tools=[function], tool_choice="required", max_output_tokens=500, instructions="Be brief.")
    events += talk.update(output_modalities=["text"], tracing="auto", truncation="disabled")
    events += talk.update(output_modalities=["audio"], tracing=None, truncation="auto", tools=[])

    events += talk.backend(InputCleared(), InputTimedOut("item_idle", 0, 24_000))
    events += talk.append(bytes(96_000))
    events += talk.backend(InputCommitted("item_u1", 0, 24_000), InputTranscriptDelta("item_u1", "Hello"))
    events += talk.backend(InputTranscriptFailed("item_u1", EngineFault("asr_timeout", "The recogniser is slow.")))
    events += talk.agent_says("resp_1", "item_a1", ("One. ", 24_000), ("Two.", 24_000))
    events += talk.send("conversation.item.truncate", item_id="item_a1", content_index=0, audio_end_ms=1_200)
    for item_id in ("item_a1", "item_u1"):
        events += talk.send("conversation.item.retrieve", item_id=item_id)
    events += talk.send("conversation.item.delete", item_id="item_a1")
    for content in (
        {"type": "input_text", "text": "hi"},
        {"type": "input_image", "image_url": "data:image/png;base64,AA=="},
    ):
        item = {"type": "message", "role": "user", "content": [content]}
        events += talk.send("conversation.item.create", item=item)

    for number, end in enumerate(
        (
            ResponseEnded("resp_end0", EndStatus.CANCELLED, 0, EndReason.CLIENT_CANCELLED),
            ResponseEnded("resp_end1", EndStatus.INCOMPLETE, 0, EndReason.MAX_OUTPUT_TOKENS),
            ResponseEnded("resp_end2", EndStatus.FAILED, fault=EngineFault("llm_timeout", "The model is slow.")),
            ResponseEnded("resp_end3", EndStatus.CANCELLED, 0, EndReason.TURN_DETECTED),
        )
    ):
        response_id, item_id = f"resp_end{number}", f"item_end{number}"
        events += talk.backend(ResponseStarted(response_id))
        if number < 3:  # the last one is cut before it has begun
            events += talk.backend(
                OutputTextDelta(response_id, item_id, "And "),
                OutputAudio(response_id, item_id, bytes(4_800)),
                OutputSpoken(response_id, item_id, 4, 2_400),
            )
        events += talk.backend(end)
    for refused in RefusalKind:
        events += talk.backend(CommandRefused(refused, "evt_1"))
    for frame in ("no JSON", "[]", '{"type": "unheard.of"}', "{}"):
        events += talk.frame(frame)
    return events + talk.update(voice="marin")


def test_no_event_raises_in_pipecats_parser(environments: Environments) -> None:
    events = goldens() + the_rest()
    seen = {event["type"] for event in events}
    assert {kind for kind in KINDS - NOT_SENT - seen if not is_asked_for(kind)} == {
        kind
        for kind in KINDS
        if kind.startswith("output_audio_buffer.")  # WebRTC's and SIP's
    }
    told = subprocess.run(
        [*environments.ensure("pipecat").command, str(PROGRAM)],
        input="".join(json.dumps(event) + "\n" for event in events),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout.splitlines()
    assert len(told) == len(events)
    raised = [(event, said) for event, said in zip(events, told, strict=True) if said.startswith("raised")]
    assert raised == []
    skipped = {event["type"] for event, said in zip(events, told, strict=True) if said == "skipped"}
    assert skipped == {"input_audio_buffer.timeout_triggered"}
