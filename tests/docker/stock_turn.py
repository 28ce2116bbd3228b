"""One turn with the stock SDK: prints how many bytes of audio came back, then what was heard, or else what was said.

python -m tests.docker.stock_turn BASE_URL KEY WAV
python -m tests.docker.stock_turn BASE_URL KEY "typed words"
"""

from __future__ import annotations

import base64
import sys
from pathlib import Path

from openai import OpenAI
from openai.resources.realtime.realtime import RealtimeConnection

from clients.wav_audio import read_clip

SECOND = 48_000
"""Bytes of PCM16 at 24 kHz."""


def speak(connection: RealtimeConnection, file: Path) -> None:
    pcm = read_clip(file).pcm + bytes(SECOND)
    listening = {"turn_detection": {"type": "server_vad"}, "transcription": {"model": "whisper-1"}}
    connection.session.update(session={"type": "realtime", "audio": {"input": listening}})
    for start in range(0, len(pcm), SECOND):
        connection.input_audio_buffer.append(audio=base64.b64encode(pcm[start : start + SECOND]).decode())


def write(connection: RealtimeConnection, words: str) -> None:
    content = [{"type": "input_text", "text": words}]
    connection.conversation.item.create(item={"type": "message", "role": "user", "content": content})
    connection.response.create()


def main(base_url: str, key: str, turn: str) -> int:
    heard, said, audio_bytes = "", "", 0
    with OpenAI(api_key=key, base_url=base_url) as client, client.realtime.connect(model="gpt-realtime") as connection:
        speak(connection, Path(turn)) if turn.endswith(".wav") else write(connection, turn)
        for event in connection:
            if event.type == "conversation.item.input_audio_transcription.completed":
                heard = event.transcript
            elif event.type == "response.output_audio_transcript.done":
                said = event.transcript
            elif event.type == "response.output_audio.delta":
                audio_bytes += len(base64.b64decode(event.delta))
            elif event.type == "error":
                sys.exit(event.error.message)
            elif event.type == "response.done":
                break
    print(audio_bytes, heard or said)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
