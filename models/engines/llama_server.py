"""llama.cpp's own server in this process, on a loopback port that only holders of its key may use."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path
from typing import Any


class LlamaServer:
    """A server of the GGUF file `model` under the name `alias`. Constructing it loads the model and blocks.

    `slots` conversations of `slot_tokens` each are computed side by side. `threads` write, `batch_threads` read
    prompts; more than one wait for each other at every layer, which beside other work costs more than it brings.
    `cache_mib`: memory for prompts that had to leave their slot.
    """

    def __init__(
        self, model: Path, alias: str, *, slots: int, slot_tokens: int, threads: int, batch_threads: int, cache_mib: int
    ) -> None:
        import xllamacpp

        self.api_key = secrets.token_urlsafe(24)  # other users of this machine can reach loopback too
        self.model = alias
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(model)
        parameters.model_alias = {alias}
        parameters.n_ctx = slots * slot_tokens  # llama.cpp divides it by the slots
        parameters.n_parallel = slots
        parameters.cpuparams.n_threads = threads
        parameters.cpuparams_batch.n_threads = batch_threads
        parameters.cache_ram_mib = cache_mib
        parameters.use_jinja = True
        parameters.hostnames = ["127.0.0.1"]
        parameters.port = 0  # any free one
        parameters.api_keys = [self.api_key]
        parameters.ui = False
        parameters.verbosity = -1
        self._server: Any = xllamacpp.Server(parameters)
        self.base_url = f"{self._server.listening_address}/v1"

    async def aclose(self) -> None:
        """Stop the server."""
        server, self._server = self._server, None
        await asyncio.to_thread(_drop, [server])


def _drop(servers: list[Any]) -> None:
    """Let go of the server in a worker thread: its destructor stops and joins its threads."""
    servers.clear()
