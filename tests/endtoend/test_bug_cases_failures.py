"""RB-36, 40, 41, 46 of the real-world bug cases: thoughts, lost clients, a language model that dies, keys."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import psutil
import pytest
import websockets
from recording_chat_server import Delta, Raw, RecordingChatServer, Refuse, Reset, Say, Stop, Wait, pieces, words
from wire_session import DEADLINE_S, Reply, WireSession

from clients.bench.gateway_process import GatewayProcess

HELLO = "Hello there."


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(
            [Say("<th"), Say("ink>I should be ru"), Say("de</thi"), Say("nk>Hello "), Say("there.")], id="tags"
        ),
        pytest.param(
            [Delta({"reasoning_content": "I should be rude"}), Say("Hello "), Say("there.")], id="field of its own"
        ),
    ],
)
async def test_rb36_thoughts_are_no_part_of_the_reply(scripted_url: str, llm: RecordingChatServer, script: Any) -> None:
    llm.answer(script)
    async with WireSession(scripted_url) as session:
        await session.user_types("hi")
        reply = await session.respond()
        assert reply.transcript.strip() == HELLO
        assert reply.first("response.output_audio_transcript.done").details("transcript") == reply.transcript
        assert reply.output[0]["content"][0]["transcript"] == reply.transcript


async def test_rb36_thoughts_without_an_end_are_not_spoken(scripted_url: str, llm: RecordingChatServer) -> None:
    llm.answer([Say("<think>I should "), Say("be rude"), Stop()], "Fine.")
    async with WireSession(scripted_url) as session:
        await session.user_types("hi")
        reply = await session.respond()
        assert reply.audio == b""
        assert len([event for event in session.events if event.type == "response.done"]) == 1
        await session.healthy_tail()


ROUNDS = 20


async def test_rb40_a_client_that_vanishes_leaves_nothing_behind(
    scripted_gateway: GatewayProcess, llm: RecordingChatServer
) -> None:
    story = pieces([f"This is sentence number {number}. " for number in range(60)], every_s=0.2)
    llm.answer(lambda body: "banana" if body["messages"][-1]["content"] == "say it" else story)
    process = psutil.Process(scripted_gateway.pid)
    await vanish_and_come_back(scripted_gateway.url)  # warms what is made once
    await settled(process, llm)
    files, memory = process.num_fds(), process.memory_info().rss
    lines = len(scripted_gateway.output)
    for _ in range(ROUNDS):
        reply = await vanish_and_come_back(scripted_gateway.url)
        assert reply.transcript == "banana"
        assert reply.audio_ms < 2_000
    await settled(process, llm)
    stories = [request for request in llm.requests if request.messages[-1]["content"] != "say it"]
    assert all(request.closed.is_set() for request in stories)
    assert abs(process.num_fds() - files) <= 5
    assert process.memory_info().rss - memory < 50 * 2**20
    assert scripted_gateway.alive
    assert not [line for line in list(scripted_gateway.output)[lines:] if "Traceback" in line or "ERROR" in line]


async def vanish_and_come_back(url: str) -> Reply:
    leaving = WireSession(url)
    async with leaving:
        await leaving.user_types("long story")
        mark = leaving.mark
        await leaving.send("response.create")
        for _ in range(3):
            await leaving.until("response.output_audio.delta", after=mark)
            mark = leaving.mark
        leaving.vanish()
    async with WireSession(url) as session:
        await session.user_types("say it")
        return await session.respond()


async def settled(process: psutil.Process, llm: RecordingChatServer) -> None:
    """Wait until the language model has nobody left to talk to."""
    for request in llm.requests:
        assert await asyncio.to_thread(request.ended.wait, DEADLINE_S)


async def failed(session: WireSession) -> Reply:
    """Ask for a response that must fail, and then for one that must not."""
    await session.user_types("hello")
    reply = await session.respond()
    assert reply.status == "failed"
    error = reply.done.details("response", "status_details", "error")
    assert error["message"]
    assert not re.search(r"Traceback|File \"|/site-packages/|\.py\b", error["message"])
    added = reply.types.count("response.output_item.added")
    assert added == reply.types.count("response.output_item.done")
    assert all(item["status"] == "incomplete" for item in reply.output)
    return reply


async def test_rb41_a_language_model_that_is_down_fails_the_response(
    scripted_url: str, llm: RecordingChatServer
) -> None:
    async with WireSession(scripted_url) as session:
        with llm.down():
            await failed(session)
        assert (await session.respond()).status == "completed"


@pytest.mark.parametrize(
    "script",
    [
        pytest.param([Refuse(500, "<html><body>oops</body></html>", "text/html")], id="HTTP 500 with HTML"),
        pytest.param([*words("one two three four five "), Wait(0.2), Reset()], id="reset after five words"),
        pytest.param([Say("one "), Raw(b"data: {broken\n\n")], id="a broken line"),
    ],
)
async def test_rb41_a_language_model_that_breaks_fails_the_response(
    scripted_url: str, llm: RecordingChatServer, script: Any
) -> None:
    llm.answer(script, "Fine.")
    async with WireSession(scripted_url) as session:
        await failed(session)
        assert (await session.respond()).status == "completed"


async def test_rb41_a_silent_language_model_can_be_cancelled(scripted_url: str, llm: RecordingChatServer) -> None:
    llm.answer([*words("one two "), Wait(120)], "Fine.")
    async with WireSession(scripted_url) as session:
        await session.user_types("hello")
        mark = session.mark
        await session.send("response.create")
        await session.until("response.output_audio_transcript.delta", after=mark)
        await session.send("response.cancel")
        assert (await session.reply(after=mark, within_s=2.5)).status == "cancelled"  # well before the timeout
        assert (await session.respond()).status == "completed"


async def test_rb41_a_silent_language_model_fails_the_response_in_the_end(
    scripted_url: str, llm: RecordingChatServer
) -> None:
    llm.answer([*words("one two "), Wait(120)], "Fine.")  # the fixture's gateway waits 5 s for a next token
    async with WireSession(scripted_url) as session:
        await failed(session)
        assert (await session.respond()).status == "completed"


@pytest.fixture(scope="module")
def locked_gateway(chat_server: RecordingChatServer) -> Any:
    environment = {"DUPLEX_GATEWAY_API_KEY": "k-test", "FOREGROUND_BASE_URL": chat_server.base_url}
    with GatewayProcess(["--profile", "scripted"], environment) as gateway:
        yield gateway


@pytest.mark.parametrize("header", [None, "Bearer wrong", "Bearer k-tes", "Bearer k-test2", "k-test", "Bearer "])
async def test_rb46_a_missing_or_wrong_key_opens_nothing(locked_gateway: GatewayProcess, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    with pytest.raises(websockets.InvalidStatus) as refusal:
        await websockets.connect(locked_gateway.url, additional_headers=headers, proxy=None)
    assert refusal.value.response.status_code in (401, 403)
    assert b"k-test" not in (refusal.value.response.body or b"")


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_rb46_the_right_key_opens_a_session(locked_gateway: GatewayProcess, scheme: str) -> None:
    headers = {"Authorization": f"{scheme} k-test"}
    async with websockets.connect(locked_gateway.url, additional_headers=headers, proxy=None) as socket:
        frame = await asyncio.wait_for(socket.recv(), DEADLINE_S)
    assert '"session.created"' in str(frame)
    assert "k-test" not in str(frame)
    assert not [line for line in locked_gateway.output if "k-test" in line]


@pytest.mark.parametrize("header", [None, "Bearer anything"])
async def test_rb46_without_a_configured_key_all_may_enter(scripted_url: str, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    async with websockets.connect(scripted_url, additional_headers=headers, proxy=None) as socket:
        assert '"session.created"' in str(await asyncio.wait_for(socket.recv(), DEADLINE_S))
