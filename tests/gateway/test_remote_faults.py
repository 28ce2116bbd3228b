"""Servers that are lost at a bad moment, name no command in their errors, or give items ids of their own."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from websockets.asyncio.server import Request, Response, ServerConnection
from websockets.datastructures import Headers

from tests.gateway.conftest import Serve
from tests.gateway.relayed import DEADLINE_S, talking
from tests.gateway.scripted_cascade import quiet
from tests.gateway.test_realtime_endpoint import closed
from tests.gateway.test_remote_servers import CREATED, FakeServer, before, fake_server

Event = dict[str, Any]


async def say(socket: ServerConnection, *events: Event) -> None:
    for event in events:
        await socket.send(json.dumps({"event_id": "event_up", **event}))


async def vanish(socket: ServerConnection) -> None:
    await socket.close(1012, "restarting")


class Sessions:
    """A server whose first session is `first`; `later` keeps what all others are sent, and may answer it."""

    def __init__(
        self, first: Callable[[FakeServer, ServerConnection], Any], answers: Callable[[Event], Iterable[Event]]
    ) -> None:
        self._first = first
        self._answers = answers
        self.opened = 0
        self.later: list[Event] = []
        self.told = asyncio.Condition()
        self.back = asyncio.Event()
        self.back.set()

    async def __call__(self, fake: FakeServer, socket: ServerConnection) -> None:
        self.opened += 1
        if self.opened == 1:
            await self._first(fake, socket)
            return
        async for frame in socket:
            event = json.loads(frame)
            async with self.told:
                self.later.append(event)
                self.told.notify_all()
            await say(socket, *self._answers(event))

    async def until(self, count: int) -> None:
        async with asyncio.timeout(DEADLINE_S), self.told:
            await self.told.wait_for(lambda: len(self.later) >= count)


def nothing(_event: Event) -> list[Event]:
    return []


def user_item(item_id: str) -> Event:
    return {
        "id": item_id,
        "object": "realtime.item",
        "type": "message",
        "role": "user",
        "status": "completed",
        "content": [{"type": "input_audio", "transcript": None}],
    }


VAD: Event = {
    **CREATED,
    "session": {"type": "realtime", "audio": {"input": {"turn_detection": {"type": "server_vad"}}}},
}

TURN: tuple[Event, ...] = (
    {"type": "input_audio_buffer.speech_started", "item_id": "item_u", "audio_start_ms": 0},
    {"type": "input_audio_buffer.speech_stopped", "item_id": "item_u", "audio_end_ms": 900},
    {"type": "input_audio_buffer.committed", "item_id": "item_u", "previous_item_id": None},
    {"type": "conversation.item.added", "item": user_item("item_u"), "previous_item_id": None},
    {"type": "conversation.item.done", "item": user_item("item_u"), "previous_item_id": None},
)
REPLY_AT: Event = {"response_id": "resp_1", "item_id": "item_a", "output_index": 0, "content_index": 0}
REPLY_ITEM: Event = {"id": "item_a", "type": "message", "role": "assistant", "status": "in_progress", "content": []}


def reply(words: str, audio: bytes) -> tuple[Event, ...]:
    """Return a reply in the making."""
    return (
        {"type": "response.created", "response": {"id": "resp_1", "output": []}},
        {"type": "response.output_item.added", "response_id": "resp_1", "output_index": 0, "item": REPLY_ITEM},
        {"type": "conversation.item.added", "item": REPLY_ITEM, "previous_item_id": None},
        {"type": "response.content_part.added", **REPLY_AT, "part": {"type": "audio", "transcript": ""}},
        {"type": "response.output_audio_transcript.delta", **REPLY_AT, "delta": words},
        {"type": "response.output_audio.delta", **REPLY_AT, "delta": base64.b64encode(audio).decode()},
    )


SAID = "One two three four five six seven eight nine ten."


# --- a turn that is due its answer ---------------------------------------------------------------------------------


@pytest.mark.parametrize("told", [2, 5])
async def test_a_turn_whose_answer_was_due_is_told_that_it_failed(serve: Serve, told: int) -> None:
    async def first(_fake: FakeServer, socket: ServerConnection) -> None:
        await say(socket, *TURN[:told])
        await vanish(socket)

    async with fake_server(Sessions(first, nothing), greeting=VAD) as fake, before(serve, fake) as gateway:
        async with talking(gateway.url("?model=theirs"), lawful=False) as talker:
            done = await talker.until("response.done")
    assert talker.events[-2]["type"] == "response.created"
    assert talker.events[-2]["response"]["id"] == done["response"]["id"]
    assert done["response"]["status"] == "failed"
    assert done["response"]["status_details"]["error"]["code"] == "upstream_lost"


# --- truncates -----------------------------------------------------------------------------------------------------


TRUNCATE: Event = {"item_id": "item_a", "content_index": 0, "audio_end_ms": 1_000}


async def test_a_truncate_while_the_server_is_away_is_obeyed_and_the_rest_of_the_reply_forgotten(serve: Serve) -> None:
    async def first(_fake: FakeServer, socket: ServerConnection) -> None:
        await say(socket, *reply(SAID, quiet(4_000)))
        await vanish(socket)

    sessions = Sessions(first, nothing)
    back = asyncio.Event()

    def away(_request: Request) -> Response | None:
        return Response(503, "Not yet", Headers(), b"") if sessions.opened and not back.is_set() else None

    async with fake_server(sessions, away) as fake, before(serve, fake) as gateway:
        async with talking(gateway.url("?model=theirs"), lawful=False) as talker:
            await talker.until("response.done")
            await talker.send("conversation.item.truncate", event_id="event_t", **TRUNCATE)
            answered = await talker.next()
            back.set()
            await sessions.until(1)
    assert {key: answered[key] for key in ("type", *TRUNCATE)} == {"type": "conversation.item.truncated", **TRUNCATE}
    words = text_of(sessions.later[0])
    assert SAID.startswith(words)
    assert 1 <= len(words.split()) <= 3


def text_of(created: Event) -> str:
    return str(created["item"]["content"][0]["text"])


async def test_a_truncate_after_the_restore_is_answered_here_and_the_server_told_what_was_heard(serve: Serve) -> None:
    async def first(_fake: FakeServer, socket: ServerConnection) -> None:
        await say(socket, *reply(SAID, quiet(4_000)))
        await vanish(socket)

    def refuse_truncates(event: Event) -> list[Event]:
        if event["type"] == "conversation.item.truncate":
            error = {"type": "invalid_request_error", "code": "item_truncate_invalid_item_id", "message": "No audio."}
            return [{"type": "error", "error": {**error, "param": None, "event_id": event["event_id"]}}]
        if event["type"] == "conversation.item.delete":
            return [{"type": "conversation.item.deleted", "item_id": event["item_id"]}]
        if event["type"] == "conversation.item.create":
            return [{"type": kind, "item": event["item"]} for kind in ("conversation.item.added", "last")]
        return [{"type": "nothing.else"}]

    sessions = Sessions(first, refuse_truncates)
    async with fake_server(sessions) as fake, before(serve, fake) as gateway:
        async with talking(gateway.url("?model=theirs"), lawful=False) as talker:
            await talker.until("last")
            await talker.send("conversation.item.truncate", **TRUNCATE)
            answered = await talker.next()
            await talker.until("last")
            await sessions.until(3)
    assert answered["type"] == "conversation.item.truncated"
    assert talker.events[-2] == answered  # and no answer to what the gateway told the server
    told, replaced, gone = sessions.later
    assert [event["type"].rpartition(".")[2] for event in sessions.later] == ["create", "create", "delete"]
    assert text_of(told) == SAID
    assert 0 < len(text_of(replaced)) < len(SAID) // 2
    assert replaced["previous_item_id"] == gone["item_id"] == told["item"]["id"] == "item_a"
    assert replaced["item"]["id"] != "item_a"  # which the server may not take again


async def test_a_truncate_on_its_way_when_the_server_is_lost_is_answered(serve: Serve) -> None:
    async def first(fake: FakeServer, socket: ServerConnection) -> None:
        await say(socket, *reply(SAID, quiet(4_000)))
        await fake.next(socket)
        await vanish(socket)

    sessions = Sessions(first, nothing)
    async with fake_server(sessions) as fake, before(serve, fake) as gateway:
        async with talking(gateway.url("?model=theirs"), lawful=False) as talker:
            await talker.until("response.output_audio.delta")
            await talker.send("conversation.item.truncate", **TRUNCATE)
            await talker.until("conversation.item.truncated")
            await sessions.until(1)
    assert len(text_of(sessions.later[0])) < len(SAID) // 2
    assert "error" not in {event["type"] for event in talker.events}


# --- errors that name no command -----------------------------------------------------------------------------------


def error(param: str | None, code: str = "invalid_value", event_id: str | None = None) -> Event:
    told = {"type": "invalid_request_error", "code": code, "message": "No.", "param": param, "event_id": event_id}
    return {"type": "error", "error": told}


async def test_settings_that_a_new_session_refuses_without_a_name_take_no_answer_from_the_client(serve: Serve) -> None:
    async def first(fake: FakeServer, socket: ServerConnection) -> None:
        await fake.next(socket)
        await say(socket, {**VAD, "type": "session.updated"})
        await vanish(socket)

    answers = iter([error(None), {**VAD, "type": "session.updated"}])
    sessions = Sessions(first, lambda _event: [next(answers)])
    async with fake_server(sessions) as fake, before(serve, fake) as gateway:
        async with talking(gateway.url("?model=theirs"), lawful=False) as talker:
            await talker.send("session.update", session={"type": "realtime", "instructions": "A."})
            await talker.until("session.updated")
            told = await talker.until("error")
            await talker.send("session.update", session={"type": "realtime", "instructions": "B."})
            await talker.until("session.updated")
    assert told["error"]["code"] == "upstream_unavailable"


async def test_of_two_updates_the_one_that_is_refused_without_a_name_is_not_kept(serve: Serve) -> None:
    async def first(fake: FakeServer, socket: ServerConnection) -> None:
        await fake.next(socket)
        await fake.next(socket)
        await say(socket, error("session.audio.output.speed"), {**VAD, "type": "session.updated"})
        await vanish(socket)

    sessions = Sessions(first, nothing)
    async with fake_server(sessions) as fake, before(serve, fake) as gateway:
        async with talking(gateway.url("?model=theirs"), lawful=False) as talker:
            await talker.send("session.update", session={"type": "realtime", "audio": {"output": {"speed": 9}}})
            await talker.send("session.update", session={"type": "realtime", "instructions": "B."})
            await sessions.until(1)
    assert sessions.later[0]["session"] == {"type": "realtime", "instructions": "B."}


async def test_an_id_that_the_gateway_made_is_never_seen(serve: Serve) -> None:
    """The VAD's response overtakes the client's, which is refused."""

    async def first(fake: FakeServer, socket: ServerConnection) -> None:
        asked = await fake.next(socket)
        code = "conversation_already_has_active_response"
        await say(
            socket,
            {"type": "response.created", "response": {"id": "resp_vad"}},
            error(None, code, asked["event_id"]),
        )
        await socket.wait_closed()

    async with fake_server(Sessions(first, nothing)) as fake, before(serve, fake) as gateway:
        async with talking(gateway.url("?model=theirs"), lawful=False) as talker:
            await talker.send("response.create")
            refused = await talker.until("error")
    assert fake.received[0]["event_id"]
    assert refused["error"]["event_id"] is None


# --- ids of the server's own ---------------------------------------------------------------------------------------


async def test_items_that_a_server_renames_stay_what_they_were_to_the_client(serve: Serve) -> None:
    made = sessions = 0
    conversation: dict[str, str] = {}

    def rename(event: Event) -> list[Event]:
        nonlocal made
        match event:
            case {"type": "conversation.item.create", "item": item}:
                made += 1
                own = {**item, "id": f"own_{made}", "status": "completed"}
                conversation[own["id"]] = item["content"][0]["text"]
                follows = {"previous_item_id": f"own_{made - 1}" if made > 1 else None, "item": own}
                kinds = ("conversation.item.added", "conversation.item.done")
                back = [{"type": "back"}] if sessions > 1 and len(conversation) == 2 else []
                return [*({"type": kind, **follows} for kind in kinds), *back]
            case {"type": "conversation.item.delete", "item_id": item_id}:
                del conversation[item_id]
                return [{"type": "conversation.item.deleted", "item_id": item_id}]
            case _:
                return []

    async def serves(_fake: FakeServer, socket: ServerConnection) -> None:
        nonlocal sessions
        sessions += 1
        conversation.clear()
        async for frame in socket:
            event = json.loads(frame)
            if event["type"] == "leave":
                await vanish(socket)
                return
            await say(socket, *rename(event))

    async with fake_server(serves) as fake, before(serve, fake) as gateway:
        async with talking(gateway.url("?model=theirs"), lawful=False) as talker:
            for words in ("A.", "B."):
                await talker.types(words)
                await talker.until("conversation.item.done")
            known = [event["item"]["id"] for event in talker.events if event["type"] == "conversation.item.added"]
            for _ in range(2):
                await talker.send("leave")
                await talker.until("back")
            assert list(conversation.values()) == ["A.", "B."]
            await talker.types("C.")
            added = await talker.until("conversation.item.added")
            await talker.send("conversation.item.delete", item_id=known[0])
            deleted = await talker.until("conversation.item.deleted")
    assert [event["type"] for event in talker.events].count("conversation.item.added") == 3
    assert added["previous_item_id"] == known[1]
    assert deleted["item_id"] == known[0]
    assert list(conversation.values()) == ["B.", "C."]


def renumbered(value: Any, ids: dict[str, str]) -> Any:
    """Return events with other ids in them."""
    if isinstance(value, dict):
        return {key: renumbered(inner, ids) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [renumbered(inner, ids) for inner in value]
    return ids.get(value, value) if isinstance(value, str) else value


async def test_a_server_that_counts_anew_speaks_of_new_items_under_ids_that_the_client_does_not_know(
    serve: Serve,
) -> None:
    """Of two items one had words. It is the new session's first, and the answer to it the second."""
    counted = {"item_u": "item_1", "item_a": "item_2", "resp_1": "resp_1"}

    async def first(_fake: FakeServer, socket: ServerConnection) -> None:
        await say(socket, *renumbered((*TURN, *reply(SAID, quiet(4_000))), counted))
        await vanish(socket)

    def count_anew(event: Event) -> list[Event]:
        if event["type"] != "conversation.item.create":
            return [{"type": "last"}]
        own = {"item": {**event["item"], "id": "item_1", "status": "completed"}, "previous_item_id": None}
        restored: list[Event] = [
            {"type": kind, **own} for kind in ("conversation.item.added", "conversation.item.done")
        ]
        return [*restored, *renumbered(reply("Anew.", quiet(2_000)), counted), {"type": "told"}]

    sessions = Sessions(first, count_anew)
    async with fake_server(sessions) as fake, before(serve, fake) as gateway:
        async with talking(gateway.url("?model=theirs"), lawful=False) as talker:
            await talker.until("told")
            spoken = [event for event in talker.events if event["type"] == "response.output_audio.delta"]
            await talker.send("conversation.item.truncate", **{**TRUNCATE, "item_id": spoken[1]["item_id"]})
            await talker.until("last")
    assert spoken[0]["item_id"] == "item_2"
    assert spoken[1]["item_id"] not in ("item_1", "item_2")
    assert spoken[1]["response_id"] != "resp_1"
    truncated = sessions.later[-1]
    assert (truncated["type"], truncated["item_id"]) == ("conversation.item.truncate", "item_2")


async def test_half_a_surrogate_pair_in_a_server_s_words_passes_and_is_restored_as_what_can_be_sent(
    serve: Serve,
) -> None:
    """Servers in JavaScript cut text between the two."""

    async def first(_fake: FakeServer, socket: ServerConnection) -> None:
        content = [{"type": "input_text", "text": "A \ud83d"}]
        item = {"id": "item_t", "type": "message", "role": "user", "status": "completed", "content": content}
        await say(socket, {"type": "conversation.item.added", "previous_item_id": None, "item": item})
        await vanish(socket)

    sessions = Sessions(first, nothing)
    async with fake_server(sessions) as fake, before(serve, fake) as gateway:
        async with talking(gateway.url("?model=theirs"), lawful=False) as talker:
            added = await talker.until("conversation.item.added")
            await sessions.until(1)
    assert added["item"]["content"][0]["text"] == "A \ud83d"
    assert text_of(sessions.later[0]) == "A \ufffd"


# --- the first session, and the last words -------------------------------------------------------------------------


async def test_what_a_server_says_after_its_greeting_passes_in_the_first_session(serve: Serve) -> None:
    created = {"type": "conversation.created", "event_id": "event_c", "conversation": {"id": "conv_1"}}

    async def first(_fake: FakeServer, socket: ServerConnection) -> None:
        await say(socket, created, {"type": "last"})
        await socket.wait_closed()

    async with fake_server(first) as fake, before(serve, fake) as gateway:
        async with talking(gateway.url("?model=theirs"), lawful=False) as talker:
            assert await talker.next() == created


async def test_a_session_that_expires_with_a_bare_close_ends_with_a_code_that_can_be_sent(serve: Serve) -> None:
    async def first(_fake: FakeServer, socket: ServerConnection) -> None:
        await say(socket, error(None, "session_expired"))
        socket.transport.write(b"\x88\x00")  # a close frame without a code
        await socket.wait_closed()

    async with fake_server(first) as fake, before(serve, fake) as gateway:
        async with talking(gateway.url("?model=theirs"), lawful=False) as talker:
            await talker.until("error")
            assert await closed(talker.socket) == (1000, "")


async def test_updates_that_nobody_answers_are_all_sent_on_and_the_last_but_32_are_told_to_the_next_session(
    serve: Serve,
) -> None:
    async def first(fake: FakeServer, socket: ServerConnection) -> None:
        for _ in range(35):
            await fake.next(socket)
        await vanish(socket)

    sessions = Sessions(first, nothing)
    async with fake_server(sessions) as fake, before(serve, fake) as gateway:
        async with talking(gateway.url("?model=theirs"), lawful=False) as talker:
            await talker.send("session.update", session={"type": "realtime"}, event_id="e" * 513)
            too_long = (await talker.until("error"))["error"]
            for number in range(35):
                await talker.send("session.update", session={"type": "realtime", "instructions": str(number)})
            await sessions.until(1)
    assert (too_long["code"], too_long["event_id"]) == ("string_above_max_length", None)
    assert [event["session"]["instructions"] for event in fake.received] == [str(number) for number in range(35)]
    assert sessions.later[0]["session"] == {"type": "realtime", "instructions": "2"}
