"""A client as strict as openai-realtime-api-beta on a served gateway, by subprotocol and without any header."""

from __future__ import annotations

from typing import Any

import pytest
from recording_chat_server import Delta, RecordingChatServer, Stop, Wait, words
from speech_references import clip
from strict_beta_client import BetaClientError, BetaConversation, StrictBetaClient, strict_beta_client
from wire_session import silence

pytestmark = pytest.mark.compatibility

VAD = {"type": "server_vad", "threshold": 0.5, "prefix_padding_ms": 300, "silence_duration_ms": 500}
WEATHER = {
    "name": "get_weather",
    "description": "Tells the weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def types(client: StrictBetaClient) -> list[str]:
    return [event["type"] for event in client.events]


def test_the_session_opens_and_takes_the_client_s_settings(socket_url: str, llm: RecordingChatServer) -> None:
    with strict_beta_client(socket_url) as client:
        assert types(client) == ["session.created", "session.updated"]
        created, updated = client.events[0]["session"], client.events[1]["session"]
        assert (created["model"], created["turn_detection"]["type"]) == ("gpt-realtime", "server_vad")
        assert (updated["voice"], updated["turn_detection"], updated["max_response_output_tokens"]) == (
            "verse",
            None,
            4096,
        )


def test_a_typed_turn_is_spoken(socket_url: str, llm: RecordingChatServer) -> None:
    llm.answer("One two three.")
    with strict_beta_client(socket_url) as client:
        client.say("Hello.")
        client.until("response.done")
        user, assistant = (client.conversation.items[item_id] for item_id in client.conversation.order)
        assert user["content"] == [{"type": "input_text", "text": "Hello."}]
        assert assistant["content"] == [{"type": "audio", "transcript": "One two three."}]
        assert assistant["status"] == "completed"
        assert len(client.conversation.audio[assistant["id"]]) == 3 * 300 * 48
        assert llm.requests[0].body["temperature"] == 0.8
        assert llm.requests[0].body["max_tokens"] == 4096


def test_a_text_turn_has_no_sound(socket_url: str, llm: RecordingChatServer) -> None:
    llm.answer("Just text.")
    with strict_beta_client(socket_url) as client:
        client.update_session(modalities=["text"])
        client.say("Hello.")
        client.until("response.done")
        assistant = client.conversation.items[client.conversation.order[-1]]
        assert assistant["content"] == [{"type": "text", "text": "Just text."}]
        assert client.conversation.audio[assistant["id"]] == b""
        assert "response.text.delta" in types(client)


def test_a_spoken_turn_is_heard_and_answered(socket_url: str, llm: RecordingChatServer) -> None:
    llm.answer("One two three.")
    with strict_beta_client(socket_url) as client:
        client.update_session(turn_detection=VAD, input_audio_transcription={"model": "whisper-1"})
        client.append(clip("goforward").pcm + silence(1_500))
        client.until("response.done")
        user, assistant = (client.conversation.items[item_id] for item_id in client.conversation.order)
        assert user["content"] == [{"type": "input_audio", "transcript": "Hello there."}]
        assert assistant["content"][0]["transcript"] == "One two three."
        speech = client.conversation.speech[user["id"]]
        assert speech["start_ms"] < speech["end_ms"]


def test_a_spoken_turn_may_end_by_hand(socket_url: str, llm: RecordingChatServer) -> None:
    with strict_beta_client(socket_url) as client:
        client.append(clip("goforward").pcm)
        client.create_response()  # commits first, without waiting
        client.until("response.done")
        assert [client.conversation.items[item_id]["role"] for item_id in client.conversation.order] == [
            "user",
            "assistant",
        ]
        assert not client.conversation.speech


def test_a_tool_runs_and_its_result_is_spoken(socket_url: str, llm: RecordingChatServer) -> None:
    function = {"name": "get_weather", "arguments": '{"city": '}
    llm.answer(
        [
            Delta({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]}),
            Delta({"tool_calls": [{"index": 0, "function": {"arguments": '"Oslo"}'}}]}),
            Stop("tool_calls"),
        ],
        "It is sunny.",
    )
    asked: list[dict[str, object]] = []

    def get_weather(arguments: dict[str, object]) -> object:
        asked.append(arguments)
        return {"sky": "sunny"}

    with strict_beta_client(socket_url) as client:
        client.add_tool(WEATHER, get_weather)
        client.until("session.updated")
        client.say("Weather in Oslo?")
        client.until("response.done")
        client.until("response.done")
        assert asked == [{"city": "Oslo"}]
        kinds = [client.conversation.items[item_id]["type"] for item_id in client.conversation.order]
        assert kinds == ["message", "function_call", "function_call_output", "message"]
        assert client.conversation.items[client.conversation.order[-1]]["content"][0]["transcript"] == "It is sunny."
        assert llm.requests[1].said_by("tool") == ['{"sky": "sunny"}']


def test_a_response_is_cancelled_and_cut_to_what_was_heard(socket_url: str, llm: RecordingChatServer) -> None:
    llm.answer([*words("One two three four five six. "), Wait(60)], "Fine.")
    with strict_beta_client(socket_url) as client:
        client.say("Count.")
        item_id = client.until("response.audio.delta")[-1]["item_id"]
        while len(client.conversation.audio[item_id]) < 600 * 48:
            client.next()
        client.cancel_response(item_id, 600 * 24)
        client.until("conversation.item.truncated")
        if "response.done" not in types(client):
            client.until("response.done")
        done = next(event["response"] for event in client.events if event["type"] == "response.done")
        assert (done["status"], done["status_details"]["reason"]) == ("cancelled", "client_cancelled")
        assert client.conversation.items[item_id]["status"] == "incomplete"
        assert len(client.conversation.audio[item_id]) == 600 * 48
        client.say("And now?")
        client.until("response.done")
        assert llm.requests[1].said_by("assistant")[0].startswith("One two")
        assert "six" not in llm.requests[1].said_by("assistant")[0]


def test_a_cancel_with_nothing_to_cancel_is_told_and_does_no_harm(socket_url: str, llm: RecordingChatServer) -> None:
    with strict_beta_client(socket_url) as client:
        client.say("Hello.")
        item_id = client.until("response.done")[-1]["response"]["output"][0]["id"]
        event_id = client.send("response.cancel")
        (error,) = [event for event in client.until("error", errors=True) if event["type"] == "error"]
        assert (error["error"]["code"], error["error"]["event_id"]) == ("response_cancel_not_active", event_id)
        client.send("conversation.item.truncate", item_id=item_id, content_index=0, audio_end_ms=100)
        client.until("conversation.item.truncated")


def test_an_item_is_deleted(socket_url: str, llm: RecordingChatServer) -> None:
    with strict_beta_client(socket_url) as client:
        client.say("Hello.")
        client.until("response.done")
        first = client.conversation.order[0]
        client.send("conversation.item.delete", item_id=first)
        client.until("conversation.item.deleted")
        assert first not in client.conversation.items
        client.say("Again.")
        client.until("response.done")
        assert llm.requests[1].said_by("user") == ["Again."]


def test_speech_over_a_reply_interrupts_it(socket_url: str, llm: RecordingChatServer) -> None:
    llm.answer([*words("One two three four. " * 20), Wait(60)], "Yes?")
    with strict_beta_client(socket_url) as client:
        client.update_session(turn_detection=VAD)
        client.say("Talk.")
        client.until("response.audio.delta")
        client.append(clip("goforward").pcm + silence(1_500))
        first = client.until("response.done")[-1]["response"]
        assert (first["status"], first["status_details"]["reason"]) == ("cancelled", "turn_detected")
        assert client.until("response.done")[-1]["response"]["status"] == "completed"


def test_a_mistake_is_told_in_the_client_s_words(socket_url: str, llm: RecordingChatServer) -> None:
    with strict_beta_client(socket_url) as client:
        for session, param in (
            ({"modalities": ["audio"]}, "session.modalities"),
            ({"output_modalities": ["text"]}, "session.output_modalities"),
            ({"max_response_output_tokens": 5000}, "session.max_response_output_tokens"),
        ):
            event_id = client.send("session.update", session=session)
            error = client.until("error", errors=True)[-1]["error"]
            assert (error["param"], error["event_id"]) == (param, event_id)
            assert param in error["message"] or param == "session.modalities"


ITEM = {"id": "i", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
CREATED = {"type": "conversation.item.created", "previous_item_id": None, "item": ITEM}
PART = {"type": "response.content_part.added", "item_id": "i", "content_index": 0}
DELTA = {"type": "response.audio_transcript.delta", "item_id": "i", "content_index": 0, "delta": "x"}


@pytest.mark.parametrize(
    "events",
    [
        [{**PART, "part": {"type": "audio", "transcript": ""}}, CREATED],
        [{**CREATED, "item": {key: value for key, value in ITEM.items() if key != "content"}}],
        [{**CREATED, "item": {"id": "f", "type": "function_call"}}],
        [CREATED, {**PART, "part": {"type": "audio"}}, DELTA],
        [CREATED, DELTA],
        [CREATED, CREATED],
        [{"type": "response.output_item.added", "response_id": "r", "item": ITEM}],
        [{"type": "response.created", "response": {"id": "r"}}],
        [{"type": "conversation.item.deleted", "item_id": "i"}],
        [{"type": "conversation.item.truncated", "item_id": "i", "content_index": 0, "audio_end_ms": 1}],
        [CREATED, {"type": "response.audio.delta", "item_id": "i", "delta": "AAAA"}],
        [{"type": "response.output_item.done", "item": ITEM}],
    ],
)
def test_the_client_is_as_strict_as_the_one_that_it_stands_for(events: list[dict[str, Any]]) -> None:
    with pytest.raises((BetaClientError, IndexError)):
        told(*events)


def told(*events: dict[str, Any]) -> None:
    conversation = BetaConversation()
    for event in events:
        conversation.take(event)
