"""The language model's server, where the settings name none: whether to look for one, which to take, what to tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gateway.local_servers import USUAL_PORTS, LocalServer
from gateway.settings import Settings

BRAIN = "the embedded demo brain"


def is_wanted(settings: Settings) -> bool:
    """Say whether the language model is left to be found: no server, no file and no engine is set for it."""
    unset = not settings.foreground_base_url and settings.foreground_gguf is None
    return unset and settings.foreground == "profile" and settings.profile != "scripted"


def fitting(settings: Settings, servers: Sequence[LocalServer]) -> LocalServer | None:
    """Return the best of `servers`, its model first in `models`: with FOREGROUND_MODEL set, one that has that model."""
    wanted = settings.foreground_model
    for server in servers:
        if not wanted:
            return server
        for model in server.models:
            if model in (wanted, f"{wanted}:latest"):  # Ollama's way to write it
                return replace(server, models=(model,))
    return None


def on_server(settings: Settings, server: LocalServer) -> Settings:
    """Return `settings` with the language model on `server`. A key stays unused: it was set for another host."""
    return replace(
        settings, foreground_base_url=server.base_url, foreground_model=server.models[0], foreground_api_key=""
    )


def told(settings: Settings, server: LocalServer | None) -> str:
    """Return what a user should know of the choice, without a full stop. `settings` have their profile."""
    if server is None and settings.profile == "embedded":
        return f"language model: {BRAIN}; FOREGROUND_BASE_URL=http://127.0.0.1:8080/v1 would set a server"
    if server is None:
        offering = f" that has {settings.foreground_model}" if settings.foreground_model else ""
        ports = ", ".join(str(port) for port in USUAL_PORTS)
        return (
            f"language model: {BRAIN}, as no server{offering} was found on the usual ports ({ports}); "
            "FOREGROUND_BASE_URL sets one, --profile auto looks again"
        )
    if settings.profile == "embedded":
        return (
            f"language model: {BRAIN}; FOREGROUND_BASE_URL={server.base_url} FOREGROUND_MODEL={server.models[0]} "
            "would set the server that was found there"
        )
    return (
        f"language model: {server.models[0]} at {server.address}, found on the usual port of {server.kind}; "
        "FOREGROUND_BASE_URL and FOREGROUND_MODEL set another, --foreground embedded takes the demo brain"
    )
