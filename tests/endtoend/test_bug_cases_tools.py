"""RB-25, 26, 32 of the real-world bug cases: tool calls and their results."""

from __future__ import annotations

import json
from typing import Any

from recording_chat_server import Delta, Raw, RecordingChatServer, Refuse, Step, Stop, Wait
from wire_session import WireSession

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"type": "function", "name": "get_weather", "description": "d", "parameters": CITY}
TIME = {"type": "function", "name": "get_time", "description": "d", "parameters": CITY}


def call(index: int, arguments: str = "", **start: str) -> Delta:
    """Return a piece of a streamed tool call; `start` (id, name) belongs to its first piece."""
    function: dict[str, Any] = {"arguments": arguments}
    entry: dict[str, Any] = {"index": index, "function": function}
    if start:
        entry |= {"id": start["id"], "type": "function"}
        function["name"] = start["name"]
    return Delta({"tool_calls": [entry]})


async def give_output(session: WireSession, call_id: str, output: str) -> str:
    mark = session.mark
    item = {"type": "function_call_output", "call_id": call_id, "output": output}
    await session.send("conversation.item.create", item=item)
    return str((await session.until("conversation.item.done", after=mark)).details("item", "id"))


async def test_rb25_a_result_without_a_call_is_refused(scripted_url: str, llm: RecordingChatServer) -> None:
    def no_orphans(body: dict[str, Any]) -> Any:
        known: set[str] = set()
        for message in body["messages"]:
            known |= {entry["id"] for entry in message.get("tool_calls") or ()}
            if message["role"] == "tool" and message["tool_call_id"] not in known:
                return [Refuse(400, '{"error": {"message": "orphan tool message"}}')]
        return "ok"

    llm.answer(no_orphans)
    async with WireSession(scripted_url) as session:
        mark = session.mark
        item = {"type": "function_call_output", "call_id": "call_does_not_exist", "output": "42"}
        await session.refused("conversation.item.create", item=item, event_id="f1")
        assert session.since(mark, "conversation.item.added") == []
        await session.user_types("hello")
        reply = await session.respond(output_modalities=["text"])
        assert reply.status == "completed"
        assert llm.requests[-1].said_by("tool") == []


async def test_rb26_two_calls_in_one_response_stay_apart(scripted_url: str, llm: RecordingChatServer) -> None:
    interleaved: list[Step] = [
        call(0, id="call_w", name="get_weather"),
        call(1, id="call_t", name="get_time"),
        call(0, '{"ci'),
        call(1, '{"city": '),
        call(0, 'ty": "Oslo"'),
        call(1, '"Oslo"}'),
        call(0, "}"),
        Stop("tool_calls"),
    ]
    llm.answer(interleaved, "Sunny, noon.")
    async with WireSession(scripted_url) as session:
        await session.update(tools=[WEATHER, TIME], tool_choice="auto")
        await session.user_types("weather and time in Oslo")
        reply = await session.respond()
        assert reply.status == "completed"
        assert [item["name"] for item in reply.output] == ["get_weather", "get_time"]
        assert len({item["id"] for item in reply.output}) == len({item["call_id"] for item in reply.output}) == 2
        for index, item in enumerate(reply.output):
            mine = [
                event for event in reply.events if item["id"] in (event.details("item_id"), event.details("item", "id"))
            ]
            types = [event.type for event in mine]
            assert types[0] == "response.output_item.added"
            assert types[-2:] == ["response.function_call_arguments.done", "response.output_item.done"]
            assert set(types[1:-2]) <= {"response.function_call_arguments.delta"}
            assert {event.details("output_index") for event in mine} == {index}
            assert mine[-1].details("item", "status") == "completed"
            joined = "".join(event.details("delta") for event in mine if event.type.endswith("arguments.delta"))
            assert joined == mine[-2].details("arguments") == item["arguments"]
            assert json.loads(item["arguments"]) == {"city": "Oslo"}
        weather, time = (item["call_id"] for item in reply.output)
        await give_output(session, time, '{"t":"12:00"}')
        await give_output(session, weather, '{"w":"sun"}')
        follow_up = await session.respond()
        assert follow_up.status == "completed"
        assert len(llm.requests) == 2
        messages = llm.requests[1].messages
        position = next(index for index, message in enumerate(messages) if message.get("tool_calls"))
        assert [entry["id"] for entry in messages[position]["tool_calls"]] == [weather, time]
        results = messages[position + 1 : position + 3]
        assert {(message["role"], message["tool_call_id"]) for message in results} == {
            ("tool", weather),
            ("tool", time),
        }


async def test_rb32_unicode_passes_both_ways_unharmed(scripted_url: str, llm: RecordingChatServer) -> None:
    text = "Très bien, Київ 🫖 ありがとう"
    output = '{"名前":"山田","град":"Київ","e":"🫖"}'
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "stub"}
    frames = [
        {**chunk, "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]},
        {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ]
    stream = "".join(f"data: {json.dumps(frame, ensure_ascii=False)}\n\n" for frame in frames) + "data: [DONE]\n\n"
    by_byte: list[Step] = []
    for byte in stream.encode():
        by_byte += [Wait(0.0005), Raw(bytes([byte]))]
    llm.answer([call(0, '{"city": "Київ"}', id="call_1", name="get_weather"), Stop("tool_calls")], by_byte)
    async with WireSession(scripted_url) as session:
        await session.update(output_modalities=["text"], tools=[WEATHER])
        await session.user_types("погода?")
        asked = await session.respond()
        item_id = await give_output(session, asked.output[0]["call_id"], output)
        reply = await session.respond()
        (result,) = [message for message in llm.requests[1].messages if message["role"] == "tool"]
        assert result["content"] == output
        assert json.loads(asked.output[0]["arguments"]) == {"city": "Київ"}
        assert reply.first("response.output_text.done").details("text") == reply.text == text
        assert (await session.retrieve(item_id))["output"] == output
