"""Remembers what was chosen for this machine, so that the next start chooses the same and asks nobody."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

from gateway.local_servers import USUAL_PORTS, LocalServer

FILE_NAME = "profile.json"
_FORMAT = 1
_LONGEST_BYTES = 65_536

ChosenProfile = Literal["embedded", "quality", "mlx"]
"""What `auto` may choose."""

Basis = Mapping[str, Any]
"""What a choice was made on, in JSON's types: another basis asks for another choice."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A profile, why it was chosen (it completes a sentence), and the language model's server that was seen."""

    profile: ChosenProfile
    reason: str
    server: LocalServer | None = None


def recall(path: Path, basis: Basis) -> Choice | None:
    """Return the choice in the file `path`; None if there is none, it can't be read or was made on another `basis`.

    Of a server only its port is believed, if it is a usual one: a file must not send conversations elsewhere.
    """
    try:
        if path.stat().st_size > _LONGEST_BYTES:
            return None
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(kept, dict) or kept.get("format") != _FORMAT or kept.get("basis") != dict(basis):
        return None
    profile, reason = kept.get("profile"), kept.get("reason")
    if profile not in get_args(ChosenProfile) or not isinstance(reason, str):
        return None
    return Choice(cast(ChosenProfile, profile), reason, _server(kept.get("server")))


def _server(kept: Any) -> LocalServer | None:
    if not isinstance(kept, dict):
        return None
    port, models = kept.get("port"), kept.get("models")
    if not isinstance(port, int) or port not in USUAL_PORTS:
        return None
    if not isinstance(models, list) or not models or not all(isinstance(name, str) for name in models):
        return None
    return LocalServer(port, tuple(models))


def remember(path: Path, choice: Choice, basis: Basis) -> bool:
    """Keep `choice` in the file `path`, whole or not at all. Return whether it could be written."""
    server = None if choice.server is None else {"port": choice.server.port, "models": list(choice.server.models)}
    content = {
        "format": _FORMAT,
        "profile": choice.profile,
        "reason": choice.reason,
        "server": server,
        "basis": dict(basis),
    }
    name = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{FILE_NAME}-", dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
        os.replace(name, path)
    except OSError:  # a folder that is read-only, or a full disk: the next start chooses again
        if name:
            with contextlib.suppress(OSError):
                os.unlink(name)
        return False
    return True
