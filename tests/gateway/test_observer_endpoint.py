"""The observer stream over HTTP, as a client of server-sent events sees it."""

from __future__ import annotations

import asyncio
import json
import logging
import socket as sockets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import ClientConnection, connect

from gateway.endpoints import observer as endpoint
from gateway.observing import sessions as observed_sessions
from gateway.observing.observer import SessionObserver
from gateway.observing.sessions import KEPT_S, KEPT_SESSIONS, ObservedSessions
from tests.gateway.conftest import Gateway, Serve
from tests.gateway.fed_time import FedTime

PATH = "/v1/realtime/sessions"
KEY = {"Authorization": "Bearer k-test"}


class Stream:
    """One observer's connection."""

    def __init__(self, response: httpx2.Response) -> None:
        self.response = response
        self.comments: list[str] = []
        self.retry = ""
        self._lines = response.aiter_lines()

    async def events(self) -> AsyncIterator[tuple[int, dict[str, Any]]]:
        """Yield each event's id and its data until the stream ends."""
        fields: dict[str, str] = {}
        async for line in self._lines:
            if line:
                name, _, value = line.partition(": ")
                if not name:
                    self.comments.append(value)
                elif name.startswith(":"):
                    self.comments.append(line)
                else:
                    fields[name] = value
            elif fields:
                self.retry = fields.pop("retry", self.retry)
                if "data" in fields:
                    yield int(fields["id"]), json.loads(fields["data"])
                fields = {}

    async def until(self, *types: str) -> list[dict[str, Any]]:
        """Return the events up to the first of one of `types`."""
        seen: list[dict[str, Any]] = []
        async for number, event in self.events():
            assert number == event["seq"]
            seen.append(event)
            if event["type"] in types:
                return seen
        raise AssertionError(f"the stream ended before {types}: {[event['type'] for event in seen]}")

    async def to_its_end(self) -> list[dict[str, Any]]:
        return [event async for _, event in self.events()]


@asynccontextmanager
async def following(gateway: Gateway, session_id: str, *, tiny: bool = False, **headers: str) -> AsyncIterator[Stream]:
    """Follow a session; `tiny`: what is not read stays with the server."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    options = [(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 16_384)] if tiny else []
    transport = httpx2.AsyncHTTPTransport(socket_options=options)
    async with httpx2.AsyncClient(timeout=10, transport=transport) as client:
        async with client.stream("GET", gateway.http(f"{PATH}/{session_id}/events"), headers=sent) as response:
            assert response.status_code == 200, await response.aread()
            yield Stream(response)


async def get(gateway: Gateway, path: str = PATH, method: str = "GET", **headers: str) -> httpx2.Response:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    async with httpx2.AsyncClient(timeout=10) as client:
        return await client.request(method, gateway.http(path), headers=sent)


async def status(gateway: Gateway, path: str) -> int:
    """Return how a request is answered, without reading the answer."""
    async with httpx2.AsyncClient(timeout=10) as client, client.stream("GET", gateway.http(path)) as response:
        return response.status_code


async def opened(socket: ClientConnection) -> str:
    """Return the id that the client of a session is told."""
    event = json.loads(await socket.recv())
    return str(event["session"]["id"])


async def say(socket: ClientConnection, text: str = "Hello?") -> None:
    content = [{"type": "input_text", "text": text}]
    item = {"type": "message", "role": "user", "content": content}
    await socket.send(json.dumps({"type": "conversation.item.create", "item": item}))
    await socket.send(json.dumps({"type": "response.create"}))


async def test_a_client_of_server_sent_events_follows_a_session_to_its_end(serve: Serve) -> None:
    async with serve(whole=True, profile="scripted", scripted_reply="One two three.") as gateway:
        async with connect(gateway.url(), max_queue=None) as socket:
            session_id = await opened(socket)
            async with following(gateway, session_id) as stream:
                assert stream.response.headers["content-type"] == "text/event-stream; charset=utf-8"
                assert stream.response.headers["cache-control"] == "no-store"
                begun = await stream.until("session.settings")
                assert begun[0]["type"] == "session.started"
                assert begun[0]["session_id"] == session_id
                assert (begun[0]["model"], begun[0]["backend"]) == ("gpt-realtime", "cascade")
                await say(socket)
                turn = await stream.until("waterfall")
                assert {"response.started", "llm.text", "tts.started", "audio.sent"} <= {e["type"] for e in turn}
                assert turn[-1]["outcome"] == "heard"
                assert sum(turn[-1]["stages_ms"].values()) == turn[-1]["total_ms"]
                await socket.close()
                rest = await stream.to_its_end()
                assert rest[-1]["type"] == "session.ended"
                assert stream.retry == "1000"


async def test_a_reader_that_comes_back_goes_on_behind_its_last_event(serve: Serve) -> None:
    async with serve(whole=True, profile="scripted") as gateway, connect(gateway.url(), max_queue=None) as socket:
        session_id = await opened(socket)
        async with following(gateway, session_id) as stream:
            seen = await stream.until("session.settings")
        await say(socket)
        async with following(gateway, session_id, last_event_id=str(seen[-1]["seq"])) as stream:
            more = await stream.until("response.ended")
        numbers = [event["seq"] for event in (*seen, *more)]
        assert numbers == list(range(1, len(numbers) + 1))
        for odd in ("999999", "-1", "x", "9" * 40):
            async with following(gateway, session_id, last_event_id=odd) as stream:
                assert (await stream.until("session.settings"))[0]["seq"] == 1


async def test_an_ended_session_can_be_read_for_a_while_and_tells_who_has_all_to_stay_away(serve: Serve) -> None:
    async with serve(whole=True, profile="scripted") as gateway:
        async with connect(gateway.url(), max_queue=None) as socket:
            session_id = await opened(socket)
        await gateway.idle()
        async with following(gateway, session_id) as stream:
            events = await stream.to_its_end()
        assert events[-1]["type"] == "session.ended"
        path = f"{PATH}/{session_id}/events"
        assert (await get(gateway, path, last_event_id=str(events[-1]["seq"]))).status_code == 204
        last_words = await get(gateway, path, last_event_id=str(events[-2]["seq"]))
        assert last_words.status_code == 200
        assert last_words.text.count("data: ") == 1


async def test_the_list_tells_what_runs_and_what_has_ended(serve: Serve) -> None:
    async with serve(whole=True, profile="scripted") as gateway:
        assert (await get(gateway)).json() == {"object": "list", "data": []}
        async with connect(gateway.url("?model=cascade")) as first, connect(gateway.url(), max_queue=None) as second:
            ids = [await opened(first), await opened(second)]
            live = (await get(gateway)).json()["data"]
            assert [(entry["id"], entry["model"], entry["state"]) for entry in live] == [
                (ids[1], "gpt-realtime", "live"),
                (ids[0], "cascade", "live"),
            ]
            assert live[0]["user"] == "silent"
            assert live[0]["agent"] == "idle"
            assert live[0]["started_at"] >= live[1]["started_at"] > 1.7e9
        await gateway.idle()
        ended = (await get(gateway)).json()["data"]
        assert {(entry["id"], entry["state"]) for entry in ended} == {(ids[0], "ended"), (ids[1], "ended")}


async def test_an_unknown_session_is_not_found_in_openais_words(serve: Serve) -> None:
    async with serve(whole=True, profile="scripted") as gateway:
        for path in (f"{PATH}/sess_unknown/events", f"{PATH}/{'x' * 500}/events"):
            answer = await get(gateway, path)
            assert answer.status_code == 404
            assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
            assert answer.json()["error"]["code"] == "session_not_found"
            assert len(answer.json()["error"]["message"]) < 200


async def test_observers_need_the_key_that_sockets_need(serve: Serve) -> None:
    async with serve(whole=True, profile="scripted", api_key="k-test") as gateway:
        async with connect(gateway.url(), additional_headers=KEY) as socket:
            session_id = await opened(socket)
            path = f"{PATH}/{session_id}/events"
            for wanted in (PATH, path, "/metrics"):
                for headers in ({}, {"authorization": "Bearer wrong"}):
                    answer = await get(gateway, wanted, **headers)
                    assert answer.status_code == 401, wanted
                    assert answer.json()["error"]["code"] == "invalid_api_key"
            assert (await get(gateway, PATH, api_key="k-test")).status_code == 200
            async with following(gateway, session_id, authorization="Bearer k-test") as stream:
                await stream.until("session.settings")


async def test_an_ephemeral_key_follows_a_session_that_it_knows_and_lists_none(serve: Serve) -> None:
    async with serve(whole=True, profile="scripted", api_key="k-test") as gateway:
        async with httpx2.AsyncClient() as client:
            made = await client.post(gateway.http("/v1/realtime/client_secrets"), headers=KEY, json={})
        ephemeral = {"authorization": f"Bearer {made.json()['value']}"}
        async with connect(gateway.url(), additional_headers=ephemeral) as socket:
            session_id = await opened(socket)
            async with following(gateway, session_id, **ephemeral) as stream:
                await stream.until("session.settings")
            assert (await get(gateway, PATH, **ephemeral)).status_code == 403
            assert (await get(gateway, "/metrics", **ephemeral)).status_code == 403


async def test_pages_may_look_from_where_they_may_connect(serve: Serve) -> None:
    async with serve(whole=True, profile="scripted") as gateway, connect(gateway.url(), max_queue=None) as socket:
        session_id = await opened(socket)
        for path in (PATH, f"{PATH}/{session_id}/events", "/metrics"):
            assert (await get(gateway, path, origin="https://evil.example")).status_code == 403
            assert (await get(gateway, path, host="evil.example")).status_code == 403
        async with following(gateway, session_id, origin="http://localhost:5173") as stream:
            assert stream.response.headers["access-control-allow-origin"] in {"*", "http://localhost:5173"}
            await stream.until("session.settings")


async def test_a_look_at_the_head_opens_no_stream(serve: Serve) -> None:
    async with serve(whole=True, profile="scripted") as gateway, connect(gateway.url(), max_queue=None) as socket:
        session_id = await opened(socket)
        answer = await get(gateway, f"{PATH}/{session_id}/events", "HEAD")
        assert (answer.status_code, answer.content) == (200, b"")
        assert answer.headers["content-type"].startswith("text/event-stream")


async def test_a_session_has_so_many_observers_and_those_that_leave_make_room(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "MAX_READERS", 2)
    async with serve(whole=True, profile="scripted") as gateway, connect(gateway.url(), max_queue=None) as socket:
        session_id = await opened(socket)
        path = f"{PATH}/{session_id}/events"
        async with following(gateway, session_id) as one:
            await one.until("session.settings")
            async with following(gateway, session_id) as two:
                await two.until("session.settings")
                answer = await get(gateway, path)
                assert (answer.status_code, answer.json()["error"]["code"]) == (429, "too_many_observers")
            async with asyncio.timeout(5):  # until the server has noticed that the second one left
                while await status(gateway, path) == 429:
                    pass
        await say(socket)


async def test_a_silent_session_keeps_its_observers_connection_alive(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "KEEP_ALIVE_S", 0.02)
    async with serve(whole=True, profile="scripted") as gateway, connect(gateway.url(), max_queue=None) as socket:
        async with following(gateway, await opened(socket)) as stream:
            await stream.until("session.settings")
            await asyncio.sleep(0.1)
            await say(socket)
            await stream.until("response.started")
            assert stream.comments


async def test_a_gateway_that_stops_ends_its_observers_and_nothing_is_cut_off(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="uvicorn.error"):
        async with serve(whole=True, profile="scripted") as gateway:
            socket = await connect(gateway.url(), max_queue=None)
            session_id = await opened(socket)
            reading = asyncio.ensure_future(read_all(gateway, session_id))
            await asyncio.sleep(0)
            await say(socket)
            while json.loads(await socket.recv())["type"] != "response.created":
                pass
        events = await reading
    assert events[-1]["type"] == "session.ended"
    assert [record.getMessage() for record in caplog.records if record.name == "uvicorn.error"] == []


async def read_all(gateway: Gateway, session_id: str) -> list[dict[str, Any]]:
    async with following(gateway, session_id) as stream:
        return await stream.to_its_end()


# --- how long an ended session is kept -----------------------------------------------------------------------------


def observers(count: int, time: FedTime) -> tuple[ObservedSessions, list[SessionObserver]]:
    kept = ObservedSessions()
    made = [kept.observer(f"sess_{number}", time.now, {}) for number in range(count)]
    for observer in made:
        observer.open()
    return kept, made


async def test_ended_sessions_are_kept_for_a_while_and_not_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    time = FedTime()
    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", time.call_later)
    kept, made = observers(KEPT_SESSIONS + 2, time)
    for observer in made[1:]:
        observer.close()
    assert kept.find("sess_0") is made[0]
    assert kept.find("sess_1") is None
    assert kept.find("sess_2") is made[2]
    await time.advance(int(KEPT_S * 1000) - 1)
    assert kept.find("sess_2") is made[2]
    await time.advance(1)
    assert kept.find("sess_2") is None
    assert [entry["id"] for entry in kept.list()] == ["sess_0"]
    assert observed_sessions.KEPT_S == 60
