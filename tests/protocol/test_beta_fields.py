"""The tables of the beta dialect and their inverse: what both dialects can say is the same after a round trip."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.beta.client_events import to_ga
from protocol.beta.fields import (
    BETA_ONLY,
    RESPONSE,
    RESPONSE_CREATE,
    SESSION,
    TRANSCRIPTION_SESSION,
    beta_path,
    flattened,
    nested,
)
from protocol.beta.items import item_to_beta, item_to_ga
from protocol.beta.server_events import session_to_beta
from protocol.client_events import SessionUpdate
from protocol.client_shapes import CLIENT_RULES
from protocol.session_settings import SessionDefaults, SessionSettings
from protocol.wire import Dialect, Wire

TEXT = st.text(max_size=8)
FORMATS = st.sampled_from(["pcm16", "g711_ulaw", "g711_alaw"])
FORMAT_OBJECTS = {
    "pcm16": {"type": "audio/pcm", "rate": 24_000},
    "g711_ulaw": {"type": "audio/pcmu"},
    "g711_alaw": {"type": "audio/pcma"},
}
TURN_DETECTION = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("server_vad")},
        optional={
            "threshold": st.floats(0, 1),
            "prefix_padding_ms": st.integers(0, 1000),
            "silence_duration_ms": st.integers(0, 1000),
            "create_response": st.booleans(),
            "interrupt_response": st.booleans(),
        },
    ),
    st.fixed_dictionaries(
        {"type": st.just("semantic_vad")}, optional={"eagerness": st.sampled_from(["low", "medium", "high", "auto"])}
    ),
)
TRANSCRIPTION = st.fixed_dictionaries({}, optional={"model": TEXT, "language": TEXT, "prompt": TEXT})
TOOLS = st.lists(
    st.fixed_dictionaries({"type": st.just("function"), "name": TEXT}, optional={"description": TEXT}), max_size=3
)
TOOL_CHOICE = st.one_of(
    st.sampled_from(["auto", "none", "required"]),
    st.fixed_dictionaries({"type": st.just("function"), "name": st.text(min_size=1, max_size=8)}),
)
MODALITIES = st.sampled_from([["text"], ["text", "audio"]])
TOKENS = st.one_of(st.just("inf"), st.integers(1, 4096))
TEMPERATURE = st.floats(0.6, 1.2)


def or_null(values: dict[str, st.SearchStrategy[Any]]) -> dict[str, st.SearchStrategy[Any]]:
    return {key: st.one_of(st.none(), value) for key, value in values.items()}


INPUT = {
    "input_audio_format": FORMATS,
    "input_audio_transcription": TRANSCRIPTION,
    "input_audio_noise_reduction": st.fixed_dictionaries({"type": st.sampled_from(["near_field", "far_field"])}),
    "include": st.lists(st.just("item.input_audio_transcription.logprobs"), max_size=1),
}
BETA_SESSIONS = st.fixed_dictionaries(
    {},
    optional=or_null(
        {
            **INPUT,
            "model": TEXT,
            "modalities": MODALITIES,
            "instructions": TEXT,
            "voice": TEXT,
            "output_audio_format": FORMATS,
            "turn_detection": TURN_DETECTION,
            "tools": TOOLS,
            "tool_choice": TOOL_CHOICE,
            "temperature": TEMPERATURE,
            "max_response_output_tokens": TOKENS,
            "speed": st.floats(0.25, 1.5),
            "tracing": st.one_of(st.just("auto"), st.fixed_dictionaries({"workflow_name": TEXT})),
        }
    ),
)
BETA_ITEMS = st.one_of(
    st.builds(
        lambda role, parts: {"type": "message", "role": role, "content": parts},
        st.sampled_from(["user", "assistant", "system"]),
        st.lists(
            st.one_of(
                st.fixed_dictionaries({"type": st.sampled_from(["text", "input_text"]), "text": TEXT}),
                st.fixed_dictionaries({"type": st.sampled_from(["audio", "input_audio"]), "transcript": TEXT}),
            ),
            max_size=3,
        ),
    ),
    st.fixed_dictionaries({"type": st.just("function_call"), "name": TEXT, "arguments": TEXT}),
    st.fixed_dictionaries({"type": st.just("function_call_output"), "call_id": TEXT, "output": TEXT}),
    st.fixed_dictionaries({"type": st.just("item_reference"), "id": TEXT}),
)
BETA_RESPONSES = st.fixed_dictionaries(
    {},
    optional=or_null(
        {
            "conversation": st.sampled_from(["auto", "none"]),
            "input": st.lists(BETA_ITEMS, max_size=3),
            "instructions": TEXT,
            "modalities": MODALITIES,
            "voice": TEXT,
            "output_audio_format": FORMATS,
            "tools": TOOLS,
            "tool_choice": TOOL_CHOICE,
            "temperature": TEMPERATURE,
            "max_response_output_tokens": TOKENS,
            "metadata": st.dictionaries(TEXT, TEXT, max_size=2),
        }
    ),
)


@given(BETA_SESSIONS)
def test_a_session_is_the_same_after_a_round_trip(session: dict[str, Any]) -> None:
    assert flattened(nested(session, SESSION), SESSION) == session


@given(st.fixed_dictionaries({}, optional=or_null({**INPUT, "turn_detection": st.just({"type": "server_vad"})})))
def test_a_transcription_session_is_the_same_after_a_round_trip(session: dict[str, Any]) -> None:
    assert flattened(nested(session, TRANSCRIPTION_SESSION), TRANSCRIPTION_SESSION) == session


@given(BETA_RESPONSES)
def test_a_response_s_overrides_are_the_same_after_a_round_trip(response: dict[str, Any]) -> None:
    assert flattened(nested(response, RESPONSE_CREATE), RESPONSE_CREATE) == response


@given(
    st.fixed_dictionaries(
        {"id": TEXT, "status": st.just("completed")},
        optional={
            "output": st.lists(BETA_ITEMS.map(item_to_ga), max_size=2),
            "conversation_id": st.one_of(st.none(), TEXT),
            "metadata": st.one_of(st.none(), st.dictionaries(TEXT, TEXT, max_size=2)),
            "output_modalities": st.sampled_from([["audio"], ["text"]]),
            "max_output_tokens": TOKENS,
            "temperature": TEMPERATURE,
            "audio": st.fixed_dictionaries(
                {
                    "output": st.fixed_dictionaries(
                        {"voice": TEXT, "format": FORMATS.map(lambda word: FORMAT_OBJECTS[word])}
                    )
                }
            ),
        },
    )
)
def test_a_response_object_is_the_same_after_a_round_trip_from_ga(response: dict[str, Any]) -> None:
    assert nested(flattened(response, RESPONSE), RESPONSE) == response


@given(BETA_ITEMS)
def test_an_item_is_the_same_after_a_round_trip(item: dict[str, Any]) -> None:
    assert item_to_beta(item_to_ga(item)) == item


@given(BETA_SESSIONS.filter(lambda session: session.get("input_audio_format") in (None, "pcm16")))
def test_what_an_update_says_is_what_the_session_then_shows(session: dict[str, Any]) -> None:
    """Through frame, GA checks, merge and the session object; G.711 has tests of its own."""
    session = {key: value for key, value in session.items() if value is not None and not key.endswith("_format")}
    wire = Wire(Dialect.BETA)
    event = wire.read(json.dumps({"type": "session.update", "session": session}))
    assert isinstance(event, SessionUpdate)
    settings = SessionSettings.initial(SessionDefaults()).merged(event.session)
    shown = session_to_beta(settings.to_wire(session_id="sess_1", model="m", expires_at_s=1))
    for key, value in session.items():
        if key == "model":
            assert shown["model"] == "m"  # the URL's stays
        elif key == "turn_detection":
            assert shown[key].items() >= value.items()
        elif key == "input_audio_transcription":
            assert shown[key].items() >= {name: word for name, word in value.items() if word}.items()
        elif key == "include":
            assert shown[key] == (value or None)
        elif key == "voice":
            assert shown[key] == (value or "marin")
        else:
            assert shown[key] == value


@pytest.mark.parametrize("table", [SESSION, TRANSCRIPTION_SESSION, RESPONSE_CREATE, RESPONSE])
def test_a_table_names_no_field_twice(table: Any) -> None:
    assert len({field.beta for field in table}) == len({field.ga for field in table}) == len(table)


def test_the_fields_that_tell_a_beta_client_are_not_ga_s() -> None:
    assert {"modalities", "voice", "input_audio_format", "turn_detection", "temperature"} <= BETA_ONLY
    assert not BETA_ONLY & {"type", "model", "instructions", "tools", "tool_choice", "tracing", "include", "audio"}


@pytest.mark.parametrize(
    ("ga", "beta"),
    [
        ("session.audio.output.voice", "session.voice"),
        ("session.audio.input.format.rate", "session.input_audio_format"),
        ("session.audio.output.format", "session.output_audio_format"),
        ("session.audio.input.turn_detection.threshold", "session.turn_detection.threshold"),
        ("session.audio.input.transcription", "session.input_audio_transcription"),
        ("session.output_modalities", "session.modalities"),
        ("session.output_modalities[0]", "session.modalities[0]"),
        ("session.max_output_tokens", "session.max_response_output_tokens"),
        ("response.max_output_tokens", "response.max_response_output_tokens"),
        ("response.audio.output.voice", "response.voice"),
        ("response.audio.output.format.type", "response.output_audio_format"),
        ("session.tools[3].name", "session.tools[3].name"),
        ("session.type", "type"),
        ("session.audio", "session.audio"),
        ("session.output_modalities_of_mine", "session.output_modalities_of_mine"),
        ("item.content[0].text", "item.content[0].text"),
        ("audio_end_ms", "audio_end_ms"),
    ],
)
def test_an_error_s_path_has_its_beta_name(ga: str, beta: str) -> None:
    assert beta_path(ga) == beta
    assert beta_path(beta) == beta


def test_no_two_limits_meet_at_one_beta_path() -> None:
    for limits in (CLIENT_RULES.bounds, CLIENT_RULES.lengths):
        assert len({beta_path(path) for path in limits}) == len(limits)


@given(BETA_SESSIONS, BETA_RESPONSES)
def test_translating_changes_nothing_in_place(session: dict[str, Any], response: dict[str, Any]) -> None:
    said = {"metadata": response.get("metadata"), "voice": response.get("voice")}
    for raw in ({"type": "session.update", "session": session}, {"type": "response.create", "response": said}):
        before = json.dumps(raw)
        to_ga(raw)
        assert json.dumps(raw) == before
