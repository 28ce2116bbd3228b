"""Asks a server which token its model would write next: `/v1/completions`, one token, with log probabilities.

llama.cpp's server and vLLM have it for any model; servers that speak chat completions only have not.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any

from models.engines.openai_endpoint import (
    as_engine_error,
    authorization,
    normal_base_url,
    open_client,
    post_json,
    server_name,
)

CANDIDATES = 20
"""Next tokens asked for: the most that vLLM gives unless told otherwise (`--max-logprobs`)."""

MOST_CANDIDATES = 10 * CANDIDATES
"""An answer with more isn't the one that was asked for, and is refused."""

PROPERTIES_TIMEOUT_S = 2.0
"""How long a server may take to tell its slots (chosen: llama.cpp answers at once, and others say 404)."""


_LOWEST = -700.0
"""Below this e to the power of x is no float any more."""


class TokenScores:
    """The next-token distribution of `model` at `base_url`. An empty `api_key` sends none."""

    def __init__(self, base_url: str, model: str, *, api_key: str = "") -> None:
        self.model = model
        self.base_url = normal_base_url(base_url)
        self.server = server_name(self.base_url)
        self._client = open_client(self.base_url, api_key)
        self._headers = authorization(api_key)
        self._extra_body: dict[str, Any] = {}

    async def take_last_slot(self) -> int | None:
        """Keep to the last slot of a llama.cpp server from now on, and return how many it has; None: another server.

        Its slots hold one prompt each. A server that chooses by itself might overwrite a conversation's with ours.
        """
        root = self.base_url.removesuffix("/v1")
        try:
            async with asyncio.timeout(PROPERTIES_TIMEOUT_S):
                properties = await self._client.get(f"{root}/props", options={"headers": self._headers}, cast_to=object)
            slots = int(properties["total_slots"])
        except Exception:  # whatever it says: it isn't llama.cpp, or doesn't show its slots
            return None
        self._extra_body = {"cache_prompt": True, **({"id_slot": slots - 1} if slots > 1 else {})}
        return slots

    async def next_token(self, prompt: str) -> dict[str, float]:
        """Return the probabilities of the likeliest next tokens after `prompt`; {} where the next is half a character.

        Raises EngineError with `as_engine_error`'s codes.
        """
        body = {
            "model": self.model,
            "prompt": prompt,
            "max_tokens": 1,
            "logprobs": CANDIDATES,
            "temperature": 0,
            "stream": False,
            **self._extra_body,
        }
        try:
            answer = await post_json(self._client, "/completions", body, self._headers)
        except Exception as error:  # the SDK's, JSON's and the network's: one sentence for the client
            raise as_engine_error(error, self.server) from error
        try:
            return read_candidates(answer)
        except (AttributeError, KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
            raise as_engine_error(ValueError("unexpected answer"), self.server) from error

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.close()


def read_candidates(answer: Any) -> dict[str, float]:
    """Return token → probability of a completion's first token, in the shape of the old API or of chat completions.

    Raises KeyError, TypeError, ValueError and the like for any other shape.
    """
    choice = answer["choices"][0]
    if choice["logprobs"] is None:  # llama.cpp has none where the token is half a character
        if "\ufffd" in choice["text"]:
            return {}
        raise ValueError("the server gives no probabilities")
    logprobs = choice["logprobs"]
    if "content" in logprobs:  # llama.cpp
        first = logprobs["content"][0] if logprobs["content"] else {"top_logprobs": []}
        pairs = [(entry["token"], entry["logprob"]) for entry in first["top_logprobs"]]
    else:  # vLLM, as OpenAI's completions once were
        pairs = list(logprobs["top_logprobs"][0].items())
    if len(pairs) > MOST_CANDIDATES:
        raise ValueError("more candidates than asked for")
    found: dict[str, float] = {}
    for token, logprob in pairs:
        logprob = float(logprob)
        probability = 0.0 if math.isnan(logprob) else math.exp(max(_LOWEST, min(0.0, logprob)))
        found[str(token)] = found.get(str(token), 0.0) + probability
    return found
