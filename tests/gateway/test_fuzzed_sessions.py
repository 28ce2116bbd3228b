"""Random clients of whole sessions: the machine, the scripted engines and the shell are in the loop, on fed time."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.mcp.allowed_hosts import AllowedHosts
from protocol.beta.wire_law import beta_violations
from protocol.wire import Dialect
from tests.gateway.fed_time import FedTime, settle
from tests.gateway.scripted_cascade import RunningSession, open_session, quiet, scripted_engines, voice
from tests.protocol.fuzz.choices import Choices
from tests.protocol.fuzz.client_frames import Known, frame
from tests.protocol.fuzz.fuzzed_session import leftovers

RUNS = st.binary(min_size=50, max_size=300)
NO_CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large]


class RandomClient:
    """Sends frames, speaks, falls silent and waits, as `choices` say; reads all that it is sent."""

    def __init__(self, running: RunningSession, choices: Choices, dialect: Dialect) -> None:
        self._running = running
        self._choices = choices
        self._known = Known()
        self.created: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self._event_ids: set[str] = set()
        if dialect is Dialect.GA:
            self._ga_law, running.law = running.law, self._law

    def _law(self, payload: dict[str, Any]) -> list[str]:
        """A GA session may turn out to be beta: from then on what it is sent obeys one law or the other."""
        found = self._ga_law(payload)
        turned = self._running.session._wire.dialect is Dialect.BETA
        return beta_violations(payload) if found and turned else found

    async def run(self) -> None:
        while not self._choices.exhausted:
            match self._choices.number(8):
                case 0:
                    await self._hear(voice(100 * (1 + self._choices.number(12))))
                case 1:
                    await self._hear(quiet(100 * (1 + self._choices.number(12))))
                case 2:
                    await self._running.time.advance(self._choices.one_of([5, 50, 500, 5_000]))
                case _:
                    await self._send()
            await self._read()

    async def _hear(self, pcm: bytes) -> None:
        await self._running.time.advance(len(pcm) // 48)
        await self._running.append(pcm)
        await settle()

    async def _send(self) -> None:
        name = "GA" if self._running.session._wire.dialect is Dialect.GA else "beta"
        sent = frame(self._choices, name, "realtime", self._known)
        if isinstance(sent, bytes):
            await self._running.session.receive_binary(sent)
        else:
            await self._running.session.receive_text(sent)
        if self._choices.chance(2):
            await settle()

    async def _read(self) -> list[dict[str, Any]]:
        payloads = await self._running.read()
        for payload in payloads:
            assert payload["event_id"] not in self._event_ids
            self._event_ids.add(payload["event_id"])
            match payload["type"]:
                case "response.created":
                    self.created[payload["response"]["id"]] += 1
                case "response.done":
                    self.done[payload["response"]["id"]] += 1
                case "conversation.item.added" | "conversation.item.created":
                    self._known.ids.append(payload["item"]["id"])
                case "response.output_audio.delta" | "response.audio.delta":
                    self._known.spoken.append(payload["item_id"])
        return payloads

    async def come_to_rest(self) -> None:
        """Nobody says anything any more, and every deadline passes."""
        session: dict[str, Any] = {"turn_detection": None}
        if self._running.session._wire.dialect is Dialect.GA:
            session = {"type": "realtime", "audio": {"input": session}}
        await self._running.send("session.update", session=session)
        kinds = [payload["type"] for payload in await self._read()]
        assert "session.updated" in kinds, "the session still answers"
        for _ in range(12):
            await self._running.time.advance(10_000)
            await self._read()


async def check(data: bytes, seen: Counter[str]) -> None:
    choices = Choices(data)
    dialect = choices.one_of([Dialect.GA, Dialect.BETA])
    time = FedTime()
    nowhere = AllowedHosts(bound=("0.0.0.0",))  # no MCP server may be reached: the test leaves no machine
    async with open_session(time, scripted_engines(time), dialect=dialect, mcp_hosts=nowhere) as running:
        client = RandomClient(running, choices, dialect)
        await client.run()
        await client.come_to_rest()
        assert client.created == client.done, "every response is done, once"
        assert set(client.created.values()) <= {1}
        left = leftovers(running.session._protocol)
        assert left == {}, left
        assert running.backend._machine.active_response is None
        seen.update(payload["type"] for payload in running.sent)


def test_no_client_ends_a_whole_session() -> None:
    seen: Counter[str] = Counter()

    @given(RUNS)
    @settings(max_examples=300, deadline=None, derandomize=True, database=None, suppress_health_check=NO_CHECKS)
    def fuzz(data: bytes) -> None:
        asyncio.run(check(data, seen))

    fuzz()
    assert seen["response.done"] > 100
    assert seen["response.output_audio.delta"] + seen["response.audio.delta"] > 100
    assert seen["input_audio_buffer.speech_started"] > 100


@pytest.mark.long
@given(RUNS)
@settings(max_examples=int(os.environ.get("EXAMPLES", "3000")), deadline=None, suppress_health_check=NO_CHECKS)
def test_no_client_ends_a_whole_session_in_a_long_run(data: bytes) -> None:
    asyncio.run(check(data, Counter()))
