"""pipecat-ai with `turn_detection=False`: Silero in the pipeline finds the turns, as in Pipecat's own example.

At an interruption Pipecat sends clear, append, cancel and truncate in one burst, at a turn's end commit and
response.create back to back. Any error but two ends its receive loop for good.
"""

from __future__ import annotations

import asyncio

from pipecat.audio.vad.silero import SileroVADAnalyzer
from pipecat.audio.vad.vad_analyzer import VADParams
from pipecat.processors.aggregators.llm_response_universal import LLMUserAggregatorParams
from pipecat.services.openai.realtime.events import (
    AudioConfiguration,
    AudioInput,
    InputAudioNoiseReduction,
    InputAudioTranscription,
    SessionProperties,
)
from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService
from pipecat_bot import ADDRESS, Bot
from pipecat_dialogue import hold_dialogue


def service() -> OpenAIRealtimeLLMService:
    """Return the service as examples/realtime/realtime-openai-locally-driven-turns.py sets it up."""
    listening = AudioInput(
        transcription=InputAudioTranscription(),
        turn_detection=False,
        noise_reduction=InputAudioNoiseReduction(type="near_field"),
    )
    properties = SessionProperties(audio=AudioConfiguration(input=listening))
    settings = OpenAIRealtimeLLMService.Settings(session_properties=properties)
    return OpenAIRealtimeLLMService(**ADDRESS, settings=settings)


async def main() -> None:
    vad = SileroVADAnalyzer(params=VADParams(stop_secs=0.5))
    bot = Bot(service(), LLMUserAggregatorParams(vad_analyzer=vad))
    await hold_dialogue(bot, transcribes=True, cancels=True)


if __name__ == "__main__":
    asyncio.run(main())
