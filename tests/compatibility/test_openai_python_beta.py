"""The stock openai SDK's beta client (`client.beta.realtime`) on a served gateway; each event obeys the beta law."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from openai import OpenAI
from openai.resources.beta.realtime.realtime import RealtimeConnection
from openai.types.beta.realtime import RealtimeServerEvent
from pydantic import TypeAdapter
from recording_chat_server import Delta, RecordingChatServer, Stop, Wait, words
from speech_references import clip
from stock_openai import squeezed, types
from wire_session import silence

from clients.bench.gateway_process import GatewayProcess
from protocol.beta.wire_law import BetaSessionLaw

pytestmark = pytest.mark.compatibility

Event = dict[str, Any]
DEADLINE_S = 30
ADAPTER: TypeAdapter[Any] = TypeAdapter(RealtimeServerEvent)
WEATHER: Any = {
    "type": "function",
    "name": "get_weather",
    "description": "Tells the weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
SPOKEN_RESPONSE = [
    "response.created",
    "response.output_item.added",
    "conversation.item.created",
    "response.content_part.added",
    "response.audio_transcript.delta",
    "response.audio.delta",
    "response.audio.done",
    "response.audio_transcript.done",
    "response.content_part.done",
    "response.output_item.done",
    "response.done",
    "rate_limits.updated",
]


class BetaSession:
    """One connection of the SDK. `events` holds what it received, as JSON."""

    def __init__(self, connection: RealtimeConnection) -> None:
        self.connection = connection
        self.events: list[Event] = []
        self._law = BetaSessionLaw()

    def next(self) -> Event:
        # What `recv_bytes` does, but with a deadline: its own call waits for ever.
        raw = self.connection._connection.recv(timeout=DEADLINE_S, decode=False)
        event: Event = json.loads(raw)
        assert self._law.violations(event) == [], event
        parsed = self.connection.parse_event(raw)
        assert parsed.type == event["type"]
        if event["type"] == "session.created":
            assert parsed.session.id == event["session"]["id"]
        self.events.append(event)
        return event

    def until(self, kind: str) -> list[Event]:
        """Receive up to an event of that type; return what came."""
        begin = len(self.events)
        try:
            while (event := self.next())["type"] != kind:
                assert event["type"] != "error", event
        except TimeoutError as error:
            raise AssertionError(f"no {kind}, but {types(self.events[begin:])}") from error
        return self.events[begin:]

    def update(self, **session: Any) -> Event:
        self.connection.session.update(session=session)
        shown: Event = self.until("session.updated")[-1]["session"]
        return shown

    def say(self, text: str) -> None:
        content: Any = [{"type": "input_text", "text": text}]
        self.connection.conversation.item.create(item={"type": "message", "role": "user", "content": content})
        self.until("conversation.item.created")

    def append(self, pcm: bytes) -> None:
        for start in range(0, len(pcm), 960):
            self.connection.input_audio_buffer.append(audio=base64.b64encode(pcm[start : start + 960]).decode())


@pytest.fixture
def beta_url(served: GatewayProcess) -> str:
    """The SDK's beta client forces TLS on a `base_url`, so that it needs this one."""
    return served.url.removesuffix("/realtime")


@contextmanager
def beta_session(beta_url: str, **query: str) -> Iterator[BetaSession]:
    client = OpenAI(api_key="k", websocket_base_url=beta_url)
    with client, client.beta.realtime.connect(model="gpt-4o-realtime-preview", extra_query=query) as connection:
        session = BetaSession(connection)
        assert session.next()["type"].endswith("session.created")
        yield session


def test_the_session_has_beta_s_shape_and_defaults(beta_url: str, llm: RecordingChatServer) -> None:
    with beta_session(beta_url) as session:
        created = session.events[0]["session"]
        assert (created["model"], created["voice"]) == ("gpt-4o-realtime-preview", "alloy")
        assert (created["modalities"], created["temperature"]) == (["text", "audio"], 0.8)
        assert (created["input_audio_format"], created["output_audio_format"]) == ("pcm16", "pcm16")
        assert created["input_audio_transcription"] is None
        assert created["turn_detection"]["silence_duration_ms"] == 500


def test_a_typed_turn_is_spoken_in_beta_s_order(beta_url: str, llm: RecordingChatServer) -> None:
    llm.answer("One two three.")
    with beta_session(beta_url) as session:
        session.say("Hello.")
        session.connection.response.create()
        events = session.until("rate_limits.updated")
        assert squeezed(events) == SPOKEN_RESPONSE
        done = events[-2]["response"]
        assert done["output"][0]["content"] == [{"type": "audio", "transcript": "One two three."}]
        assert (done["modalities"], done["output_audio_format"]) == (["text", "audio"], "pcm16")
        audio = [base64.b64decode(event["delta"]) for event in events if event["type"] == "response.audio.delta"]
        assert sum(map(len, audio)) == 3 * 300 * 48
        assert "temperature" not in llm.requests[0].body  # shown, but nobody set it


def test_a_temperature_and_a_limit_of_one_response_reach_the_model(beta_url: str, llm: RecordingChatServer) -> None:
    with beta_session(beta_url) as session:
        session.update(temperature=0.7, instructions="Be brief.")
        session.say("Hello.")
        response: Any = {"modalities": ["text"], "temperature": 1.1, "max_response_output_tokens": 20}
        session.connection.response.create(response=response)
        done = session.until("response.done")[-1]["response"]
        assert (done["temperature"], done["max_output_tokens"], done["modalities"]) == (1.1, 20, ["text"])
        assert done["output"][0]["content"] == [{"type": "text", "text": "Fine."}]
        session.connection.response.create()
        session.until("response.done")
        first, second = llm.requests
        assert (first.body["temperature"], first.body["max_tokens"], second.body["temperature"]) == (1.1, 20, 0.7)


def test_a_spoken_turn_goes_through_the_vad(beta_url: str, llm: RecordingChatServer) -> None:
    with beta_session(beta_url) as session:
        session.update(input_audio_transcription={"model": "whisper-1"})
        session.append(clip("goforward").pcm + silence(1_500))
        events = session.until("rate_limits.updated")
        order = [kind for kind in squeezed(events) if "input_audio_transcription" not in kind]
        assert order == [
            "input_audio_buffer.speech_started",
            "input_audio_buffer.speech_stopped",
            "input_audio_buffer.committed",
            "conversation.item.created",
            *SPOKEN_RESPONSE,
        ]
        (completed,) = [event for event in events if event["type"].endswith("input_audio_transcription.completed")]
        assert completed["transcript"] == "Hello there."


def test_a_tool_call_goes_round(beta_url: str, llm: RecordingChatServer) -> None:
    function = {"name": "get_weather", "arguments": '{"city": "Oslo"}'}
    call = Delta({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]})
    llm.answer([call, Stop("tool_calls")], "It is sunny.")
    with beta_session(beta_url) as session:
        session.update(tools=[WEATHER], tool_choice="auto")
        session.say("Weather in Oslo?")
        session.connection.response.create()
        events = session.until("response.done")
        assert squeezed(events) == [
            "response.created",
            "response.output_item.added",
            "conversation.item.created",
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "response.output_item.done",
            "response.done",
        ]
        called = events[-2]["item"]
        assert (called["name"], called["arguments"], called["status"]) == (
            "get_weather",
            '{"city": "Oslo"}',
            "completed",
        )
        output: Any = {"type": "function_call_output", "call_id": called["call_id"], "output": "sunny"}
        session.connection.conversation.item.create(item=output)
        session.connection.response.create()
        done = session.until("response.done")[-1]["response"]
        assert done["output"][0]["content"][0]["transcript"] == "It is sunny."


def test_a_cancelled_response_closes_all_that_it_opened(beta_url: str, llm: RecordingChatServer) -> None:
    llm.answer([*words("One two three. "), Wait(60)])
    with beta_session(beta_url) as session:
        session.say("Hello.")
        session.connection.response.create()
        session.until("response.audio.delta")
        session.connection.response.cancel()
        events = session.until("response.done")
        assert [kind for kind in types(events) if not kind.endswith(".delta")] == SPOKEN_RESPONSE[6:11]
        assert events[-1]["response"]["status_details"] == {"type": "cancelled", "reason": "client_cancelled"}


def test_a_mistake_names_the_beta_path_and_the_event(beta_url: str, llm: RecordingChatServer) -> None:
    with beta_session(beta_url) as session:
        wrong: Any = {"input_audio_format": "opus"}
        session.connection.session.update(session=wrong, event_id="evt_1")
        error = session.until("error")[-1]["error"]
        assert (error["code"], error["param"], error["event_id"]) == (
            "invalid_value",
            "session.input_audio_format",
            "evt_1",
        )
        assert "'pcm16', 'g711_ulaw', and 'g711_alaw'" in error["message"]


def test_a_transcription_session_writes_down_what_it_hears(beta_url: str, llm: RecordingChatServer) -> None:
    with beta_session(beta_url, intent="transcription") as session:
        assert session.events[0]["type"] == "transcription_session.created"
        update: Any = {"input_audio_transcription": {"model": "gpt-4o-transcribe", "language": "en"}}
        session.connection.transcription_session.update(session=update)
        shown = session.until("transcription_session.updated")[-1]["session"]
        assert shown["input_audio_transcription"] == {"model": "gpt-4o-transcribe", "language": "en"}
        session.append(clip("goforward").pcm + silence(1_500))
        events = session.until("conversation.item.input_audio_transcription.completed")
        assert events[-1]["transcript"] == "Hello there."
        assert "response.created" not in types(events)


def test_pydantic_itself_accepts_what_was_sent(beta_url: str, llm: RecordingChatServer) -> None:
    """The beta law walks OpenAI's types by itself; pydantic must agree."""
    with beta_session(beta_url) as session:
        session.say("Hello.")
        session.connection.response.create()
        session.until("rate_limits.updated")
    for event in session.events:
        if event["type"] == "session.created":  # the SDK lists the models that a session may name
            event["session"].pop("model")
        assert ADAPTER.validate_python(event).type == event["type"]
