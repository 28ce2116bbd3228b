from __future__ import annotations

import base64
from typing import Any

from clients.microphone import Utterance
from clients.realtime_connection import StampedEvent
from clients.timeline import rows, turns
from clients.wav_audio import Clip

START_S = 100.0


def at(ms: float, kind: str, **body: Any) -> StampedEvent:
    return StampedEvent(START_S + ms / 1000, {"type": kind, **body})


def utterance(onset_ms: int, end_ms: int) -> Utterance:
    clip = Clip("clip.wav", bytes(2 * 24 * (end_ms - onset_ms)), 0, 24 * (end_ms - onset_ms))
    return Utterance(clip, 24 * onset_ms, 24 * end_ms)


def audio(ms: int) -> str:
    return base64.b64encode(bytes(48 * ms)).decode()


TURN = [
    at(0, "session.created"),
    at(700, "input_audio_buffer.speech_started", item_id="u", audio_start_ms=300),
    at(1_200, "conversation.item.input_audio_transcription.delta", item_id="u", delta="Hello"),
    at(2_300, "input_audio_buffer.speech_stopped", item_id="u", audio_end_ms=2_300),
    at(2_310, "response.created", response={"id": "r"}),
    at(2_350, "conversation.item.input_audio_transcription.completed", item_id="u", transcript="Hello."),
    at(2_400, "response.output_audio_transcript.delta", response_id="r", item_id="a", delta="Good "),
    at(2_450, "response.output_audio.delta", response_id="r", item_id="a", delta=audio(100)),
    at(2_460, "response.output_audio_transcript.delta", response_id="r", item_id="a", delta="day."),
    at(2_470, "response.output_audio.delta", response_id="r", item_id="a", delta=audio(150)),
    at(2_480, "response.output_audio_transcript.done", response_id="r", item_id="a", transcript="Good day."),
    at(2_500, "response.done", response={"id": "r", "status": "completed"}),
]


def test_latencies_count_from_the_first_or_the_last_speech_sample() -> None:
    (turn,) = turns(TURN, [utterance(600, 2_000)], START_S)
    latencies = turn.latencies
    rounded = [
        round(value or 0)
        for value in (
            latencies.speech_started,
            latencies.first_partial,
            latencies.speech_stopped,
            latencies.transcript,
            latencies.response_created,
            latencies.first_reply_text,
            latencies.first_audio,
        )
    ]
    assert rounded == [100, 600, 300, 350, 310, 400, 450]
    assert (turn.user_text, turn.reply_text, turn.status, turn.response_id) == ("Hello.", "Good day.", "completed", "r")


def test_a_turn_without_an_answer_has_no_latencies() -> None:
    (turn,) = turns([], [utterance(600, 2_000)], START_S)
    assert turn.latencies.first_audio is None
    assert turn.response_id is None


def test_a_response_that_a_pause_started_is_not_the_answer() -> None:
    events = [
        at(700, "input_audio_buffer.speech_started", item_id="u1"),
        at(1_000, "input_audio_buffer.speech_stopped", item_id="u1"),
        at(1_010, "response.created", response={"id": "early"}),
        at(1_200, "input_audio_buffer.speech_started", item_id="u2"),
        at(1_201, "response.done", response={"id": "early", "status": "cancelled"}),
        at(2_300, "input_audio_buffer.speech_stopped", item_id="u2"),
        at(2_310, "response.created", response={"id": "late"}),
        at(2_400, "conversation.item.input_audio_transcription.completed", item_id="u1", transcript="Hel"),
        at(2_410, "conversation.item.input_audio_transcription.completed", item_id="u2", transcript="lo."),
    ]
    (turn,) = turns(events, [utterance(600, 2_000)], START_S)
    assert turn.response_id == "late"
    assert turn.user_text == "Hel lo."
    assert round(turn.latencies.transcript or 0) == 410


def test_events_belong_to_the_utterance_before_them() -> None:
    second = [StampedEvent(event.at_s + 10, event.body) for event in TURN if event.type != "session.created"]
    found = turns([*TURN, *second], [utterance(600, 2_000), utterance(10_600, 12_000)], START_S)
    assert [round(turn.latencies.speech_stopped or 0) for turn in found] == [300, 300]


def test_rows_are_in_order_of_time_with_each_items_deltas_as_one() -> None:
    found = [(round(row.audio_ms), row.event, row.detail) for row in rows(TURN, [utterance(600, 2_000)], START_S)]
    assert found == [
        (0, "session.created", ""),
        (600, "(speech begins)", "clip.wav"),
        (700, "input_audio_buffer.speech_started", "audio_start_ms 300"),
        (1_200, "conversation.item.input_audio_transcription.delta", "“Hello”"),
        (2_000, "(speech ends)", "clip.wav"),
        (2_300, "input_audio_buffer.speech_stopped", "audio_end_ms 2300"),
        (2_310, "response.created", ""),
        (2_350, "conversation.item.input_audio_transcription.completed", "“Hello.”"),
        (2_400, "response.output_audio_transcript.delta", "“Good day.”"),
        (2_450, "response.output_audio.delta", "2 deltas, 0.25 s"),
        (2_480, "response.output_audio_transcript.done", "“Good day.”"),
        (2_500, "response.done", "completed"),
    ]


def test_errors_and_cuts_are_spelled_out() -> None:
    events = [
        at(1, "error", error={"code": "bad", "message": "No."}),
        at(2, "response.done", response={"status": "cancelled", "status_details": {"reason": "turn_detected"}}),
        at(3, "conversation.item.truncated", audio_end_ms=120),
        at(4, "conversation.item.added", item={"role": "user", "type": "message"}),
        at(5, "response.output_text.done", text="x" * 200),
    ]
    details = [row.detail for row in rows(events, [], START_S)]
    assert details[:4] == ["bad: No.", "cancelled, turn_detected", "audio_end_ms 120", "user"]
    assert len(details[4]) == 72
