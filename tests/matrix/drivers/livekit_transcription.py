"""LiveKit's speech-to-text on a transcription session: `openai.STT(use_realtime=True)` as it is by default."""

from __future__ import annotations

import asyncio

from dialogue import SPOKEN_TURN, STEP_DEADLINE_S, report
from livekit.agents import stt, utils
from livekit.plugins import openai
from livekit_room import ADDRESS, Microphone


async def main() -> None:
    async with utils.http_context.open():
        recognizer = openai.STT(**ADDRESS, use_realtime=True)
        stream = recognizer.stream()
        microphone = Microphone(stream.push_frame)
        microphone.speak(SPOKEN_TURN)
        events: list[str] = []
        async with asyncio.timeout(STEP_DEADLINE_S):
            async for event in stream:
                events.append(event.type)
                if event.type == stt.SpeechEventType.FINAL_TRANSCRIPT:
                    report("transcribed", heard=event.alternatives[0].text, events=events)
                    break
        await microphone.close()
        await stream.aclose()
        await recognizer.aclose()


if __name__ == "__main__":
    asyncio.run(main())
