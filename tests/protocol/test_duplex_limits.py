"""What a client sees of a full-duplex model's limits: effective values, and errors where the meaning would change."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.backend_events import (
    CommandRefused,
    ContextForeseen,
    ContextSettled,
    EndStatus,
    FunctionCallArgumentsDelta,
    FunctionCallStarted,
    OutputAudio,
    OutputItemEnded,
    RefusalKind,
    ResponseEnded,
    ResponseStarted,
)
from protocol.commands import ContextChanged, CreateResponse, ProvideContext, ToolResult
from protocol.duplex_limits import DuplexLimits
from protocol.outputs import ToBackend
from tests.protocol.conftest import Talk

TOOL = {"type": "function", "name": "get_time", "description": "", "parameters": {"type": "object"}}
MCP = {"type": "mcp", "server_label": "shop", "server_url": "https://shop.example/mcp"}


def duplex(**limits: Any) -> Talk:
    talk = Talk(limits=DuplexLimits(voice="Aria", **limits))
    talk.open()
    return talk


def begun(**limits: Any) -> Talk:
    talk = duplex(**limits)
    talk.backend(ContextSettled())
    return talk


def commands(talk: Talk, kind: type) -> list[Any]:
    return [output.command for output in talk.outputs if isinstance(output, ToBackend) and type(output.command) is kind]


def text(words: str, role: str = "user") -> dict[str, Any]:
    content = [{"type": "output_text" if role == "assistant" else "input_text", "text": words}]
    return {"type": "message", "role": role, "content": content}


# --- settings --------------------------------------------------------------------------------------------------------


def test_what_the_model_cannot_honour_is_accepted_and_shows_what_holds() -> None:
    (updated,) = duplex().update(
        audio={
            "input": {
                "noise_reduction": {"type": "near_field"},
                "turn_detection": {"type": "semantic_vad", "eagerness": "low", "interrupt_response": False},
            },
            "output": {"voice": "marin", "speed": 1.4},
        },
        tools=[TOOL],
        tool_choice="required",
        max_output_tokens=100,
        truncation="disabled",
        include=["item.input_audio_transcription.logprobs"],
    )
    session = updated["session"]
    assert updated["type"] == "session.updated"
    assert (session["audio"]["output"]["voice"], session["audio"]["output"]["speed"]) == ("Aria", 1.0)
    assert session["audio"]["input"]["noise_reduction"] is None
    assert session["audio"]["input"]["turn_detection"] == {
        "type": "semantic_vad", "eagerness": "auto", "create_response": True, "interrupt_response": True}  # fmt: skip
    assert (session["tool_choice"], session["max_output_tokens"], session["truncation"]) == ("auto", "inf", "auto")
    assert session["include"] is None
    assert [tool["name"] for tool in session["tools"]] == ["get_time"]


def test_what_it_can_honour_is_shown_as_asked() -> None:
    detection = {"type": "server_vad", "threshold": 0.7, "prefix_padding_ms": 100, "silence_duration_ms": 900}
    transcription = {"model": "whisper-1", "language": "en"}
    (updated,) = duplex().update(
        instructions="Be brief.",
        output_modalities=["text"],
        audio={
            "input": {
                "format": {"type": "audio/pcmu"},
                "transcription": transcription,
                "turn_detection": {**detection, "idle_timeout_ms": 6_000},
            },
            "output": {"format": {"type": "audio/pcma"}},
        },
    )
    session = updated["session"]
    assert (session["instructions"], session["output_modalities"]) == ("Be brief.", ["text"])
    assert session["audio"]["input"]["turn_detection"] == {
        **detection, "create_response": True, "interrupt_response": True}  # fmt: skip
    assert session["audio"]["input"]["transcription"] == transcription
    assert session["audio"]["input"]["format"]["type"] == "audio/pcmu"
    assert session["audio"]["output"]["format"]["type"] == "audio/pcma"
    (updated,) = duplex().update(audio={"input": {"turn_detection": None}})
    assert updated["session"]["audio"]["input"]["turn_detection"] is None


def test_a_model_without_instructions_tools_or_transcripts_shows_none() -> None:
    talk = duplex(instructions=False, tools=False, hears_words=False)
    (updated,) = talk.update(
        instructions="Be a pirate.", tools=[TOOL], audio={"input": {"transcription": {"model": "whisper-1"}}}
    )
    session = updated["session"]
    assert (session["instructions"], session["tools"]) == ("", [])
    assert session["audio"]["input"]["transcription"] is None


def test_a_response_shows_its_effective_parameters() -> None:
    talk = begun()
    talk.send("response.create", response={"max_output_tokens": 5, "audio": {"output": {"voice": "ash"}}})
    (asked,) = commands(talk, CreateResponse)
    (created,) = talk.backend(ResponseStarted(asked.response_id))
    assert created["response"]["max_output_tokens"] == "inf"
    assert created["response"]["audio"]["output"]["voice"] == "Aria"


def test_the_one_voice_may_be_asked_for_again_under_any_name() -> None:
    talk = begun()
    talk.backend(ResponseStarted("resp_1"))
    talk.backend(OutputAudio("resp_1", "item_m", bytes(9_600)))
    talk.backend(ResponseEnded("resp_1", EndStatus.COMPLETED))
    (updated,) = talk.update(audio={"output": {"voice": "cedar"}})
    assert updated["session"]["audio"]["output"]["voice"] == "Aria"


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [{"instructions": "Be loud."}, {"tools": [TOOL]}])
def test_what_the_model_has_read_for_good_is_refused_as_a_whole(change: dict[str, Any]) -> None:
    talk = begun()
    error = talk.refused("session.update", session={"type": "realtime", "output_modalities": ["text"], **change})
    assert (error["code"], error["param"]) == ("unsupported_value", f"session.{next(iter(change))}")
    assert talk.session.settings.output_modality == "audio"


def test_a_client_may_repeat_what_the_model_has_read() -> None:
    talk = duplex()
    talk.update(instructions="Be brief.", tools=[TOOL])
    assert len(commands(talk, ContextChanged)) == 1
    talk.backend(ContextSettled())
    (updated,) = talk.update(instructions="Be brief.", tools=[TOOL], tool_choice="none")
    assert updated["type"] == "session.updated"
    assert len(commands(talk, ContextChanged)) == 1


def test_a_model_that_may_begin_anew_takes_any_change() -> None:
    talk = begun(restarts=True)
    assert talk.update(instructions="Be loud.")[0]["type"] == "session.updated"
    assert talk.send("conversation.item.create", item=text("By the way."))[0]["type"] == "conversation.item.added"
    assert len(commands(talk, ContextChanged)) == 2


@pytest.mark.parametrize("role", ["user", "assistant", "system"])
def test_text_is_read_before_the_conversation_and_refused_in_it(role: str) -> None:
    talk = duplex()
    assert talk.send("conversation.item.create", item=text("My name is Ann.", role))[-1]["type"].endswith("item.done")
    assert len(commands(talk, ContextChanged)) == 1
    talk.backend(ContextSettled())
    error = talk.refused("conversation.item.create", item=text("And I am six.", role))
    assert (error["code"], error["param"]) == ("unsupported_value", "item")
    assert len(talk.session.conversation.items) == 1


@pytest.mark.parametrize(
    ("part", "param"),
    [
        ({"type": "input_audio", "audio": "AAAA"}, "item.content"),
        ({"type": "input_image", "image_url": "data:image/png;base64,AAAA"}, "item.content"),
    ],
)
def test_recordings_and_images_are_refused_at_any_time(part: dict[str, Any], param: str) -> None:
    item = {"type": "message", "role": "user", "content": [part]}
    for talk in (duplex(), begun(), begun(restarts=True)):
        assert talk.refused("conversation.item.create", item=item)["param"] == param


def test_servers_of_tools_are_refused() -> None:
    for talk in (duplex(), begun()):
        assert talk.refused("session.update", session={"type": "realtime", "tools": [MCP]})["param"] == "session.tools"
        assert talk.refused("response.create", response={"tools": [MCP]})["param"] == "response.tools"


@pytest.mark.parametrize(
    ("response", "param"),
    [
        ({"conversation": "none"}, "response.conversation"),
        ({"input": []}, "response.input"),
        ({"tools": [TOOL]}, "response.tools"),
        ({"instructions": "Say hello."}, "response.instructions"),
    ],
)
def test_a_response_of_another_meaning_is_refused(response: dict[str, Any], param: str) -> None:
    error = begun().refused("response.create", response=response)
    assert (error["code"], error["param"]) == ("unsupported_value", param)


def test_a_result_is_taken_at_any_time_and_once() -> None:
    talk = begun()
    talk.backend(ResponseStarted("resp_1"))
    talk.backend(FunctionCallStarted("resp_1", "item_m", "call_1", "get_time"))
    talk.backend(FunctionCallArgumentsDelta("resp_1", "item_m", "{}"))
    talk.backend(OutputItemEnded("resp_1", "item_m"))
    talk.backend(ResponseEnded("resp_1", EndStatus.COMPLETED))
    item = {"type": "function_call_output", "call_id": "call_1", "output": "noon"}
    assert talk.send("conversation.item.create", item=item)[0]["type"] == "conversation.item.added"
    assert commands(talk, ToolResult) == [ToolResult("call_1", "noon")]
    assert talk.refused("conversation.item.create", item=item)["param"] == "item.call_id"
    assert talk.refused("conversation.item.create", item={**item, "call_id": "call_2"})["code"] == (
        "invalid_tool_call_id"
    )


# --- what the model reads beforehand ---------------------------------------------------------------------------------


def read(talk: Talk) -> Any:
    talk.backend(ContextForeseen("prompt", ""))
    return commands(talk, ProvideContext)[-1].context


def test_instructions_of_the_first_response_are_read_behind_the_sessions() -> None:
    talk = duplex()
    talk.update(instructions="You are a pirate.")
    talk.send("response.create", response={"instructions": "Greet the user."})
    assert len(commands(talk, ContextChanged)) == 2
    assert read(talk).messages[0]["content"] == "You are a pirate.\n\nGreet the user."
    talk.backend(ContextSettled())
    assert read(talk).messages[0]["content"] == "You are a pirate."


def test_instructions_of_a_refused_response_are_not_read() -> None:
    talk = duplex()
    talk.send("response.create", response={"instructions": "Greet the user."})
    (asked,) = commands(talk, CreateResponse)
    talk.backend(CommandRefused(RefusalKind.UNSUPPORTED, None, asked.response_id, detail="No."))
    assert "Greet" not in read(talk).messages[0]["content"]


def test_a_deleted_item_is_not_read_and_in_mid_conversation_only_the_record_changes() -> None:
    talk = duplex()
    first = talk.send("conversation.item.create", item=text("My name is Ann."))[0]["item"]["id"]
    second = talk.send("conversation.item.create", item=text("I am six."))[0]["item"]["id"]
    talk.send("conversation.item.delete", item_id=first)
    assert len(commands(talk, ContextChanged)) == 3
    assert [message["content"] for message in read(talk).messages[1:]] == ["I am six."]
    talk.backend(ContextSettled())
    assert talk.send("conversation.item.delete", item_id=second)[0]["type"] == "conversation.item.deleted"
    assert len(commands(talk, ContextChanged)) == 3
