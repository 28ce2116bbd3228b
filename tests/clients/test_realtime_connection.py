from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
import websockets

from clients.realtime_connection import RealtimeConnection, RealtimeError, StampedEvent


async def echo(event: dict[str, Any]) -> list[dict[str, Any]] | None:
    return None if event["type"] == "close" else [{"type": "echo", "of": event}]


async def test_events_are_kept_in_order_with_the_time_of_their_arrival(realtime_server: Any) -> None:
    seen: list[StampedEvent] = []
    async with realtime_server(echo) as server, RealtimeConnection(server.url, on_event=seen.append) as connection:
        before_s = time.monotonic()
        await connection.send({"type": "a"})
        event = await connection.until("echo", within_s=5)
        assert event.details("of", "type") == "a"
        assert event.details("of", "no", "such") is None
        assert before_s <= event.at_s <= time.monotonic()
        assert [event.type for event in connection.events] == ["session.created", "echo"]
        assert seen == connection.events
        assert server.headers[0]["Authorization"] == "Bearer unused"


async def test_until_finds_what_is_there_and_what_comes(realtime_server: Any) -> None:
    async with realtime_server(echo) as server, RealtimeConnection(server.url) as connection:
        await connection.until("session.created", within_s=5)
        waiting = asyncio.create_task(
            connection.until(lambda event: event.details("of", "type") == "second", within_s=5, after=1)
        )
        await connection.send({"type": "first"})
        await connection.send({"type": "second"})
        assert (await waiting).details("of", "type") == "second"


async def test_until_says_what_came_instead(realtime_server: Any) -> None:
    async with realtime_server(echo) as server, RealtimeConnection(server.url) as connection:
        with pytest.raises(RealtimeError, match=r"No `x` within 0 s; the last events were: session\.created"):
            await connection.until("x", within_s=0.05)


async def test_a_closed_connection_ends_the_waiting_and_refuses_to_send(realtime_server: Any) -> None:
    async with realtime_server(echo) as server, RealtimeConnection(server.url) as connection:
        await connection.send({"type": "close"})
        with pytest.raises(RealtimeError, match="4000"):
            await connection.until("x", within_s=5)
        assert connection.closed
        with pytest.raises(RealtimeError, match="closed the connection"):
            await connection.send({"type": "late"})


async def test_a_server_that_is_not_there_is_told_in_a_sentence(unused_url: str) -> None:
    with pytest.raises(RealtimeError, match="is a gateway running there"):
        async with RealtimeConnection(unused_url):
            pass


async def test_a_server_that_closes_at_once_is_no_session() -> None:
    async def close(socket: websockets.ServerConnection) -> None:
        await socket.close(4000, "no")

    async with websockets.serve(close, "127.0.0.1", 0) as listening:
        port = next(iter(listening.sockets)).getsockname()[1]
        with pytest.raises(RealtimeError, match="4000"):
            async with RealtimeConnection(f"ws://127.0.0.1:{port}"):
                pass


async def test_a_server_that_opens_no_session_is_told_in_its_own_words(realtime_server: Any) -> None:
    refusal = {"type": "error", "error": {"code": "model_not_found", "message": "The model `duplex` is not loaded."}}

    async def close(_event: dict[str, Any]) -> None:
        return None

    async with realtime_server(close, [refusal]) as server:
        with pytest.raises(RealtimeError, match=r"opened no session: The model `duplex` is not loaded\."):
            async with RealtimeConnection(server.url):
                pass


async def test_an_error_without_a_message_is_told_as_it_is(realtime_server: Any) -> None:
    async with realtime_server(echo, [{"type": "error", "error": {"code": "gone"}}]) as server:
        with pytest.raises(RealtimeError, match="opened no session: .*gone"):
            async with RealtimeConnection(server.url):
                pass
