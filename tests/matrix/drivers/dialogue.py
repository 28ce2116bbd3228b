"""What every Python driver says and how it reports it. Standard library only: each client has its own environment.

A driver is a program. It reads `GATEWAY_URL` (`http://127.0.0.1:PORT/v1`), `GATEWAY_KEY` and `SPEECH_DIR` (16-bit mono
WAV files at 24 kHz), holds the dialogue below through its client library and prints one JSON object a step:

| step          | what happens                                         | facts                             |
|---------------|------------------------------------------------------|-----------------------------------|
| `connected`   | the library connects as it does by default           | `model`, if the library shows it  |
| `spoken_turn` | `SPOKEN_TURN` is spoken at the pace of speech        | `heard` (transcript, null if off),|
|               |                                                      | `reply`, `audio_ms`               |
| `tool`        | `WEATHER_QUESTION`; the tool runs, its result spoken | `name`, `arguments`, `reply`      |
| `barge_in`    | `STORY_REQUEST`; `BARGE_IN` is spoken over its audio | `cancelled` (true), `reply`       |
| `cancel`      | `STORY_REQUEST`; after some audio the library's stop | `status`                          |
| `truncate`    | `SMALL_TALK`; the reply is cut at `TRUNCATE_AT_MS`   | `ok` (true)                       |
| `left`        | `STORY_REQUEST`; in its audio the connection drops   | –                                 |

With `FULL_DUPLEX=1` a full-duplex model answers, and there are two steps more:

| `greeting`    | after `connected`: the agent is made to speak first, | `reply`                           |
|               | where the library's examples do so                   |                                   |
| `typed`       | after `barge_in`: a message is written, which such a | `refused` (the codes of `error`,  |
|               | model cannot read; the conversation goes on          | as far as the library shows them) |

A step for which a library has no API is reported with `skipped` and the reason. Any failure is an exception, thus a
non-zero exit status.
"""

from __future__ import annotations

import asyncio
import json
import os
import wave
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

GATEWAY_URL = os.environ["GATEWAY_URL"]
SOCKET_URL = GATEWAY_URL.replace("http", "ws", 1) + "/realtime"
GATEWAY_KEY = os.environ["GATEWAY_KEY"]
MODEL = "gpt-realtime"

SPOKEN_TURN = "librivox_0880"  # "he was not an ill disposed young man"
BARGE_IN = "cards_001"  # "ten of clubs"
WEATHER_QUESTION = "What is the weather in Paris?"
WEATHER = "It is sunny in Paris."
STORY_REQUEST = "Tell me a long story."
SMALL_TALK = "How are you today?"
TRUNCATE_AT_MS = 300

WEATHER_TOOL = {
    "type": "function",
    "name": "get_weather",
    "description": "Returns the weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}

DEMO_BRAIN = os.environ.get("DEMO_BRAIN") == "1"
"""Whether the language model of this run is the one in the gateway: it calls no tools and its replies are short."""

FULL_DUPLEX = os.environ.get("FULL_DUPLEX") == "1"
"""Whether a full-duplex model answers: it reads nothing, so that questions are spoken, and its user's microphone stays
open. It nods: a response without a word may come before the one that is waited for."""

ALOUD = {WEATHER_QUESTION: "cards_002", STORY_REQUEST: "cards_003", SMALL_TALK: "cards_004"}
"""What is spoken instead of a question; such a model's script answers whatever it hears."""

STEP_DEADLINE_S = 60.0
CHUNK_MS = 20
BYTES_PER_MS = 48
SILENCE = bytes(CHUNK_MS * BYTES_PER_MS)


def report(step: str, **facts: object) -> None:
    """Print a step that was done, and what was seen."""
    print(json.dumps({"step": step, **facts}), flush=True)


def is_nod(response: Mapping[str, Any]) -> bool:
    """Say whether a response is a voice without words."""
    said = [part for item in response["output"] if item["type"] == "message" for part in item["content"]]
    return response["status"] == "completed" and bool(said) and not any(part.get("transcript") for part in said)


def spoken(name: str) -> list[bytes]:
    """Return a clip as chunks of `CHUNK_MS`, the last one filled up with silence."""
    with wave.open(str(Path(os.environ["SPEECH_DIR"], f"{name}.wav"))) as file:
        pcm = file.readframes(file.getnframes())
    size = len(SILENCE)
    return [pcm[start : start + size].ljust(size, b"\0") for start in range(0, len(pcm), size)]


class Microphone:
    """Gives `send` a chunk every 20 ms: of what is spoken, then of silence, from the first word to `close`."""

    def __init__(self, send: Callable[[bytes], Awaitable[object]]) -> None:
        self._send = send
        self._speech: Iterator[bytes] = iter(())
        self._task: asyncio.Task[None] | None = None

    def speak(self, clip: str) -> None:
        """Speak a clip from now on."""
        self._speech = iter(spoken(clip))
        self._task = self._task or asyncio.create_task(self._run())

    @asynccontextmanager
    async def speaking(self, clip: str) -> AsyncIterator[None]:
        """Speak a clip from now on. On leaving the microphone is closed, unless it has to stay open."""
        self.speak(clip)
        try:
            yield
        finally:
            if not FULL_DUPLEX:
                await self.close()

    async def close(self) -> None:
        """Send no more."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        while True:
            await self._send(next(self._speech, SILENCE))
            due_s += CHUNK_MS / 1000
            await asyncio.sleep(max(0.0, due_s - loop.time()))


def microphone(name: str) -> Iterator[bytes]:
    """Yield a clip's chunks, then silence for ever: the server hears the end of a turn by it."""
    yield from spoken(name)
    while True:
        yield SILENCE
