"""One spoken turn with the stock SDK: prints what was heard, and how many bytes of audio came back.

python -m tests.docker.spoken_turn BASE_URL KEY WAV
"""

from __future__ import annotations

import base64
import sys
from pathlib import Path

from openai import OpenAI

from clients.wav_audio import read_clip

SILENCE = bytes(48_000)


def main(base_url: str, key: str, file: str) -> int:
    pcm = read_clip(Path(file)).pcm + SILENCE
    heard, audio_bytes = "", 0
    with OpenAI(api_key=key, base_url=base_url) as client, client.realtime.connect(model="gpt-realtime") as connection:
        connection.session.update(
            session={
                "type": "realtime",
                "audio": {"input": {"turn_detection": {"type": "server_vad"}, "transcription": {"model": "whisper-1"}}},
            }
        )
        for start in range(0, len(pcm), 48_000):
            connection.input_audio_buffer.append(audio=base64.b64encode(pcm[start : start + 48_000]).decode())
        for event in connection:
            if event.type == "conversation.item.input_audio_transcription.completed":
                heard = event.transcript
            elif event.type == "response.output_audio.delta":
                audio_bytes += len(base64.b64decode(event.delta))
            elif event.type == "error":
                return 1
            elif event.type == "response.done":
                break
    print(f"{audio_bytes} {heard}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
