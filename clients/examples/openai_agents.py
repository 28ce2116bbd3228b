"""The OpenAI Agents SDK on this gateway: a voice agent with a function tool, spoken to from a WAV file.

python -m clients.examples.openai_agents tests/data/speech/goforward.wav
"""

import argparse
import asyncio
import sys
import time
import wave
from typing import Any

import soxr
from agents import function_tool, set_tracing_disabled
from agents.realtime import RealtimeAgent, RealtimeRunner, RealtimeSession
from numpy import frombuffer, int16

RATE_HZ = 24_000
CHUNK_S = 0.02


@function_tool
def get_weather(city: str) -> str:
    """Return the weather in a city."""
    return f"It is sunny in {city}."


async def main() -> int:
    """Run one spoken turn; return 1 if no audio came back."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", help="16-bit mono WAV")
    parser.add_argument("--url", default="ws://127.0.0.1:8765/v1/realtime?model=gpt-realtime")
    parser.add_argument("--out", default="reply.wav")
    asked = parser.parse_args()

    set_tracing_disabled(True)  # the SDK would send traces to OpenAI
    agent = RealtimeAgent(name="Assistant", instructions="Answer in one short sentence.", tools=[get_weather])
    reply = b""
    async with await RealtimeRunner(agent).run(model_config={"url": asked.url, "api_key": "any"}) as session:
        microphone = asyncio.create_task(speak(session, read_speech(asked.file)))
        said = ""
        async for event in session:
            if event.type == "audio":
                reply += event.audio.data
            elif event.type == "audio_interrupted":
                reply, said = b"", ""
            elif event.type == "tool_end":
                print(f"tool:  {event.tool.name}({event.arguments}) → {event.output}")
            elif event.type == "error":
                print(f"error: {event.error}")
            elif event.type == "raw_model_event":
                data = event.data
                if data.type == "input_audio_transcription_completed":
                    print(f"you:   {data.transcript}")
                elif data.type == "transcript_delta":
                    said += data.delta
                elif data.type == "raw_server_event" and is_last(data.data):
                    break
        microphone.cancel()
    print(f"reply: {said}")
    save(asked.out, reply)
    print(f"{asked.out}: {len(reply) / 2 / RATE_HZ:.2f} s")
    return 0 if reply else 1


def is_last(event: dict[str, Any]) -> bool:
    """Say whether a server event ends the turn: after a tool call the agent goes on with another response."""
    if event["type"] != "response.done" or event["response"]["status"] == "cancelled":
        return False
    return all(item["type"] != "function_call" for item in event["response"]["output"])


async def speak(session: RealtimeSession, pcm: bytes) -> None:
    """Send `pcm` at the pace of speech, then silence for ever: the server hears the end of a turn by it."""
    chunk = int(RATE_HZ * CHUNK_S) * 2
    start_s = time.monotonic()
    position = 0
    while True:
        await session.send_audio(pcm[position : position + chunk].ljust(chunk, b"\0"))
        position += chunk
        await asyncio.sleep(max(0.0, start_s + position / 2 / RATE_HZ - time.monotonic()))


def read_speech(path: str) -> bytes:
    """Return a WAV file as PCM16 at 24 kHz."""
    with wave.open(path) as file:
        samples = frombuffer(file.readframes(file.getnframes()), int16)
        return bytes(soxr.resample(samples, file.getframerate(), RATE_HZ).tobytes())


def save(path: str, pcm: bytes) -> None:
    """Write PCM16 at 24 kHz as a WAV file."""
    with wave.open(path, "wb") as file:
        file.setparams((1, 2, RATE_HZ, 0, "NONE", ""))
        file.writeframes(pcm)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
