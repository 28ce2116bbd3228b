"""What a beta client sends, means what its GA counterpart means, and is refused in beta's words."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.backend_events import ContextRequested, ResponseStarted
from protocol.commands import Configure, CreateResponse, ProvideContext
from protocol.errors import ProtocolError
from protocol.wire import Dialect, Wire

TOOL = {"type": "function", "name": "t1", "description": "d", "parameters": {"type": "object", "properties": {}}}


def update(beta: Any, **session: Any) -> dict[str, Any]:
    (updated,) = beta.send("session.update", session=session)
    assert updated["type"] == "session.updated"
    shown: dict[str, Any] = updated["session"]
    return shown


def test_the_update_of_the_reference_client_is_obeyed(beta: Any) -> None:
    """What openai-realtime-api-beta sends on connecting."""
    session = {
        "modalities": ["text", "audio"],
        "instructions": "Be kind.",
        "voice": "verse",
        "input_audio_format": "pcm16",
        "output_audio_format": "pcm16",
        "input_audio_transcription": None,
        "turn_detection": None,
        "tools": [],
        "tool_choice": "auto",
        "temperature": 0.8,
        "max_response_output_tokens": 4096,
    }
    shown = update(beta, **session)
    assert {key: shown[key] for key in session} == session
    assert beta.commands(Configure)[-1].turn_detection is None


def test_every_session_field_reaches_its_place_in_the_core(beta: Any) -> None:
    turn_detection = {"type": "server_vad", "threshold": 0.7, "prefix_padding_ms": 100, "silence_duration_ms": 700}
    update(
        beta,
        modalities=["text"],
        instructions="Be brief.",
        voice="echo",
        speed=1.25,
        input_audio_transcription={"model": "whisper-1", "language": "en", "prompt": "tea"},
        input_audio_noise_reduction={"type": "far_field"},
        turn_detection=turn_detection,
        tools=[TOOL],
        tool_choice="required",
        temperature=0.9,
        max_response_output_tokens=77,
        tracing="auto",
        include=["item.input_audio_transcription.logprobs"],
    )
    settings = beta.session.settings
    assert (settings.output_modality, settings.instructions, settings.voice) == ("text", "Be brief.", "echo")
    assert (settings.speed, settings.temperature, settings.max_output_tokens) == (1.25, 0.9, 77)
    assert settings.transcription == {"model": "whisper-1", "language": "en", "prompt": "tea"}
    assert settings.noise_reduction == {"type": "far_field"}
    assert settings.turn_detection.items() >= turn_detection.items()
    assert (settings.tools, settings.tool_choice) == ((TOOL,), "required")
    assert (settings.tracing, settings.include) == ("auto", ("item.input_audio_transcription.logprobs",))


@pytest.mark.parametrize("modalities", [["text", "audio"], ["audio", "text"]])
def test_modalities_come_in_any_order(beta: Any, modalities: list[str]) -> None:
    update(beta, modalities=["text"])
    assert update(beta, modalities=modalities)["modalities"] == ["text", "audio"]


@pytest.mark.parametrize("modalities", [["audio"], ["audio", "audio"], ["text", "text"], ["text", "audio", "text"]])
@pytest.mark.parametrize("kind", ["session", "response"])
def test_sound_without_its_words_is_refused(beta: Any, kind: str, modalities: list[str]) -> None:
    event = "session.update" if kind == "session" else "response.create"
    error = beta.refused(event, **{kind: {"modalities": modalities}})
    assert error["code"] == "invalid_value"
    assert error["param"] == f"{kind}.modalities"
    assert error["message"].startswith(f"Invalid modalities: {modalities}. Supported combinations are: ['text'] and")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("output_modalities", ["text"]),
        ("audio", {"output": {"voice": "alloy"}}),
        ("max_output_tokens", 5),
        ("prompt", {"id": "p"}),
        ("truncation", "auto"),
        ("parallel_tool_calls", True),
        ("reasoning", {"effort": "low"}),
        ("type", "realtime"),
        ("nonsense", 1),
    ],
)
def test_what_only_ga_knows_is_an_unknown_parameter(beta: Any, key: str, value: Any) -> None:
    error = beta.refused("session.update", session={key: value, "voice": "echo"})
    assert (error["code"], error["param"]) == ("unknown_parameter", f"session.{key}")
    assert error["message"] == f"Unknown parameter: 'session.{key}'."
    assert beta.session.settings.voice == "marin"


@pytest.mark.parametrize("key", ["output_modalities", "audio", "max_output_tokens", "reasoning"])
def test_what_only_ga_knows_is_unknown_in_a_response_too(beta: Any, key: str) -> None:
    error = beta.refused("response.create", response={key: None})
    assert (error["code"], error["param"]) == ("unknown_parameter", f"response.{key}")


@pytest.mark.parametrize(
    ("session", "code", "param"),
    [
        ({"input_audio_format": "mp3"}, "invalid_value", "session.input_audio_format"),
        ({"output_audio_format": {"type": "audio/pcm"}}, "invalid_type", "session.output_audio_format"),
        ({"temperature": 0.59}, "decimal_below_min_value", "session.temperature"),
        ({"temperature": 1.21}, "decimal_above_max_value", "session.temperature"),
        ({"temperature": "warm"}, "invalid_type", "session.temperature"),
        ({"max_response_output_tokens": 0}, "integer_below_min_value", "session.max_response_output_tokens"),
        ({"max_response_output_tokens": 4097}, "integer_above_max_value", "session.max_response_output_tokens"),
        ({"max_response_output_tokens": "lots"}, "invalid_value", "session.max_response_output_tokens"),
        ({"speed": 1.6}, "decimal_above_max_value", "session.speed"),
        ({"voice": {"id": "voice_1"}}, "invalid_type", "session.voice"),
        ({"modalities": ["smell"]}, "invalid_value", "session.modalities[0]"),
        ({"turn_detection": {"threshold": 0.4}}, "missing_required_parameter", "session.turn_detection.type"),
        ({"turn_detection": {"type": None}}, "missing_required_parameter", "session.turn_detection.type"),
        (
            {"turn_detection": {"type": "server_vad", "threshold": 1.5}},
            "decimal_above_max_value",
            "session.turn_detection.threshold",
        ),
        (
            {"turn_detection": {"type": "server_vad", "idle_timeout_ms": 6000}},
            "unknown_parameter",
            "session.turn_detection.idle_timeout_ms",
        ),
        ({"turn_detection": {"type": "psychic"}}, "invalid_value", "session.turn_detection.type"),
        (
            {"input_audio_transcription": {"model": "whisper-1", "delay": "low"}},
            "unknown_parameter",
            "session.input_audio_transcription.delay",
        ),
        ({"tools": [{"type": "function"}]}, "missing_required_parameter", "session.tools[0].name"),
        ({"tools": [{"type": "mcp", "server_label": "s"}]}, "invalid_value", "session.tools[0].type"),
        ({"tool_choice": "some_function"}, "invalid_value", "session.tool_choice"),
        ({"tool_choice": {"type": "function"}}, "missing_required_parameter", "session.tool_choice.name"),
        ({"include": ["everything"]}, "invalid_value", "session.include[0]"),
        ({"instructions": "x" * (256 * 1024 + 1)}, "string_above_max_length", "session.instructions"),
    ],
)
def test_an_error_names_the_beta_path(beta: Any, session: dict[str, Any], code: str, param: str) -> None:
    error = beta.refused("session.update", session={**session, "tracing": "auto"})
    assert (error["code"], error["param"]) == (code, param)
    assert beta.session.settings.tracing is None
    if code not in ("invalid_value",):
        assert param in error["message"]


def test_an_error_that_arises_behind_the_wire_names_the_beta_path_too(beta: Any) -> None:
    """GA's checks come after beta's own; here is what only they find."""
    error = beta.refused("session.update", session={"include": ["everything"]})
    assert error["param"] == "session.include[0]"
    error = beta.refused(
        "conversation.item.create", item={"type": "message", "role": "user", "content": [{"type": "input_text"}]}
    )
    assert error["param"] == "item.content[0].text"


def test_what_is_used_only_for_the_other_kind_of_turn_detection_is_no_mistake(beta: Any) -> None:
    """The beta types have all fields of both in one; clients that write out every field send those of the other too."""
    both = {"threshold": 0.6, "prefix_padding_ms": None, "silence_duration_ms": 400, "eagerness": "low"}
    assert "threshold" not in update(beta, turn_detection={"type": "semantic_vad", **both})["turn_detection"]
    shown = update(beta, turn_detection={"type": "server_vad", **both})["turn_detection"]
    assert (shown["threshold"], shown["silence_duration_ms"]) == (0.6, 400)
    assert "eagerness" not in shown


def test_null_clears_as_in_ga(beta: Any) -> None:
    update(beta, voice="echo", temperature=1.0, max_response_output_tokens=9, tracing="auto", modalities=["text"])
    shown = update(beta, voice=None, temperature=None, max_response_output_tokens=None, tracing=None, modalities=None)
    assert (shown["voice"], shown["temperature"], shown["max_response_output_tokens"]) == ("marin", 0.8, "inf")
    assert (shown["tracing"], shown["modalities"]) == (None, ["text", "audio"])


def test_a_client_secret_is_for_rest_and_ignored_here(beta: Any) -> None:
    secret = {"expires_after": {"anchor": "created_at", "seconds": 600}}
    assert update(beta, client_secret=secret)["client_secret"] is None


@pytest.mark.parametrize(
    "choice", [{"type": "function", "name": "t1"}, {"type": "function", "function": {"name": "t1"}}]
)
def test_a_function_is_chosen_in_either_form(beta: Any, choice: dict[str, Any]) -> None:
    shown = update(beta, tools=[TOOL], tool_choice=choice)
    assert shown["tool_choice"] == {"type": "function", "name": "t1"}
    assert beta.session.settings.tool_choice == {"type": "function", "name": "t1"}


# --- temperature ---------------------------------------------------------------------------------------------------


def context(beta: Any, response_id: str = "resp_a") -> Any:
    beta.backend(ResponseStarted(response_id), ContextRequested(response_id))
    return beta.commands(ProvideContext)[-1].context


def test_a_temperature_that_nobody_set_is_shown_but_not_sent_on(beta: Any) -> None:
    assert update(beta)["temperature"] == 0.8
    assert context(beta).temperature is None


def test_a_temperature_that_the_client_set_reaches_the_language_model(beta: Any) -> None:
    update(beta, temperature=0.7)
    assert context(beta).temperature == 0.7


def test_one_response_has_a_temperature_of_its_own(beta: Any) -> None:
    update(beta, temperature=0.7)
    beta.send("response.create", response={"temperature": 1.1})
    response_id = beta.commands(CreateResponse)[-1].response_id
    (created,) = beta.backend(ResponseStarted(response_id))
    assert created["response"]["temperature"] == 1.1
    beta.backend(ContextRequested(response_id))
    assert beta.commands(ProvideContext)[-1].context.temperature == 1.1
    assert beta.session.settings.temperature == 0.7


def test_ga_never_accepts_or_shows_a_temperature(talk: Any) -> None:
    error = talk.refused("session.update", session={"type": "realtime", "temperature": 0.8})
    assert (error["code"], error["param"]) == ("unknown_parameter", "session.temperature")
    error = talk.refused("response.create", response={"temperature": 0.8})
    assert (error["code"], error["param"]) == ("unknown_parameter", "response.temperature")
    assert "temperature" not in talk.sent("session.created")[0]["session"]
    (created,) = talk.backend(ResponseStarted("resp_a"))
    assert "temperature" not in created["response"]


# --- responses and items -------------------------------------------------------------------------------------------


def test_a_response_s_overrides_are_obeyed_and_shown(beta: Any) -> None:
    beta.send(
        "response.create",
        response={
            "modalities": ["text"],
            "voice": "sage",
            "output_audio_format": "pcm16",
            "max_response_output_tokens": 12,
            "instructions": "Once.",
            "metadata": {"k": "v"},
            "conversation": "auto",
            "tools": [TOOL],
            "tool_choice": "none",
        },
    )
    command = beta.commands(CreateResponse)[-1]
    assert command.audio is False
    (created,) = beta.backend(ResponseStarted(command.response_id))
    response = created["response"]
    assert (response["modalities"], response["voice"], response["output_audio_format"]) == (["text"], "sage", "pcm16")
    assert (response["max_output_tokens"], response["metadata"]) == (12, {"k": "v"})
    assert not {"output_modalities", "audio"} & response.keys()


def test_a_response_s_input_may_hold_items_and_references(beta: Any) -> None:
    beta.user_types("Old.", id="item_old")
    said = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Yes?"}]}
    beta.send("response.create", response={"input": [{"type": "item_reference", "id": "item_old"}, said]})
    response_id = beta.commands(CreateResponse)[-1].response_id
    beta.backend(ResponseStarted(response_id), ContextRequested(response_id))
    messages = beta.commands(ProvideContext)[-1].context.messages
    assert [message["content"] for message in messages[1:]] == ["Old.", "Yes?"]


def test_a_response_s_bounds_are_told_in_beta_s_words(beta: Any) -> None:
    error = beta.refused("response.create", response={"max_response_output_tokens": 5000})
    assert error["param"] == "response.max_response_output_tokens"
    assert "'response.max_response_output_tokens'" in error["message"]


@pytest.mark.parametrize(
    ("item", "code", "param"),
    [
        ({"role": "user", "content": []}, "missing_required_parameter", "item.type"),
        ({"type": "message", "content": []}, "missing_required_parameter", "item.role"),
        ({"type": "thought"}, "invalid_value", "item.type"),
        ({"type": "message", "role": "user"}, "missing_required_parameter", "item.content"),
        (
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]},
            "invalid_value",
            "item.content[0].type",
        ),
        (
            {"type": "message", "role": "assistant", "content": [{"type": "audio", "transcript": "x"}]},
            "invalid_value",
            "item.content[0].type",
        ),
        (
            {"type": "message", "role": "user", "content": [{"type": "text", "text": "x"}]},
            "invalid_value",
            "item.content[0].type",
        ),
        (
            {"type": "message", "role": "assistant", "content": [{"type": "text"}]},
            "missing_required_parameter",
            "item.content[0].text",
        ),
        ({"type": "function_call_output", "output": "x"}, "missing_required_parameter", "item.call_id"),
        ({"type": "function_call_output", "call_id": "x", "output": "x"}, "invalid_tool_call_id", "item.call_id"),
        ({"type": "message", "role": "user", "content": [], "mood": 1}, "unknown_parameter", "item.mood"),
        (
            {"type": "message", "role": "user", "content": [], "id": "x" * 33},
            "string_above_max_length",
            "item.id",
        ),
    ],
)
def test_a_wrong_item_is_refused_in_beta_s_words(beta: Any, item: dict[str, Any], code: str, param: str) -> None:
    error = beta.refused("conversation.item.create", item=item)
    assert (error["code"], error["param"]) == (code, param)
    assert "output_" not in error["message"].removeprefix("Invalid value: 'output_text'")


def test_an_item_of_the_assistant_is_text_in_beta(beta: Any) -> None:
    said = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Hello."}]}
    (created,) = beta.send("conversation.item.create", item=said)
    assert created["type"] == "conversation.item.created"
    assert created["item"]["content"] == said["content"]


def test_a_place_in_the_conversation_means_the_same_in_both_dialects(beta: Any) -> None:
    beta.user_types("Second.", id="item_2")
    content = [{"type": "input_text", "text": "First."}]
    item = {"type": "message", "role": "user", "content": content, "id": "item_1"}
    (first,) = beta.send("conversation.item.create", item=item, previous_item_id="root")
    assert first["previous_item_id"] is None
    (third,) = beta.send("conversation.item.create", item={**item, "id": "item_3"}, previous_item_id="item_2")
    assert third["previous_item_id"] == "item_2"


# --- frames --------------------------------------------------------------------------------------------------------


def test_an_unknown_event_is_told_what_beta_knows(beta: Any) -> None:
    error = beta.refused("conversation.item.added")
    assert (error["code"], error["param"]) == ("invalid_value", "type")
    assert "'transcription_session.update'" in error["message"]
    assert "'input_audio_buffer.append'" in error["message"]


@pytest.mark.parametrize("frame", ["{", "[]", "{}", '{"type": 1}', '{"type": "session.update"}', b"x"])
def test_a_malformed_frame_gets_one_error_in_either_dialect(beta: Any, talk: Any, frame: str | bytes) -> None:
    (in_beta,) = beta.frame(frame)
    (in_ga,) = talk.frame(frame)
    assert {**in_beta, "event_id": ""} == {**in_ga, "event_id": ""}


VALID: list[dict[str, Any]] = [
    {
        "type": "session.update",
        "session": {
            "modalities": ["text", "audio"],
            "voice": "echo",
            "input_audio_format": "pcm16",
            "input_audio_transcription": {"model": "whisper-1"},
            "turn_detection": {"type": "server_vad", "threshold": 0.5},
            "tools": [TOOL],
            "tool_choice": {"type": "function", "function": {"name": "t1"}},
            "max_response_output_tokens": "inf",
            "temperature": 0.8,
        },
    },
    {
        "type": "response.create",
        "response": {
            "modalities": ["text"],
            "metadata": {"k": "v"},
            "input": [
                {"type": "item_reference", "id": "i"},
                {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "x"}]},
            ],
        },
    },
    {
        "type": "conversation.item.create",
        "previous_item_id": None,
        "item": {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_audio", "audio": "", "transcript": "x"}],
        },
    },
    {
        "type": "transcription_session.update",
        "session": {"input_audio_format": "pcm16", "turn_detection": {"type": "semantic_vad"}, "include": []},
    },
]
JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-5, 5000), st.floats(-2, 2), st.sampled_from(["text", "pcm16", ""])
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.sampled_from(["type", "id"]), inner)),
    max_leaves=4,
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return every container inside `value` with each of its keys."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    return [(value, key) for key in keys] + [place for key in keys for place in places(value[key])]


@given(st.sampled_from(VALID), st.data(), JSON, st.sampled_from(["replace", "remove", "add"]))
def test_a_spoiled_frame_is_understood_or_refused_and_never_a_bug(
    valid: dict[str, Any], data: st.DataObject, value: Any, how: str
) -> None:
    event = copy.deepcopy(valid)
    container, key = data.draw(st.sampled_from(places(event)))
    if how == "replace":
        container[key] = value
    elif how == "remove":
        del container[key]
    elif isinstance(container, dict):
        container["extra"] = value
    error = refusal(event)
    assert error is None or error.code


def refusal(event: dict[str, Any]) -> ProtocolError | None:
    wire = Wire(Dialect.BETA)
    try:
        wire.read(json.dumps(event))
    except ProtocolError as error:
        return error
    return None


@pytest.mark.parametrize("valid", VALID)
def test_a_valid_frame_is_understood(valid: dict[str, Any]) -> None:
    assert refusal(valid) is None
