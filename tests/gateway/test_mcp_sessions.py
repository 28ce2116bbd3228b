"""MCP tools through whole sessions: a real MCP server, a scripted language model, every event against the wire law."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.backends.cascade import CascadeBackend
from gateway.composition import session_clock
from gateway.event_log import EventLog, EventLogWriter
from gateway.g711 import G711Codec
from gateway.hearing import Hearing
from gateway.mcp.allowed_hosts import AllowedHosts
from gateway.session import Session
from gateway.turns.settings import Deadlines
from models.engines.scripted import ScriptedChat, ScriptedRecognizer, ScriptedReply, ScriptedSynthesizer, ScriptedVad
from models.interfaces import ChatRequest, ChatToolCall, Engines
from protocol.ids import random_id
from protocol.session import SessionProtocol
from protocol.session_settings import SessionDefaults
from protocol.wire_law import SessionLaw
from tests.gateway.served_mcp import ServedMcp, serve_mcp

Event = dict[str, Any]
OPENING = [
    "response.created",
    "response.output_item.added",
    "conversation.item.added",
    "response.mcp_call_arguments.delta",
    "response.mcp_call_arguments.done",
]
ENDING = ["response.mcp_call.completed", "conversation.item.done", "response.output_item.done"]


class Client:
    """A session's client, without a socket between."""

    def __init__(self, session: Session, chat: ScriptedChat) -> None:
        self._session = session
        self.chat = chat
        self.seen: list[Event] = []
        self._law = SessionLaw()

    async def send(self, kind: str, **fields: Any) -> None:
        await self._session.receive_text(json.dumps({"type": kind, **fields}))

    async def use(self, served: ServedMcp, *, label: str = "docs", **definition: Any) -> list[Event]:
        """Give the session the server and wait for its tools."""
        tool = {
            "type": "mcp",
            "server_label": label,
            "server_url": served.url,
            "require_approval": "never",
            **definition,
        }
        await self.send("session.update", session={"type": "realtime", "output_modalities": ["text"], "tools": [tool]})
        return await self.until("conversation.item.done")

    async def ask(self, text: str, **response: Any) -> None:
        content = [{"type": "input_text", "text": text}]
        await self.send("conversation.item.create", item={"type": "message", "role": "user", "content": content})
        await self.until("conversation.item.done")
        await self.send("response.create", response=response)

    async def until(self, kind: str) -> list[Event]:
        """Return the events up to the next one of type `kind`."""
        taken: list[Event] = []
        while not taken or taken[-1]["type"] != kind:
            taken.append(await self.next())
        self.seen += taken
        return taken

    async def next(self) -> Event:
        """Return the next event."""
        async with asyncio.timeout(20):
            event: Event = json.loads(await self._session.outbox.next_frame())
        assert self._law.violations(event) == [], event
        return event

    async def nothing_more(self) -> None:
        """Check that all has been read once everything had its chance."""
        await asyncio.sleep(0.05)
        assert self._session.outbox.waiting_bytes == 0


def calling(name: str, arguments: str = "{}", then: str = "Here it is.") -> Callable[[ChatRequest], ScriptedReply]:
    """Return a model that calls a tool, and speaks once the newest message is a tool's result."""

    def reply(request: ChatRequest) -> ScriptedReply:
        newest = request.messages[-1]
        if newest["role"] == "tool":
            return f"{then} {newest['content']}"
        half = len(arguments) // 2
        return [ChatToolCall(0, "call_0", name, arguments[:half]), ChatToolCall(0, arguments=arguments[half:])]

    return reply


@asynccontextmanager
async def session(
    reply: Callable[[ChatRequest], ScriptedReply],
    *,
    hosts: AllowedHosts | None = None,
    log: EventLog | None = None,
    deadlines: Deadlines | None = None,
) -> AsyncIterator[Client]:
    chat = ScriptedChat(reply, ttft_ms=0, token_ms=0)
    engines = Engines(ScriptedVad(), ScriptedRecognizer(), chat, ScriptedSynthesizer())
    now = session_clock()
    whole = Session(
        session_id="sess_1",
        protocol=SessionProtocol(
            ids=random_id,
            session_id="sess_1",
            model="cascade",
            expires_at_s=3600,
            defaults=SessionDefaults(),
            g711=G711Codec(),
        ),
        backend=CascadeBackend(engines, new_id=random_id, now=now, deadlines=deadlines),
        hearing=Hearing(engines.vad),
        now=now,
        log=log or EventLog.off(),
        mcp_hosts=hosts,
    )
    running = asyncio.create_task(whole.run())
    client = Client(whole, chat)
    await client.until("session.created")
    try:
        yield client
    finally:
        running.cancel()
        await asyncio.wait({running})
    assert running.cancelled()


def kinds(events: list[Event]) -> list[str]:
    return [event["type"] for event in events]


def spoken(events: list[Event]) -> str:
    return "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")


async def test_tools_are_listed_called_and_their_results_spoken() -> None:
    async with serve_mcp() as served, session(calling("docs__add", '{"a": 2, "b": 3}')) as client:
        events = await client.use(served)
        assert kinds(events) == [
            "session.updated",
            "conversation.item.added",
            "mcp_list_tools.in_progress",
            "mcp_list_tools.completed",
            "conversation.item.done",
        ]
        assert [tool["name"] for tool in events[-1]["item"]["tools"]][:2] == ["add", "wipe"]
        await client.ask("What is two and three?")
        events = await client.until("response.done")
        assert kinds(events) == [*OPENING, "response.mcp_call.in_progress", *ENDING, "response.done"]
        (call,) = events[-1]["response"]["output"]
        assert (call["name"], call["arguments"], call["output"], call["error"]) == (
            "add",
            '{"a": 2, "b": 3}',
            "5",
            None,
        )
        await client.until("rate_limits.updated")
        await client.nothing_more()  # the client asks for what follows
        await client.send("response.create")
        assert spoken(await client.until("response.done")) == "Here it is. 5"
        assert served.calls == ["add"]


async def test_a_slow_call_outlives_its_response() -> None:
    patience = Deadlines(tools=2_400)
    async with serve_mcp() as served, session(calling("docs__wait"), deadlines=patience) as client:
        await client.use(served)
        await client.ask("Wait.")
        events = await client.until("response.done")
        assert kinds(events)[-2:] == ["response.mcp_call.in_progress", "response.done"]
        await client.until("rate_limits.updated")
        served.release.set()
        events = await client.until("response.output_item.done")
        assert kinds(events) == ENDING
        assert events[-1]["item"]["output"] == "waited"


async def test_an_approved_call_runs_and_a_denied_one_does_not() -> None:
    async with serve_mcp() as served, session(calling("docs__wipe")) as client:
        await client.use(served, require_approval={"never": {"read_only": True}})
        for yes in (False, True):
            await client.ask("Wipe it.")
            events = await client.until("response.done")
            request = events[-1]["response"]["output"][1]
            assert (request["type"], request["name"]) == ("mcp_approval_request", "wipe")
            await client.until("rate_limits.updated")
            assert served.calls == []
            item = {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": yes}
            await client.send("conversation.item.create", previous_item_id=request["id"], item=item)
            events = await client.until("response.output_item.done")
            assert events[-1]["item"]["approval_request_id"] == request["id"]
            if yes:
                assert kinds(events)[2:] == ["response.mcp_call.in_progress", *ENDING]
                assert events[-1]["item"]["output"] == "wiped"
            else:
                assert kinds(events)[2] == "response.mcp_call.failed"
            await client.send("response.create")
            answer = spoken(await client.until("response.done"))
            assert answer == ("Here it is. wiped" if yes else "Here it is. Error: The user did not approve the call.")
            await client.until("rate_limits.updated")
        assert served.calls == ["wipe"]


async def test_a_client_that_follows_openais_own_example_gets_through() -> None:
    """It approves on the request's item.done, and asks again once the call has completed and its response is done."""
    async with serve_mcp() as served, session(calling("docs__wipe")) as client:
        await client.use(served, require_approval="always")
        await client.ask("Wipe it.", tool_choice={"type": "mcp", "server_label": "docs", "name": "wipe"})
        call: tuple[str, str] = ("", "")
        completed = done = asked = False
        final = ""
        while not final:
            event = await client.next()
            match event["type"]:
                case "response.mcp_call_arguments.done":
                    assert call == ("", "")
                    call = (event["item_id"], event["response_id"])
                case "conversation.item.done" if event["item"]["type"] == "mcp_approval_request":
                    item = {
                        "type": "mcp_approval_response",
                        "id": "approval_response_1",
                        "approval_request_id": event["item"]["id"],
                        "approve": True,
                    }
                    await client.send("conversation.item.create", item=item)
                case "response.mcp_call.completed":
                    assert event["item_id"] == call[0]
                    completed = True
                case "response.done" if not asked:
                    assert event["response"]["status"] == "completed"
                    assert event["response"]["id"] == call[1]
                    done = True
                case "response.done":
                    final = event["response"]["output"][0]["content"][0]["text"]
                case kind:
                    assert kind != "error"
            if completed and done and not asked:
                asked = True
                await client.send("response.create", response={"tool_choice": "none"})
        assert final == "Here it is. wiped"


async def test_a_tool_that_fails_is_told_to_the_model() -> None:
    async with serve_mcp() as served, session(calling("docs__fail")) as client:
        await client.use(served)
        await client.ask("Try.")
        events = await client.until("response.done")
        assert "response.mcp_call.failed" in kinds(events)
        assert events[-1]["response"]["status"] == "completed"
        error = events[-1]["response"]["output"][0]["error"]
        assert error["type"] == "tool_execution_error"
        await client.send("response.create")
        assert "the database is down" in spoken(await client.until("response.done"))


async def test_a_response_may_bring_its_own_server() -> None:
    async with serve_mcp() as served, session(calling("docs__add", '{"a": 1, "b": 1}')) as client:
        tool = {"type": "mcp", "server_label": "docs", "server_url": served.url, "require_approval": "never"}
        await client.ask("Add.", tools=[tool], output_modalities=["text"])
        events = await client.until("response.done")
        assert "mcp_list_tools.completed" in kinds(events)
        assert events[-1]["response"]["output"][0]["output"] == "2"


async def test_a_host_that_is_not_allowed_fails_the_list_and_says_so() -> None:
    async with serve_mcp() as served, session(calling("x"), hosts=AllowedHosts(bound=("0.0.0.0",))) as client:
        events = await client.use(served)
        assert kinds(events)[-2:] == ["mcp_list_tools.failed", "conversation.item.done"]
        (error,) = await client.until("error")
        assert error["error"]["message"].endswith("is not on the gateway's list of MCP hosts (--mcp-allow-host).")
        assert error["error"]["event_id"] is None
        assert served.requests == []


async def test_a_server_that_is_down_does_not_end_the_session() -> None:
    async with serve_mcp(wanted="Bearer other") as served, session(lambda _: "Still here.") as client:
        await client.use(served)
        (error,) = await client.until("error")
        assert "401" in error["error"]["message"]
        await client.ask("Are you there?")
        assert spoken(await client.until("response.done")) == "Still here."


async def test_keys_reach_their_server_and_nothing_else(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    writer = EventLogWriter(tmp_path)
    writer.start()
    async with serve_mcp(wanted="Bearer very-secret") as served:
        async with session(calling("docs__add", '{"a": 2, "b": 2}'), log=writer.open("sess_1")) as client:
            await client.use(served, authorization="very-secret", headers={"X-Key": "other-secret"})
            await client.ask("Add.")
            await client.until("response.done")
            assert served.calls == ["add"]
            assert {request["x-key"] for request in served.requests} == {"other-secret"}
    writer.close()
    written = (tmp_path / "sess_1.jsonl").read_text(encoding="utf-8")
    assert "mcp_list_tools.completed" in written
    for place in (written, json.dumps(client.seen), caplog.text):
        assert "secret" not in place
    assert "X-Key" not in written


async def test_a_session_that_ends_during_a_call_ends_the_call() -> None:
    async with serve_mcp() as served:
        async with session(calling("docs__wait")) as client:
            await client.use(served)
            await client.ask("Wait.")
            await client.until("response.mcp_call.in_progress")
            async with asyncio.timeout(10):
                while "wait" not in served.calls:  # noqa: ASYNC110 - the server is another's
                    await asyncio.sleep(0.01)
        async with asyncio.timeout(10):
            await served.cancelled.wait()
