"""session.created, session.update and what a backend is told of it (RB-01, RB-02)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.client_events import SessionUpdate, parse_client_event
from protocol.commands import Configure
from protocol.outputs import ServerEvent, ToBackend
from protocol.session_settings import SessionDefaults, SessionSettings
from protocol.wire_law import violations

FUNCTION = {"type": "function", "name": "t1", "description": "d", "parameters": {"type": "object", "properties": {}}}


def test_session_created_is_first_and_shows_the_whole_session(new_talk: Callable[..., Any]) -> None:
    talk = new_talk()
    (created,) = talk.open()
    assert created["type"] == "session.created"
    assert created["session"] == {
        "type": "realtime",
        "object": "realtime.session",
        "id": "sess_1",
        "model": "gpt-realtime",
        "expires_at": 3600,
        "output_modalities": ["audio"],
        "instructions": SessionDefaults().instructions,
        "audio": {
            "input": {
                "format": {"type": "audio/pcm", "rate": 24000},
                "transcription": None,
                "noise_reduction": None,
                "turn_detection": {
                    "type": "server_vad",
                    "threshold": 0.5,
                    "prefix_padding_ms": 300,
                    "silence_duration_ms": 500,
                    "create_response": True,
                    "interrupt_response": True,
                },
            },
            "output": {"format": {"type": "audio/pcm", "rate": 24000}, "voice": "marin", "speed": 1.0},
        },
        "tools": [],
        "tool_choice": "auto",
        "max_output_tokens": "inf",
        "truncation": "auto",
        "tracing": None,
        "prompt": None,
        "include": None,
    }
    assert isinstance(talk.outputs[0], ServerEvent)
    assert isinstance(talk.outputs[1], ToBackend)


def test_an_update_is_answered_once_with_an_event_id_of_its_own(talk: Any) -> None:
    (updated,) = talk.send(
        "session.update",
        event_id="evt_cfg_1",
        session={"type": "realtime", "instructions": "Answer with one word.", "output_modalities": ["text"]},
    )
    assert updated["type"] == "session.updated"
    assert updated["event_id"] not in ("evt_cfg_1", talk.sent("session.created")[0]["event_id"])
    assert updated["session"]["instructions"] == "Answer with one word."
    assert updated["session"]["output_modalities"] == ["text"]
    assert updated["session"]["audio"] == talk.sent("session.created")[0]["session"]["audio"]
    assert talk.commands(Configure)[-1].audio_output is False


def test_absent_keeps_null_clears_and_nested_objects_merge(talk: Any) -> None:
    vad = {"type": "server_vad", "threshold": 0.6, "silence_duration_ms": 400}
    transcription = {"model": "whisper-1", "language": "en"}
    audio_input = {"transcription": transcription, "turn_detection": vad}
    (a,) = talk.update(instructions="RULE-A", tools=[FUNCTION], audio={"input": audio_input})
    assert a["session"]["audio"]["input"]["turn_detection"]["prefix_padding_ms"] == 300
    (b,) = talk.update(audio={"input": {"turn_detection": None}})
    assert b["session"]["audio"]["input"]["turn_detection"] is None
    assert b["session"]["audio"]["input"]["transcription"] == transcription
    assert (b["session"]["instructions"], b["session"]["tools"]) == ("RULE-A", [FUNCTION])
    assert talk.commands(Configure)[-1].turn_detection is None
    (c,) = talk.update(audio={"input": {"transcription": {"language": "de"}}})
    assert c["session"]["audio"]["input"]["transcription"] == {"model": "whisper-1", "language": "de"}
    assert talk.commands(Configure)[-1].language == "de"
    (d,) = talk.update(tools=[], instructions="")
    assert (d["session"]["tools"], d["session"]["instructions"]) == ([], "")


def test_naming_another_kind_of_turn_detection_replaces_the_whole(talk: Any) -> None:
    talk.update(audio={"input": {"turn_detection": {"type": "server_vad", "threshold": 0.9, "create_response": False}}})
    (event,) = talk.update(audio={"input": {"turn_detection": {"type": "semantic_vad", "eagerness": "low"}}})
    assert event["session"]["audio"]["input"]["turn_detection"] == {
        "type": "semantic_vad",
        "eagerness": "low",
        "create_response": True,
        "interrupt_response": True,
    }
    configured = talk.commands(Configure)[-1].turn_detection
    assert (configured.kind, configured.silence_duration, configured.prefix_padding) == ("semantic_vad", 24_000, 7_200)
    (event,) = talk.update(audio={"input": {"turn_detection": {"type": "server_vad"}}})
    assert event["session"]["audio"]["input"]["turn_detection"]["threshold"] == 0.5


@pytest.mark.parametrize(("eagerness", "silence_ms"), [("high", 300), ("medium", 500), ("auto", 500), ("low", 1_000)])
def test_eagerness_says_how_much_silence_ends_a_turn_that_nobody_judges(
    talk: Any, eagerness: str, silence_ms: int
) -> None:
    talk.update(audio={"input": {"turn_detection": {"type": "semantic_vad", "eagerness": eagerness}}})
    assert talk.commands(Configure)[-1].turn_detection.silence_duration == 24 * silence_ms


def test_null_inside_turn_detection_returns_to_the_default(talk: Any) -> None:
    vad = {"type": "server_vad", "threshold": 0.9, "idle_timeout_ms": 5000, "silence_duration_ms": 250}
    (event,) = talk.update(audio={"input": {"turn_detection": vad}})
    assert event["session"]["audio"]["input"]["turn_detection"]["idle_timeout_ms"] == 5000
    cleared = {"type": "server_vad", "threshold": None, "idle_timeout_ms": None, "model_version": "v1"}
    (event,) = talk.update(audio={"input": {"turn_detection": cleared}})
    shown = event["session"]["audio"]["input"]["turn_detection"]
    assert (shown["threshold"], shown["silence_duration_ms"]) == (0.5, 250)
    assert "idle_timeout_ms" not in shown
    assert "model_version" not in shown
    assert talk.commands(Configure)[-1].turn_detection.silence_duration == 6_000


@pytest.mark.parametrize(
    ("field", "value", "cleared"),
    [
        ("tool_choice", "none", "auto"),
        ("max_output_tokens", 100, "inf"),
        ("truncation", {"type": "retention_ratio", "retention_ratio": 0.5}, "auto"),
        ("tracing", "auto", None),
        ("prompt", {"id": "pmpt_1"}, None),
        ("include", ["item.input_audio_transcription.logprobs"], None),
        ("instructions", "be brief", ""),
        ("tools", [FUNCTION], []),
        ("output_modalities", ["text"], ["audio"]),
    ],
)
def test_null_clears_a_setting(talk: Any, field: str, value: Any, cleared: Any) -> None:
    (event,) = talk.update(**{field: value})
    assert event["session"][field] == value
    (event,) = talk.update(instructions="other")
    if field != "instructions":
        assert event["session"][field] == value
    (event,) = talk.update(**{field: None})
    assert event["session"][field] == cleared


def test_settings_of_reasoning_models_are_shown_once_they_were_given(talk: Any) -> None:
    (event,) = talk.update(parallel_tool_calls=False, reasoning={"effort": "low"})
    assert event["session"]["parallel_tool_calls"] is False
    assert event["session"]["reasoning"] == {"effort": "low"}
    (event,) = talk.update(parallel_tool_calls=None, reasoning=None)
    assert "parallel_tool_calls" not in event["session"]
    assert "reasoning" not in event["session"]


def test_voice_and_speed_are_echoed_and_clear_to_the_defaults(talk: Any) -> None:
    (event,) = talk.update(audio={"output": {"voice": {"id": "voice_123"}, "speed": 1.5}})
    assert event["session"]["audio"]["output"]["voice"] == "voice_123"
    assert event["session"]["audio"]["output"]["speed"] == 1.5
    (event,) = talk.update(audio={"output": {"voice": None, "speed": None}})
    assert event["session"]["audio"]["output"]["voice"] == "marin"
    assert event["session"]["audio"]["output"]["speed"] == 1.0


def test_transcription_shows_only_the_keys_that_the_client_gave(talk: Any) -> None:
    def transcription(value: Any) -> Any:
        (event,) = talk.update(audio={"input": {"transcription": value}})
        return event["session"]["audio"]["input"]["transcription"]

    assert transcription({"language": "de"}) == {"model": "gpt-4o-mini-transcribe", "language": "de"}
    assert transcription({"model": "whisper-1", "language": None, "prompt": ""}) == {"model": "whisper-1"}
    assert transcription({"model": "gpt-live-transcribe", "delay": "low"}) == {
        "model": "gpt-live-transcribe",
        "delay": "low",
    }
    assert talk.commands(Configure)[-1].live_transcript is True
    assert transcription(None) is None
    assert talk.commands(Configure)[-1].live_transcript is False


def test_noise_reduction_is_never_an_empty_object(talk: Any) -> None:
    def noise_reduction(value: Any) -> Any:
        (event,) = talk.update(audio={"input": {"noise_reduction": value}})
        return event["session"]["audio"]["input"]["noise_reduction"]

    assert noise_reduction({}) is None
    assert noise_reduction({"type": "near_field"}) == {"type": "near_field"}
    assert noise_reduction({"strength": 0.5}) == {"type": "near_field", "strength": 0.5}
    assert noise_reduction({"type": None, "strength": None}) is None
    assert noise_reduction(None) is None


def test_a_model_in_an_update_is_accepted_and_the_urls_stays(talk: Any) -> None:
    (event,) = talk.update(model="gpt-realtime-2.1")
    assert event["session"]["model"] == "gpt-realtime"


def input_of(**fields: Any) -> dict[str, Any]:
    return {"audio": {"input": fields}}


def vad(**fields: Any) -> dict[str, Any]:
    return input_of(turn_detection={"type": "server_vad", **fields})


def output_of(**fields: Any) -> dict[str, Any]:
    return {"audio": {"output": fields}}


INPUT, OUTPUT, VAD = "session.audio.input", "session.audio.output", "session.audio.input.turn_detection"
REFUSED = [
    ({"voice": "alloy"}, "unknown_parameter", "session.voice"),
    ({"output_modalities": ["text", "audio"]}, "invalid_value", "session.output_modalities"),
    ({"output_modalities": ["video"]}, "invalid_value", "session.output_modalities[0]"),
    ({"max_output_tokens": 4097}, "integer_above_max_value", "session.max_output_tokens"),
    ({"instructions": 5}, "invalid_type", "session.instructions"),
    ({"instructions": ["a"]}, "invalid_type", "session.instructions"),
    ({"audio": 5}, "invalid_type", "session.audio"),
    (input_of(format={"type": "audio/opus9"}), "invalid_value", f"{INPUT}.format.type"),
    (input_of(format={"type": "g711_ulaw"}), "invalid_value", f"{INPUT}.format.type"),
    (input_of(format={"type": "audio/pcmu", "rate": 8000}), "unknown_parameter", f"{INPUT}.format.rate"),
    (input_of(format="pcm16"), "invalid_value", f"{INPUT}.format"),
    (input_of(format={"type": "audio/pcm", "rate": 16000}), "integer_below_min_value", f"{INPUT}.format.rate"),
    (input_of(format={"type": "audio/pcm", "rate": 48000}), "integer_above_max_value", f"{INPUT}.format.rate"),
    (input_of(format={"type": "audio/pcm", "rate": "24000"}), "invalid_type", f"{INPUT}.format.rate"),
    (output_of(format={"type": "audio/pcma", "rate": 24000}), "unknown_parameter", f"{OUTPUT}.format.rate"),
    (output_of(format="g711_alaw"), "invalid_value", f"{OUTPUT}.format"),
    (output_of(voice=5), "invalid_type", f"{OUTPUT}.voice"),
    (output_of(speed=0.24), "decimal_below_min_value", f"{OUTPUT}.speed"),
    (output_of(speed=1.51), "decimal_above_max_value", f"{OUTPUT}.speed"),
    (output_of(speed=2), "integer_above_max_value", f"{OUTPUT}.speed"),
    (input_of(turn_detection={"threshold": 0.5}), "missing_required_parameter", f"{VAD}.type"),
    (input_of(turn_detection={"type": "psychic_vad"}), "invalid_value", f"{VAD}.type"),
    (input_of(turn_detection={"type": "semantic_vad", "threshold": 0.5}), "unknown_parameter", f"{VAD}.threshold"),
    (vad(threshold=1.01), "decimal_above_max_value", f"{VAD}.threshold"),
    (vad(threshold="0.5"), "invalid_type", f"{VAD}.threshold"),
    (vad(silence_duration_ms=-1), "integer_below_min_value", f"{VAD}.silence_duration_ms"),
    (vad(silence_duration_ms=10.5), "invalid_type", f"{VAD}.silence_duration_ms"),
    (vad(prefix_padding_ms=-1), "integer_below_min_value", f"{VAD}.prefix_padding_ms"),
    (vad(idle_timeout_ms=4999), "integer_below_min_value", f"{VAD}.idle_timeout_ms"),
    (vad(idle_timeout_ms=30001), "integer_above_max_value", f"{VAD}.idle_timeout_ms"),
    (vad(create_response="yes"), "invalid_type", f"{VAD}.create_response"),
    (vad(create_response=1), "invalid_type", f"{VAD}.create_response"),
]


@pytest.mark.parametrize(("change", "code", "param"), REFUSED)
def test_one_invalid_field_refuses_the_whole_update(talk: Any, change: dict[str, Any], code: str, param: str) -> None:
    before = talk.session.settings
    error = talk.refused("session.update", session={"type": "realtime", "instructions": "changed", **change})
    assert (error["code"], error["param"]) == (code, param)
    assert talk.session.settings is before


@pytest.mark.parametrize(
    "change",
    [
        vad(threshold=0),
        vad(threshold=1.0),
        vad(silence_duration_ms=0),
        vad(idle_timeout_ms=5000),
        vad(idle_timeout_ms=30000),
        output_of(speed=0.25),
        output_of(speed=1.5),
        {"max_output_tokens": 1},
        {"max_output_tokens": 4096},
        input_of(format={"type": "audio/pcm", "rate": 24000}),
        input_of(format={"type": "audio/pcm"}),
        input_of(format={"type": "audio/pcmu"}),
        output_of(format={"type": "audio/pcma"}),
        output_of(format=None),
        {"audio": {"input": None, "output": None}},
        {"audio": None},
    ],
)
def test_a_value_on_its_limit_is_accepted(talk: Any, change: dict[str, Any]) -> None:
    assert [event["type"] for event in talk.update(**change)] == ["session.updated"]


def test_an_update_without_its_type_is_told_so_before_anything_else(talk: Any) -> None:
    talk.update()  # a client that has shown that it speaks GA
    error = talk.refused("session.update", session={"voice": "alloy", "turn_detection": None})
    assert error["message"] == "Missing required parameter: 'session.type'."
    assert error["param"] == "session.type"
    assert talk.refused("session.update", session=7)["code"] == "invalid_type"


def test_a_transcription_update_is_refused_on_a_conversation_socket(talk: Any) -> None:
    assert talk.refused("session.update", session={"type": "transcription"})["code"] == "invalid_model"
    assert talk.refused("session.update", session={"type": "translation"})["code"] == "invalid_value"


def test_the_voice_is_locked_once_the_agent_has_spoken(talk: Any) -> None:
    talk.update(audio={"output": {"voice": "ash"}})
    talk.agent_says("resp_a", "item_a", ("Hello.", 2400))
    error = talk.refused(
        "session.update", session={"type": "realtime", "instructions": "x", **output_of(voice="coral")}
    )
    assert error["code"] == "cannot_update_voice"
    assert error["message"] == "Cannot update a conversation's voice if assistant audio is present."
    assert error["param"] is None
    assert talk.session.settings.instructions != "x"
    (event,) = talk.update(audio={"output": {"voice": "ash"}})
    assert event["type"] == "session.updated"


updates = st.fixed_dictionaries(
    {"type": st.just("realtime")},
    optional={
        "instructions": st.none() | st.text(max_size=5),
        "output_modalities": st.sampled_from([None, [], ["text"], ["audio"]]),
        "tools": st.sampled_from([None, [], [FUNCTION]]),
        "max_output_tokens": st.none() | st.integers(1, 4096) | st.just("inf"),
        "audio": st.fixed_dictionaries(
            {},
            optional={
                "input": st.fixed_dictionaries(
                    {},
                    optional={
                        "turn_detection": st.none()
                        | st.fixed_dictionaries(
                            {"type": st.just("server_vad")},
                            optional={"threshold": st.none() | st.floats(0, 1), "create_response": st.booleans()},
                        )
                        | st.fixed_dictionaries(
                            {"type": st.just("semantic_vad")},
                            optional={"eagerness": st.sampled_from([None, "low", "high"])},
                        ),
                        "transcription": st.none()
                        | st.fixed_dictionaries({}, optional={"model": st.sampled_from([None, "whisper-1"])}),
                    },
                ),
                "output": st.fixed_dictionaries({}, optional={"voice": st.sampled_from([None, "ash", {"id": "v"}])}),
            },
        ),
    },
)


@given(st.lists(updates, max_size=4))
def test_what_a_session_shows_can_be_sent_back_and_changes_nothing(changes: list[dict[str, Any]]) -> None:
    settings = SessionSettings.initial(SessionDefaults())
    for change in changes:
        parsed = parse_client_event(json.dumps({"type": "session.update", "session": change}))
        assert isinstance(parsed, SessionUpdate)
        settings = settings.merged(parsed.session)
    shown = settings.to_wire(session_id="s", model="m", expires_at_s=1)
    assert violations({"type": "session.updated", "event_id": "e", "session": shown}) == []
    echo = {key: value for key, value in shown.items() if key not in ("id", "object", "expires_at")}
    parsed = parse_client_event(json.dumps({"type": "session.update", "session": echo}))
    assert isinstance(parsed, SessionUpdate)
    assert settings.merged(parsed.session) == settings


@given(updates)
def test_an_update_with_nothing_in_it_keeps_everything(change: dict[str, Any]) -> None:
    settings = SessionSettings.initial(SessionDefaults()).merged(change)
    assert settings.merged({"type": "realtime", "audio": {"input": {}, "output": {}}}) == settings
    assert settings.merged(change) == settings
