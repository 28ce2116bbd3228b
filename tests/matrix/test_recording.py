"""What the golden streams tell, and what they leave out."""

from __future__ import annotations

from typing import Any

from tests.matrix.recording import Event, stream_lines

USER = {"id": "item_abc", "type": "message", "status": "completed", "content": []}


def server(*events: Event) -> list[str]:
    return stream_lines(("server", {"event_id": f"event_{number}", **event}) for number, event in enumerate(events))


def delta(kind: str, item_id: str = "item_abc") -> Event:
    return {"type": f"response.{kind}.delta", "response_id": "resp_x", "item_id": item_id, "delta": {"chars": 3}}


def test_ids_are_renamed_in_order_of_appearance_and_keep_their_references() -> None:
    added = {"type": "conversation.item.added", "previous_item_id": "item_first", "item": {**USER}}
    assert server(
        {"type": "input_audio_buffer.committed", "previous_item_id": None, "item_id": "item_first"}, added
    ) == [
        "< input_audio_buffer.committed previous_item_id=null item_id=item_1",
        "< conversation.item.added previous_item_id=item_1 item={id:item_2 type:message status:completed content:[]}",
    ]


def test_an_error_names_the_clients_event() -> None:
    error = {"type": "invalid_request_error", "code": "invalid_value", "event_id": "mine"}
    stream = stream_lines(
        [
            ("client", {"type": "response.cancel", "event_id": "mine"}),
            ("server", {"type": "error", "event_id": "event_x", "error": error}),
        ]
    )
    assert stream == [
        "> response.cancel event_id=event_1",
        "< error error={type:invalid_request_error code:invalid_value event_id:event_1}",
    ]


def test_two_events_that_change_places_change_the_stream() -> None:
    one: Event = {"type": "response.output_audio.done", "item_id": "item_abc"}
    other: Event = {"type": "response.output_audio_transcript.done", "item_id": "item_abc"}
    assert server(one, other) != server(other, one)


def test_deltas_are_one_line_whatever_their_order_and_number() -> None:
    one = server(delta("output_audio"), delta("output_audio_transcript"))
    assert one == server(delta("output_audio_transcript"), delta("output_audio"), delta("output_audio"))
    assert one == ["< deltas of item_1: response.output_audio, response.output_audio_transcript"]


def test_a_delta_after_its_done_shows() -> None:
    done: Event = {"type": "response.output_audio.done", "item_id": "item_abc"}
    assert len(server(delta("output_audio"), done)) == 2
    assert len(server(delta("output_audio"), done, delta("output_audio"))) == 3


def test_a_float_where_an_integer_was_shows() -> None:
    started: Event = {"type": "input_audio_buffer.speech_started", "item_id": "item_abc"}
    assert server({**started, "audio_start_ms": 3}) == server({**started, "audio_start_ms": 700})
    assert server({**started, "audio_start_ms": 3}) != server({**started, "audio_start_ms": 3.0})


def test_a_null_a_missing_key_and_an_empty_text_are_three_things() -> None:
    values: list[Any] = [{"transcript": None}, {}, {"transcript": {"chars": 0}}, {"transcript": {"chars": 4}}]
    streams = [server({"type": "conversation.item.retrieved", "item": {**USER, **value}}) for value in values]
    assert len({stream[0] for stream in streams}) == 4


def test_settings_are_shown_once_and_then_when_they_change() -> None:
    session: Any = {"id": "sess_x", "audio": {"turn_detection": {"type": "server_vad", "silence_duration_ms": 500}}}
    changed: Any = {"id": "sess_x", "audio": {"turn_detection": None}}
    stream = server(
        {"type": "session.created", "session": session},
        {"type": "session.updated", "session": session},
        {"type": "session.updated", "session": changed},
    )
    assert stream == [
        "< session.created",
        "    session.id=sess_1",
        "    session.audio.turn_detection.type=server_vad",
        "    session.audio.turn_detection.silence_duration_ms=500",
        "< session.updated",
        "< session.updated",
        "    session.audio.turn_detection=null",
    ]


def test_appended_audio_stands_before_what_came_of_it() -> None:
    append = ("client", {"type": "input_audio_buffer.append", "audio": {"bytes": 960}})
    cleared = ("client", {"type": "input_audio_buffer.clear"})
    started = ("server", {"type": "input_audio_buffer.speech_started", "event_id": "e", "item_id": "item_abc"})
    assert stream_lines([append, append, started, append, cleared, cleared]) == [
        "> input_audio_buffer.append",
        "< input_audio_buffer.speech_started item_id=item_1",
        "> input_audio_buffer.append",
        "> input_audio_buffer.clear",
        "> input_audio_buffer.clear",
    ]


def test_a_retrieve_stands_behind_the_truncation_that_it_follows() -> None:
    truncated = ("server", {"type": "conversation.item.truncated", "event_id": "e", "item_id": "item_abc"})
    running = ("server", {"type": "response.created", "event_id": "e", "response": {"id": "resp_x"}})
    asked = ("client", {"type": "conversation.item.retrieve", "item_id": "item_abc"})
    answered = ("server", {"type": "conversation.item.retrieved", "event_id": "e", "item": USER})
    early = stream_lines([truncated, asked, answered, running])
    assert early == stream_lines([truncated, running, asked, answered])
    assert [line.split()[1] for line in early] == [
        "conversation.item.truncated",
        "conversation.item.retrieve",
        "conversation.item.retrieved",
        "response.created",
    ]


def test_of_a_reply_that_was_cut_only_the_types_are_told() -> None:
    cut = {"id": "item_abc", "status": "incomplete", "content": [{"type": "output_audio", "transcript": {"chars": 0}}]}
    (line,) = server({"type": "conversation.item.done", "item": cut})
    assert line == "< conversation.item.done item={id:item_1 status:incomplete content:[{type:output_audio}]}"


def test_a_cancel_that_came_too_late_for_a_cancelled_response_is_left_out() -> None:
    error = {"type": "invalid_request_error", "code": "response_cancel_not_active"}
    asked = ("client", {"type": "response.cancel"})
    refused = ("server", {"type": "error", "event_id": "e", "error": error})
    created = ("server", {"type": "response.created", "event_id": "e", "response": {"id": "resp_x"}})

    def done(status: str) -> tuple[str, dict[str, object]]:
        return "server", {"type": "response.done", "event_id": "e", "response": {"id": "resp_x", "status": status}}

    in_time = [created, asked, done("cancelled")]
    assert stream_lines([*in_time, asked, refused, asked, refused]) == stream_lines(in_time)
    assert stream_lines([created, asked, asked, done("cancelled"), refused]) == stream_lines(in_time)
    assert len(stream_lines([asked, refused])) == 2
    assert len(stream_lines([created, done("completed"), asked, refused])) == 4
