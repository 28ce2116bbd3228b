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

A step for which a library has no API is reported with `skipped` and the reason. Any failure is an exception, thus a
non-zero exit status.
"""

from __future__ import annotations

import asyncio
import json
import os
import wave
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

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

STEP_DEADLINE_S = 60.0
CHUNK_MS = 20
BYTES_PER_MS = 48
SILENCE = bytes(CHUNK_MS * BYTES_PER_MS)


def report(step: str, **facts: object) -> None:
    """Print a step that was done, and what was seen."""
    print(json.dumps({"step": step, **facts}), flush=True)


def spoken(name: str) -> list[bytes]:
    """Return a clip as chunks of `CHUNK_MS`, the last one filled up with silence."""
    with wave.open(str(Path(os.environ["SPEECH_DIR"], f"{name}.wav"))) as file:
        pcm = file.readframes(file.getnframes())
    size = len(SILENCE)
    return [pcm[start : start + size].ljust(size, b"\0") for start in range(0, len(pcm), size)]


@asynccontextmanager
async def speaking(clip: str, send: Callable[[bytes], Awaitable[object]]) -> AsyncIterator[None]:
    """Keep a microphone open, which `send`s the clip at the pace of speech, then silence."""

    async def speak() -> None:
        began_s = asyncio.get_running_loop().time()
        for number, chunk in enumerate(microphone(clip), 1):
            await send(chunk)
            due_s = began_s + number * CHUNK_MS / 1000
            await asyncio.sleep(max(0.0, due_s - asyncio.get_running_loop().time()))

    task = asyncio.create_task(speak())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def microphone(name: str) -> Iterator[bytes]:
    """Yield a clip's chunks, then silence for ever: the server hears the end of a turn by it."""
    yield from spoken(name)
    while True:
        yield SILENCE
