"""The Realtime servers behind models' names, and what they say of themselves in their `/v1/models`."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import httpx2

from gateway.backends.remote import RemoteAddress, address_of
from gateway.settings import Remote

logger = logging.getLogger(__name__)

LISTING_TIMEOUT_S = 3.0
"""How long a server may take to list its models (chosen: it answers from memory)."""

MAX_LISTING_BYTES = 2 * 2**20
"""Longest list that is read (chosen: OpenAI's has some 20 kB)."""

MAX_CAPABILITIES_BYTES = 64 * 2**10
"""Longest `capabilities` that are shown on (chosen: ours have 1 kB)."""


class RemoteDirectory:
    """All servers of one gateway by name. Capabilities are null until a server has told them.

    They are asked at the start and again when a session opens, beside it: nobody waits for the answer.
    """

    def __init__(self, remotes: Mapping[str, Remote]) -> None:
        self._remotes = dict(remotes)
        self._capabilities: dict[str, dict[str, Any] | None] = dict.fromkeys(remotes)
        self._asking: dict[str, asyncio.Task[None]] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The models' names that a server stands behind."""
        return tuple(self._remotes)

    def __contains__(self, name: str) -> bool:
        """Say whether a server stands behind `name`."""
        return name in self._remotes

    def remote(self, name: str) -> Remote:
        """Return the server behind `name`. Raises KeyError."""
        return self._remotes[name]

    def capabilities(self, name: str) -> dict[str, Any] | None:
        """Return what the server behind `name` said last of its model; None: nothing, or it isn't there."""
        return self._capabilities[name]

    def refresh(self, *names: str) -> None:
        """Ask servers what they can do, all without names; one that is being asked is not asked again."""
        for name in names or self.names:
            if name not in self._asking:
                task = asyncio.create_task(self._ask(name))
                self._asking[name] = task
                task.add_done_callback(partial(self._answered, name))

    def _answered(self, name: str, _task: asyncio.Task[None]) -> None:
        del self._asking[name]

    async def aclose(self) -> None:
        """Ask no further."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self, name: str) -> None:
        self._capabilities[name] = await capabilities_of(self._remotes[name])


async def capabilities_of(remote: Remote) -> dict[str, Any] | None:
    """Return what a server says of its model now; None: nothing, or it isn't there."""
    address = address_of(remote)
    try:
        async with asyncio.timeout(LISTING_TIMEOUT_S):
            listing = await _listing(address)
    except (TimeoutError, httpx2.HTTPError, httpx2.InvalidURL, ValueError, RecursionError, OSError) as error:
        logger.debug("the models of %s are not known (%s)", address.place, type(error).__name__)
        return None
    return told_capabilities(listing, remote.model)


async def _listing(address: RemoteAddress) -> Any:
    """Return the JSON of a server's list of models. Raises what httpx2 raises, and ValueError for what is no list."""
    async with httpx2.AsyncClient(
        headers={**address.headers, "Accept-Encoding": "identity", "User-Agent": "duplex-gateway"},
        timeout=LISTING_TIMEOUT_S,
        trust_env=address.secure and not address.loopback,
        follow_redirects=False,
    ) as client:
        async with client.stream("GET", address.models) as response:
            response.raise_for_status()
            if response.headers.get("content-encoding", "identity").lower() != "identity":
                raise ValueError("compressed")
            body = bytearray()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > MAX_LISTING_BYTES:
                    raise ValueError("too long")
    return json.loads(body)


def told_capabilities(listing: Any, model: str) -> dict[str, Any] | None:
    """Return the `capabilities` in a server's list: those of `model`, without one those of its first model.

    None where it tells none, as OpenAI's, or more than is shown on.
    """
    for entry in _entries(listing):
        if not model or entry.get("id") == model:
            told = entry.get("capabilities")
            small = isinstance(told, dict) and len(json.dumps(told)) <= MAX_CAPABILITIES_BYTES
            return told if small else None
    return None


def _entries(listing: Any) -> Iterator[dict[str, Any]]:
    data = listing.get("data") if isinstance(listing, dict) else None
    yield from (entry for entry in data if isinstance(entry, dict)) if isinstance(data, list) else ()
