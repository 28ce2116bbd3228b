"""The stock openai SDK on a served gateway: what protocol.md §2 says comes, in its order and with its fields."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from recording_chat_server import Delta, RecordingChatServer, Stop, Wait, words
from speech_references import clip
from stock_openai import Event, StockSession, squeezed, stock_session, types
from wire_session import silence

pytestmark = pytest.mark.compatibility

SPOKEN_RESPONSE = [
    "response.created",
    "response.output_item.added",
    "conversation.item.added",
    "response.content_part.added",
    "response.output_audio_transcript.delta",
    "response.output_audio.delta",
    "response.output_audio.done",
    "response.output_audio_transcript.done",
    "response.content_part.done",
    "conversation.item.done",
    "response.output_item.done",
    "response.done",
    "rate_limits.updated",
]

WEATHER: Any = {
    "type": "function",
    "name": "get_weather",
    "description": "Tells the weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def update(session: StockSession, **fields: Any) -> Event:
    changes: Any = {"type": "realtime", **fields}
    session.connection.session.update(session=changes)
    return session.until("session.updated")[-1]["session"]


def test_session_created_tells_the_documented_defaults(base_url: str, llm: RecordingChatServer) -> None:
    with stock_session(base_url) as session:
        created = session.events[0]["session"]
        assert created["id"].startswith("sess_")
        assert created["model"] == "gpt-realtime"
        assert created["output_modalities"] == ["audio"]
        assert created["audio"]["input"]["format"] == {"type": "audio/pcm", "rate": 24_000}
        assert created["audio"]["input"]["turn_detection"]["type"] == "server_vad"
        assert created["audio"]["input"]["transcription"] is None
        assert created["tools"] == []
        assert created["tool_choice"] == "auto"


def test_a_typed_turn_is_answered_in_speech_in_the_canonical_order(base_url: str, llm: RecordingChatServer) -> None:
    llm.answer("One two three.")
    with stock_session(base_url) as session:
        session.say("Hello.")
        session.connection.response.create()
        events = session.until("rate_limits.updated")
        assert squeezed(events) == SPOKEN_RESPONSE
        assert_same_ids(events)
        done = events[types(events).index("response.done")]["response"]
        assert done["status"] == "completed"
        assert done["conversation_id"].startswith("conv_")
        assert done["output"][0]["content"][0] == {"type": "output_audio", "transcript": "One two three."}
        assert done["usage"]["total_tokens"] == done["usage"]["input_tokens"] + done["usage"]["output_tokens"]
        audio = b"".join(
            base64.b64decode(event["delta"]) for event in events if event["type"] == "response.output_audio.delta"
        )
        assert len(audio) == 3 * 300 * 48  # the scripted voice: 300 ms a word
        said = "".join(event["delta"] for event in events if event["type"] == "response.output_audio_transcript.delta")
        assert said == "One two three."


def assert_same_ids(events: list[Event]) -> None:
    inside = [event for event in events if event["type"].startswith("response.")]
    assert len({event.get("response_id") or event["response"]["id"] for event in inside}) == 1
    items = {event.get("item_id") or event["item"]["id"] for event in inside if "response" not in event}
    assert len(items) == 1
    assert {event["output_index"] for event in inside if "output_index" in event} == {0}
    assert {event["content_index"] for event in inside if "content_index" in event} == {0}


def test_a_spoken_turn_comes_in_the_documented_order(base_url: str, llm: RecordingChatServer) -> None:
    with stock_session(base_url) as session:
        update(session, audio={"input": {"transcription": {"model": "whisper-1"}}})
        session.append(silence(300) + clip("cards_001").pcm + silence(1_000))
        events = session.until("rate_limits.updated")
        order = [
            kind
            for kind in squeezed(events)
            if not kind.startswith("conversation.item.input_audio_transcription")  # may come anywhere
        ]
        assert order == [
            "input_audio_buffer.speech_started",
            "input_audio_buffer.speech_stopped",
            "input_audio_buffer.committed",
            "conversation.item.added",
            "conversation.item.done",
            *SPOKEN_RESPONSE,
        ]
        started, stopped, committed, added, done = (events[types(events).index(kind)] for kind in order[:5])
        assert {started["item_id"], stopped["item_id"], committed["item_id"]} == {added["item"]["id"]}
        assert added["item"] == done["item"]
        assert added["item"]["role"] == "user"
        assert added["item"]["content"][0]["type"] == "input_audio"
        assert started["audio_start_ms"] < stopped["audio_end_ms"]
        transcribed = [event for event in events if event["type"].endswith("input_audio_transcription.completed")]
        assert [event["item_id"] for event in transcribed] == [started["item_id"]]


def test_a_manual_turn_needs_a_commit_and_a_request(base_url: str, llm: RecordingChatServer) -> None:
    with stock_session(base_url) as session:
        update(session, audio={"input": {"turn_detection": None}})
        session.append(clip("cards_001").pcm)
        session.connection.input_audio_buffer.commit()
        session.connection.response.create()  # at once, as clients do
        events = session.until("rate_limits.updated")
        assert squeezed(events) == [
            "input_audio_buffer.committed",
            "conversation.item.added",
            "conversation.item.done",
            *SPOKEN_RESPONSE,
        ]
        session.append(clip("cards_001").pcm)
        session.connection.input_audio_buffer.clear()
        assert types(session.until("input_audio_buffer.cleared")) == ["input_audio_buffer.cleared"]


def test_text_only_has_no_sound(base_url: str, llm: RecordingChatServer) -> None:
    llm.answer("Just text.")
    with stock_session(base_url) as session:
        update(session, output_modalities=["text"])
        session.say("Hello.")
        session.connection.response.create()
        events = session.until("rate_limits.updated")
        assert squeezed(events) == [
            "response.created",
            "response.output_item.added",
            "conversation.item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "conversation.item.done",
            "response.output_item.done",
            "response.done",
            "rate_limits.updated",
        ]
        done = events[-2]["response"]
        assert done["output"][0]["content"] == [{"type": "output_text", "text": "Just text."}]


def test_a_tool_call_goes_round(base_url: str, llm: RecordingChatServer) -> None:
    function = {"name": "get_weather", "arguments": '{"city": '}
    llm.answer(
        [
            Delta({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]}),
            Delta({"tool_calls": [{"index": 0, "function": {"arguments": '"Oslo"}'}}]}),
            Stop("tool_calls"),
        ],
        "It is sunny.",
    )
    with stock_session(base_url) as session:
        update(session, tools=[WEATHER])
        session.say("Weather in Oslo?")
        session.connection.response.create()
        events = session.until("rate_limits.updated")
        assert squeezed(events) == [
            "response.created",
            "response.output_item.added",
            "conversation.item.added",
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "conversation.item.done",
            "response.output_item.done",
            "response.done",
            "rate_limits.updated",
        ]
        call = events[-3]["item"]
        assert call["status"] == "completed"
        assert (call["name"], call["arguments"]) == ("get_weather", '{"city": "Oslo"}')
        assert events[types(events).index("response.function_call_arguments.done")]["name"] == "get_weather"
        output: Any = {"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}
        session.connection.conversation.item.create(item=output)
        session.until("conversation.item.done")
        session.connection.response.create()
        assert session.until("response.done")[-1]["response"]["output"][0]["content"][0]["transcript"] == "It is sunny."
        assert [message["role"] for message in llm.requests[1].messages[-3:]] == ["user", "assistant", "tool"]


def test_a_cancelled_response_closes_all_that_it_opened(base_url: str, llm: RecordingChatServer) -> None:
    llm.answer([*words("One two three. "), Wait(60)])
    with stock_session(base_url) as session:
        session.say("Hello.")
        session.connection.response.create()
        session.until("response.output_audio.delta")
        session.connection.response.cancel()
        events = session.until("response.done")
        closing = [kind for kind in types(events) if not kind.endswith(".delta")]
        assert closing == SPOKEN_RESPONSE[6:12]
        done = events[-1]["response"]
        assert done["status"] == "cancelled"
        assert done["status_details"] == {"type": "cancelled", "reason": "client_cancelled"}
        assert done["output"][0]["status"] == "incomplete"
        assert done["usage"] is not None


def test_truncation_is_confirmed_and_takes_the_unheard_words_away(base_url: str, llm: RecordingChatServer) -> None:
    llm.answer("One two three four.")
    with stock_session(base_url) as session:
        session.say("Count.")
        session.connection.response.create()
        item = session.until("response.done")[-1]["response"]["output"][0]
        session.connection.conversation.item.truncate(item_id=item["id"], content_index=0, audio_end_ms=600)
        truncated = session.until("conversation.item.truncated")[-1]
        assert (truncated["item_id"], truncated["content_index"], truncated["audio_end_ms"]) == (item["id"], 0, 600)
        session.connection.conversation.item.retrieve(item_id=item["id"])
        retrieved = session.until("conversation.item.retrieved")[-1]["item"]
        assert retrieved["content"][0].get("transcript", "") in ("", "One two")  # OpenAI keeps none, we what was heard
        assert len(base64.b64decode(retrieved["content"][0]["audio"])) == 600 * 48


def test_items_are_created_retrieved_and_deleted(base_url: str, llm: RecordingChatServer) -> None:
    with stock_session(base_url) as session:
        first = session.say("One.", id="my_first")
        second = session.say("Two.")
        assert first == "my_first"
        added = [event for event in session.events if event["type"] == "conversation.item.added"]
        assert [event["previous_item_id"] for event in added] == [None, "my_first"]
        session.connection.conversation.item.retrieve(item_id=second)
        retrieved = session.until("conversation.item.retrieved")[-1]["item"]
        assert retrieved["content"] == [{"type": "input_text", "text": "Two."}]
        session.connection.conversation.item.delete(item_id=first)
        assert session.until("conversation.item.deleted")[-1]["item_id"] == first
        session.connection.conversation.item.delete(item_id=first, event_id="again")
        error = session.until("error")[-1]["error"]
        assert error["code"] == "item_delete_invalid_item_id"
        assert error["event_id"] == "again"
        session.connection.response.create()
        session.until("response.done")
        assert llm.requests[0].said_by("user") == ["Two."]


def test_errors_name_the_event_that_caused_them(base_url: str, llm: RecordingChatServer) -> None:
    with stock_session(base_url) as session:
        voice: Any = {"type": "realtime", "voice": "alloy"}
        session.connection.session.update(session=voice, event_id="evt_beta")
        error = session.until("error")[-1]["error"]
        assert (error["code"], error["param"], error["event_id"]) == ("unknown_parameter", "session.voice", "evt_beta")
        session.connection.conversation.item.retrieve(item_id="nope", event_id="evt_item")
        error = session.until("error")[-1]["error"]
        assert (error["code"], error["event_id"]) == ("item_retrieve_invalid_item_id", "evt_item")
        session.connection.response.cancel(event_id="evt_cancel")
        error = session.until("error")[-1]["error"]
        assert (error["code"], error["event_id"]) == ("response_cancel_not_active", "evt_cancel")
