"""RB-01, 02, 05, 06, 48, 53, 55 of the real-world bug cases: settings, refusals, empty replies, impossible input."""

from __future__ import annotations

import json
from typing import Any

import pytest
from recording_chat_server import Delta, RecordingChatServer, Refuse, Say, Stop, Wait, words
from speech_references import clip
from wire_session import SERVER_VAD, WireSession, silence

TOOL = {"type": "function", "name": "t1", "description": "d", "parameters": {"type": "object", "properties": {}}}


async def test_rb01_created_comes_first_and_each_update_is_acknowledged_once(
    scripted_url: str, llm: RecordingChatServer
) -> None:
    async with WireSession(scripted_url) as session:
        wanted = {"type": "realtime", "instructions": "Answer with one word.", "output_modalities": ["text"]}
        await session.send("session.update", session=wanted, event_id="evt_cfg_1")
        updated = (await session.until("session.updated")).body
        await session.healthy_tail()  # a second session.updated would have come before its events
        created = session.events[0].body
        assert created["type"] == "session.created"
        assert created["session"]["id"]
        assert created["session"]["object"] == "realtime.session"
        assert len([event for event in session.events if event.type == "session.updated"]) == 2
        assert updated["session"]["instructions"] == "Answer with one word."
        assert updated["session"]["output_modalities"] == ["text"]
        assert updated["event_id"] != "evt_cfg_1"
        effective = updated["session"]
        assert {"type", "model", "tools", "tool_choice", "instructions", "audio"} <= effective.keys()
        assert {"format", "turn_detection"} <= effective["audio"]["input"].keys()
        assert "voice" in effective["audio"]["output"]


async def test_rb02_absent_keeps_and_null_empty_clear(scripted_url: str, llm: RecordingChatServer) -> None:
    def no_empty_tools(body: dict[str, Any]) -> Any:
        return [Refuse(400, '{"error": {"message": "tools is empty"}}')] if body.get("tools") == [] else "fine"

    llm.answer(no_empty_tools)
    async with WireSession(scripted_url) as session:
        turn_detection = {"type": "server_vad", "threshold": 0.6, "silence_duration_ms": 400}
        transcription = {"model": "gpt-4o-transcribe", "language": "en"}
        audio = {"input": {"transcription": transcription, "turn_detection": turn_detection}}
        first = await session.update(instructions="RULE-A", tools=[TOOL], audio=audio)
        second = await session.update(audio={"input": {"turn_detection": None}})
        mark = session.mark
        await session.append(clip("goforward").pcm + silence(2_000))
        await session.send("input_audio_buffer.clear")
        await session.until("input_audio_buffer.cleared", after=mark)
        heard = session.since(mark, "input_audio_buffer.speech_started", "input_audio_buffer.committed")
        third = await session.update(audio={"input": {"transcription": {"language": "de"}}})
        fourth = await session.update(tools=[], instructions="")
        await session.user_types("hello")
        reply = await session.respond(output_modalities=["text"])

        assert second["audio"]["input"]["turn_detection"] is None
        for key in ("instructions", "tools"):
            assert second[key] == first[key]
        assert second["audio"]["input"]["transcription"] == first["audio"]["input"]["transcription"]
        assert heard == []
        assert third["audio"]["input"]["transcription"]["model"] == "gpt-4o-transcribe"
        assert third["audio"]["input"]["transcription"]["language"] == "de"
        assert fourth["tools"] == []
        assert fourth["instructions"] == ""
        assert reply.status == "completed"
        assert not llm.requests[-1].body.get("tools")
        assert "RULE-A" not in json.dumps(llm.requests[-1].body)


async def test_rb05_a_second_response_is_refused_while_one_runs(scripted_url: str, llm: RecordingChatServer) -> None:
    story = "".join(f"word{number} " for number in range(40))
    llm.answer(words(story, every_s=0.1), "After.")
    async with WireSession(scripted_url) as session:
        await session.user_types("tell me a story")
        mark = session.mark
        await session.send("response.create")
        await session.until("response.created", after=mark)
        error = await session.refused("response.create", event_id="evt_dup")
        reply = await session.reply(after=mark)
        assert error["code"] == "conversation_already_has_active_response"
        assert len(session.since(mark, "error")) == 1
        assert len(session.since(mark, "response.created")) == 1
        assert reply.status == "completed"
        assert reply.transcript.split() == story.split()
        assert len(llm.requests) == 1
        assert (await session.respond()).status == "completed"


@pytest.mark.parametrize(
    "script",
    [
        pytest.param([Stop()], id="nothing"),
        pytest.param([Say("  \n"), Stop()], id="whitespace"),
        pytest.param(
            [Delta({"content": None}), Stop(usage={"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0})],
            id="null and no usage",
        ),
    ],
)
async def test_rb06_an_empty_reply_ends(scripted_url: str, llm: RecordingChatServer, script: Any) -> None:
    llm.answer(script, "Fine.")
    async with WireSession(scripted_url) as session:
        await session.user_types("hello")
        reply = await session.respond()
        assert reply.status in ("completed", "failed", "incomplete")
        assert reply.audio_ms <= 100
        added = reply.types.count("response.output_item.added")
        assert added == reply.types.count("response.output_item.done") == len(reply.output)
        assert all(value >= 0 for value in _numbers(reply.done.details("response", "usage")))
        assert (await session.respond()).transcript == "Fine."


def _numbers(value: Any) -> list[int]:
    if isinstance(value, dict):
        return [number for inner in value.values() for number in _numbers(inner)]
    assert isinstance(value, int), value
    return [value]


async def test_rb48_a_commit_of_nothing_or_of_too_little_is_refused(
    scripted_url: str, llm: RecordingChatServer
) -> None:
    speech = clip("goforward").pcm
    async with WireSession(scripted_url) as session:
        await session.listen(None)
        mark = session.mark
        for event_id, before in (("c1", b""), ("c2", speech[: 40 * 48])):
            await session.append(before)
            assert (await session.refused("input_audio_buffer.commit", event_id=event_id))["code"] == (
                "input_audio_buffer_commit_empty"
            )
        assert session.since(mark, "conversation.item.added") == []
        await session.append(speech[40 * 48 : 120 * 48])
        await session.send("input_audio_buffer.commit", event_id="c3")
        committed = await session.until("input_audio_buffer.committed", after=mark)  # 40 + 80 ms: the buffer was kept
        await session.refused("input_audio_buffer.commit", event_id="c4")
        await session.transcript(committed.details("item_id"))
        await session.healthy_tail()
        transcripts = [event for event in session.events if "input_audio_transcription" in event.type]
        assert {event.details("item_id") for event in transcripts} == {committed.details("item_id")}


BAD_FRAMES: list[tuple[str, str | bytes | dict[str, Any], str | None]] = [
    ("unknown type", {"type": "bogus.event", "event_id": "m1"}, "m1"),
    ("update without session", {"type": "session.update", "event_id": "m2"}, "m2"),
    ("no type", {"event_id": "m3"}, "m3"),
    ("a list", "[]", None),
    ("a word", "text", None),
    ("no JSON", "{", None),
    ("binary", b"\x00\x01", None),
    ("append without audio", {"type": "input_audio_buffer.append", "event_id": "m8"}, "m8"),
    (
        "unknown format",
        {
            "type": "session.update",
            "event_id": "m9",
            "session": {"type": "realtime", "audio": {"input": {"format": {"type": "audio/opus9"}}}},
        },
        "m9",
    ),
    (
        "unknown role",
        {
            "type": "conversation.item.create",
            "event_id": "m10",
            "item": {"type": "message", "role": "wizard", "content": []},
        },
        "m10",
    ),
    ("clear of output on a WebSocket", {"type": "output_audio_buffer.clear", "event_id": "m11"}, "m11"),
    ("unknown item", {"type": "conversation.item.retrieve", "event_id": "m12", "item_id": "nope"}, "m12"),
]


async def test_rb53_each_broken_event_gets_one_error_and_the_session_lives(
    scripted_url: str, llm: RecordingChatServer
) -> None:
    async with WireSession(scripted_url) as session:
        for _, frame, event_id in BAD_FRAMES:
            await session.refused_frame(frame, event_id=event_id)
        after = await session.update(instructions="k")
        assert after["audio"]["input"]["format"] == {"type": "audio/pcm", "rate": 24_000}
        await session.healthy_tail()


async def test_rb55_an_impossible_audio_end_ms_leaves_the_item_alone(
    scripted_url: str, llm: RecordingChatServer
) -> None:
    llm.answer("One two three four five six seven eight nine ten.")  # 3 s of the scripted voice
    async with WireSession(scripted_url) as session:
        await session.user_types("hi")
        reply = await session.respond()
        target = {"item_id": reply.item_id(), "content_index": 0}
        before = await session.retrieve(reply.item_id())
        for number, value in enumerate((1234.5, -11, "500", None, 1e20, True)):
            error = await session.refused(
                "conversation.item.truncate", event_id=f"n{number}", audio_end_ms=value, **target
            )
            assert error["param"] == "audio_end_ms", value
            assert error["code"], value
        assert await session.retrieve(reply.item_id()) == before
        mark = session.mark
        await session.send("conversation.item.truncate", audio_end_ms=500, **target)
        truncated = await session.until("conversation.item.truncated", after=mark)
        assert truncated.details("audio_end_ms") == 500


async def test_rb02_turn_detection_keeps_its_other_settings_when_one_changes(
    scripted_url: str, llm: RecordingChatServer
) -> None:
    async with WireSession(scripted_url) as session:
        await session.listen(SERVER_VAD)
        after = await session.update(audio={"input": {"turn_detection": {"type": "server_vad", "threshold": 0.7}}})
        assert after["audio"]["input"]["turn_detection"] | {"threshold": 0.5} == {
            **after["audio"]["input"]["turn_detection"],
            **SERVER_VAD,
        }


async def test_rb41_waiting_is_no_failure(scripted_url: str, llm: RecordingChatServer) -> None:
    llm.answer([Wait(1.0), Say("Late."), Stop()])
    async with WireSession(scripted_url) as session:
        await session.user_types("hi")
        assert (await session.respond()).transcript == "Late."
