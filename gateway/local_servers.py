"""Finds a chat server that already runs on this machine, on the port that its kind usually has."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from gateway.bounded_calls import within

USUAL_PORTS = {8080: "llama.cpp", 1234: "LM Studio", 11434: "Ollama", 8000: "vLLM"}
"""Port: whose it usually is. In order of preference."""

PROBE_LIMIT_S = 0.3
"""Longest wait for a server on this machine; all are asked at once (chosen)."""

_HOST = "127.0.0.1"
_ANSWER_BYTES = 1_000_000
"""Longest list of models that is read; a server with more is none of ours to judge."""

_OURS = "duplex-gateway"
_NO_CHAT = re.compile(
    r"whisper|parakeet|canary|moonshine|wav2vec|\basr\b|transcri|\bstt\b|\btts\b|kokoro|piper|chatterbox|voice|speech"
    r"|embed|\bbge\b|\be5\b|minilm|rerank|clip\b|flux|diffusion|dall-e|moderation",
    re.IGNORECASE,
)
"""Names of models that hear, speak, embed or draw: servers of those list them at the same address."""


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A chat server on this machine. `kind`: whose port it is on, which isn't proof. `models`: those that can chat."""

    port: int
    models: tuple[str, ...]

    @property
    def kind(self) -> str:
        """Return the program that usually has the port."""
        return USUAL_PORTS[self.port]

    @property
    def base_url(self) -> str:
        """Return the URL that FOREGROUND_BASE_URL would name."""
        return f"http://{_HOST}:{self.port}/v1"

    @property
    def address(self) -> str:
        """Return host and port."""
        return f"{_HOST}:{self.port}"


AskPort = Callable[[int], tuple[str, ...]]
"""Returns the chat models that a server on a port of this machine lists, () if there is none."""


def find_local_servers(without: Collection[int]) -> tuple[LocalServer, ...]:
    """Return the chat servers on the usual ports of this machine, best first; ports in `without` aren't asked."""
    ports = [port for port in USUAL_PORTS if port not in without]
    found = within(PROBE_LIMIT_S, [_asking(port) for port in ports])
    return tuple(LocalServer(port, models) for port, models in zip(ports, found, strict=True) if models)


def _asking(port: int) -> Callable[[], tuple[str, ...]]:
    return lambda: ask_port(port)


def ask_port(port: int) -> tuple[str, ...]:
    """Return the chat models that are listed at `/v1/models` of `port` on this machine, () if nothing fit answers.

    Neither proxies nor redirects nor keys: the request leads nowhere else and carries nothing.
    """
    connection = http.client.HTTPConnection(_HOST, port, timeout=PROBE_LIMIT_S)
    try:
        connection.request("GET", "/v1/models", headers={"Accept": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            return ()
        return chat_models(json.loads(answer.read(_ANSWER_BYTES)))
    except (OSError, ValueError, RecursionError, http.client.HTTPException):  # silent, refusing, or no such server
        return ()
    finally:
        connection.close()


def chat_models(listing: Any) -> tuple[str, ...]:
    """Return the models of an answer of `/v1/models` that can chat, as far as names tell; () for any other answer.

    A gateway of ours lists its names there, too: one that asked another would hold a conversation with itself.
    """
    models = listing.get("data") if isinstance(listing, dict) else None
    if not isinstance(models, list):
        return ()
    return tuple(model["id"] for model in models if isinstance(model, dict) and _can_chat(model))


def _can_chat(model: dict[str, Any]) -> bool:
    name = model.get("id")
    task = model.get("task")  # Speaches writes one: automatic-speech-recognition, text-to-speech
    if not isinstance(name, str) or not name or len(name) > 200 or not name.isprintable():
        return False
    if model.get("owned_by") == _OURS or (isinstance(task, str) and "generation" not in task):
        return False
    return _NO_CHAT.search(name) is None
