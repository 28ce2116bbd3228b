"""openai-python, asynchronous, beta: `client.beta.realtime`.

It makes a wss URL of whatever `base_url` is; `websocket_base_url` is taken as it stands.
"""

from __future__ import annotations

import asyncio

import dialogue
from openai import AsyncOpenAI
from openai_python_dialogue import BETA, hold


async def main() -> None:
    socket_base_url = dialogue.SOCKET_URL.removesuffix("/realtime")
    client = AsyncOpenAI(
        api_key=dialogue.GATEWAY_KEY, base_url=dialogue.GATEWAY_URL, websocket_base_url=socket_base_url
    )
    async with client.beta.realtime.connect(model=dialogue.MODEL) as connection:
        await hold(connection, BETA)


asyncio.run(main())
