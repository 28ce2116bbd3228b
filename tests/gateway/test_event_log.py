from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

from gateway.event_log import EventLog, EventLogWriter, redacted
from protocol.backend_events import (
    EndReason,
    EndStatus,
    FunctionCallStarted,
    InputTranscriptCompleted,
    OutputAudio,
    OutputTextDelta,
    ResponseEnded,
    TokenLogprob,
)
from protocol.client_events import AppendInput
from protocol.commands import AppendAudio, ProvideContext, ResponseContext, SpeechFrame


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_each_session_gets_a_file_of_its_own(tmp_path: Path) -> None:
    writer = EventLogWriter(tmp_path / "events")
    writer.start()
    first, second = writer.open("sess_1"), writer.open("sess_2")
    first.record("client", 240, {"type": "response.create", "event_id": "e1"})
    second.record("backend", 480, ResponseEnded("resp_1", EndStatus.CANCELLED, 99, EndReason.TURN_DETECTED))
    first.close()
    first.record("client", 999, {"type": "too.late"})
    writer.close()
    assert lines_of(tmp_path / "events" / "sess_1.jsonl") == [
        {"at_samples": 240, "direction": "client", "event": {"type": "response.create", "event_id": "e1"}}
    ]
    (line,) = lines_of(tmp_path / "events" / "sess_2.jsonl")
    assert line["event"]["type"] == "ResponseEnded"
    assert line["event"]["status"] == "cancelled"
    assert line["event"]["heard"] == 99


def test_a_log_that_is_off_records_nothing() -> None:
    log = EventLog.off()
    log.record("client", 0, {"type": "x"})
    log.close()


def test_of_texts_only_the_length_is_kept() -> None:
    secret = "my doctor says"
    events: list[object] = [
        {"type": "response.output_audio_transcript.delta", "delta": secret},
        {"type": "conversation.item.create", "item": {"content": [{"type": "input_text", "text": secret}]}},
        {
            "type": "session.update",
            "session": {"instructions": secret, "tools": [{"name": "f", "description": secret}]},
        },
        {"type": "response.create", "response": {"metadata": {secret: secret}}},
        {"type": "x", "a field of next year": secret},
        {"type": "x", "parameters": {secret: {}}},
        {"type": secret * 10},
        {"type": "x", secret * 10: 1},
        {"item": {"type": "mcp_approval_response", "approve": False, "reason": secret}},
        OutputTextDelta("resp_1", "item_1", secret),
        {"type": "x", "logprobs": [{"token": secret, "logprob": -0.1, "bytes": list(secret.encode())}]},
        InputTranscriptCompleted("item_1", "", 0, (TokenLogprob(secret, -0.1, secret.encode()),)),
        ProvideContext("resp_1", ResponseContext(messages=({"role": "user", "content": secret},))),
    ]
    for event in events:
        assert secret not in json.dumps(redacted(event))
        assert str(list(secret.encode())) not in json.dumps(redacted(event))
    assert redacted(events[0]) == {"type": "response.output_audio_transcript.delta", "delta": {"chars": len(secret)}}


def test_audio_becomes_its_length() -> None:
    audio = base64.b64encode(bytes(482)).decode()
    assert redacted({"type": "input_audio_buffer.append", "audio": audio}) == {
        "type": "input_audio_buffer.append",
        "audio": {"bytes": 482},
    }
    assert redacted(AppendInput(bytes(480)))["audio"] == {"bytes": 480}
    assert redacted(AppendAudio(bytes(480), (SpeechFrame(768, 0.5, -30.0, 0.25),))) == {
        "type": "AppendAudio",
        "pcm": {"samples": 240},
        "frames": [{"type": "SpeechFrame", "until": 768, "probability": 0.5, "level_dbfs": -30.0, "echo": 0.25}],
    }
    assert redacted(OutputAudio("resp_1", "item_1", b"\0\0"))["pcm"] == {"samples": 1}


def test_ids_names_and_words_of_the_protocol_are_kept() -> None:
    event = FunctionCallStarted("resp_1", "item_1", "call_1", "get_weather")
    assert redacted(event) == {
        "type": "FunctionCallStarted",
        "response_id": "resp_1",
        "item_id": "item_1",
        "call_id": "call_1",
        "name": "get_weather",
    }


def test_a_record_is_bounded_however_many_entries_a_client_sends() -> None:
    listed = redacted({"type": "x", "tools": [1] * 5_000, "extra": {f"k{n}": n for n in range(5_000)}})
    assert isinstance(listed, dict)
    assert len(listed["tools"]) == len(listed["extra"]) == 201
    assert listed["tools"][-1] == {"entries": 5_000}
    assert listed["extra"]["entries"] == 5_000


def test_a_clients_frame_is_recorded_as_it_came_lawful_or_not(tmp_path: Path) -> None:
    writer = EventLogWriter(tmp_path)
    writer.start()
    log = writer.open("sess_1")
    log.record_frame(0, '{"type": "conversation.item.retrieve", "item_id": "item_1", "words": "secret"}')
    log.record_frame(1, b'{"type": "input_audio_buffer.append", "audio": "AAAA"}')
    for frame in ("secret", b"\xff", "[" * 100_000, '"secret"', "9" * 5_000):
        log.record_frame(2, frame)
    log.close()
    writer.close()
    events = [line["event"] for line in lines_of(tmp_path / "sess_1.jsonl")]
    assert events[0] == {"type": "conversation.item.retrieve", "item_id": "item_1", "words": {"chars": 6}}
    assert events[1] == {"type": "input_audio_buffer.append", "audio": {"bytes": 3}}
    assert events[2:] == [{"chars": 6}, {"chars": 1}, {"chars": 100_000}, {"chars": 6}, {"chars": 5_000}]


def test_records_that_do_not_fit_are_dropped_and_counted(tmp_path: Path) -> None:
    writer = EventLogWriter(tmp_path, queue_records=2)
    log = writer.open("sess_1")
    for number in range(5):  # the thread isn't running yet: two fit
        log.record("client", number, {"type": "x"})
    writer.start()
    while writer._queue.qsize():  # the thread empties it
        time.sleep(0)
    log.record("client", 5, {"type": "x"})
    writer.close()
    stamps = [(line["at_samples"], line.get("dropped_before")) for line in lines_of(tmp_path / "sess_1.jsonl")]
    assert stamps == [(0, None), (1, None), (5, 3)]


def test_the_end_of_a_session_is_not_lost_to_a_full_queue(tmp_path: Path) -> None:
    writer = EventLogWriter(tmp_path, queue_records=1)
    log = writer.open("sess_1")
    log.record("client", 0, {"type": "x"})
    log.close()
    writer.start()
    writer.close()
    assert len(lines_of(tmp_path / "sess_1.jsonl")) == 1
    assert not writer._files or all(file.closed for file in writer._files.values())
