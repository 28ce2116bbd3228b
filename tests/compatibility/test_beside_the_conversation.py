"""Out-of-band responses, transcription sessions and audio in items, as users of the stock SDK ask for them."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from openai import OpenAI
from recording_chat_server import RecordingChatServer, pieces
from speech_references import clip
from stock_openai import StockSession, stock_session, types

pytestmark = pytest.mark.compatibility


def text_of(event: dict[str, Any]) -> str:
    return str(event["response"]["output"][0]["content"][0]["text"])


def test_a_classification_beside_the_conversation_leaves_no_trace_in_it(
    base_url: str, llm: RecordingChatServer
) -> None:
    llm.answer("support", "Hello to you.")
    with stock_session(base_url) as session:
        session.say("I cannot log in.")
        session.connection.response.create(
            response={
                "conversation": "none",
                "metadata": {"topic": "classification"},
                "output_modalities": ["text"],
                "instructions": "Answer `support` or `sales`.",
            }
        )
        events = session.until("response.done")
        assert not [kind for kind in types(events) if kind.startswith("conversation.item.")]
        done = events[-1]
        assert text_of(done) == "support"
        assert (done["response"]["conversation_id"], done["response"]["metadata"]) == (
            None,
            {"topic": "classification"},
        )
        assert llm.requests[0].said_by("user") == ["I cannot log in."]
        session.connection.response.create(response={"output_modalities": ["text"]})
        assert session.until("response.done")[-1]["response"]["conversation_id"]
        assert llm.requests[1].said_by("assistant") == []


def test_two_responses_run_beside_a_spoken_one_and_are_told_apart_by_metadata(
    base_url: str, llm: RecordingChatServer
) -> None:
    llm.answer(pieces([f"This is sentence {n}. " for n in range(12)], every_s=0.1), "one", "two")
    with stock_session(base_url) as session:
        session.say("Tell me everything.")
        session.connection.response.create()
        session.until("response.output_audio.delta")
        for name in ("first", "second"):
            own_input: Any = [
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": f"the {name} question"}]}
            ]
            session.connection.response.create(
                response={
                    "conversation": "none",
                    "metadata": {"name": name},
                    "output_modalities": ["text"],
                    "input": own_input,
                }
            )
        done = [session.until("response.done")[-1]["response"] for _ in range(3)]
        order = [(response["metadata"] or {}).get("name") for response in done]
        assert order[-1] is None, "the spoken one is the longest"
        assert set(order[:-1]) == {"first", "second"}
        assert [response["status"] for response in done] == ["completed"] * 3
        asked = [request.said_by("user") for request in llm.requests[1:]]
        assert sorted(asked) == [["the first question"], ["the second question"]]


def test_cancelling_one_by_its_id_leaves_the_conversations_response_alone(
    base_url: str, llm: RecordingChatServer
) -> None:
    endless = [f"Sentence {n} goes on. " for n in range(200)]
    llm.answer(pieces(endless[:10], every_s=0.1), pieces(endless, every_s=0.1))
    with stock_session(base_url) as session:
        session.say("Talk.")
        session.connection.response.create(response={"output_modalities": ["text"]})
        session.until("response.output_text.delta")
        session.connection.response.create(response={"conversation": "none", "output_modalities": ["text"]})
        beside = session.until("response.created")[-1]["response"]["id"]
        session.connection.response.cancel(response_id=beside)
        cancelled = session.until("response.done")[-1]["response"]
        assert (cancelled["id"], cancelled["status"]) == (beside, "cancelled")
        assert session.until("response.done")[-1]["response"]["status"] == "completed"


def test_an_item_with_audio_is_heard(base_url: str, llm: RecordingChatServer) -> None:
    with stock_session(base_url) as session:
        audio = base64.b64encode(clip("goforward").pcm).decode()
        session.connection.conversation.item.create(
            item={"type": "message", "role": "user", "content": [{"type": "input_audio", "audio": audio}]}
        )
        session.until("conversation.item.done")
        session.connection.response.create(response={"output_modalities": ["text"]})
        session.until("response.done")
        (said,) = llm.requests[0].said_by("user")
        assert said, "the scripted recogniser's words"


def test_a_transcription_session_writes_down_and_never_answers(base_url: str, llm: RecordingChatServer) -> None:
    client = OpenAI(api_key="k", base_url=base_url)
    with client, client.realtime.connect(extra_query={"intent": "transcription"}) as connection:
        session = StockSession(connection)
        assert session.next()["session"]["type"] == "transcription"
        connection.session.update(
            session={
                "type": "transcription",
                "audio": {"input": {"transcription": {"model": "gpt-4o-transcribe", "language": "en"}}},
            }
        )
        assert session.until("session.updated")[-1]["session"]["object"] == "realtime.transcription_session"
        for _ in range(2):
            session.append(clip("goforward").pcm + bytes(48_000))
            events = session.until("conversation.item.input_audio_transcription.completed")
            assert [kind for kind in types(events) if not kind.endswith("delta")] == [
                "input_audio_buffer.speech_started",
                "input_audio_buffer.speech_stopped",
                "input_audio_buffer.committed",
                "conversation.item.added",
                "conversation.item.done",
                "conversation.item.input_audio_transcription.completed",
            ]
            deltas = [event["delta"] for event in events if event["type"].endswith("transcription.delta")]
            assert "".join(deltas) == events[-1]["transcript"] != ""
        connection.response.create()
        assert session.next()["error"]["code"] == "invalid_value"
        assert llm.requests == []
