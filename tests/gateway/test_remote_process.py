"""A server of full-duplex models in a process of its own, killed in mid-response and started again on its port."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import httpx2

from clients.bench.gateway_process import GatewayProcess
from tests.gateway.conftest import Serve
from tests.gateway.relayed import talking
from tests.gateway.scripted_cascade import quiet, voice

ALONE = ("--profile", "scripted", "--no-cascade")
"""What `duplex-server --engine scripted` serves."""


async def test_a_killed_process_fails_the_response_and_the_next_turn_works_after_its_restart(serve: Serve) -> None:
    with GatewayProcess(ALONE) as first:
        port = httpx2.URL(first.http_url).port
        gateway_before: dict[str, Any] = {"duplex_base_url": first.http_url}
        async with (
            serve(whole=True, profile="scripted", **gateway_before) as gateway,
            talking(gateway.url("?model=duplex")) as talker,
        ):
            session_id = talker.events[0]["session"]["id"]
            await talker.send("session.update", session={"type": "realtime", "instructions": "You are a pelican."})
            await talker.until("session.updated")
            speaking = asyncio.create_task(talker.says(quiet(300), voice(900), quiet(2_000), pace=0.1))
            await talker.until("response.output_audio.delta")
            os.kill(first.pid, signal.SIGKILL)
            done = await talker.until("response.done")
            assert done["response"]["status"] == "failed"
            assert done["response"]["status_details"]["error"]["code"] == "upstream_lost"
            await speaking  # silence, of which nobody is told that it is lost

            with GatewayProcess((*ALONE, "--port", str(port))):
                await restored(gateway.http(f"/v1/realtime/sessions/{session_id}/events"))
                silent_until = len(talker.events)
                speaking = asyncio.create_task(talker.says(quiet(300), voice(900), quiet(2_000), pace=0.1))
                answered = await talker.until("response.done")
                await speaking
    assert answered["response"]["status"] == "completed"
    assert talker.events[silent_until]["type"] == "input_audio_buffer.speech_started"
    assert talker.events[silent_until]["audio_start_ms"] >= 2_900


async def restored(url: str) -> None:
    """Wait until an observer is told that the server is back."""
    async with httpx2.AsyncClient(timeout=30) as client, client.stream("GET", url) as stream:
        async for line in stream.aiter_lines():
            if "upstream.restored" in line:
                return
    raise AssertionError("the session ended first")
