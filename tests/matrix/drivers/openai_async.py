"""openai-python, asynchronous, GA. Nothing but the URL differs from OpenAI's own."""

from __future__ import annotations

import asyncio

import dialogue
from openai import AsyncOpenAI
from openai_python_dialogue import GA, hold


async def main() -> None:
    client = AsyncOpenAI(api_key=dialogue.GATEWAY_KEY, base_url=dialogue.GATEWAY_URL)
    async with client.realtime.connect(model=dialogue.MODEL) as connection:
        await hold(connection, GA)


asyncio.run(main())
