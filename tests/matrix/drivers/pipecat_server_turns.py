"""pipecat-ai: OpenAIRealtimeLLMService as it is by default. The server finds the turns, and nothing is transcribed.

At `speech_started` Pipecat truncates to what it may have played and stops its loudspeaker.
"""

from __future__ import annotations

import asyncio

from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService
from pipecat_bot import ADDRESS, Bot
from pipecat_dialogue import hold_dialogue


async def main() -> None:
    await hold_dialogue(Bot(OpenAIRealtimeLLMService(**ADDRESS)), transcribes=False, cancels=False)


if __name__ == "__main__":
    asyncio.run(main())
