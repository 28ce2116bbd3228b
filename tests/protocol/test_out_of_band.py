"""Responses with `conversation: "none"` (protocol §2.10): their output enters nothing, input replaces the context."""

from __future__ import annotations

import base64
from typing import Any

from protocol.backend_events import (
    CommandRefused,
    ContextRequested,
    EndReason,
    EndStatus,
    EngineFault,
    FunctionCallArgumentsDelta,
    FunctionCallStarted,
    InputTranscriptCompleted,
    InputTranscriptDelta,
    InputTranscriptFailed,
    OutputAudio,
    OutputItemEnded,
    OutputTextDelta,
    RefusalKind,
    ResponseEnded,
    ResponseStarted,
)
from protocol.commands import CreateResponse, ProvideContext, RecogniseItem
from protocol.outputs import DiscardAudio

COMPLETED = EndStatus.COMPLETED
TYPED = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Sum it up."}]}


def ask(talk: Any, **fields: Any) -> str:
    """Ask for an out-of-band response; return its id."""
    assert talk.send("response.create", response={"conversation": "none", **fields}) == []
    response_id: str = talk.commands(CreateResponse)[-1].response_id
    return response_id


def context(talk: Any, response_id: str) -> Any:
    talk.backend(ContextRequested(response_id))
    return talk.commands(ProvideContext)[-1].context


def test_it_is_asked_for_as_such(talk: Any) -> None:
    response_id = ask(talk, output_modalities=["text"], input=[TYPED])
    (command,) = talk.commands(CreateResponse)
    assert command == CreateResponse(response_id, False, None, out_of_band=True, needs_transcripts=False)


def test_its_output_is_told_in_order_and_enters_no_conversation(talk: Any) -> None:
    response_id = ask(talk, metadata={"topic": "summary"}, output_modalities=["text"], input=[TYPED])
    events = talk.backend(
        ResponseStarted(response_id, True),
        OutputTextDelta(response_id, "i1", "All well."),
        FunctionCallStarted(response_id, "i2", "call_a", "note"),
        FunctionCallArgumentsDelta(response_id, "i2", "{}"),
        OutputItemEnded(response_id, "i1"),
        OutputItemEnded(response_id, "i2"),
        ResponseEnded(response_id, COMPLETED),
    )
    assert [event["type"].removeprefix("response.") for event in events] == [
        "created",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_item.added",
        "function_call_arguments.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "function_call_arguments.done",
        "output_item.done",
        "done",
        "rate_limits.updated",
    ]
    for event in (events[0], events[-2]):
        assert event["response"]["conversation_id"] is None
        assert event["response"]["metadata"] == {"topic": "summary"}
    assert [item["id"] for item in events[-2]["response"]["output"]] == ["i1", "i2"]
    assert talk.session.conversation.items == ()
    assert talk.refused("conversation.item.retrieve", item_id="i1")["code"] == "item_retrieve_invalid_item_id"


def test_it_runs_beside_a_response_of_the_conversation(talk: Any) -> None:
    talk.send("response.create")
    beside = ask(talk, output_modalities=["text"])
    talk.backend(ResponseStarted("resp_1"), ResponseStarted(beside, True))
    talk.backend(OutputTextDelta("resp_1", "a", "Hello "), OutputTextDelta(beside, "b", "Note "))
    talk.backend(OutputItemEnded(beside, "b"), ResponseEnded(beside, COMPLETED))
    talk.backend(OutputTextDelta("resp_1", "a", "there."), OutputItemEnded("resp_1", "a"))
    (done, _) = talk.backend(ResponseEnded("resp_1", COMPLETED))
    assert done["response"]["conversation_id"] == talk.session.conversation.id
    assert [item.id for item in talk.session.conversation.items] == ["a"]


def test_the_active_response_of_a_refusal_is_the_conversations(talk: Any) -> None:
    beside = ask(talk)
    talk.backend(ResponseStarted(beside, True))
    talk.send("response.create", event_id="evt_1")
    talk.backend(ResponseStarted("resp_2"))
    talk.send("response.create", event_id="evt_2")
    (event,) = talk.backend(CommandRefused(RefusalKind.RESPONSE_ACTIVE, "evt_2", "resp_3"))
    assert "resp_2" in event["error"]["message"]


def test_one_too_many_is_refused_with_the_clients_event_id(talk: Any) -> None:
    talk.send("response.create", event_id="evt_1", response={"conversation": "none", "instructions": "once"})
    (event,) = talk.backend(CommandRefused(RefusalKind.TOO_MANY_RESPONSES, "evt_1", "resp_1"))
    assert (event["error"]["code"], event["error"]["event_id"]) == ("rate_limit_exceeded", "evt_1")
    assert context(talk, "resp_1").messages[0]["content"] != "once", "its parameters are forgotten"


def test_without_input_it_reads_the_conversation(talk: Any) -> None:
    talk.update(instructions="")
    talk.user_types("My name is Ada.")
    response_id = ask(talk)
    assert talk.commands(CreateResponse)[-1].needs_transcripts
    assert context(talk, response_id).messages == ({"role": "user", "content": "My name is Ada."},)


def test_input_mixes_items_and_references_and_an_empty_list_is_an_empty_context(talk: Any) -> None:
    talk.update(instructions="")
    talk.user_types("My name is Ada.", id="u1")
    response_id = ask(talk, input=[{"type": "item_reference", "id": "u1"}, TYPED])
    assert context(talk, response_id).messages == ({"role": "user", "content": "My name is Ada.\nSum it up."},)
    assert context(talk, ask(talk, input=[])).messages == ()
    assert len(talk.session.conversation.items) == 1


def test_a_reference_to_speech_that_is_not_recognised_yet_waits_for_its_words(talk: Any) -> None:
    from protocol.backend_events import InputCommitted

    talk.update(instructions="")
    talk.backend(InputCommitted("u1", 0, 24_000))
    response_id = ask(talk, input=[{"type": "item_reference", "id": "u1"}])
    assert talk.commands(CreateResponse)[-1].needs_transcripts
    talk.backend(InputTranscriptCompleted("u1", "What time is it?", 24_000))
    assert context(talk, response_id).messages == ({"role": "user", "content": "What time is it?"},)
    ask(talk, input=[{"type": "item_reference", "id": "u1"}])
    assert not talk.commands(CreateResponse)[-1].needs_transcripts


def test_it_may_speak_with_another_voice_than_the_conversation(talk: Any) -> None:
    talk.agent_says("r", "a", ("Hi.", 2400))
    response_id = ask(talk, audio={"output": {"voice": "coral"}})
    assert context(talk, response_id).voice == "coral"
    (created,) = talk.backend(ResponseStarted(response_id, True))
    assert created["response"]["audio"]["output"]["voice"] == "coral"


def test_its_speech_locks_no_voice_and_cannot_be_truncated(talk: Any) -> None:
    response_id = ask(talk)
    talk.backend(ResponseStarted(response_id, True), OutputTextDelta(response_id, "i", "Hi."))
    talk.backend(OutputAudio(response_id, "i", bytes(9_600)))
    error = talk.refused("conversation.item.truncate", item_id="i", content_index=0, audio_end_ms=100)
    assert error["code"] == "item_truncate_invalid_item_id"
    talk.backend(OutputItemEnded(response_id, "i"))
    done, _ = talk.backend(ResponseEnded(response_id, COMPLETED))
    assert done["response"]["usage"]["output_token_details"]["audio_tokens"] == 4
    (updated,) = talk.update(audio={"output": {"voice": "coral"}})
    assert updated["session"]["audio"]["output"]["voice"] == "coral"


def test_a_cancelled_one_drops_its_unsent_audio(talk: Any) -> None:
    response_id = ask(talk)
    talk.backend(ResponseStarted(response_id, True), OutputTextDelta(response_id, "i", "Hi."))
    talk.backend(OutputAudio(response_id, "i", bytes(9_600)))
    events = talk.backend(ResponseEnded(response_id, EndStatus.CANCELLED, reason=EndReason.CLIENT_CANCELLED))
    assert DiscardAudio(response_id) in talk.outputs
    talk.session.audio_unsent("i", 2_400)  # an item that no conversation knows
    assert events[-2]["response"]["status_details"] == {"type": "cancelled", "reason": "client_cancelled"}
    assert events[-2]["response"]["output"][0]["status"] == "incomplete"


def test_audio_inside_its_input_is_recognised_and_told_to_nobody(talk: Any) -> None:
    talk.update(instructions="", audio={"input": {"transcription": {"model": "whisper-1"}}})
    audio = base64.b64encode(bytes(4_800)).decode()
    raw = {"type": "message", "role": "user", "content": [{"type": "input_audio", "audio": audio}]}
    response_id = ask(talk, input=[raw])
    (recognise,) = talk.commands(RecogniseItem)
    assert recognise.pcm == bytes(4_800)
    assert talk.commands(CreateResponse)[-1].needs_transcripts
    of = recognise.item_id
    assert talk.backend(InputTranscriptDelta(of, "Hi."), InputTranscriptCompleted(of, "Hi.", 2_400)) == []
    assert context(talk, response_id).messages == ({"role": "user", "content": "Hi."},)
    ask(talk, input=[raw])
    failed = talk.commands(RecogniseItem)[-1].item_id
    assert talk.backend(InputTranscriptFailed(failed, EngineFault("asr_failed", "It broke."))) == []
