"""What servers of other makes do: events that nobody knows, closes, refusals, redirects; and where keys go."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trustme
from websockets.asyncio.server import Request, Response, ServerConnection
from websockets.asyncio.server import serve as serve_websocket
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed

from gateway import relay_upstream
from gateway.endpoints.access import Refusal, host_refusal
from gateway.settings import Remote
from tests.gateway.conftest import Gateway, Serve
from tests.gateway.relayed import talking
from tests.gateway.scripted_cascade import quiet
from tests.gateway.test_realtime_endpoint import closed
from tests.gateway.trap_server import TrapServer

KEY = "sk-for-the-remote-only"

CREATED = {
    "type": "session.created",
    "event_id": "event_up_1",
    "session": {"type": "realtime", "id": "sess_up", "model": "its-model", "novelty": {"of": "theirs"}},
}

Handler = Callable[["FakeServer", ServerConnection], Awaitable[None]]


class FakeServer:
    """A Realtime server that does what a test says, and keeps what it was sent."""

    def __init__(self) -> None:
        self.port = 0
        self.requests: list[Request] = []
        self.received: list[dict[str, Any]] = []

    async def next(self, socket: ServerConnection) -> dict[str, Any]:
        self.received.append(json.loads(await socket.recv()))
        return self.received[-1]


@asynccontextmanager
async def fake_server(
    handler: Handler,
    answer: Callable[[Request], Response | None] = lambda _request: None,
    tls: ssl.SSLContext | None = None,
    greeting: dict[str, Any] = CREATED,
) -> AsyncIterator[FakeServer]:
    fake = FakeServer()

    async def handle(socket: ServerConnection) -> None:
        await socket.send(json.dumps(greeting))
        try:
            await handler(fake, socket)
        except ConnectionClosed:
            pass  # the gateway let it go

    def look(_socket: ServerConnection, request: Request) -> Response | None:
        fake.requests.append(request)
        if not request.path.startswith("/v1/realtime"):
            return Response(404, "Not Found", Headers(), b"")
        return answer(request)

    async with serve_websocket(handle, "127.0.0.1", 0, process_request=look, max_size=None, ssl=tls) as server:
        fake.port = next(iter(server.sockets)).getsockname()[1]
        yield fake


@asynccontextmanager
async def before(serve: Serve, fake: FakeServer, **others: Any) -> AsyncIterator[Gateway]:
    named = Remote("theirs", **{"base_url": f"http://127.0.0.1:{fake.port}/v1", **others})
    async with serve(whole=True, profile="scripted", remotes=(named,)) as gateway:
        yield gateway


async def idle(_fake: FakeServer, socket: ServerConnection) -> None:
    await socket.wait_closed()


async def test_events_that_nobody_knows_pass_as_they_came_in_both_directions(serve: Serve) -> None:
    novelty = '{"type": "response.telepathy.delta", "event_id":"event_t", "item_id": 7, "delta": {"π": [1e3]}}'

    async def handler(fake: FakeServer, socket: ServerConnection) -> None:
        await fake.next(socket)
        await socket.send(novelty)
        await socket.send(b"\0\1")
        await socket.send("no JSON")
        await socket.send("[1]")
        await socket.send('{"type": "last"}')
        await socket.wait_closed()

    async with fake_server(handler) as fake, before(serve, fake) as gateway:
        async with talking(gateway.url("?model=theirs"), lawful=False) as talker:
            await talker.send("telepathy.begin", event_id="event_mine", waves=[1, {"two": None}])
            assert await talker.socket.recv() == novelty
            assert await talker.next() == {"type": "last"}
    assert fake.received == [{"type": "telepathy.begin", "event_id": "event_mine", "waves": [1, {"two": None}]}]


async def test_the_session_is_the_server_s_but_for_our_id_and_the_earlier_end(serve: Serve) -> None:
    async with fake_server(idle) as fake, before(serve, fake) as gateway:
        async with talking(gateway.url("?model=theirs"), lawful=False) as talker:
            session = talker.events[0]["session"]
    assert session["id"].startswith("sess_")
    assert session["id"] != "sess_up"
    assert (session["model"], session["novelty"]) == ("its-model", {"of": "theirs"})


async def test_a_ga_server_that_keeps_names_of_beta_s_is_followed_all_the_same(serve: Serve) -> None:
    ours = {"response_id": "resp_1", "item_id": "item_1", "output_index": 0, "content_index": 0}
    item = {"id": "item_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    mixed = (
        {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "response_id": "resp_1", "output_index": 0, "item": item},
        {"type": "conversation.item.created", "previous_item_id": None, "item": item},
        {"type": "response.content_part.added", **ours, "part": {"type": "audio", "transcript": ""}},
        {"type": "response.audio_transcript.delta", **ours, "delta": "One two."},
        {"type": "response.audio.delta", **ours, "delta": base64.b64encode(quiet(1_000)).decode()},
    )
    restored = asyncio.Event()

    async def handler(fake: FakeServer, socket: ServerConnection) -> None:
        if not restored.is_set() and not fake.received:
            fake.received.append({})
            for event in mixed:
                await socket.send(json.dumps(event))
            await socket.close(1011, "internal error")
        else:
            await fake.next(socket)
            restored.set()
            await socket.wait_closed()

    async with fake_server(handler) as fake, before(serve, fake) as gateway:
        async with talking(gateway.url("?model=theirs"), lawful=False) as talker:
            done = await talker.until("response.done")
            assert talker.events[1 : 1 + len(mixed)] == list(mixed)
            assert done["response"]["output"][0]["content"] == [{"type": "output_audio", "transcript": "One two."}]
            async with asyncio.timeout(5):
                await restored.wait()
    assert fake.received[1]["item"]["content"] == [{"type": "output_text", "text": "One two."}]


MALFORMED = (
    {"type": "response.created", "response": {"id": 5}},
    {"type": "response.created", "response": {"id": "resp_1", "conversation_id": None}},
    {"type": "response.output_item.added", "response_id": "resp_1", "output_index": "x", "item": {"id": "item_1"}},
    {"type": "conversation.item.added", "item": {"id": "item_1", "type": "message"}},
    {"type": "conversation.item.added", "item": {"type": "function_call_output", "id": "item_2"}},
    {
        "type": "response.content_part.added",
        "response_id": "resp_1",
        "item_id": "item_1",
        "content_index": [],
        "part": 1,
    },
    {"type": "response.output_audio.delta", "response_id": "resp_1", "item_id": "item_1", "delta": "%%%"},
    {"type": "response.output_audio.delta", "response_id": "resp_1", "item_id": "item_1", "delta": None},
    {"type": "response.output_text.delta", "response_id": "resp_1", "item_id": "item_1", "delta": 3},
    {"type": "input_audio_buffer.speech_started", "item_id": "item_3", "audio_start_ms": "soon"},
    {"type": "input_audio_buffer.speech_stopped", "item_id": "item_3", "audio_end_ms": None},
    {"type": "input_audio_buffer.committed", "item_id": None},
    {"type": "session.updated", "session": {"audio": {"input": {"format": 3}, "output": []}}},
    {"type": "session.updated", "session": None},
    {"type": "error", "error": "no"},
    {"type": "error", "error": {"code": [], "param": {}, "event_id": 5}},
    {"type": "response.created", "response": {"id": "resp_2", "metadata": [{}], "conversation_id": 5}},
    {"type": "error"},
    {"type": "response.done", "response": {"id": "resp_1", "status": 3, "status_details": []}},
    {"type": 5},
    {},
)


def nested(depth: int) -> str:
    return '{"type": "deep", "event_id": "e", "of": ' + "[" * depth + "]" * depth + "}"


@pytest.mark.parametrize("dialect", ["ga", "beta"])
@pytest.mark.parametrize("headers", [{}, {"OpenAI-Beta": "realtime=v1"}])
async def test_events_that_are_not_shaped_as_they_should_be_end_nothing(
    serve: Serve, dialect: Any, headers: dict[str, str]
) -> None:
    async def handler(_fake: FakeServer, socket: ServerConnection) -> None:
        for event in MALFORMED:
            await socket.send(json.dumps(event))
        for depth in (100, 900, 980, 50_000):
            await socket.send(nested(depth))
        await socket.send('{"type": "last"}')
        await socket.wait_closed()

    async with fake_server(handler) as fake, before(serve, fake, dialect=dialect) as gateway:
        async with talking(gateway.url("?model=theirs"), lawful=False, additional_headers=headers) as talker:
            await talker.until("last")
    if (dialect, headers) != ("ga", {}):
        assert len(talker.events) >= len(MALFORMED) - 3  # what one dialect alone says is left out
        return
    first, *passed = talker.events
    session_id, expires_at = first["session"]["id"], first["session"]["expires_at"]
    ours = {"id": session_id, "expires_at": expires_at}
    expected = [
        {**event, "session": {**event["session"], **ours}} if isinstance(event.get("session"), dict) else event
        for event in (*MALFORMED, json.loads(nested(100)))
    ]
    assert passed[: len(expected)] == expected
    assert {event["type"] for event in passed[len(expected) :]} <= {"deep", "last"}  # how deep, the stack decides


ODD = (
    {"type": "session.update"},
    {"type": "session.update", "session": 5},
    {"type": "session.update", "session": {"type": "realtime", "audio": 3, "tools": {"a": 1}}},
    {"type": "transcription_session.update", "session": []},
    {"type": "conversation.item.create", "item": 5},
    {"type": "conversation.item.create", "item": {"id": 5}, "previous_item_id": "root"},
    {"type": "conversation.item.truncate", "item_id": 1, "audio_end_ms": "x"},
    {"type": "conversation.item.truncate", "item_id": "item_1", "content_index": 0, "audio_end_ms": 10**40},
    {"type": "response.create", "response": 7, "event_id": 12},
    {"type": "response.create", "response": {"input": [3]}, "event_id": None},
    {"type": "input_audio_buffer.append"},
    {"type": "input_audio_buffer.append", "audio": 7, "event_id": []},
    {"type": ["x"]},
    {},
)


@pytest.mark.parametrize("dialect", ["ga", "beta"])
@pytest.mark.parametrize("headers", [{}, {"OpenAI-Beta": "realtime=v1"}])
async def test_odd_client_events_end_nothing_whichever_side_answers_them(
    serve: Serve, dialect: Any, headers: dict[str, str]
) -> None:
    async with (
        serve(whole=True, profile="scripted") as upstream,
        serve(
            whole=True,
            profile="scripted",
            remotes=(Remote("theirs", f"http://127.0.0.1:{upstream.port}", dialect=dialect),),
        ) as gateway,
        talking(gateway.url("?model=theirs"), lawful=False, additional_headers=headers) as talker,
    ):
        for event in ODD:
            await talker.socket.send(json.dumps(event))
            assert (await talker.next())["type"] == "error", event
        for depth in (100, 900, 980, 50_000):
            await talker.socket.send(nested(depth))
            assert (await talker.next())["type"] == "error"
        await talker.types("Still there?")
        await talker.until("conversation.item.added", "conversation.item.created")


async def test_a_session_that_the_server_ends_by_its_own_word_ends_as_there(serve: Serve) -> None:
    expired = {
        "type": "error",
        "event_id": "event_e",
        "error": {"type": "invalid_request_error", "code": "session_expired", "message": "60 minutes.", "param": None},
    }

    async def handler(_fake: FakeServer, socket: ServerConnection) -> None:
        await socket.send(json.dumps(expired))
        await socket.close(1001, "Your session hit the maximum duration.")

    async with fake_server(handler) as fake, before(serve, fake) as gateway:
        async with talking(gateway.url("?model=theirs"), lawful=False) as talker:
            assert await talker.next() == expired
            assert await closed(talker.socket) == (1001, "Your session hit the maximum duration.")
    assert sum(request.path.startswith("/v1/realtime") for request in fake.requests) == 1


async def test_a_server_that_goes_away_is_tried_again_and_told_what_its_client_had_set(serve: Serve) -> None:
    again = asyncio.Event()

    async def handler(fake: FakeServer, socket: ServerConnection) -> None:
        if len(fake.received) == 0:
            update = await fake.next(socket)
            await socket.send(json.dumps({**CREATED, "type": "session.updated"}))
            refused = await fake.next(socket)
            error = {"type": "x", "code": "y", "message": "z", "param": None, "event_id": refused["event_id"]}
            await socket.send(json.dumps({"type": "error", "error": error}))
            assert update["event_id"]
            await fake.next(socket)
            item = {
                "id": "item_a",
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "A."}],
            }
            await socket.send(json.dumps({"type": "conversation.item.added", "previous_item_id": None, "item": item}))
            await socket.close(1012, "restarting")
        else:
            update = await fake.next(socket)
            created = await fake.next(socket)
            error = {"type": "x", "code": "too_new", "message": "z", "param": None, "event_id": update["event_id"]}
            await socket.send(json.dumps({"type": "error", "error": error}))
            await socket.send(json.dumps({"type": "conversation.item.added", "item": created["item"]}))
            again.set()
            await socket.wait_closed()

    async with fake_server(handler) as fake, before(serve, fake) as gateway:
        async with talking(gateway.url("?model=theirs"), lawful=False) as talker:
            await talker.send("session.update", session={"type": "realtime", "tools": [], "model": "theirs"})
            await talker.until("session.updated")
            await talker.send("session.update", session={"type": "realtime", "instructions": "Refused."})
            assert (await talker.until("error"))["error"]["event_id"] is None
            await talker.types("A.", item_id="item_a")
            async with asyncio.timeout(10):
                await again.wait()
            told = await talker.until("error")  # and no event of ours before it, nor of the item behind it
            assert told["error"]["message"] == (
                "The server behind `theirs` is back, but refused the session's settings (too_new)."
            )
            assert [event["type"] for event in talker.events].count("conversation.item.added") == 1
    assert fake.received[0]["session"] == {"type": "realtime", "tools": []}
    first, second = fake.received[3:5]
    assert (first["type"], first["session"]) == ("session.update", {"type": "realtime", "tools": []})
    assert (second["type"], second["item"]["id"]) == ("conversation.item.create", "item_a")


# --- refusals ------------------------------------------------------------------------------------------------------


async def told_and_closed(gateway: Gateway, name: str = "theirs") -> str:
    """Return the sentence with which a session is refused, after looking at its code and the close."""
    async with talking(gateway.url(f"?model={name}"), greeted=False) as talker:
        error = (await talker.next())["error"]
        assert (error["type"], error["code"]) == ("invalid_request_error", "model_not_found")
        assert await closed(talker.socket) == (4000, "invalid_request_error.model_not_found")
    return str(error["message"])


@pytest.mark.parametrize(
    ("status", "words"),
    [(401, "refused the key"), (404, "check the base URL"), (429, "no more sessions"), (503, "loading its model")],
)
async def test_a_refused_handshake_says_why_and_what_to_do(serve: Serve, status: int, words: str) -> None:
    def refuse(_request: Request) -> Response:
        return Response(status, HTTPStatus(status).phrase, Headers(), b"Incorrect API key provided: sk-for")

    async with fake_server(idle, refuse) as fake, before(serve, fake, api_key=KEY) as gateway:
        sentence = await told_and_closed(gateway)
    assert sentence.startswith(f"The model `theirs` is not available: 127.0.0.1:{fake.port} ")
    assert words in sentence
    assert "sk-" not in sentence


async def test_a_server_that_does_not_know_its_name_is_told_from_one_that_refuses_the_key(serve: Serve) -> None:
    refusals = [host_refusal("mac.local", bound=(), allowed=()), Refusal(403, "No.", code="unsupported_country")]
    bodies = [json.dumps(refusal.body()).encode() for refusal in refusals if refusal] + [b"\xff{", b'[{"error": 3}]']

    def refuse(_request: Request) -> Response:
        return Response(403, "Forbidden", Headers(), bodies.pop(0))

    async with fake_server(idle, refuse) as fake, before(serve, fake, api_key=KEY) as gateway:
        sentences = [await told_and_closed(gateway) for _ in tuple(bodies)]
    place = f"The model `theirs` is not available: 127.0.0.1:{fake.port}"
    assert sentences[0] == f"{place} does not know the name 127.0.0.1; start it with --allow-host 127.0.0.1."
    assert sentences[1:] == [f"{place} refused the key that is set for it (403)."] * 3


async def test_a_server_that_is_not_there_is_no_other_backend(serve: Serve) -> None:
    async with fake_server(idle) as fake:
        pass
    async with before(serve, fake) as gateway:
        assert "can't be reached; check that it runs" in await told_and_closed(gateway)
        async with talking(gateway.url("?model=gpt-realtime")) as talker:  # all others go on
            await talker.types("Hello.")
            await talker.until("conversation.item.done")


async def test_tls_is_spoken_to_whom_the_authority_vouches_for(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    async with fake_server(idle, tls=context) as fake:
        async with before(serve, fake, base_url=f"https://localhost:{fake.port}") as gateway:
            assert "has a certificate that isn't trusted" in await told_and_closed(gateway)
        authority.cert_pem.write_to_path(tmp_path / "ca.pem")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        async with before(serve, fake, base_url=f"wss://localhost:{fake.port}/v1") as gateway:
            async with talking(gateway.url("?model=theirs"), lawful=False) as talker:
                assert talker.events[0]["session"]["model"] == "its-model"
        async with before(serve, fake, base_url=f"http://localhost:{fake.port}") as gateway:
            assert "did not answer as a Realtime server does" in await told_and_closed(gateway)
    async with (
        fake_server(idle) as plain,
        before(serve, plain, base_url=f"https://localhost:{plain.port}") as gateway,
    ):
        assert "whether it is http or https" in await told_and_closed(gateway)


async def test_an_error_in_place_of_a_session_is_told_by_its_code_alone(serve: Serve) -> None:
    async def refuse(socket: ServerConnection) -> None:
        error = {"type": "invalid_request_error", "code": "invalid_api_key", "message": f"Wrong: {KEY}"}
        await socket.send(json.dumps({"type": "error", "error": error}))
        await socket.close(3000)

    async with serve_websocket(refuse, "127.0.0.1", 0) as server:
        fake = FakeServer()
        fake.port = next(iter(server.sockets)).getsockname()[1]
        async with before(serve, fake, api_key=KEY) as gateway:
            sentence = await told_and_closed(gateway)
    assert sentence.endswith("refused the session (invalid_api_key).")


@pytest.mark.parametrize(
    ("leaves", "words"), [(False, "opened no session within 0.2 s."), (True, "closed the connection at once.")]
)
async def test_a_server_without_a_session_to_offer_is_not_waited_for(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, leaves: bool, words: str
) -> None:
    monkeypatch.setattr(relay_upstream, "GREETING_TIMEOUT_S", 0.2)

    async def handle(socket: ServerConnection) -> None:
        if not leaves:
            await socket.wait_closed()

    async with serve_websocket(handle, "127.0.0.1", 0) as server:
        fake = FakeServer()
        fake.port = next(iter(server.sockets)).getsockname()[1]
        async with before(serve, fake) as gateway:
            assert (await told_and_closed(gateway)).endswith(words)


# --- keys ----------------------------------------------------------------------------------------------------------


async def test_the_server_gets_its_own_key_and_nothing_of_the_client_s(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with fake_server(idle) as fake, before(serve, fake, api_key=KEY, model="its model") as gateway:
        headers = {"Authorization": "Bearer sk-of-the-client", "OpenAI-Organization": "org_client"}
        url = gateway.url("?model=theirs&gateway.speculation=off&voice=x")
        async with talking(url, lawful=False, additional_headers=headers):
            pass
    opened = [request for request in fake.requests if request.path.startswith("/v1/realtime")]
    assert [request.path for request in opened] == ["/v1/realtime?model=its+model"]
    assert opened[0].headers["Authorization"] == f"Bearer {KEY}"
    assert "client" not in str(opened[0].headers)
    ours = [
        record.getMessage() for record in caplog.records if record.name.startswith(("gateway", "httpx", "httpcore"))
    ]
    assert KEY not in "".join(ours)


async def test_without_a_key_none_is_sent(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-trapped")
    async with fake_server(idle) as fake, before(serve, fake) as gateway:
        async with talking(gateway.url("?model=theirs"), lawful=False):
            pass
    assert not any("Authorization" in request.headers for request in fake.requests)


async def test_a_redirect_is_not_followed(serve: Serve) -> None:
    with TrapServer() as trap:

        def redirect(_request: Request) -> Response:
            location = f"ws://127.0.0.1:{trap.port}/v1/realtime"
            return Response(307, "Temporary Redirect", Headers({"Location": location}), b"")

        async with fake_server(idle, redirect) as fake, before(serve, fake, api_key=KEY) as gateway:
            assert "redirect (307), which isn't followed" in await told_and_closed(gateway)
        assert trap.requests == []


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "WS_PROXY", "http_proxy", "all_proxy"])
async def test_no_proxy_sees_a_plain_connection(serve: Serve, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with TrapServer() as trap:
        monkeypatch.setenv(variable, trap.url)
        async with fake_server(idle) as fake, before(serve, fake, api_key=KEY) as gateway:
            async with talking(gateway.url("?model=theirs"), lawful=False):
                pass
        assert trap.requests == []


# --- the list of models --------------------------------------------------------------------------------------------


async def test_a_remote_is_listed_with_what_its_server_says_of_itself(serve: Serve) -> None:
    async with (
        fake_server(idle) as fake,
        serve(whole=True, profile="scripted") as upstream,
        serve(
            whole=True,
            profile="scripted",
            remotes=(
                Remote("mac", f"http://127.0.0.1:{upstream.port}", model="cascade"),
                Remote("theirs", f"http://127.0.0.1:{fake.port}/v1"),
            ),
        ) as gateway,
        httpx2.AsyncClient() as client,
    ):
        told = (await client.get(upstream.http("/v1/models/cascade"))).json()["capabilities"]
        async with asyncio.timeout(5):
            url = gateway.http("/v1/models/mac")
            while (listed := (await client.get(url)).json())["capabilities"] is None:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0)  # asked beside everything else; each look is a request
        unknown = (await client.get(gateway.http("/v1/models/theirs"))).json()
        names = [model["id"] for model in (await client.get(gateway.http("/v1/models"))).json()["data"]]
    assert (listed["id"], listed["capabilities"]["backend"]) == ("mac", "cascade")
    assert listed["capabilities"] == told
    assert unknown["capabilities"] is None
    assert {"mac", "theirs"} <= set(names)


async def test_a_gateway_without_a_cascade_serves_its_remotes_alone(serve: Serve) -> None:
    async with fake_server(idle) as fake, before(serve, fake) as _:
        named = Remote("theirs", f"http://127.0.0.1:{fake.port}/v1")
        alone: dict[str, Any] = {"whole": True, "profile": "scripted", "duplex": "none", "cascade": False}
        async with serve(**alone, remotes=(named,)) as gateway:
            async with talking(gateway.url("?model=anything"), lawful=False) as talker:
                assert talker.events[0]["session"]["model"] == "its-model"
