"""Each fault of an endpoint gets its diagnosis from the doctor, and its outcome on the wire; the session goes on."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import trustme

from gateway.cli import main
from gateway.composition import new_session
from gateway.doctor.ears import examine_asr
from gateway.doctor.endpoint import Endpoint
from gateway.doctor.findings import Finding
from gateway.doctor.foreground import examine_foreground
from gateway.doctor.voice import Examined, examine_tts
from gateway.engine_choice import engine_plan
from gateway.observing.sessions import ObservedSessions
from gateway.session import Session
from gateway.session_request import CASCADE, SessionRequest
from gateway.settings import Settings
from models.asr_loading import load_asr
from models.chat_loading import load_chat
from models.engines.scripted import ScriptedRecognizer, ScriptedSynthesizer, ScriptedVad
from models.interfaces import Engines
from models.speech_worker import SpeechWorker
from models.tts_loading import load_tts
from models.weights import WeightsStore
from protocol.wire import Dialect
from protocol.wire_law import SessionLaw
from tests.gateway.endpoint_faults import CHAT_FAULTS, REFUSED_AT_START, Fault, Outcome
from tests.gateway.speech_endpoint_faults import ASR_FAULTS, HEARD, TTS_FAULTS
from tests.models.chat_server import Exchange, chat_server
from tests.models.openai_servers import MODEL, chatting, server, speaking, tone

SECRET = "wrong-key-1234"
FUNCTION = {"type": "function", "name": "get_stock", "parameters": {"type": "object", "properties": {}}}
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
        await (GOOD if self._mended else self._fault.respond)(exchange)

    def mend(self) -> bool:
        """Mend it, if it is the server that has the fault, and not the way to it."""
        self._mended = True
        return not self._fault.tls and not self._other_way and "wrong" not in self._fault.name

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Settings]:
        tls = trustme.CA().issue_cert("127.0.0.1") if self._fault.tls else None
        context = None
        if tls is not None:
            import ssl

            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            tls.configure_cert(context)
        async with chat_server(self.respond, context) as served:
            url = self._fault.url(served.base_url)
            self._other_way = url != served.base_url
            role = {"ASR": "asr", "TTS": "tts"}.get(self._fault.name[:3], "foreground")
            told = {f"{role}_base_url": url, f"{role}_model": MODEL, "port": 0, **self._fault.settings}
            self.settings = Settings(profile="scripted", **told)
            yield self.settings


async def diagnosed(settings: Settings) -> list[Finding]:
    """Return what the doctor finds in the one role that is on an endpoint."""
    plan, store, worker = engine_plan(settings), WeightsStore(settings.home), SpeechWorker()
    if settings.asr_base_url:
        engine, _ = await load_asr(plan.asr, store, worker)
        endpoint = Endpoint("asr", "ASR", plan.asr.base_url, plan.asr.api_key, plan.asr.model)
        examining = examine_asr(engine, plan.asr, endpoint, settings)
    elif settings.tts_base_url:
        engine, _ = await load_tts(plan.tts, store, worker)
        endpoint = Endpoint("tts", "TTS", plan.tts.base_url, plan.tts.api_key, plan.tts.model)
        examining = examine_tts(engine, plan.tts, endpoint, settings, Examined())
    else:
        engine, _ = await load_chat(plan.chat, store)
        endpoint = Endpoint("foreground", "FOREGROUND", plan.chat.base_url, plan.chat.api_key, plan.chat.model)
        examining = examine_foreground(engine, plan.chat, endpoint, settings)
    try:
        return [finding async for finding in examining]
    finally:
        await engine.aclose()


GOOD = server(chat=chatting, transcription=HEARD, speech=speaking())
FAULTS = (*CHAT_FAULTS, *ASR_FAULTS, *TTS_FAULTS)
IN_A_SESSION = [fault for fault in FAULTS if fault.wire is not REFUSED_AT_START]
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
        self.tools = False
        self._session = session
        self._law = SessionLaw()

    async def send(self, kind: str, **fields: Any) -> None:
        await self._session.receive_text(json.dumps({"type": kind, **fields}))

    async def until(self, *kinds: str) -> dict[str, Any]:
        async with asyncio.timeout(30):
            while True:
                event: dict[str, Any] = json.loads(await self._session.outbox.next_frame())
                self._session.outbox.accepted()
                assert self._law.violations(event) == [], event
                if event["type"] in kinds:
                    return event

    async def outcome(self) -> Outcome:
        """Type something and return how the response to it ends."""
        given = {"response": {"tools": [FUNCTION]}} if self.tools else {}
        content = [{"type": "input_text", "text": "Count, please."}]
        await self.send("conversation.item.create", item={"type": "message", "role": "user", "content": content})
        await self.send("response.create", **given)
        response = (await self.until("response.done"))["response"]
        details = response["status_details"] or {}
        error = details.get("error") or {}
        return Outcome(response["status"], error.get("code") or details.get("reason") or "", error.get("message") or "")

    async def transcript(self) -> Outcome:
        """Say something in manual mode and return how its transcription ends."""
        hearing = {"turn_detection": None, "transcription": {"model": "whisper-1"}}
        await self.send("session.update", session={"type": "realtime", "audio": {"input": hearing}})
        await self.send("input_audio_buffer.append", audio=base64.b64encode(tone(0.5)).decode())
        await self.send("input_audio_buffer.commit")
        kind = "conversation.item.input_audio_transcription."
        event = await self.until(f"{kind}completed", f"{kind}failed")
        error = event.get("error") or {}
        return Outcome(event["type"].removeprefix(kind), error.get("code", ""), error.get("message", ""))


@asynccontextmanager
async def connected(settings: Settings) -> AsyncIterator[Client]:
    """Run a session on the endpoint of `settings`, and on scripted engines for all other roles."""
    plan, store, worker = engine_plan(settings), WeightsStore(settings.home), SpeechWorker()
    asr, tts = ScriptedRecognizer(delay_ms=0), ScriptedSynthesizer(ttfb_ms=0, realtime_factor=1e6)
    chat, _ = await load_chat(plan.chat, store)
    if settings.asr_base_url:
        asr, _ = await load_asr(plan.asr, store, worker)
    if settings.tts_base_url:
        tts, _ = await load_tts(plan.tts, store, worker)
    loaded = Engines(vad=ScriptedVad(), asr=asr, chat=chat, tts=tts)
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


@pytest.mark.parametrize("fault", IN_A_SESSION, ids=repr)
async def test_a_session_tells_its_client_and_goes_on(fault: Fault) -> None:
    spoilt = Spoilt(fault)
    async with spoilt.running() as settings, connected(settings) as client:
        client.tools = fault.tools
        happens = client.transcript if settings.asr_base_url else client.outcome
        outcome = await happens()
        assert (outcome.status, outcome.code) == (fault.wire.status, fault.wire.code), outcome
        assert fault.wire.message in outcome.message
        assert SECRET not in outcome.message
        await client.send("session.update", session={"type": "realtime", "instructions": "Be brief."})
        await client.until("session.updated")
        if spoilt.mend():
            assert (await happens()).status == "completed"


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


def test_more_than_thirty_faults_are_injected() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 60
