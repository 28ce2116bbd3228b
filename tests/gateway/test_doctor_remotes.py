"""What the doctor finds of another Realtime server."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from socket import getaddrinfo
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection

from gateway.cli import main
from gateway.doctor import remotes
from gateway.doctor.findings import Finding, Verdict
from gateway.doctor.remotes import examine_remote
from gateway.settings import Remote
from protocol.audio_time import bytes_from_samples, samples_from_ms
from tests.gateway.conftest import Serve
from tests.gateway.test_remote_servers import CREATED, FakeServer, fake_server

VOICE_MS = 200
SOUND = {"type": "response.output_audio.delta", "response_id": "resp_1", "item_id": "item_1", "delta": "AAAA"}


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence is over soon, and so is the doctor's patience."""
    monkeypatch.setattr(remotes, "packaged_voice", lambda: bytes(bytes_from_samples(samples_from_ms(VOICE_MS))))
    monkeypatch.setattr(remotes, "ANSWER_S", 0.5)


def remote(port: int, **others: Any) -> Remote:
    return Remote("mac", **{"base_url": f"http://127.0.0.1:{port}/v1", **others})


async def found(server: Remote) -> dict[str, Finding]:
    return {finding.check: finding async for finding in examine_remote(server)}


def talking(*events: dict[str, Any], after: int) -> Callable[[FakeServer, ServerConnection], Awaitable[None]]:
    """Return a server that says `events` after so many appends."""

    async def talk(fake: FakeServer, socket: ServerConnection) -> None:
        while True:
            await fake.next(socket)
            if len(fake.received) == after:
                for event in events:
                    await socket.send(json.dumps(event))

    return talk


@pytest.mark.parametrize("cascade", [True, False])
async def test_a_gateway_or_a_full_duplex_server_that_answers_is_well(serve: Serve, *, cascade: bool) -> None:
    async with serve(whole=True, profile="scripted", cascade=cascade) as upstream:
        findings = await found(remote(upstream.port))
    assert {check: finding.verdict for check, finding in findings.items()} == dict.fromkeys(
        ("opens", "capabilities", "answers"), Verdict.OK
    )
    assert "tools" in findings["capabilities"].detail
    assert ("backchannels" in findings["capabilities"].detail) is not cascade
    assert 0 < findings["answers"].figures["answer_ms"] < 10_000


async def test_a_wrong_key_is_told_with_the_place_where_it_is_set(serve: Serve) -> None:
    async with serve(whole=True, profile="scripted", api_key="the-right-one") as upstream:
        (opens,) = (await found(remote(upstream.port, api_key="another"))).values()
    assert (opens.verdict, opens.check) == (Verdict.FAIL, "opens")
    assert "refused the key that is set for it (401)" in opens.detail
    assert opens.advice == "look at [remotes.mac] in duplex-gateway.toml, or REMOTE_MAC_BASE_URL."
    assert "another" not in opens.detail


async def test_a_server_that_was_started_without_its_name_is_told_how_to_start_it(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.getaddrinfo", lambda _host, *others, **more: getaddrinfo("127.0.0.1", *others, **more))
    async with serve(whole=True, profile="scripted", api_key="the-right-one") as upstream:
        (opens,) = (
            await found(remote(upstream.port, api_key="the-right-one", base_url=f"http://mac.test:{upstream.port}/v1"))
        ).values()
    assert (opens.verdict, opens.check) == (Verdict.FAIL, "opens")
    assert opens.detail == f"mac.test:{upstream.port} does not know the name mac.test"
    assert opens.advice == "start it with --allow-host mac.test."


async def test_nobody_there_is_told(unused_tcp_port: int) -> None:
    (opens,) = (await found(remote(unused_tcp_port))).values()
    assert opens.verdict is Verdict.FAIL
    assert opens.advice == "check that it runs."


async def test_another_dialect_than_the_one_that_is_set_is_told(serve: Serve, short: None) -> None:
    beta = {**CREATED, "session": {"id": "sess_up", "modalities": ["audio", "text"], "model": "old"}}
    async with fake_server(talking(after=-1), greeting=beta) as fake:
        findings = await found(remote(fake.port))
    assert findings["opens"].verdict is Verdict.FAIL
    assert findings["opens"].advice == "set its `dialect` to beta."
    async with serve(whole=True, profile="scripted") as upstream:
        assert (await found(remote(upstream.port, dialect="beta")))["opens"].verdict is Verdict.OK


async def test_a_refused_session_is_told_by_its_code(short: None) -> None:
    refusal = {"type": "error", "error": {"code": "model_not_found", "message": "sk-secret"}}
    async with fake_server(talking(after=-1), greeting=refusal) as fake:
        (opens,) = (await found(remote(fake.port))).values()
    assert (opens.verdict, opens.detail) == (Verdict.FAIL, "it refused the session (model_not_found)")


async def test_a_turn_that_fails_is_told(short: None) -> None:
    error = {"type": "error", "error": {"code": "rate_limit_exceeded"}}
    failed = {"status": "failed", "status_details": {"error": {"code": "insufficient_quota"}}}
    for event, code in (
        (error, "refused the turn (rate_limit_exceeded)"),
        ({"type": "response.done", "response": failed}, "refused to answer (insufficient_quota)"),
    ):
        async with fake_server(talking(event, after=3)) as fake:
            answers = (await found(remote(fake.port)))["answers"]
        assert (answers.verdict, answers.detail) == (Verdict.FAIL, f"it {code}")


async def test_a_session_that_the_server_ends_is_told(short: None) -> None:
    async def end(fake: FakeServer, socket: ServerConnection) -> None:
        await fake.next(socket)
        await socket.close(4000)

    async with fake_server(end) as fake:
        answers = (await found(remote(fake.port)))["answers"]
    assert (answers.verdict, answers.detail) == (Verdict.FAIL, "it ended the session (code 4000)")


async def test_a_server_that_hangs_up_at_once_opens_no_session(short: None) -> None:
    async def end(_fake: FakeServer, socket: ServerConnection) -> None:
        await socket.close(1011)

    async with fake_server(end, greeting={"type": "rate_limits.updated"}) as fake:
        (opens,) = (await found(remote(fake.port))).values()
    assert (opens.check, opens.verdict, opens.detail) == ("opens", Verdict.FAIL, "it ended the session")


async def test_a_nod_during_the_sentence_is_no_answer_and_silence_is_warned_of(short: None) -> None:
    async with fake_server(talking(SOUND, after=1)) as fake:
        assert (await found(remote(fake.port)))["answers"].verdict is Verdict.WARN
    async with fake_server(talking(SOUND, after=5)) as fake:
        answers = (await found(remote(fake.port)))["answers"]
    assert answers.verdict is Verdict.OK


def test_the_command_examines_the_servers_that_are_set(
    unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REMOTE_MAC_BASE_URL", f"http://127.0.0.1:{unused_tcp_port}/v1")
    assert main(["doctor", "--profile", "scripted", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    (failure,) = [check for check in told["checks"] if check["verdict"] == "fail"]
    assert failure["role"] == "remote mac"
