"""A Realtime server's examination: one spoken turn over its own protocol, as a session of ours would relay it."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from gateway.backends.remote import (
    RemoteConnection,
    RemoteEnded,
    RemoteLost,
    RemoteUnavailable,
    address_of,
    open_remote,
    words_of_refusal,
)
from gateway.backends.remote_directory import capabilities_of
from gateway.doctor.ears import packaged_voice
from gateway.doctor.endpoint import shown
from gateway.doctor.findings import Diagnosis, Finding, Verdict, sound
from gateway.relay_upstream import json_object, written
from gateway.remote_settings import in_capitals
from gateway.settings import Remote
from protocol.audio_time import bytes_from_samples, samples_from_ms

GREETING_S = 10.0
"""How long a server may take to open its session (as in a session)."""

ANSWER_S = 10.0
"""How long an answer is waited for after the voice (chosen: nobody on a telephone waits longer)."""

APPEND_MS = 100
"""Audio of one append, sent in real time: a model that listens all the while has no other time."""

_AUDIO = ("response.output_audio.delta", "response.audio.delta")
"""The agent's voice, in GA's words and in beta's."""


async def examine_remote(remote: Remote) -> AsyncIterator[Finding]:
    """Yield whether the server opens a session, what it says that it can do, and whether it answers a spoken sentence.

    The answer is a real one, for which a server of others may charge; it is ended at its first sound.
    """
    role, check = f"remote {remote.name}", "opens"
    began_s = time.perf_counter()
    try:
        connection = await open_remote(address_of(remote))
    except RemoteUnavailable as error:
        yield Diagnosis(_first(error), _rest(error) or _where(remote)).of(role, "opens")
        return
    try:
        async with asyncio.timeout(GREETING_S):
            greeting = await _greeting(connection)
        opened_ms = (time.perf_counter() - began_s) * 1000
        yield _opened(remote, greeting, opened_ms)
        if greeting.get("type") == "error":
            return
        check = "answers"
        yield await _capabilities(remote)
        yield await _answer(connection, role)
    except TimeoutError:
        detail = f"it opened no session within {GREETING_S:g} s"
        yield Diagnosis(detail, f"see whether a Realtime server stands there: {_where(remote)}").of(role, "opens")
    except (RemoteLost, RemoteEnded) as error:
        code = f" (code {error.code})" if isinstance(error, RemoteEnded) else ""
        yield Diagnosis(f"it ended the session{code}", "look into that server's log.").of(role, check)
    finally:
        await connection.aclose()


def _where(remote: Remote) -> str:
    if remote.name == "duplex":
        return "look at DUPLEX_BASE_URL and DUPLEX_API_KEY."
    return f"look at [remotes.{remote.name}] in duplex-gateway.toml, or REMOTE_{in_capitals(remote.name)}_BASE_URL."


def _first(error: RemoteUnavailable) -> str:
    """Return what was found, without the advice behind the semicolon."""
    return str(error).partition("; ")[0].rstrip(".")


def _rest(error: RemoteUnavailable) -> str:
    return str(error).partition("; ")[2]


async def _greeting(connection: RemoteConnection) -> dict[str, Any]:
    """Return session.created, or the `error` in its place."""
    while True:
        event = json_object(await connection.receive()) or {}
        if event.get("type") in ("session.created", "error"):
            return event


def _opened(remote: Remote, greeting: dict[str, Any], opened_ms: float) -> Finding:
    role = f"remote {remote.name}"
    if greeting.get("type") == "error":
        refusal = words_of_refusal(greeting.get("error"))
        return Diagnosis(f"it {refusal.rstrip('.')}", _where(remote)).of(role, "opens")
    session = greeting.get("session")
    told = session if isinstance(session, dict) else {}
    dialect = "beta" if "modalities" in told else "ga"
    if dialect != remote.dialect:
        word = "DUPLEX_DIALECT" if remote.name == "duplex" else "its `dialect`"
        return Diagnosis(f"it speaks the {dialect} dialect, not {remote.dialect}", f"set {word} to {dialect}.").of(
            role, "opens", opened_ms=opened_ms
        )
    model = f", model {shown(told['model'])}" if isinstance(told.get("model"), str) else ""
    return sound(role, "opens", f"a session in {opened_ms:.0f} ms{model}", opened_ms=opened_ms)


async def _capabilities(remote: Remote) -> Finding:
    told = await capabilities_of(remote)
    if told is None:
        return sound(f"remote {remote.name}", "capabilities", "it tells none, as OpenAI's server")
    can = ", ".join(shown(name) for name, value in told.items() if value is True) or "nothing special"
    return sound(f"remote {remote.name}", "capabilities", can)


@dataclass(slots=True)
class _Heard:
    """When the server's voice came, by the clock of `time.perf_counter`, and how it failed, if it did."""

    voice_s: list[float] = field(default_factory=list)
    failure: str = ""

    async def listen(self, connection: RemoteConnection) -> None:
        """Take what the server says until it fails."""
        while not self.failure:
            event = json_object(await connection.receive()) or {}
            response = event.get("response")
            if event.get("type") in _AUDIO:
                self.voice_s.append(time.perf_counter())
            elif event.get("type") == "error":
                self.failure = words_of_refusal(event.get("error"), "the turn")
            elif isinstance(response, dict) and response.get("status") == "failed":
                details = response.get("status_details")
                self.failure = words_of_refusal(
                    details.get("error") if isinstance(details, dict) else None, "to answer"
                )


async def _answer(connection: RemoteConnection, role: str) -> Finding:
    """Say the packaged sentence in real time, then silence, until the first sound that comes after the sentence."""
    heard, voice, spoken_s = _Heard(), packaged_voice(), 0.0
    listening = asyncio.create_task(heard.listen(connection))
    size = bytes_from_samples(samples_from_ms(APPEND_MS))
    try:
        for at in range(0, len(voice) + int(ANSWER_S * 1000 / APPEND_MS) * size, size):
            piece = voice[at : at + size].ljust(size, b"\0")
            audio = base64.b64encode(piece).decode()
            await connection.send(written({"type": "input_audio_buffer.append", "audio": audio}))
            await asyncio.wait((listening,), timeout=APPEND_MS / 1000)
            if listening.done():
                await listening
                return Diagnosis(f"it {heard.failure.rstrip('.')}", "look into that server's log.").of(role, "answers")
            spoken_s = spoken_s or (time.perf_counter() if at + size >= len(voice) else 0.0)
            if spoken_s and heard.voice_s and heard.voice_s[-1] >= spoken_s:
                answer_ms = (next(at_s for at_s in heard.voice_s if at_s >= spoken_s) - spoken_s) * 1000
                detail = f"{answer_ms:.0f} ms after a spoken sentence"
                return sound(role, "answers", detail, answer_ms=answer_ms)
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
    return Diagnosis(
        f"it says nothing within {ANSWER_S:g} s of a spoken sentence",
        "see whether its model is loaded, and answers speech there.",
        Verdict.WARN,
    ).of(role, "answers")
