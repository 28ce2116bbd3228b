"""Each fault of an endpoint gets its diagnosis from the doctor, and its outcome on the wire; the session goes on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import trustme

from gateway.cli import main
from gateway.composition import new_session
from gateway.doctor.endpoint import Endpoint
from gateway.doctor.findings import Finding
from gateway.doctor.foreground import examine_foreground
from gateway.engine_choice import engine_plan
from gateway.observing.sessions import ObservedSessions
from gateway.session import Session
from gateway.session_request import CASCADE, SessionRequest
from gateway.settings import Settings
from models.chat_loading import load_chat
from models.engines.scripted import ScriptedRecognizer, ScriptedSynthesizer, ScriptedVad
from models.interfaces import Engines
from models.weights import WeightsStore
from protocol.wire import Dialect
from protocol.wire_law import SessionLaw
from tests.gateway.endpoint_faults import CHAT_FAULTS, REFUSED_AT_START, Fault, Outcome
from tests.models.chat_server import Exchange, chat_server
from tests.models.openai_servers import MODEL, chatting, server

SECRET = "wrong-key-1234"
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that isn't there must not be looked up by somebody's proxy."""
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


class Spoilt:
    """A server that has a fault until it is mended."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        self._mended = False
        self.settings = Settings()

    async def respond(self, exchange: Exchange) -> None:
        await (server(chat=chatting) if self._mended else self._fault.respond)(exchange)

    def mend(self) -> bool:
        """Mend it, if it is the server that has the fault, and not the way to it."""
        self._mended = True
        return self.settings.foreground_base_url == self._own_url

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Settings]:
        tls = trustme.CA().issue_cert("127.0.0.1") if self._fault.tls else None
        context = None
        if tls is not None:
            import ssl

            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            tls.configure_cert(context)
        async with chat_server(self.respond, context) as served:
            self._own_url = "" if self._fault.tls else served.base_url
            self.settings = Settings(
                profile="scripted",
                foreground_base_url=self._fault.url(served.base_url),
                foreground_model=MODEL,
                **{"port": 0, **self._fault.settings},
            )
            yield self.settings


async def diagnosed(settings: Settings) -> list[Finding]:
    plan = engine_plan(settings).chat
    chat, _ = await load_chat(plan, WeightsStore(settings.home))
    endpoint = Endpoint("foreground", "FOREGROUND", plan.base_url, plan.api_key, plan.model)
    try:
        return [finding async for finding in examine_foreground(chat, plan, endpoint, settings)]
    finally:
        await chat.aclose()


IN_A_SESSION = [fault for fault in CHAT_FAULTS if fault.wire is not REFUSED_AT_START]
AT_START = [fault for fault in CHAT_FAULTS if fault.wire is REFUSED_AT_START]


@pytest.mark.parametrize("fault", IN_A_SESSION, ids=repr)
async def test_the_doctor_says_what_is_wrong(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.doctor.foreground.PROBE_S", 0.5 if fault.name == "accepts and answers nothing" else 5)
    async with Spoilt(fault).running() as settings:
        findings = await diagnosed(settings)
    wanted = fault.diagnosis
    found = [finding for finding in findings if finding.check == wanted.check]
    assert len(found) == 1, findings
    assert found[0].verdict == wanted.verdict, found
    assert wanted.detail in found[0].detail
    assert wanted.advice in found[0].advice
    assert bool(found[0].advice) == (wanted.verdict != "ok")
    told = " ".join(line for finding in findings for line in finding.lines())
    assert SECRET not in told
    assert "token=secret" not in told
    assert all("\n" not in line for finding in findings for line in finding.lines())
    before = findings[: findings.index(found[0])]
    assert all(finding.verdict != "fail" for finding in before), "it is the first failure that counts"


class Client:
    """A client of a session without a socket, whose every event is lawful."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._law = SessionLaw()

    async def send(self, kind: str, **fields: Any) -> None:
        await self._session.receive_text(json.dumps({"type": kind, **fields}))

    async def until(self, kind: str) -> dict[str, Any]:
        async with asyncio.timeout(30):
            while True:
                event: dict[str, Any] = json.loads(await self._session.outbox.next_frame())
                self._session.outbox.accepted()
                assert self._law.violations(event) == [], event
                if event["type"] == kind:
                    return event

    async def turn(self) -> dict[str, Any]:
        """Type something and return the response when it is over."""
        content = [{"type": "input_text", "text": "Count, please."}]
        await self.send("conversation.item.create", item={"type": "message", "role": "user", "content": content})
        await self.send("response.create")
        response: dict[str, Any] = (await self.until("response.done"))["response"]
        return response


@asynccontextmanager
async def connected(settings: Settings, **engines: Any) -> AsyncIterator[Client]:
    """Run a session on the language model of `settings` and on scripted ears and voice."""
    chat = engines.get("chat")
    if chat is None:
        chat, _ = await load_chat(engine_plan(settings).chat, WeightsStore(settings.home))
    loaded = Engines(
        vad=ScriptedVad(),
        asr=engines.get("asr") or ScriptedRecognizer(delay_ms=0),
        chat=chat,
        tts=engines.get("tts") or ScriptedSynthesizer(ttfb_ms=0, realtime_factor=1e6),
    )
    request = SessionRequest(CASCADE, None, Dialect.GA, {}, "realtime", None, expires_at_s=2**31)
    session = new_session(request, settings, loaded, ObservedSessions())
    run = asyncio.create_task(session.run())
    try:
        yield Client(session)
    finally:
        run.cancel()
        with suppress(asyncio.CancelledError):
            await run
        await loaded.aclose()


def outcome_of(response: dict[str, Any]) -> Outcome:
    details = response["status_details"] or {}
    error = details.get("error") or {}
    return Outcome(response["status"], error.get("code") or details.get("reason") or "", error.get("message") or "")


@pytest.mark.parametrize("fault", IN_A_SESSION, ids=repr)
async def test_a_session_tells_its_client_and_goes_on(fault: Fault) -> None:
    spoilt = Spoilt(fault)
    async with spoilt.running() as settings, connected(settings) as client:
        outcome = outcome_of(await client.turn())
        assert (outcome.status, outcome.code) == (fault.wire.status, fault.wire.code), outcome
        assert fault.wire.message in outcome.message
        assert SECRET not in outcome.message
        await client.send("session.update", session={"type": "realtime", "instructions": "Be brief."})
        await client.until("session.updated")
        if spoilt.mend() and not fault.settings.get("foreground_api_key"):
            assert outcome_of(await client.turn()).status == "completed"


@pytest.mark.parametrize("fault", AT_START, ids=repr)
@pytest.mark.parametrize("command", ["doctor", "serve"])
def test_a_setting_that_can_not_be_right_is_refused_before_anything_starts(
    fault: Fault, command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    flags = [f"--{name}={value}" for name, value in fault.settings.items()]
    status = main([command, "--profile", "scripted", f"--foreground-base-url={fault.url('')}", *flags])
    told = capsys.readouterr()
    assert status == (1 if command == "doctor" else 2)
    assert fault.diagnosis.advice in told.out + told.err


def test_thirty_faults_and_more_are_injected() -> None:
    assert len({fault.name for fault in CHAT_FAULTS}) == len(CHAT_FAULTS) >= 30
