"""The openai SDK, synchronous, on this gateway: say a WAV file, print both transcripts, save the answer.

python -m clients.examples.openai_sync tests/data/speech/goforward.wav
"""

import argparse
import base64
import sys
import threading
import time
import wave

import soxr
from numpy import frombuffer, int16
from openai import OpenAI
from openai.resources.realtime.realtime import RealtimeConnection

RATE_HZ = 24_000
CHUNK_S = 0.02


def main() -> int:
    """Run one spoken turn; return 1 if no audio came back."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", help="16-bit mono WAV")
    parser.add_argument("--base-url", default="http://127.0.0.1:8765/v1")
    parser.add_argument("--out", default="reply.wav")
    asked = parser.parse_args()

    client = OpenAI(base_url=asked.base_url, api_key="any")  # nothing but the URL differs from OpenAI's own
    reply = b""
    with client.realtime.connect(model="gpt-realtime") as connection:
        connection.session.update(
            session={
                "type": "realtime",
                "audio": {
                    "input": {
                        "turn_detection": {"type": "server_vad", "silence_duration_ms": 300},
                        "transcription": {"model": "gpt-realtime-whisper"},
                    }
                },
            }
        )
        done = threading.Event()
        microphone = threading.Thread(target=speak, args=(connection, read_speech(asked.file), done))
        microphone.start()
        try:
            for event in connection:
                if event.type == "conversation.item.input_audio_transcription.completed":
                    print(f"you:   {event.transcript}")
                elif event.type == "response.output_audio.delta":
                    reply += base64.b64decode(event.delta)
                elif event.type == "response.output_audio_transcript.done":
                    print(f"reply: {event.transcript}")
                elif event.type == "error":
                    print(f"error: {event.error.message}")
                elif event.type == "response.done" and event.response.status != "cancelled":
                    break
        finally:
            done.set()
            microphone.join()

    save(asked.out, reply)
    print(f"{asked.out}: {len(reply) / 2 / RATE_HZ:.2f} s")
    return 0 if reply else 1


def speak(connection: RealtimeConnection, pcm: bytes, done: threading.Event) -> None:
    """Send `pcm` at the pace of speech, then silence until `done`: the server hears the end of a turn by it."""
    chunk = int(RATE_HZ * CHUNK_S) * 2
    start_s = time.monotonic()
    position = 0
    while not done.wait(max(0.0, start_s + position / 2 / RATE_HZ - time.monotonic())):
        audio = pcm[position : position + chunk].ljust(chunk, b"\0")
        connection.input_audio_buffer.append(audio=base64.b64encode(audio).decode())
        position += chunk


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
    sys.exit(main())
