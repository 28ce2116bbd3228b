"""What a beta client sees of a conversation."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any, get_args

import pytest
from openai.types.beta.realtime import RealtimeServerEvent as BetaServerEvent
from openai.types.realtime import RealtimeServerEvent

from protocol.backend_events import (
    CommandRefused,
    EndReason,
    EndStatus,
    EngineFault,
    FunctionCallArgumentsDelta,
    FunctionCallStarted,
    InputCommitted,
    InputTranscriptCompleted,
    InputTranscriptDelta,
    InputTranscriptFailed,
    OutputAudio,
    OutputItemEnded,
    OutputTextDelta,
    RefusalKind,
    ResponseEnded,
    ResponseStarted,
    SpeechStarted,
    SpeechStopped,
)
from protocol.beta.server_events import to_beta
from protocol.commands import CreateResponse
from protocol.outputs import ServerEvent
from protocol.session_settings import SessionDefaults
from protocol.wire import Dialect


def types(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"] for event in events]


def test_a_session_opens_with_itself(new_talk: Callable[..., Any]) -> None:
    talk = new_talk(dialect=Dialect.BETA)
    (created,) = talk.open()
    assert created["type"] == "session.created"
    assert created["session"] == {
        "id": "sess_1",
        "object": "realtime.session",
        "model": "gpt-realtime",
        "expires_at": 3600,
        "modalities": ["text", "audio"],
        "instructions": SessionDefaults().instructions,
        "voice": "marin",
        "input_audio_format": "pcm16",
        "output_audio_format": "pcm16",
        "input_audio_transcription": None,
        "input_audio_noise_reduction": None,
        "turn_detection": {
            "type": "server_vad",
            "threshold": 0.5,
            "prefix_padding_ms": 300,
            "silence_duration_ms": 500,
            "create_response": True,
            "interrupt_response": True,
        },
        "tools": [],
        "tool_choice": "auto",
        "temperature": 0.8,
        "max_response_output_tokens": "inf",
        "speed": 1.0,
        "tracing": None,
        "include": None,
        "client_secret": None,
    }


def test_a_spoken_turn_has_beta_s_names_in_beta_s_order(beta: Any) -> None:
    beta.send("session.update", session={"input_audio_transcription": {"model": "whisper-1"}})
    events = beta.backend(
        SpeechStarted("item_u", 4_800),
        SpeechStopped("item_u", 46_080),
        InputCommitted("item_u", 4_800, 46_080),
        ResponseStarted("resp_1"),
        InputTranscriptDelta("item_u", "Hello."),
        InputTranscriptCompleted("item_u", "Hello.", 41_280),
        OutputTextDelta("resp_1", "item_a", "Hi."),
        OutputAudio("resp_1", "item_a", bytes(4_800)),
        OutputItemEnded("resp_1", "item_a"),
        ResponseEnded("resp_1", EndStatus.COMPLETED),
    )
    assert types(events) == [
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
        "conversation.item.created",
        "response.created",
        "conversation.item.input_audio_transcription.delta",
        "conversation.item.input_audio_transcription.completed",
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
    user, assistant = (event for event in events if event["type"] == "conversation.item.created")
    assert user["item"]["content"] == [{"type": "input_audio", "transcript": None}]
    assert (assistant["item"]["content"], assistant["item"]["status"]) == ([], "in_progress")
    assert events[9]["part"] == {"type": "audio", "transcript": ""}
    assert events[-3]["item"]["content"] == [{"type": "audio", "transcript": "Hi."}]
    done = events[-2]["response"]
    assert done["output"] == [events[-3]["item"]]
    assert (done["modalities"], done["voice"], done["output_audio_format"]) == (["text", "audio"], "marin", "pcm16")
    assert (done["temperature"], done["max_output_tokens"]) == (0.8, "inf")
    assert "image_tokens" not in json.dumps(done["usage"])


def test_text_has_beta_s_names(beta: Any) -> None:
    beta.send("session.update", session={"modalities": ["text"]})
    events = beta.backend(
        ResponseStarted("resp_1"),
        OutputTextDelta("resp_1", "item_a", "Hi."),
        OutputItemEnded("resp_1", "item_a"),
        ResponseEnded("resp_1", EndStatus.COMPLETED),
    )
    assert types(events) == [
        "response.created",
        "response.output_item.added",
        "conversation.item.created",
        "response.content_part.added",
        "response.text.delta",
        "response.text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.done",
        "rate_limits.updated",
    ]
    assert events[0]["response"]["output"] == []
    assert events[0]["response"]["modalities"] == ["text"]
    assert events[3]["part"] == {"type": "text", "text": ""}
    assert events[-3]["item"]["content"] == [{"type": "text", "text": "Hi."}]


def test_a_function_call_s_arguments_come_without_its_name(beta: Any) -> None:
    events = beta.backend(
        ResponseStarted("resp_1"),
        FunctionCallStarted("resp_1", "item_f", "call_1", "get_weather"),
        FunctionCallArgumentsDelta("resp_1", "item_f", "{}"),
        OutputItemEnded("resp_1", "item_f"),
        ResponseEnded("resp_1", EndStatus.COMPLETED),
    )
    assert types(events)[1:6] == [
        "response.output_item.added",
        "conversation.item.created",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
    ]
    assert (events[2]["item"]["arguments"], events[2]["item"]["name"]) == ("", "get_weather")
    assert "name" not in events[4]
    assert events[4]["arguments"] == "{}"
    assert (events[5]["item"]["status"], events[5]["item"]["arguments"]) == ("completed", "{}")


def test_truncated_deleted_and_retrieved_are_alike_in_both(beta: Any) -> None:
    beta.agent_says("resp_1", "item_a", ("One two three.", 24_000))
    (truncated,) = beta.send("conversation.item.truncate", item_id="item_a", content_index=0, audio_end_ms=500)
    assert (truncated["type"], truncated["audio_end_ms"]) == ("conversation.item.truncated", 500)
    content = beta.retrieved("item_a")["content"]
    assert content[0]["type"] == "audio"
    assert content[0]["audio"]
    (deleted,) = beta.send("conversation.item.delete", item_id="item_a")
    assert (deleted["type"], deleted["item_id"]) == ("conversation.item.deleted", "item_a")


def test_a_cancelled_a_failed_and_a_refused_response_look_as_in_ga(beta: Any) -> None:
    cancelled = beta.backend(
        ResponseStarted("resp_1"),
        OutputTextDelta("resp_1", "item_a", "Hi."),
        ResponseEnded("resp_1", EndStatus.CANCELLED, 0, EndReason.CLIENT_CANCELLED),
    )
    assert cancelled[-2]["response"]["status_details"] == {"type": "cancelled", "reason": "client_cancelled"}
    fault = EngineFault("llm_unreachable", "It is away.")
    failed = beta.backend(ResponseStarted("resp_2"), ResponseEnded("resp_2", EndStatus.FAILED, 0, None, fault))
    assert failed[-2]["response"]["status_details"]["error"]["message"] == "It is away."
    (error,) = beta.backend(CommandRefused(RefusalKind.NO_ACTIVE_RESPONSE, "evt_c"))
    assert (error["error"]["code"], error["error"]["event_id"]) == ("response_cancel_not_active", "evt_c")


def test_a_failed_transcription_is_told(beta: Any) -> None:
    beta.send("session.update", session={"input_audio_transcription": {"model": "whisper-1"}})
    beta.backend(InputCommitted("item_u", 0, 4_800))
    (failed,) = beta.backend(InputTranscriptFailed("item_u", EngineFault("asr_failed", "No.")))
    assert failed["type"] == "conversation.item.input_audio_transcription.failed"
    assert failed["error"]["code"] == "asr_failed"


def test_another_voice_after_speech_is_refused(beta: Any) -> None:
    beta.agent_says("resp_1", "item_a", ("One.", 24_000))
    assert beta.refused("session.update", session={"voice": "echo"})["code"] == "cannot_update_voice"
    assert types(beta.send("session.update", session={"voice": "marin"})) == ["session.updated"]


def test_a_cut_a_call_and_a_deletion_keep_the_order_that_clients_rely_on(beta: Any) -> None:
    """The law, which judges every event, remembers what came before it."""
    beta.user_types("Hello.", id="item_u")
    beta.agent_says("resp_1", "item_a", ("One.", 24_000), ("Two.", 24_000))
    beta.send("conversation.item.truncate", item_id="item_a", content_index=0, audio_end_ms=700)
    events = beta.backend(
        ResponseStarted("resp_2"),
        FunctionCallStarted("resp_2", "item_f", "call_1", "f"),
        ResponseEnded("resp_2", EndStatus.INCOMPLETE, 0, EndReason.MAX_OUTPUT_TOKENS),
    )
    assert events[-2]["response"]["status_details"] == {"type": "incomplete", "reason": "max_output_tokens"}
    assert types(beta.send("conversation.item.delete", item_id="item_a")) == ["conversation.item.deleted"]


def test_an_out_of_band_response_adds_no_item(beta: Any) -> None:
    beta.send("response.create", response={"conversation": "none", "modalities": ["text"]})
    response_id = beta.commands(CreateResponse)[-1].response_id
    events = beta.backend(
        ResponseStarted(response_id),
        OutputTextDelta(response_id, "item_x", "Aside."),
        OutputItemEnded(response_id, "item_x"),
        ResponseEnded(response_id, EndStatus.COMPLETED),
    )
    assert "conversation.item.created" not in types(events)
    assert events[-2]["response"]["conversation_id"] is None
    assert events[-2]["response"]["output"][0]["content"] == [{"type": "text", "text": "Aside."}]


@pytest.mark.parametrize(
    "ga",
    [
        {"type": "input_audio_buffer.timeout_triggered", "item_id": "i"},
        {"type": "mcp_list_tools.completed", "item_id": "i"},
        {"type": "response.mcp_call.in_progress", "item_id": "i"},
        {"type": "response.mcp_call_arguments.done", "item_id": "i"},
        {"type": "conversation.item.input_audio_transcription.segment", "item_id": "i"},
        {"type": "conversation.item.done", "item": {"type": "message"}},
        {"type": "conversation.item.added", "item": {"type": "mcp_list_tools"}},
        {"type": "response.output_item.added", "item": {"type": "mcp_call"}},
    ],
)
def test_what_beta_does_not_know_is_not_sent(ga: dict[str, Any]) -> None:
    assert to_beta({**ga, "event_id": "e"}) is None


def test_every_ga_event_has_a_beta_name_of_its_own_or_none() -> None:
    ga_kinds = kinds_of(RealtimeServerEvent) - {"conversation.item.created"}  # in GA's union, but never sent
    named = {kind: to_beta({"type": kind, "event_id": "e", "error": NO_ERROR}) for kind in ga_kinds}
    beta_kinds = [event["type"] for event in named.values() if event is not None]
    assert len(set(beta_kinds)) == len(beta_kinds)
    assert set(beta_kinds) | {"transcription_session.updated"} == kinds_of(BetaServerEvent)


def kinds_of(union: Any) -> set[str]:
    models = get_args(get_args(union)[0])
    return {kind for model in models for kind in get_args(model.model_fields["type"].annotation)}


NO_ERROR = {"type": "t", "code": None, "message": "m", "param": None, "event_id": None}


def test_what_only_ga_can_say_is_left_out(new_talk: Callable[..., Any]) -> None:
    """A client that turns to beta may have made a GA session before."""
    talk = new_talk()
    talk.open()
    picture = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}
    talk.send(
        "conversation.item.create", item={"type": "message", "role": "user", "content": [picture], "id": "item_p"}
    )
    settings = talk.session.settings
    update = {
        "audio": {
            "input": {
                "turn_detection": {"type": "server_vad", "idle_timeout_ms": 6000},
                "transcription": {"model": "gpt-realtime-whisper", "delay": "low", "language": "en"},
                "noise_reduction": {"type": "near_field", "strength": 0.5},
            }
        },
        "parallel_tool_calls": True,
        "reasoning": {"effort": "low"},
        "truncation": "disabled",
        "tool_choice": {"type": "mcp", "server_label": "s"},
        "tools": [{"type": "mcp", "server_label": "s"}],
    }
    talk.session.settings = settings.merged(update)
    (updated,) = talk.send("session.update", session={"voice": "echo"})
    shown = updated["session"]
    assert "idle_timeout_ms" not in shown["turn_detection"]
    assert shown["input_audio_transcription"] == {"model": "gpt-realtime-whisper", "language": "en"}
    assert shown["input_audio_noise_reduction"] == {"type": "near_field"}
    assert (shown["tools"], shown["tool_choice"]) == ([], "auto")
    assert not {"parallel_tool_calls", "reasoning", "truncation", "prompt", "audio"} & shown.keys()
    assert talk.retrieved("item_p")["content"] == []


def test_the_ga_event_is_left_as_it_was(beta: Any) -> None:
    beta.agent_says("resp_1", "item_a", ("One.", 24_000))
    for output in beta.outputs:
        if isinstance(output, ServerEvent):
            before = copy.deepcopy(output.payload)
            beta.wire.write(output)
            assert output.payload == before
